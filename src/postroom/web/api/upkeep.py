"""The API over what happens and what needs care: the change feed, the ledger, subscriptions, failures."""

import asyncio
from typing import Annotated, Final
from uuid import UUID

import msgspec

from postroom.model import OrganizationId, Scope
from postroom.shapes import Events, Failure, FeedEvent, LedgerEntry, Number, Page, Subscription
from postroom.store import feed, work
from postroom.store.feed import Bounds
from postroom.store.views import upkeep
from postroom.store.work import Wake
from postroom.web.api import cursors
from postroom.web.api.documents import Name
from postroom.web.api.operations import Call, Nothing, Operation, Paged, Problem, there

LONGEST_WAIT_SECONDS: Final = 30


class FailurePath(msgspec.Struct, frozen=True):
    failure: Number


class EventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: (
        Annotated[
            Number, msgspec.Meta(description="The position after which to go on; left out: the beginning.")
        ]
        | None
    ) = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    wait: Annotated[
        float,
        msgspec.Meta(
            ge=0, le=LONGEST_WAIT_SECONDS, description="Seconds to wait where there is nothing yet."
        ),
    ] = 0
    entity_type: Name | None = None


class LedgerQuery(Paged, frozen=True, forbid_unknown_fields=True):
    entity_type: Name | None = None
    entity_id: Name | None = None


class SubscriptionsQuery(Paged, frozen=True, forbid_unknown_fields=True):
    mailbox: UUID | None = None


class FailuresQuery(Paged, frozen=True, forbid_unknown_fields=True):
    mailbox: UUID | None = None
    open: bool | None = None


async def list_events(call: Call[Nothing, EventsQuery, None]) -> Events:
    """Follow what happens, in order and without gaps; with `wait` the answer comes when there is something.

    A position from before the feed's beginning is answered with 410: read the lists again, and begin anew.
    """
    asked, organization = call.query, call.caller.organization
    deadline = asyncio.get_running_loop().time() + asked.wait
    live = call.parts.live
    with live.hearing(organization) as heard:
        while True:
            heard.clear()
            bounds, found = await _read(call, organization)
            left = deadline - asyncio.get_running_loop().time()
            if found or left <= 0 or live.closing:
                break
            try:
                async with asyncio.timeout(left):
                    await heard.wait()
            except TimeoutError:
                break
    events = [
        FeedEvent(
            each.id, each.position, each.kind, each.entity_type, each.entity_id, each.data, each.created_at
        )
        for each in found
    ]
    last = events[-1].position if events else 0
    return Events(events, last if len(found) == asked.limit else max(bounds.last, asked.after or 0, last))


async def _read(
    call: Call[Nothing, EventsQuery, None], organization: OrganizationId
) -> tuple[Bounds, list[feed.Event]]:
    asked = call.query
    async with call.parts.desk.database.transaction(organization) as connection:
        await feed.number(connection)
        bounds = await feed.bounds(connection)
        after = bounds.pruned if asked.after is None else asked.after
        if not bounds.pruned <= after <= bounds.last:
            raise Problem(
                410,
                "reset",
                f"The feed goes from {bounds.pruned} to {bounds.last}. Read the lists again, and begin anew.",
            )
        return bounds, await feed.after(connection, after, asked.limit, entity_type=asked.entity_type)


async def list_ledger(call: Call[Nothing, LedgerQuery, None]) -> Page[LedgerEntry]:
    """List the audit trail, the newest first."""
    below, asked = cursors.number_of(call.query), call.query
    async with call.transaction() as connection:
        found = await upkeep.ledger(
            connection,
            entity_type=asked.entity_type,
            entity_id=asked.entity_id,
            below=below,
            limit=asked.limit + 1,
        )
    return cursors.page(found, asked, lambda row: row.id)


async def list_subscriptions(call: Call[Nothing, SubscriptionsQuery, None]) -> Page[Subscription]:
    """List the push channels, those of the past too."""
    after = cursors.key_of(call.query, UUID)
    async with call.transaction() as connection:
        found = await upkeep.subscriptions(
            connection, mailbox=call.query.mailbox, after=after, limit=call.query.limit + 1
        )
    return cursors.page(found, call.query, lambda row: row.id)


async def list_failures(call: Call[Nothing, FailuresQuery, None]) -> Page[Failure]:
    """List what failed alone, the newest first."""
    below, asked = cursors.number_of(call.query), call.query
    async with call.transaction() as connection:
        found = await upkeep.failures(
            connection, mailbox=asked.mailbox, unresolved=asked.open, below=below, limit=asked.limit + 1
        )
    return cursors.page(found, asked, lambda row: row.id)


async def get_failure(call: Call[FailurePath, Nothing, None]) -> Failure:
    """One failure."""
    async with call.transaction() as connection:
        return there(await upkeep.failure(connection, call.path.failure), "failure")


async def retry_failure(call: Call[FailurePath, Nothing, None]) -> Failure:
    """Try again what failed, now."""
    async with call.transaction() as connection:
        mailbox = await upkeep.retry(connection, call.path.failure)
        found = there(await upkeep.failure(connection, call.path.failure), "failure")
        if mailbox is None:
            raise Problem(409, "resolved", "This failure is resolved already.")
        await work.wake(connection, [Wake(call.caller.organization, "sync", str(mailbox))])
    return found


OPERATIONS = [
    Operation("GET", "/events", list_events, Scope.READ, "Events"),
    Operation("GET", "/ledger", list_ledger, Scope.LEDGER, "Ledger"),
    Operation("GET", "/subscriptions", list_subscriptions, Scope.READ, "Mailboxes"),
    Operation("GET", "/failures", list_failures, Scope.READ, "Failures"),
    Operation("GET", "/failures/{failure}", get_failure, Scope.READ, "Failures"),
    Operation("POST", "/failures/{failure}/retry", retry_failure, Scope.MAILBOXES, "Failures", 202),
]
