"""Server-sent events: one LISTEN connection per process, and a stream for each client.

A stream sends the events of an organization in the order of their positions. A client that reconnects with
`Last-Event-ID` resumes there, at any web process, or gets the event `reset` if the feed no longer reaches
back that far. A client that cannot keep up is disconnected; it reconnects and misses nothing, because the
database holds all events. Long polling is in `api.events`.
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
from postroom.store.feed import FeedBounds, FeedEvent
from postroom.store.notifier import FEED_CHANNEL
from postroom.web import forms, sessions
from postroom.web.sessions import SiteContext, get_visitor, member_route

HEARTBEAT_SECONDS: Final = 15.0
MEMBERSHIP_CHECK_SECONDS: Final = 60.0
SEND_TIMEOUT_SECONDS: Final = 30.0
RETRY_MILLISECONDS: Final = 2000
PAGE_SIZE: Final = 500
MAX_BUFFERED_EVENTS: Final = 5000  # per organization, for clients that lag a little
MAX_CLIENTS: Final = 5000
# Of one organization, with the API calls that wait for an event: an event wakes all of them.
MAX_ORGANIZATION_CLIENTS: Final = 1000

# The entity types of the stream `/documents/events`.
DOCUMENT_ENTITIES: Final = frozenset({"document", "review", "record"})


@dataclass(frozen=True, slots=True)
class _EncodedEvent:
    """An event in wire format."""

    position: int
    chunk: bytes
    is_document: bool


@dataclass(frozen=True, slots=True)
class _StreamBatch:
    """Events read together, joined once for the many clients that are up to date."""

    events: Sequence[_EncodedEvent]
    all_chunks: bytes
    document_chunks: bytes

    def select_chunk(self, client: "_StreamClient") -> bytes:
        if self.events[0].position > client.position:
            return self.document_chunks if client.documents_only else self.all_chunks
        return _join_chunks(
            [event for event in self.events if event.position > client.position],
            documents_only=client.documents_only,
        )


@dataclass(eq=False, slots=True)
class _StreamClient:
    position: int
    documents_only: bool
    next_batch: int = 0
    waiting: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)


@dataclass(eq=False)
class _OrganizationStream:
    """One organization's stream in this process. `head` is the last published position, once it is known."""

    head: int | None = None
    clients: set[_StreamClient] = field(default_factory=set[_StreamClient])
    batches: deque[_StreamBatch] = field(default_factory=deque[_StreamBatch])
    batch_count: int = 0  # all batches ever published
    buffered_events: int = 0
    stale: bool = False
    reading: bool = False
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    def publish(self, events: Sequence[FeedEvent]) -> None:
        encoded = [_encode_event(event) for event in events]
        self.batches.append(
            _StreamBatch(
                encoded,
                _join_chunks(encoded, documents_only=False),
                _join_chunks(encoded, documents_only=True),
            )
        )
        self.batch_count += 1
        self.buffered_events += len(encoded)
        while self.buffered_events > MAX_BUFFERED_EVENTS and len(self.batches) > 1:
            self.buffered_events -= len(self.batches.popleft().events)
        self.head = encoded[-1].position
        for client in self.clients:
            client.wake()

    def attach(self, client: _StreamClient) -> bool:
        """Continue a client from the buffer, if the buffer reaches back to its position."""
        assert self.head is not None, "the stream was opened"
        if client.position >= self.head:
            client.next_batch = self.batch_count
            return True
        if not self.batches or client.position < self.batches[0].events[0].position - 1:
            return False
        client.next_batch = self.batch_count - sum(
            batch.events[-1].position > client.position for batch in self.batches
        )
        return True


class EventStreams:
    """All event streams of this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._streams: dict[OrganizationId, _OrganizationStream] = {}
        self._listeners: dict[OrganizationId, set[asyncio.Event]] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def is_closing(self) -> bool:
        """Whether the process is stopping; waiting requests must then return at once."""
        return self._closing

    @property
    def clients(self) -> int:
        return sum(len(stream.clients) for stream in self._streams.values())

    def is_full(self, organization: OrganizationId) -> bool:
        """Whether no other client of this organization may wait for events."""
        stream = self._streams.get(organization)
        own = len(stream.clients if stream else ()) + len(self._listeners.get(organization, ()))
        return own >= MAX_ORGANIZATION_CLIENTS or self.clients >= MAX_CLIENTS

    @contextmanager
    def subscribe(self, organization: OrganizationId) -> Generator[asyncio.Event]:
        """Provide an event that is set whenever the organization's feed may have grown."""
        signal = asyncio.Event()
        waiting = self._listeners.setdefault(organization, set())
        waiting.add(signal)
        try:
            yield signal
        finally:
            waiting.discard(signal)
            if not waiting and self._listeners.get(organization) is waiting:
                del self._listeners[organization]

    def close(self) -> None:
        """End every stream, so that the process can stop; the clients reconnect to another one."""
        self._closing = True
        for stream in self._streams.values():
            for client in stream.clients:
                client.wake()
        for waiting in self._listeners.values():
            for signal in waiting:
                signal.set()

    async def listen(self) -> None:
        """Read new events, forever, for the organizations that have clients."""
        async for payload in self._database.listen(FEED_CHANNEL, every_seconds=HEARTBEAT_SECONDS):
            organizations = (
                {*self._streams, *self._listeners} if payload is None else {OrganizationId(UUID(payload))}
            )
            for organization in organizations:
                for signal in self._listeners.get(organization, ()):
                    signal.set()
                if stream := self._streams.get(organization):
                    self._start_reading(organization, stream)

    def _start_reading(self, organization: OrganizationId, stream: _OrganizationStream) -> None:
        stream.stale = True
        if not stream.reading and stream.head is not None:
            stream.reading = True
            reader = asyncio.create_task(self._read(organization, stream))
            self._readers.add(reader)
            reader.add_done_callback(self._readers.discard)

    async def _read(self, organization: OrganizationId, stream: _OrganizationStream) -> None:
        """Read until up to date; one reader per organization. A notification meanwhile repeats the read."""
        try:
            while stream.stale and stream.clients:
                stream.stale = False
                try:
                    events = await self._list_after(organization, stream.head or 0)
                except (DatabaseUnavailable, TransientError):
                    stream.stale = True
                    await asyncio.sleep(1)
                    continue
                if events:
                    stream.stale = stream.stale or len(events) == PAGE_SIZE
                    stream.publish(events)
        finally:
            stream.reading = False

    async def _list_after(self, organization: OrganizationId, position: int) -> list[FeedEvent]:
        """List the next events. Assigns positions first, so that streams do not depend on a free worker."""
        async with self._database.transaction(organization) as connection:
            await feed.assign_positions(connection, batch=PAGE_SIZE)
            return await feed.list_after(connection, position, PAGE_SIZE)

    async def follow(
        self, organization: OrganizationId, after: str | None, *, documents_only: bool
    ) -> AsyncGenerator[bytes]:
        """Yield the chunks of one client's stream, with an empty one as a heartbeat."""
        stream = self._streams.setdefault(organization, _OrganizationStream())
        client = _StreamClient(0, documents_only)
        stream.clients.add(client)
        try:
            yield await self._begin(organization, stream, client, after)
            while not stream.attach(client):
                events = [
                    _encode_event(event) for event in await self._list_after(organization, client.position)
                ]
                client.position = events[-1].position if events else stream.head or 0
                yield _join_chunks(events, documents_only=documents_only)
            async for chunk in self._stream_live(stream, client):
                yield chunk
        finally:
            stream.clients.discard(client)
            if not stream.clients and self._streams.get(organization) is stream:
                del self._streams[organization]

    async def _begin(
        self,
        organization: OrganizationId,
        stream: _OrganizationStream,
        client: _StreamClient,
        after: str | None,
    ) -> bytes:
        """Send the starting position: the requested one, or the end of the feed, or a reset to it."""
        async with stream.opening:
            if stream.head is None:
                stream.head = (await self._bounds(organization)).last
                if stream.stale:
                    self._start_reading(organization, stream)
        start = f"retry: {RETRY_MILLISECONDS}\n"
        client.position = stream.head
        if after is None:
            return f"{start}id: {client.position}\n\n".encode()
        requested = forms.parse_number(after)
        bounds = await self._bounds(organization)
        if requested is not None and bounds.pruned <= requested <= bounds.last:
            client.position = requested
            return f"{start}id: {requested}\n\n".encode()
        client.position = max(stream.head, bounds.last)
        data = msgspec.json.encode({"position": client.position}).decode()
        return f"{start}id: {client.position}\nevent: reset\ndata: {data}\n\n".encode()

    async def _bounds(self, organization: OrganizationId) -> FeedBounds:
        async with self._database.transaction(organization) as connection:
            while await feed.assign_positions(connection, batch=PAGE_SIZE) == PAGE_SIZE:
                pass
            return await feed.get_bounds(connection)

    async def _stream_live(self, stream: _OrganizationStream, client: _StreamClient) -> AsyncGenerator[bytes]:
        loop = asyncio.get_running_loop()
        while not self._closing:
            behind = stream.batch_count - client.next_batch
            if behind > len(stream.batches):
                return  # fell out of the buffer; the client reconnects and reads from the database
            if behind == 0:
                client.waiting = loop.create_future()
                timer = loop.call_later(HEARTBEAT_SECONDS, client.wake)
                await client.waiting
                timer.cancel()
                if client.next_batch == stream.batch_count and not self._closing:
                    yield b""
                continue
            # Batches that arrived during the last send go out together.
            missed = [stream.batches[-number] for number in range(behind, 0, -1)]
            chunk = b"".join([batch.select_chunk(client) for batch in missed])
            client.next_batch = stream.batch_count
            client.position = max(client.position, missed[-1].events[-1].position)
            if chunk:
                yield chunk


class EventStreamResponse(Response):
    """A response that never ends by itself: sends heartbeats, and re-checks the visitor's membership."""

    def __init__(
        self,
        follow: Callable[[], AsyncGenerator[bytes]],
        is_still_member: Callable[[], Awaitable[bool]],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(status_code=200, headers=headers, media_type="text/event-stream")
        del self.headers["content-length"]
        self._follow = follow
        self._is_still_member = is_still_member

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        serving = asyncio.current_task()
        assert serving is not None, "called by a coroutine"
        disconnect = asyncio.create_task(_wait_for_disconnect(receive))

        def leave(_disconnect: asyncio.Task[None]) -> None:
            serving.cancel()

        disconnect.add_done_callback(leave)
        try:
            await self._stream(send, disconnect)
        except asyncio.CancelledError:
            if not disconnect.done():
                raise  # the process is stopping; the client did not leave
            serving.uncancel()
        finally:
            disconnect.remove_done_callback(leave)
            disconnect.cancel()

    async def _stream(self, send: Send, disconnect: asyncio.Task[None]) -> None:
        checked_at = time.monotonic()
        chunks = self._follow()
        try:
            async for chunk in chunks:
                if disconnect.done():  # Python 3.11 can lose the cancellation
                    return
                if time.monotonic() - checked_at > MEMBERSHIP_CHECK_SECONDS:
                    checked_at = time.monotonic()
                    if not await self._is_still_member():
                        break
                async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                    await send(_body_message(chunk or b":\n\n"))
        except TimeoutError:
            return  # the client does not read: drop the connection
        finally:
            await chunks.aclose()
        await send({"type": "http.response.body", "body": b""})


def routes(site: SiteContext, streams: EventStreams) -> list[Route]:
    return [
        member_route(site, "/events", partial(_events, site, streams, documents_only=False)),
        member_route(site, "/documents/events", partial(_events, site, streams, documents_only=True)),
    ]


@asynccontextmanager
async def open_streams(database: Database) -> AsyncGenerator[EventStreams]:
    """Open the streams of this process, and listen for new events in the background."""
    streams = EventStreams(database)
    listening = asyncio.create_task(streams.listen())
    try:
        yield streams
    finally:
        streams.close()
        while not listening.done():
            listening.cancel()
            await asyncio.wait([listening], timeout=1)


async def _events(
    site: SiteContext, streams: EventStreams, request: Request, *, documents_only: bool
) -> Response:
    organization = get_visitor(request).organization
    if streams.is_full(organization):
        raise HTTPException(503, headers={"retry-after": "5"})
    after = request.headers.get("last-event-id") or request.query_params.get("after")
    return EventStreamResponse(
        partial(streams.follow, organization, after, documents_only=documents_only),
        partial(_is_still_member, site, request),
        # A buffering proxy would delay events.
        {"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _is_still_member(site: SiteContext, request: Request) -> bool:
    token = sessions.get_session_token(site, request)
    with suppress(DatabaseUnavailable, TransientError):
        return token is not None and await sessions.find_visitor_by_token(site, token) is not None
    return True  # unknown while the database is down; checked again later


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _body_message(chunk: bytes) -> Message:
    return {"type": "http.response.body", "body": chunk, "more_body": True}


def _join_chunks(events: Sequence[_EncodedEvent], *, documents_only: bool) -> bytes:
    return b"".join(event.chunk for event in events if event.is_document or not documents_only)


def _encode_event(event: FeedEvent) -> _EncodedEvent:
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
