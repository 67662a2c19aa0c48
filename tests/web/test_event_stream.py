"""Server-sent events: ordered, without gaps, resumable anywhere, isolated per organization (W1)."""

import asyncio
import json
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest

import databases
from postroom.flow.access import members
from postroom.model import Role
from postroom.store import feed
from postroom.store.feed import NewEvent
from postroom.web import app, event_stream
from web.push_server import serve
from web.sign_in_support import build_site, create_session

PATIENCE = 180


@dataclass
class Sse:
    """An event as a browser hands it to a page."""

    id: str
    event: str
    data: dict


class Stream:
    """Reads a stream as a browser does: an id without data moves the place and is no event."""

    def __init__(self, answer):
        self.answer, self.last = answer, None

    async def next(self):
        async with asyncio.timeout(PATIENCE):
            while True:
                lines = {}
                while line := (await self._line()).strip("\n"):
                    name, _, value = line.partition(": ")
                    lines[name] = value
                self.last = lines.get("id", self.last)
                if "data" in lines:
                    return Sse(self.last, lines.get("event", "message"), json.loads(lines["data"]))

    async def _line(self):
        line = (await self.answer.content.readline()).decode()
        if not line:
            raise EOFError
        return line

    async def take(self, count):
        return [await self.next() for _ in range(count)]

    async def begin(self):
        """Read the first chunk: from now on nothing is missed."""
        async with asyncio.timeout(PATIENCE):
            while (line := await self._line()) != "\n":
                if line.startswith("id: "):
                    self.last = line[4:].strip()
        return self


@asynccontextmanager
async def process(service_url, organization):
    """A web process of its own: pool, listener, server."""
    async with (
        databases.open_pools(service_url) as database,
        event_stream.open_streams(database) as streams,
    ):
        site = build_site(database, organization)
        async with serve(app.create(site, routes=event_stream.routes(site, streams))) as url:
            try:
                yield url, streams
            finally:
                streams.close()


@pytest.fixture
async def web(database_url, organization):
    async with process(database_url, organization) as made:
        yield made


@pytest.fixture
async def client():
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as made:
        yield made


@pytest.fixture
async def session(database, organization):
    return await create_session(database, organization, Role.READER)


@pytest.fixture
def follow(client, web, session):
    @asynccontextmanager
    async def follow(path="/events", *, after=None, url=None, session=session):
        headers = {"cookie": f"postroom_session={session}"}
        headers |= {"last-event-id": str(after)} if after is not None else {}
        async with client.get((url or web[0]) + path, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield await Stream(answer).begin()

    return follow


@pytest.fixture
def append_event(database, organization):
    async def append_event(*names, of=organization, kind="document"):
        async with database.transaction(of) as connection:
            await feed.append_events(connection, [NewEvent(f"{kind}.changed", kind, name) for name in names])

    return append_event


def names(events):
    return [event.data["entity_id"] for event in events]


async def test_committed_events_reach_every_client_in_order(follow, append_event):
    await append_event("before")
    async with follow() as first, follow() as second:
        await append_event("a", "b")
        await append_event("c")
        for stream in (first, second):
            events = await stream.take(3)
            assert names(events) == ["a", "b", "c"]
            assert [event.id for event in events] == ["2", "3", "4"]
            assert events[0].event == "document.changed"


async def test_reconnecting_client_misses_nothing_at_any_process(
    follow, append_event, database_url, organization
):
    async with follow() as stream:
        await append_event("a", "b", "c")
        [first] = await stream.take(1)
    await append_event("d")
    async with follow(after=first.id) as again:
        assert names(await again.take(3)) == ["b", "c", "d"]
    async with (
        process(database_url, organization) as (url, _),
        follow(after=first.id, url=url) as elsewhere,
    ):
        assert names(await elsewhere.take(3)) == ["b", "c", "d"]
        await append_event("e")
        assert names(await elsewhere.take(1)) == ["e"]


async def test_stream_starts_after_a_given_position(follow, append_event):
    await append_event("a", "b")
    async with follow("/events?after=1") as stream:
        assert names(await stream.take(1)) == ["b"]


async def test_late_commit_is_delivered_late_and_not_lost(follow, append_event, database, organization):
    async with follow() as stream:
        async with database.transaction(organization) as connection:
            await feed.append_event(connection, "document.changed", "document", "slow")
            await append_event("quick")
            [quick] = await stream.take(1)
        [slow] = await stream.take(1)
        assert names([quick, slow]) == ["quick", "slow"]
        assert int(slow.id) == int(quick.id) + 1


async def test_parallel_writers_and_readers_agree_on_one_order(follow, append_event):
    async def read(after):
        async with follow(after=after) as stream:
            return [(event.id, event.data["entity_id"]) for event in await stream.take(80)]

    async def write(writer):
        for number in range(10):
            await append_event(f"{writer}-{number}", f"{writer}-{number}+")

    readers = [asyncio.create_task(read(0)) for _ in range(12)]
    await asyncio.gather(*(write(number) for number in range(4)))
    results = await asyncio.gather(*readers)
    assert [int(position) for position, _ in results[0]] == list(range(1, 81))
    assert len({name for _, name in results[0]}) == 80
    assert all(result == results[0] for result in results)
    late = await read(0)
    assert late == results[0]


async def test_long_backlog_is_read_page_by_page(follow, append_event):
    total = event_stream.PAGE_SIZE * 2 + 7
    await append_event(*(f"n{number}" for number in range(total)))
    async with follow(after=0) as stream:
        assert names(await stream.take(total)) == [f"n{number}" for number in range(total)]
        await append_event("live")
        assert names(await stream.take(1)) == ["live"]


@pytest.mark.parametrize("after", ["1", "99", "nonsense", "9" * 30, "\N{SUPERSCRIPT TWO}"])
async def test_unknown_position_sends_a_reset(
    follow, append_event, database, organization, move_clock, after
):
    await append_event("a", "b")
    async with database.transaction(organization) as connection:
        await feed.assign_positions(connection)
    await move_clock(1800)
    await append_event("c")
    async with database.transaction(organization) as connection:
        await feed.assign_positions(connection)
        await feed.prune(connection, older_than_seconds=900)
    async with follow(f"/events?after={after}") as stream:
        assert stream.last == "3"
        await append_event("d")
        assert names(await stream.take(1)) == ["d"]


async def test_reset_event_carries_the_position(web, client, session, append_event):
    await append_event("a")
    headers = {"cookie": f"postroom_session={session}", "last-event-id": "99"}
    async with client.get(f"{web[0]}/events", headers=headers) as answer:
        reset = await Stream(answer).next()
    assert (reset.event, reset.id, reset.data) == ("reset", "1", {"position": 1})


async def test_document_stream_sends_only_document_events(follow, append_event):
    async with follow("/documents/events") as stream:
        await append_event("m1", kind="mailbox")
        await append_event("d1")
        await append_event("r1", kind="review")
        events = await stream.take(2)
        assert [(event.data["entity_id"], event.id) for event in events] == [("d1", "2"), ("r1", "3")]


async def test_stream_never_sends_events_of_another_organization(
    follow, append_event, database, other_organization
):
    theirs = await create_session(database, other_organization, Role.READER, "bob@example.net")
    async with follow() as ours, follow(session=theirs) as other:
        await append_event("theirs", of=other_organization)
        await append_event("ours")
        assert names(await ours.take(1)) == ["ours"]
        assert names(await other.take(1)) == ["theirs"]


async def test_stream_needs_a_session(web, client):
    async with client.get(f"{web[0]}/events") as answer:
        assert answer.status == 401


async def test_heartbeats_keep_the_stream_open_until_the_member_is_removed(
    follow, monkeypatch, database, organization
):
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(event_stream, "MEMBERSHIP_CHECK_SECONDS", 0.1)
    async with follow() as stream:
        for _ in range(3):
            assert await stream._line() in {":\n", "\n"}
        member = await members.find(database, organization, "reader@example.org")
        await members.add(database, organization, "admin@example.org", role=Role.ADMIN)
        await members.remove(database, member)
        with pytest.raises(EOFError):
            await stream.next()


async def test_client_that_does_not_read_is_disconnected_and_can_resume(
    follow, web, append_event, session, monkeypatch
):
    monkeypatch.setattr(event_stream, "SEND_TIMEOUT_SECONDS", 0.2)
    url, streams = web
    host, port = url.removeprefix("http://").split(":")
    lazy = socket.create_connection((host, int(port)))
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    lazy.sendall(f"GET /events HTTP/1.1\r\nHost: x\r\nCookie: postroom_session={session}\r\n\r\n".encode())
    await asyncio.to_thread(lazy.recv, 4096)
    async with follow() as brisk:
        sent = 0
        while streams.clients == 2:
            await append_event(*(f"{sent}-{number}-{'x' * 500}" for number in range(200)))
            sent += 200
            await brisk.take(200)
    lazy.close()
    async with follow(after=0) as again:
        assert len(await again.take(sent)) == sent


async def test_two_hundred_clients_are_served_by_one_process_and_leave_no_state(follow, web, append_event):
    _, streams = web
    async with asyncio.TaskGroup() as group:
        ready, connecting = asyncio.Semaphore(0), asyncio.Semaphore(20)

        async def one():
            async with AsyncExitStack() as stack:
                async with connecting:  # all at once, a slow machine would rightly answer some with 503
                    stream = await stack.enter_async_context(follow())
                ready.release()
                assert names(await stream.take(3)) == ["a", "b", "c"]

        for _ in range(200):
            group.create_task(one())
        for _ in range(200):
            await ready.acquire()
        assert streams.clients == 200
        for name in "abc":
            await append_event(name)
    async with asyncio.timeout(PATIENCE):
        while streams.clients:  # noqa: ASYNC110  the server notices by itself that they left
            await asyncio.sleep(0.01)
    assert streams._streams == {}


async def test_one_organization_cannot_take_the_streams_of_others(
    follow, web, client, session, database, organization, other_organization, monkeypatch
):
    monkeypatch.setattr(event_stream, "MAX_ORGANIZATION_CLIENTS", 2)
    url, streams = web
    other_session = await create_session(database, other_organization, Role.READER)
    async with follow() as first:
        with streams.subscribe(organization):  # an API call that waits
            async with client.get(
                f"{url}/events", headers={"cookie": f"postroom_session={session}"}
            ) as refused:
                assert (refused.status, refused.headers["retry-after"]) == (503, "5")
            async with follow(session=other_session):
                pass
        async with follow():
            assert first.last is not None


async def test_lost_listener_connection_misses_no_event(follow, append_event, owner):
    async with follow() as stream:
        await owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '% listen'"
        )
        await append_event("a")
        assert names(await stream.take(1)) == ["a"]
