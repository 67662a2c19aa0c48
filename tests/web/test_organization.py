"""The names of the organization are set by page, API and client, and validated."""

import asyncio
from html import unescape

import pytest

from postroom.client import ApiError, Postroom
from postroom.model import Role
from web.api_client import build_client, create_key_header
from web.push_server import serve
from web.sign_in_support import create_session


async def test_names_are_set_on_the_page_and_recorded(visitor, owner):
    page = await visitor.get("/organization")
    assert (page.status_code, "<textarea" in page.text) == (200, True)
    saved = await visitor.post(
        "/organization/names", data={"names": " Nordwind  AG\r\n\r\nWestwind GmbH\r\nNordwind AG"}
    )
    assert (saved.status_code, saved.headers["location"]) == (303, "/organization")
    assert ">Nordwind AG\nWestwind GmbH</textarea>" in unescape((await visitor.get("/organization")).text)
    refused = await visitor.post("/organization/names", data={"names": "Nordwind AG\n42"})
    assert (refused.status_code, ">Nordwind AG\n42</textarea>" in refused.text) == (400, True)
    assert "A name needs at least 3 alphabetic" in refused.text
    # What changes nothing is not recorded.
    await visitor.post("/organization/names", data={"names": "Nordwind AG\nWestwind GmbH"})
    cursor = await owner.execute(
        "SELECT payload FROM ledger WHERE event_type = 'ORGANIZATION_NAMES_CHANGED' ORDER BY id"
    )
    assert await cursor.fetchall() == [({"count": 2},)]


async def test_names_are_set_by_api_and_client(site, database, organization):
    header = await create_key_header(database, organization)
    async with build_client(site, header) as api:
        assert (await api.get("/organization/names")).json() == {"names": []}
        refused = await api.post("/organization/names", json={"names": ["?"]})
        assert (refused.status_code, "at least 3 alphabetic" in refused.json()["detail"]) == (409, True)
    async with serve(site) as url:
        postroom = Postroom(url, header["authorization"].removeprefix("Bearer "))

        def act():
            assert postroom.set_organization_names(["Nordwind AG"]) == ["Nordwind AG"]
            assert postroom.organization_names() == ["Nordwind AG"]
            with pytest.raises(ApiError, match="50"):
                postroom.set_organization_names([f"Nordwind {number} AG" for number in range(51)])
            assert postroom.set_organization_names([]) == []

        await asyncio.to_thread(act)


async def test_reviewer_cannot_change_the_names_over_the_api(site, database, organization):
    session = await create_session(database, organization, Role.REVIEWER)
    headers = {"cookie": f"postroom_session={session}", "origin": "http://post.example"}
    async with build_client(site, headers) as reviewer:
        assert (await reviewer.get("/organization/names")).status_code == 200
        assert (await reviewer.post("/organization/names", json={"names": []})).status_code == 403
