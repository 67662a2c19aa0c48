"""Destinations of notices in an admin's hands: on their page and through the API."""

import re

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from postroom.config import Settings
from postroom.model import Role, Scope
from postroom.web import server
from postroom.wiring.engine import open_engine
from smtp_server import mail_server
from web.api_client import VAULT_KEYS, create_key_header
from web.push_server import serve
from web.sign_in_support import URL, build_site, create_session_cookie


@pytest.fixture
async def smtp():
    async with mail_server() as made:
        yield made


@pytest.fixture
async def site(database, organization, tmp_path, smtp):
    """The whole application, with a mail server."""
    settings = Settings(
        home=tmp_path,
        vault_keys=VAULT_KEYS,
        organization=organization,
        webhook_networks="127.0.0.0/8",
        smtp_url=smtp.url,
        smtp_from="postroom@example.org",
    )
    async with (
        open_engine(settings, database, url=URL) as engine,
        server.open_application(engine) as (application, _),
    ):
        yield application


@pytest.fixture
async def slack():
    bodies = []

    async def take(request):
        bodies.append(await request.json())
        return Response(status_code=200)

    async with serve(Starlette(routes=[Route("/services/T0/hidden", take, methods=["POST"])])) as url:
        yield f"{url}/services/T0/hidden", bodies


def form(**given):
    return {
        "medium": "email",
        "addresses": "ap@example.com",
        "review_hours": "24",
        "time_zone": "UTC",
    } | given


async def stored(owner):
    cursor = await owner.execute(
        "SELECT id, name, addresses, kinds, review_hours, quiet_from::text FROM notice_destinations"
    )
    return await cursor.fetchone()


async def test_destination_is_added_tested_changed_and_removed(visitor, owner, smtp):
    assert "No destinations yet" in (await visitor.get("/notices")).text
    added = await visitor.post("/notices/add", data=form(name="Payables", **{"kind-review_queue": "on"}))
    assert added.status_code == 303, added.text
    destination, *rest = await stored(owner)
    assert rest == ["Payables", ["ap@example.com"], ["review_queue"], 24, None]
    tried = await visitor.post(f"/notices/{destination}/test")
    assert "Test notice to Payables: sent." in tried.text
    [mail] = smtp.accepted
    assert mail.message["subject"] == "[Postroom] Test notice"
    assert f"{URL}/notices" in mail.text

    changed = form(addresses="ap@example.com, ops@example.com", review_hours="8", quiet_from="22:00")
    refused = await visitor.post(f"/notices/{destination}/change", data=changed)
    assert (refused.status_code, "need a start and an end" in refused.text) == (400, True)
    assert 'value="ap@example.com, ops@example.com"' in refused.text, "what was entered is kept"
    await visitor.post(f"/notices/{destination}/change", data=changed | {"quiet_until": "07:00"})
    assert (await stored(owner))[2:] == (["ap@example.com", "ops@example.com"], [], 8, "22:00:00")
    assert "22:00 to 07:00, UTC" in (await visitor.get("/notices")).text

    smtp.verdict = lambda _recipient: 550
    failed = await visitor.post(f"/notices/{destination}/test")
    assert (failed.status_code, "refused every recipient" in failed.text) == (400, True)
    assert "Failing" in (await visitor.get("/notices")).text
    await visitor.post(f"/notices/{destination}/remove")
    assert await stored(owner) is None
    cursor = await owner.execute(
        "SELECT event_type FROM ledger WHERE entity_type = 'notice_destination' ORDER BY id"
    )
    events = [row[0].removeprefix("NOTICE_DESTINATION_") for row in await cursor.fetchall()]
    assert events == ["ADDED", "TESTED", "CHANGED", "TESTED", "REMOVED"]


async def test_test_notices_are_limited_per_organization(visitor, owner, smtp, monkeypatch):
    monkeypatch.setattr("postroom.flow.outbound.send_notices.MAX_TESTS", 2)
    for address in ("a@example.com", "b@example.com"):
        await visitor.post("/notices/add", data=form(addresses=address))
    cursor = await owner.execute("SELECT id FROM notice_destinations ORDER BY addresses")
    first, second = [row[0] for row in await cursor.fetchall()]
    for _ in range(2):
        assert (await visitor.post(f"/notices/{first}/test")).status_code == 200
    refused = await visitor.post(f"/notices/{second}/test")
    assert (refused.status_code, "2 tests in the last hour" in refused.text) == (400, True)
    assert len(smtp.accepted) == 2
    assert "Failing" not in (await visitor.get("/notices")).text, "the destination is not to blame"


async def test_suggested_time_zones_are_accepted(visitor, owner):
    page = (await visitor.get("/notices")).text
    suggested = re.findall(r'<option value="([^"]+)">', page[page.index('<datalist id="time-zones">') :])
    assert {"UTC", "Europe/Berlin", "America/New_York"} <= set(suggested)
    assert page.count('list="time-zones"') == 1
    known = await owner.execute("SELECT name FROM pg_timezone_names WHERE name = ANY(%s)", [suggested])
    assert {name for (name,) in await known.fetchall()} == set(suggested)


async def test_url_of_slack_is_never_shown(visitor, owner, slack):
    url, bodies = slack
    await visitor.post("/notices/add", data=form(medium="slack", url=url))
    destination, *_ = await stored(owner)
    tried = await visitor.post(f"/notices/{destination}/test")
    assert bodies[0]["text"] == "Postroom: Test notice"
    assert "hidden" not in tried.text + (await visitor.get("/notices")).text
    refused = await visitor.post("/notices/add", data=form(medium="slack", url="ftp://hidden.example"))
    assert (refused.status_code, "hidden" in refused.text) == (400, False)
    cursor = await owner.execute("SELECT position('hidden'::bytea in sealed_url) FROM notice_destinations")
    assert await cursor.fetchone() == (0,)


async def test_only_admins_see_destinations(site, database, organization):
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(site),
        base_url=URL,
        cookies=await create_session_cookie(build_site(database, organization), Role.REVIEWER),
        headers={"origin": URL},
    ) as reviewer:
        assert (await reviewer.get("/notices")).status_code == 403
        assert (await reviewer.post("/notices/add", data=form())).status_code == 403


async def test_api_manages_destinations_without_returning_the_url(
    site, database, organization, owner, slack, smtp
):
    url, bodies = slack
    headers = await create_key_header(database, organization, Scope.ORGANIZATION)
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(site), base_url=f"{URL}/api/v1", headers=headers
    ) as api:
        made = (await api.post("/notices", json={"medium": "teams", "url": url, "name": "Team"})).json()
        assert "hidden" not in str(made)
        path = f"/notices/{made['id']}"
        assert (await api.post(f"{path}/test")).json() == {"accepted": True, "error": None}
        assert bodies[0]["attachments"][0]["content"]["type"] == "AdaptiveCard"
        quiet = {"quiet_from": "22:00", "quiet_until": "07:00", "time_zone": "Europe/Berlin"}
        changed = (await api.patch(path, json=quiet)).json()
        assert {name: changed[name] for name in quiet} == quiet
        changed = (await api.patch(path, json={"quiet_from": "", "quiet_until": ""})).json()
        assert (changed["quiet_from"], changed["time_zone"]) == (None, "Europe/Berlin")
        refused = await api.post("/notices", json={"medium": "email"})
        assert (refused.status_code, "addresses" in refused.json()["detail"]) == (409, True)
        assert [each["id"] for each in (await api.get("/notices")).json()["data"]] == [made["id"]]
        assert (await api.delete(path)).status_code == 204
        assert (await api.get(path)).status_code == 404
