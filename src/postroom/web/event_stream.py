"""Server-sent events (W1): one LISTEN of this process, told on to all who follow their organization.

A stream is events in the order of their positions. Who comes back with `Last-Event-ID` goes on from there,
at whichever web process, and is told `reset` where the feed no longer reaches back so far. A client that
cannot keep up is cut; it comes back by itself and misses nothing, because the database has it all.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from uuid import UUID

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.model import OrganizationId
from postroom.store import feed
from postroom.store.database import Database
from postroom.store.feed import Bounds, Event
from postroom.web import forms, sessions
from postroom.web.sessions import SiteContext, get_visitor, member_route

NOTIFY_CHANNEL: Final = "postroom_feed"
HEARTBEAT_SECONDS: Final = 15.0
MEMBERSHIP_CHECK_SECONDS: Final = 60.0
SEND_TIMEOUT_SECONDS: Final = 30.0
RETRY_MILLISECONDS: Final = 2000
PAGE_SIZE: Final = 500
MAX_BUFFERED_EVENTS: Final = 5000  # events a process keeps for clients that lag a little
MAX_CLIENTS: Final = 5000

# What `/documents/events` tells of.
DOCUMENT_ENTITIES: Final = frozenset({"document", "review", "record"})


@dataclass(frozen=True, slots=True)
class _EncodedEvent:
    """One event, ready to be sent."""

    position: int
    chunk: bytes
    of_documents: bool


@dataclass(frozen=True, slots=True)
class _EventBatch:
    """Events that were found together: the chunks that nearly all clients get."""

    told: Sequence[_EncodedEvent]
    everything: bytes
    of_documents: bytes

    def chunk(self, client: "_StreamClient") -> bytes:
        if self.told[0].position > client.position:
            return self.of_documents if client.of_documents else self.everything
        later = [each for each in self.told if each.position > client.position]
        return b"".join(each.chunk for each in later if each.of_documents or not client.of_documents)


@dataclass(eq=False, slots=True)
class _StreamClient:
    position: int
    of_documents: bool
    at: int = 0  # the number of the batch that comes next
    waiting: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)


@dataclass(eq=False)
class _OrganizationStream:
    """One organization's stream in this process. `head` is the last position told on, once there is one."""

    head: int | None = None
    clients: set[_StreamClient] = field(default_factory=set[_StreamClient])
    batches: deque[_EventBatch] = field(default_factory=deque[_EventBatch])
    ended: int = 0  # how many batches there were in all
    kept: int = 0
    stale: bool = False
    reading: bool = False
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    def publish(self, events: Sequence[Event]) -> None:
        told = [_encode_event(event) for event in events]
        documents = b"".join(each.chunk for each in told if each.of_documents)
        self.batches.append(_EventBatch(told, b"".join(each.chunk for each in told), documents))
        self.ended += 1
        self.kept += len(told)
        while self.kept > MAX_BUFFERED_EVENTS and len(self.batches) > 1:
            self.kept -= len(self.batches.popleft().told)
        self.head = told[-1].position
        for client in self.clients:
            client.wake()

    def place(self, client: _StreamClient) -> bool:
        """Let a client go on with what is kept here, if that reaches back to its position."""
        assert self.head is not None, "a stream has begun"
        if client.position >= self.head:
            client.at = self.ended
            return True
        if not self.batches or client.position < self.batches[0].told[0].position - 1:
            return False
        client.at = self.ended - sum(batch.told[-1].position > client.position for batch in self.batches)
        return True


class EventStreams:
    """Every stream of this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channels: dict[OrganizationId, _OrganizationStream] = {}
        self._hearers: dict[OrganizationId, set[asyncio.Event]] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def closing(self) -> bool:
        """Whether whoever waits for something to happen shall be answered now."""
        return self._closing

    @property
    def clients(self) -> int:
        return sum(len(channel.clients) for channel in self._channels.values())

    @contextmanager
    def hearing(self, organization: OrganizationId) -> Generator[asyncio.Event]:
        """An event that is set whenever something may have happened there."""
        heard = asyncio.Event()
        waiting = self._hearers.setdefault(organization, set())
        waiting.add(heard)
        try:
            yield heard
        finally:
            waiting.discard(heard)
            if not waiting and self._hearers.get(organization) is waiting:
                del self._hearers[organization]

    def close(self) -> None:
        """End every stream, so that the process can end; the clients come back to another."""
        self._closing = True
        for channel in self._channels.values():
            for client in channel.clients:
                client.wake()
        for waiting in self._hearers.values():
            for each in waiting:
                each.set()

    async def listen(self) -> None:
        """Hear what is committed, for ever, and read it for the organizations that somebody follows."""
        async for heard in self._database.heard(NOTIFY_CHANNEL, every_seconds=HEARTBEAT_SECONDS):
            organizations = (
                {*self._channels, *self._hearers} if heard is None else {OrganizationId(UUID(heard))}
            )
            for organization in organizations:
                for each in self._hearers.get(organization, ()):
                    each.set()
                if channel := self._channels.get(organization):
                    self._look(organization, channel)

    def _look(self, organization: OrganizationId, channel: _OrganizationStream) -> None:
        channel.stale = True
        if not channel.reading and channel.head is not None:
            channel.reading = True
            reader = asyncio.create_task(self._read(organization, channel))
            self._readers.add(reader)
            reader.add_done_callback(self._readers.discard)

    async def _read(self, organization: OrganizationId, channel: _OrganizationStream) -> None:
        """One at a time for each organization; what is heard meanwhile leads to another look."""
        try:
            while channel.stale and channel.clients:
                channel.stale = False
                try:
                    events = await self._after(organization, channel.head or 0)
                except (DatabaseUnavailable, TransientError):
                    channel.stale = True
                    await asyncio.sleep(1)
                    continue
                if events:
                    channel.stale = channel.stale or len(events) == PAGE_SIZE
                    channel.publish(events)
        finally:
            channel.reading = False

    async def _after(self, organization: OrganizationId, position: int) -> list[Event]:
        """The next events, numbered first where nobody has done so yet: no worker needs to be free for it."""
        async with self._database.transaction(organization) as connection:
            await feed.number(connection, batch=PAGE_SIZE)
            return await feed.after(connection, position, PAGE_SIZE)

    async def follow(
        self, organization: OrganizationId, after: str | None, *, of_documents: bool
    ) -> AsyncGenerator[bytes]:
        """The chunks of one client's stream, with an empty one where nothing happened for a while."""
        channel = self._channels.setdefault(organization, _OrganizationStream())
        client = _StreamClient(0, of_documents)
        channel.clients.add(client)
        try:
            yield await self._begin(organization, channel, client, after)
            while not channel.place(client):
                told = [_encode_event(event) for event in await self._after(organization, client.position)]
                client.position = told[-1].position if told else channel.head or 0
                yield b"".join(each.chunk for each in told if each.of_documents or not of_documents)
            async for chunk in self._live(channel, client):
                yield chunk
        finally:
            channel.clients.discard(client)
            if not channel.clients and self._channels.get(organization) is channel:
                del self._channels[organization]

    async def _begin(
        self,
        organization: OrganizationId,
        channel: _OrganizationStream,
        client: _StreamClient,
        after: str | None,
    ) -> bytes:
        """Where the stream starts: the position asked for, or the end of the feed, or a reset to it."""
        async with channel.opening:
            if channel.head is None:
                channel.head = (await self._bounds(organization)).last
                if channel.stale:
                    self._look(organization, channel)
        start = f"retry: {RETRY_MILLISECONDS}\n"
        client.position = channel.head
        if after is None:
            return f"{start}id: {client.position}\n\n".encode()
        asked = forms.parse_number(after)
        bounds = await self._bounds(organization)
        if asked is not None and bounds.pruned <= asked <= bounds.last:
            client.position = asked
            return f"{start}id: {asked}\n\n".encode()
        client.position = max(channel.head, bounds.last)
        told = msgspec.json.encode({"position": client.position}).decode()
        return f"{start}id: {client.position}\nevent: reset\ndata: {told}\n\n".encode()

    async def _bounds(self, organization: OrganizationId) -> Bounds:
        async with self._database.transaction(organization) as connection:
            while await feed.number(connection, batch=PAGE_SIZE) == PAGE_SIZE:
                pass
            return await feed.bounds(connection)

    async def _live(self, channel: _OrganizationStream, client: _StreamClient) -> AsyncGenerator[bytes]:
        loop = asyncio.get_running_loop()
        while not self._closing:
            behind = channel.ended - client.at
            if behind > len(channel.batches):
                return  # too slow for what is kept here; it comes back and reads the database
            if behind == 0:
                client.waiting = loop.create_future()
                timer = loop.call_later(HEARTBEAT_SECONDS, client.wake)
                await client.waiting
                timer.cancel()
                if client.at == channel.ended and not self._closing:
                    yield b""
                continue
            # Whatever came while this client was being served goes out as one.
            missed = [channel.batches[-number] for number in range(behind, 0, -1)]
            chunk = b"".join([batch.chunk(client) for batch in missed])
            client.at = channel.ended
            client.position = max(client.position, missed[-1].told[-1].position)
            if chunk:
                yield chunk


class EventStreamResponse(Response):
    """An answer that goes on. While nothing happens it says so, and looks whether the visitor may stay."""

    def __init__(
        self,
        follow: Callable[[], AsyncGenerator[bytes]],
        may_stay: Callable[[], Awaitable[bool]],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(status_code=200, headers=headers, media_type="text/event-stream")
        del self.headers["content-length"]
        self._follow = follow
        self._may_stay = may_stay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        serving = asyncio.current_task()
        assert serving is not None, "a request is served by a task"
        gone = asyncio.create_task(_wait_for_disconnect(receive))

        def leave(_gone: asyncio.Task[None]) -> None:
            serving.cancel()

        gone.add_done_callback(leave)
        try:
            await self._stream(send, gone)
        except asyncio.CancelledError:
            if not gone.done():
                raise  # not the client that left: the process ends
            serving.uncancel()
        finally:
            gone.remove_done_callback(leave)
            gone.cancel()

    async def _stream(self, send: Send, gone: asyncio.Task[None]) -> None:
        looked_at = time.monotonic()
        chunks = self._follow()
        try:
            async for chunk in chunks:
                if gone.done():  # and the cancellation was lost on its way
                    return
                if time.monotonic() - looked_at > MEMBERSHIP_CHECK_SECONDS:
                    looked_at = time.monotonic()
                    if not await self._may_stay():
                        break
                async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                    await send(_body_message(chunk or b":\n\n"))
        except TimeoutError:
            return  # it reads nothing: cut, and the connection with it
        finally:
            await chunks.aclose()
        await send({"type": "http.response.body", "body": b""})


def routes(site: SiteContext, live: EventStreams) -> list[Route]:
    return [
        member_route(site, "/events", partial(_events, site, live, of_documents=False)),
        member_route(site, "/documents/events", partial(_events, site, live, of_documents=True)),
    ]


@asynccontextmanager
async def open_streams(database: Database) -> AsyncGenerator[EventStreams]:
    """The streams of this process, and the listening that feeds them."""
    live = EventStreams(database)
    listening = asyncio.create_task(live.listen())
    try:
        yield live
    finally:
        live.close()
        while not listening.done():
            listening.cancel()
            await asyncio.wait([listening], timeout=1)


async def _events(site: SiteContext, live: EventStreams, request: Request, *, of_documents: bool) -> Response:
    if live.clients >= MAX_CLIENTS:
        raise HTTPException(503, headers={"retry-after": "5"})
    after = request.headers.get("last-event-id") or request.query_params.get("after")
    organization = get_visitor(request).organization
    return EventStreamResponse(
        partial(live.follow, organization, after, of_documents=of_documents),
        partial(_is_still_member, site, request),
        # A proxy that buffers would keep events back.
        {"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _is_still_member(site: SiteContext, request: Request) -> bool:
    token = sessions.get_session_token(site, request)
    with suppress(DatabaseUnavailable, TransientError):
        return token is not None and await sessions.find_visitor_by_token(site, token) is not None
    return True  # nobody can tell now; the next look will


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _body_message(chunk: bytes) -> Message:
    return {"type": "http.response.body", "body": chunk, "more_body": True}


def _encode_event(event: Event) -> _EncodedEvent:
    data = msgspec.json.encode(
        {
            "id": event.id,
            "entity_type": event.entity_type,
            "entity_id": event.entity_id,
            "data": event.data,
            "created_at": event.created_at,
        }
    )
    chunk = b"id: %d\nevent: %s\ndata: %s\n\n" % (event.position, event.kind.encode(), data)
    return _EncodedEvent(event.position, chunk, event.entity_type in DOCUMENT_ENTITIES)
