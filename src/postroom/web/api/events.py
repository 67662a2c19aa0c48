"""The API over what happens and what needs care: the change feed, the ledger, subscriptions, failures."""

import asyncio
from typing import Annotated, Final
from uuid import UUID

import msgspec

from postroom.api_types import (
    BigInt,
    EventBatch,
    FailureResource,
    FeedEventResource,
    LedgerEntryResource,
    ResultPage,
    SubscriptionResource,
)
from postroom.model import OrganizationId, Scope, WorkKind
from postroom.store import feed, work
from postroom.store.feed import Bounds
from postroom.store.views import admin
from postroom.store.work import Wake
from postroom.web.api import paging
from postroom.web.api.documents import Name
from postroom.web.api.operations import ApiCall, ApiProblem, NoParameters, Operation, PageQuery, require_found

MAX_WAIT_SECONDS: Final = 30


class FailurePath(msgspec.Struct, frozen=True):
    failure: BigInt


class EventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: (
        Annotated[
            BigInt, msgspec.Meta(description="The position after which to go on; left out: the beginning.")
        ]
        | None
    ) = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    wait: Annotated[
        float,
        msgspec.Meta(
            ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait where require_found is nothing yet."
        ),
    ] = 0
    entity_type: Name | None = None


class LedgerQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    entity_type: Name | None = None
    entity_id: Name | None = None


class SubscriptionsQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    mailbox: UUID | None = None


class FailuresQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    mailbox: UUID | None = None
    open: bool | None = None


async def list_events(call: ApiCall[NoParameters, EventsQuery, None]) -> EventBatch:
    """Follow what happens, in order and without gaps; with `wait` the answer comes when there is something.

    A position from before the feed's beginning is answered with 410: read the lists again, and begin anew.
    """
    asked, organization = call.query, call.caller.organization
    deadline = asyncio.get_running_loop().time() + asked.wait
    live = call.context.live
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
        FeedEventResource(
            each.id, each.position, each.kind, each.entity_type, each.entity_id, each.data, each.created_at
        )
        for each in found
    ]
    last = events[-1].position if events else 0
    return EventBatch(events, last if len(found) == asked.limit else max(bounds.last, asked.after or 0, last))


async def _read(
    call: ApiCall[NoParameters, EventsQuery, None], organization: OrganizationId
) -> tuple[Bounds, list[feed.Event]]:
    asked = call.query
    async with call.context.desk.database.transaction(organization) as connection:
        await feed.number(connection)
        bounds = await feed.bounds(connection)
        after = bounds.pruned if asked.after is None else asked.after
        if not bounds.pruned <= after <= bounds.last:
            raise ApiProblem(
                410,
                "reset",
                f"The feed goes from {bounds.pruned} to {bounds.last}. Read the lists again, and begin anew.",
            )
        return bounds, await feed.after(connection, after, asked.limit, entity_type=asked.entity_type)


async def list_ledger(call: ApiCall[NoParameters, LedgerQuery, None]) -> ResultPage[LedgerEntryResource]:
    """List the audit trail, the newest first."""
    below, asked = paging.parse_number_cursor(call.query), call.query
    async with call.transaction() as connection:
        found = await admin.ledger(
            connection,
            entity_type=asked.entity_type,
            entity_id=asked.entity_id,
            below=below,
            limit=asked.limit + 1,
        )
    return paging.build_page(found, asked, lambda row: row.id)


async def list_subscriptions(
    call: ApiCall[NoParameters, SubscriptionsQuery, None],
) -> ResultPage[SubscriptionResource]:
    """List the push channels, those of the past too."""
    after = paging.parse_cursor(call.query, UUID)
    async with call.transaction() as connection:
        found = await admin.subscriptions(
            connection, mailbox=call.query.mailbox, after=after, limit=call.query.limit + 1
        )
    return paging.build_page(found, call.query, lambda row: row.id)


async def list_failures(call: ApiCall[NoParameters, FailuresQuery, None]) -> ResultPage[FailureResource]:
    """List what failed alone, the newest first."""
    below, asked = paging.parse_number_cursor(call.query), call.query
    async with call.transaction() as connection:
        found = await admin.failures(
            connection, mailbox=asked.mailbox, unresolved=asked.open, below=below, limit=asked.limit + 1
        )
    return paging.build_page(found, asked, lambda row: row.id)


async def get_failure(call: ApiCall[FailurePath, NoParameters, None]) -> FailureResource:
    """One failure."""
    async with call.transaction() as connection:
        return require_found(await admin.failure(connection, call.path.failure), "failure")


async def retry_failure(call: ApiCall[FailurePath, NoParameters, None]) -> FailureResource:
    """Try again what failed, now."""
    async with call.transaction() as connection:
        mailbox = await admin.retry(connection, call.path.failure)
        found = require_found(await admin.failure(connection, call.path.failure), "failure")
        if mailbox is None:
            raise ApiProblem(409, "resolved", "This failure is resolved already.")
        await work.wake(connection, [Wake(call.caller.organization, WorkKind.SYNC, str(mailbox))])
    return found


OPERATIONS = [
    Operation("GET", "/events", list_events, Scope.READ, "Events"),
    Operation("GET", "/ledger", list_ledger, Scope.LEDGER, "Ledger"),
    Operation("GET", "/subscriptions", list_subscriptions, Scope.READ, "Mailboxes"),
    Operation("GET", "/failures", list_failures, Scope.READ, "Failures"),
    Operation("GET", "/failures/{failure}", get_failure, Scope.READ, "Failures"),
    Operation("POST", "/failures/{failure}/retry", retry_failure, Scope.MAILBOXES, "Failures", 202),
]
