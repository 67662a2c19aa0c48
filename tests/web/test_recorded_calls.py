"""The ledger has an entry for each call of a key that records its calls, also for a rejected one."""

import pytest

from postroom.model import Scope
from web.api_client import build_client, create_key_header, open_api_application

RECORDED = """
    SELECT payload, personal FROM ledger LEFT JOIN ledger_personal ON entry_id = ledger.id
    WHERE event_type = 'API_CALLED' ORDER BY ledger.id
"""


@pytest.fixture
async def caller(database, organization, tmp_path):
    header = await create_key_header(database, organization, Scope.READ, records_calls=True)
    async with (
        open_api_application(database, organization, tmp_path) as (made, _),
        build_client(made, header) as client,
    ):
        yield client


async def test_call_is_recorded_before_it_is_executed(caller, owner):
    assert (await caller.get("/messages", params={"q": "a\0b"})).status_code == 200
    assert (await caller.get("/messages/1")).status_code == 404
    assert await (await owner.execute(RECORDED)).fetchall() == [
        ({"operation": "GET /messages", "path": {}}, {"q": "a b"}),
        ({"operation": "GET /messages/{message}", "path": {"message": "1"}}, None),
    ]


async def test_rejected_call_is_recorded_and_its_path_can_be_purged(caller, owner):
    assert (await caller.get("/ledger")).status_code == 403
    assert (await caller.post("/reviews/1/reject", json={})).status_code == 403
    assert (await caller.get("/messages/ann@example.com")).status_code == 404
    assert (await caller.get("/records?min=much")).status_code == 400
    assert await (await owner.execute(RECORDED)).fetchall() == [
        ({"operation": "GET /ledger", "rejection": "forbidden"}, None),
        ({"operation": "POST /reviews/{review}/reject", "rejection": "forbidden"}, {"review": "1"}),
        (
            {"operation": "GET /messages/{message}", "rejection": "not-found"},
            {"message": "ann@example.com"},
        ),
        ({"operation": "GET /records", "rejection": "bad-request"}, {"min": "much"}),
    ]


async def test_first_of_several_rate_limited_calls_is_recorded(database, organization, owner, tmp_path):
    header = await create_key_header(database, organization, Scope.READ, records_calls=True)
    async with (
        open_api_application(database, organization, tmp_path, per_minute=1) as (made, _),
        build_client(made, header) as caller,
    ):
        statuses = [(await caller.get("/mailboxes")).status_code for _ in range(4)]
    assert statuses == [200, 429, 429, 429]
    assert await (await owner.execute(RECORDED)).fetchall() == [
        ({"operation": "GET /mailboxes", "path": {}}, None),
        ({"operation": "GET /mailboxes", "rejection": "rate-limited"}, None),
    ]
