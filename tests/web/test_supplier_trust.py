"""Trust in a supplier is shown and switched by page, API and client."""

import asyncio
import re

import pytest

from postroom.client import ApiError, Postroom
from postroom.model import Role
from web.api_client import create_key_header
from web.push_server import serve
from web.sign_in_support import create_session
from web.test_lists import confirm
from web.test_page_isolation import COOKIE
from web.test_review_checks import api, ask

__all__ = ["api", "ask", "confirm"]
LAYOUT = "0123456789abcdef"


@pytest.fixture
async def supplier(confirm, owner):
    """A supplier with two documents of one layout that a person confirmed, with an uncertain number."""
    for number in ("R-1", "R-2"):
        await confirm(number=number, supplier="Zebra GmbH")
    await owner.execute(
        """
        UPDATE extractions SET layout = %s, fields = (SELECT jsonb_object_agg(name, read ||
            jsonb_build_object('confidence', CASE name WHEN 'number' THEN 0.8 ELSE 0.99 END))
            FROM jsonb_each(fields) AS field (name, read))
        """,
        [LAYOUT],
    )
    await owner.execute(
        """
        INSERT INTO transcripts (organization_id, document_id, method, pages, text, words)
        SELECT organization_id, id, 'text_layer', 1, '', '{}' FROM documents ON CONFLICT DO NOTHING
        """
    )
    cursor = await owner.execute("SELECT DISTINCT supplier_id FROM records")
    [(found,)] = await cursor.fetchall()
    return found


def has_trusted_number(page):
    return re.search(r"<code>01234567</code></th><td class=\"number\">2</td><td>Invoice number</td>", page)


async def test_trust_is_shown_and_switched_on_the_page(visitor, owner, supplier):
    path = f"/suppliers/{supplier}"
    page = (await visitor.get(path)).text
    assert has_trusted_number(page)
    assert "Trust in this supplier is on." in page
    for trusted, words in (("no", "is off: every uncertain value needs review"), ("yes", "is on.")):
        done = await visitor.post(f"{path}/trust", data={"trusted": trusted})
        assert (done.status_code, done.headers["location"]) == (303, path)
        page = (await visitor.get(path)).text
        assert f"Trust in this supplier {words}" in page
        assert bool(has_trusted_number(page)) is (trusted == "yes")
    assert (await visitor.post(f"{path}/trust", data={"trusted": "maybe"})).status_code == 400
    cursor = await owner.execute(
        "SELECT payload FROM ledger WHERE event_type = 'SUPPLIER_TRUST_CHANGED' AND entity_id = %s"
        " ORDER BY id",
        [str(supplier)],
    )
    assert await cursor.fetchall() == [({"trusted": False},), ({"trusted": True},)]


async def test_reader_sees_trust_and_cannot_switch_it(visitor, database, organization, supplier):
    visitor.cookies[COOKIE] = await create_session(database, organization, Role.READER)
    page = (await visitor.get(f"/suppliers/{supplier}")).text
    assert "Trust in this supplier is on." in page
    assert "Switch trust off" not in page
    assert (await visitor.post(f"/suppliers/{supplier}/trust", data={"trusted": "no"})).status_code == 403


async def test_trust_is_switched_by_api_and_client(site, database, organization, supplier):
    header = await create_key_header(database, organization)
    async with serve(site) as url:
        client = Postroom(url, header["authorization"].removeprefix("Bearer "))

        def act():
            shown = client.supplier_trust(supplier)
            layouts = [(each.layout, each.confirmed, each.fields) for each in shown.layouts]
            assert (shown.trusted, layouts) == (True, [(LAYOUT, 2, ["number"])])
            assert not client.set_supplier_trust(supplier, trusted=False).trusted
            with pytest.raises(ApiError, match="Supplier not found"):
                client.supplier_trust("00000000-0000-0000-0000-000000000001")

        await asyncio.to_thread(act)
