"""W5: outgoing webhooks in an admin's hands, on their page."""

import re

import httpx2
import pytest
from standardwebhooks import Webhook as Referee
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from postroom.model import Role, WorkKind
from postroom.store import feed
from postroom.web import webhooks
from web.push_server import serve
from web.sign_in_support import URL, build_site, create_session_cookie


@pytest.fixture
async def receiver():
    """An application's address, and what it was reported: headers and bodies."""
    reported = []

    async def take(request):
        reported.append((dict(request.headers), await request.body()))
        return Response(status_code=204)

    async with serve(Starlette(routes=[Route("/events", take, methods=["POST"])])) as url:
        yield f"{url}/events", reported


async def stored(owner):
    cursor = await owner.execute("SELECT id, disabled_because, kinds, position, replays FROM webhooks")
    return await cursor.fetchone()


async def due(owner):
    cursor = await owner.execute("SELECT count(*) FROM work WHERE kind = %s", [WorkKind.DELIVER])
    return (await cursor.fetchone())[0]


async def test_webhook_is_added_tested_disabled_enabled_replayed_and_removed(visitor, owner, receiver):
    url, reported = receiver
    assert "Add one below" in (await visitor.get("/webhooks")).text
    added = await visitor.post(
        "/webhooks/add", data={"url": f"{url}?key=k", "about-document": "on", "cloudevents": "on"}
    )
    secret = re.search(r"whsec_[^<]+", added.text)[0]
    assert "key=k" not in added.text
    webhook, _, kinds, _, _ = await stored(owner)
    assert kinds == ["document.*"]
    assert secret not in (await visitor.get("/webhooks")).text

    tried = await visitor.post(f"/webhooks/{webhook}/test")
    assert "Test succeeded" in tried.text
    assert "· CloudEvents" in tried.text
    [(headers, body)] = reported
    Referee(secret).verify(body, headers)

    assert (await visitor.post(f"/webhooks/{webhook}/off")).headers["location"] == "/webhooks"
    shown = (await visitor.get("/webhooks")).text
    assert "Disabled" in shown
    assert (await stored(owner))[1] == "disabled by hand"
    await owner.execute("DELETE FROM work")
    await visitor.post(f"/webhooks/{webhook}/on")
    assert ((await stored(owner))[1], await due(owner)) == (None, 1)
    assert "Disabled" not in (await visitor.get("/webhooks")).text

    for how in ("Last 100 events", "All stored events"):
        assert (await visitor.post(f"/webhooks/{webhook}/replay", data={"how": how})).status_code == 303
    assert (await visitor.post(f"/webhooks/{webhook}/replay", data={"how": "x"})).status_code == 400
    assert (await stored(owner))[4] == 2
    assert (await visitor.post(f"/webhooks/{webhook}/nonsense")).status_code == 404
    await visitor.post(f"/webhooks/{webhook}/remove")
    assert (await stored(owner), await due(owner)) == (None, 0)
    cursor = await owner.execute("SELECT event_type FROM ledger WHERE entity_type = 'webhook' ORDER BY id")
    assert [row[0].removeprefix("WEBHOOK_") for row in await cursor.fetchall()] == [
        "ADDED", "CHANGED", "CHANGED", "REPLAYED", "REPLAYED", "REMOVED",
    ]  # fmt: skip


def test_every_event_group_can_be_selected():
    assert set(webhooks.EVENT_GROUPS) == {kind.partition(".")[0] for kind in feed.EVENT_KINDS}


async def test_invalid_webhook_url_is_explained_and_kept_in_the_form(visitor, owner):
    refused = await visitor.post("/webhooks/add", data={"url": "ftp://example.org/x"})
    assert (refused.status_code, await stored(owner)) == (400, None)
    assert "A webhook needs a URL such as https" in refused.text
    assert 'value="ftp://example.org/x"' in refused.text
    await visitor.post("/webhooks/add", data={"url": "http://127.0.0.1:9/hook"})
    webhook, *_ = await stored(owner)
    tried = await visitor.post(f"/webhooks/{webhook}/test")
    assert (tried.status_code, "Test failed: the receiver" in tried.text) == (400, True)


async def test_non_admins_see_webhooks_without_buttons(site, database, organization, visitor, owner):
    await visitor.post("/webhooks/add", data={"url": "https://app.example.org/hooks"})
    webhook, *_ = await stored(owner)
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(site),
        base_url=URL,
        cookies=await create_session_cookie(build_site(database, organization), Role.READER),
        headers={"origin": URL},
    ) as reader:
        shown = (await reader.get("/webhooks")).text
        assert "https://app.example.org/hooks" in shown
        assert 'action="/webhooks' not in shown
        assert (await reader.post(f"/webhooks/{webhook}/remove")).status_code == 403
    assert await stored(owner)


async def test_former_path_redirects_permanently(visitor):
    answer = await visitor.get("/deliveries")
    assert (answer.status_code, answer.headers["location"]) == (301, "/webhooks")
