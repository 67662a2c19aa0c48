"""The API operation that reads the event feed, with long polling.

The streams of server-sent events are in `web.event_stream`.
"""

import asyncio
from typing import Annotated, Final

import msgspec

from postroom.api_types import BigInt, EventBatch, FeedEventResource
from postroom.model import Scope
from postroom.store import feed
from postroom.store.feed import FeedBounds
from postroom.web.api.documents import Name
from postroom.web.api.operations import ApiCall, ApiProblem, NoParameters, Operation

MAX_WAIT_SECONDS: Final = 30


class EventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: (
        Annotated[
            BigInt,
            msgspec.Meta(description="Return events after this position. Default: the start of the feed."),
        ]
        | None
    ) = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    wait: Annotated[
        float,
        msgspec.Meta(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait if there is no event yet."),
    ] = 0
    entity_type: Name | None = None


async def list_events(call: ApiCall[NoParameters, EventsQuery, None]) -> EventBatch:
    """Read the event feed in order and without gaps.

    With `wait`, the response is held until there is an event. A position that the feed no longer covers gets
    410: read the lists again and restart without `after`.
    """
    query, streams = call.query, call.context.streams
    if query.wait and streams.is_full(call.caller.organization):
        raise ApiProblem(
            503, "try-again", "Too many clients of this organization wait for events.", retry_after="5"
        )
    deadline = asyncio.get_running_loop().time() + query.wait
    with streams.subscribe(call.caller.organization) as signal:
        while True:
            signal.clear()
            bounds, stored_events = await _read_feed(call)
            seconds_left = deadline - asyncio.get_running_loop().time()
            if stored_events or seconds_left <= 0 or streams.is_closing:
                break
            try:
                async with asyncio.timeout(seconds_left):
                    await signal.wait()
            except TimeoutError:
                break
    events = [
        FeedEventResource(
            event.id,
            event.position,
            event.kind,
            event.entity_type,
            event.entity_id,
            event.data,
            event.created_at,
        )
        for event in stored_events
    ]
    last = events[-1].position if events else 0
    return EventBatch(
        events, last if len(events) == query.limit else max(bounds.last, query.after or 0, last)
    )


async def _read_feed(
    call: ApiCall[NoParameters, EventsQuery, None],
) -> tuple[FeedBounds, list[feed.FeedEvent]]:
    query = call.query
    async with call.transaction() as connection:
        await feed.assign_positions(connection)
        bounds = await feed.get_bounds(connection)
        after = bounds.pruned if query.after is None else query.after
        if not bounds.pruned <= after <= bounds.last:
            raise ApiProblem(
                410,
                "reset",
                f"Position {after} is not in the feed: `after` can be {bounds.pruned} to {bounds.last}."
                " Read the lists again and restart without `after`.",
            )
        return bounds, await feed.list_after(connection, after, query.limit, entity_type=query.entity_type)


OPERATIONS = [Operation("GET", "/events", list_events, Scope.READ, "Events")]
