"""W3: programs follow the change feed by position, with long polling."""

import asyncio
from contextlib import AsyncExitStack, contextmanager

import pytest

from postroom.store import feed
from postroom.store.feed import NewEvent
from postroom.web import event_stream
from postroom.web.event_stream import EventStreams
from web.api_client import build_client, create_key_header, open_api_application


@pytest.fixture
def append_event(database, organization):
    async def append_event(*names):
        async with database.transaction(organization) as connection:
            await feed.append_events(
                connection, [NewEvent("document.changed", "document", name) for name in names]
            )

    return append_event


@pytest.fixture
def polling(monkeypatch):
    """An event that is set once a long poll waits."""
    begun, subscribe = asyncio.Event(), EventStreams.subscribe

    @contextmanager
    def subscribe_and_report(streams, organization):
        with subscribe(streams, organization) as signal:
            wait = signal.wait

            async def report_and_wait():
                begun.set()
                return await wait()

            signal.wait = report_and_wait
            yield signal

    monkeypatch.setattr(EventStreams, "subscribe", subscribe_and_report)
    return begun


async def test_feed_is_read_by_position_with_long_polling(
    database, organization, tmp_path, append_event, polling
):
    async with (
        open_api_application(database, organization, tmp_path) as (made, _),
        build_client(made, await create_key_header(database, organization)) as api,
        asyncio.timeout(60),
    ):
        await append_event("a", "b")
        first = (await api.get("/events", params={"limit": 1})).json()
        assert [each["entity_id"] for each in first["data"]] == ["a"]
        second = (await api.get("/events", params={"after": first["next"]})).json()
        assert ([each["entity_id"] for each in second["data"]], second["next"]) == (["b"], 2)
        waiting = asyncio.create_task(api.get("/events", params={"after": 2, "wait": 30}))
        await polling.wait()
        await append_event("c")
        assert [each["entity_id"] for each in (await waiting).json()["data"]] == ["c"]
        nothing = (await api.get("/events", params={"after": 3, "wait": 0.05})).json()
        assert nothing == {"data": [], "next": 3}
        reset = await api.get("/events", params={"after": 99})
        assert (reset.status_code, reset.json()["type"]) == (410, "urn:postroom:problem:reset")


async def test_long_poll_returns_when_the_process_stops(database, organization, tmp_path, polling):
    async with AsyncExitStack() as running:
        made, _ = await running.enter_async_context(open_api_application(database, organization, tmp_path))
        async with (
            build_client(made, await create_key_header(database, organization)) as client,
            asyncio.timeout(20),
        ):
            waiting = asyncio.create_task(client.get("/events", params={"wait": 30}))
            await polling.wait()
            await running.aclose()
            assert (await waiting).json()["data"] == []


async def test_too_many_waiting_calls_of_an_organization_are_rejected(
    database, organization, tmp_path, append_event, polling, monkeypatch
):
    monkeypatch.setattr(event_stream, "MAX_ORGANIZATION_CLIENTS", 1)
    async with (
        open_api_application(database, organization, tmp_path) as (made, _),
        build_client(made, await create_key_header(database, organization)) as api,
        asyncio.timeout(60),
    ):
        waiting = asyncio.create_task(api.get("/events", params={"wait": 30}))
        await polling.wait()
        refused = await api.get("/events", params={"wait": 30})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert (await api.get("/events")).status_code == 200
        await append_event("a")
        assert (await waiting).status_code == 200
