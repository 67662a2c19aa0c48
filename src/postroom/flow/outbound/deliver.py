"""Tells outside applications of events (W5): signed, at least once, and in order about each thing.

    new events ──▶ sent, those about different things side by side ──accepted──▶ position moves on
                      │ refused
                      ▼
        `deliveries`: tried again, and all that follows about the same thing behind it

Only a receiver that refuses several new things and accepts none is left in peace as a whole. While nothing is
accepted, a few things probe, the least tried first; after three days of this the webhook is disabled. The
event's id is the idempotency id: who gets one twice can tell.
"""

import asyncio
import hmac
import random
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec

from postroom import __version__
from postroom.errors import TransientError
from postroom.model import OrganizationId, Secret, StepResult
from postroom.ports import PostResult
from postroom.store import feed, ledger, webhooks, work
from postroom.store.database import Connection, Database
from postroom.store.feed import FeedEvent
from postroom.store.ledger import NewLedgerEntry
from postroom.store.webhooks import Outcome, Waiting, Webhook
from postroom.store.work import FinishedWork, Lease
from postroom.vault import Sealer

BATCH: Final = 100
MAX_WAITING: Final = 5000
MAX_CONCURRENT: Final = 8
PROBES: Final = 3
FIRST_WAIT_SECONDS: Final = 5.0
LONGEST_WAIT_SECONDS: Final = 6 * 3600.0
SECRET_PREFIX: Final = "whsec_"  # noqa: S105  how the standard marks one

PostFunction = Callable[[str, Mapping[str, str], bytes], Awaitable[PostResult]]


@dataclass(frozen=True)
class DeliverContext:
    database: Database
    sealer: Sealer
    post: PostFunction
    allows_http: bool = False  # a setting names networks where it may be plain http


@dataclass(frozen=True, slots=True)
class _DeliveryItem:
    """One delivery to make. `row` where it waited before."""

    event_id: int
    position: int
    entity: tuple[str, str]
    body: str
    row: Waiting | None = None

    @property
    def attempts(self) -> int:
        return self.row.attempts if self.row else 0


@dataclass(frozen=True, slots=True)
class _DeliveryBatch:
    """What there is to tell, by thing; `held` are things of which nothing can be told yet."""

    webhook: Webhook
    secret: Secret
    groups: Sequence[Sequence[_DeliveryItem]]
    held: frozenset[tuple[str, str]]
    position: int | None
    more: bool


@dataclass(frozen=True, slots=True)
class _SendResult:
    """`down`: several new things were refused and none was accepted. `whole`: each item has its outcome."""

    outcomes: Sequence[Outcome]
    down: bool = False
    whole: bool = True

    @property
    def errors(self) -> list[str]:
        return [each.error for each in self.outcomes if each.error is not None]

    @property
    def refused(self) -> bool:
        """Whether something was sent and nothing of it was accepted."""
        accepted = any(each.error is None and each.wait is None for each in self.outcomes)
        return bool(self.errors) and not accepted


async def run(context: DeliverContext, lease: Lease) -> StepResult | None:
    """Tell everything there is to tell; due again when the next delivery is."""
    while True:
        batch = await _load_batch(context, lease)
        if batch is None:
            return StepResult()
        sent = await _send_all(context, batch)
        async with work.fenced_transaction(context.database, lease) as connection:
            position = batch.position if sent.whole else None
            await webhooks.settle(connection, batch.webhook, sent.outcomes, position=position)
            if sent.refused:
                await webhooks.failed(connection, batch.webhook.id, sent.errors[0])
                if batch.webhook.failing_too_long:
                    return await _disable(connection, lease, sent.errors[0])
            if not sent.down and not batch.more:
                again = await webhooks.next_due_seconds(connection, batch.webhook.id)
                await work.finish(connection, [FinishedWork(lease, again)])
                return None
        if sent.down:
            raise TransientError("the receiver of a webhook accepts nothing")


async def _load_batch(context: DeliverContext, lease: Lease) -> _DeliveryBatch | None:
    """What is to be sent: what waits and is due, and what is new."""
    async with work.fenced_transaction(context.database, lease) as connection:
        webhook = await webhooks.get(connection, UUID(lease.subject))
        sealed = await webhooks.get_secret(connection, UUID(lease.subject))
        if webhook is None or sealed is None or webhook.disabled_at is not None:
            return None
        # Read first: what falls due in between is held once more, and overtaken by nothing.
        held = await webhooks.list_blocked_entities(connection, webhook.id)
        waiting = await webhooks.list_due(connection, webhook.id, limit=MAX_WAITING)
        # Where not all that waits is read, nobody can tell what may overtake it.
        room = BATCH if len(waiting) < MAX_WAITING else 0
        events = await feed.list_after(connection, webhook.position, room)
        known = await webhooks.list_pending_event_ids(connection, webhook.id, webhook.position)
    secret = context.sealer.open(secret_context(lease.organization, webhook.id), sealed)
    items = [
        _DeliveryItem(each.event_id, each.position, (each.entity_type, each.entity_id), each.body, each)
        for each in waiting
        if (each.entity_type, each.entity_id) not in held
    ]
    items += [
        _DeliveryItem(event.id, event.position, (event.entity_type, event.entity_id), build_body(event))
        for event in events
        if matches_filter(webhook.kinds, event.kind) and event.id not in known
    ]
    groups: dict[tuple[str, str], list[_DeliveryItem]] = {}
    for item in sorted(items, key=lambda each: each.position):
        groups.setdefault(item.entity, []).append(item)
    position = events[-1].position if events else None
    more = room == 0 or len(events) == BATCH
    return _DeliveryBatch(webhook, secret, list(groups.values()), held, position, more)


async def _send_all(context: DeliverContext, batch: _DeliveryBatch) -> _SendResult:
    """Things side by side, the events of one thing one after the other. Where it fails, a few probe first."""
    ready = [group for group in batch.groups if group[0].entity not in batch.held]
    probes = ready
    if batch.webhook.failing_since is not None:
        # What is refused again and again must not stand before what would be accepted.
        ready.sort(key=lambda group: (group[0].attempts, random.random()))
        probes = ready[:PROBES]
    rest = ready[len(probes) :]
    sent = _SendResult(await _send_groups(context, batch, probes))
    down = sent.refused and sum(_is_first_refusal(each) for each in sent.outcomes) >= PROBES
    if down and rest:
        return replace(sent, down=True, whole=False)
    later = [] if sent.refused else await _send_groups(context, batch, rest)
    if sent.refused:
        later = [each for group in rest for each in _defer(group, _backoff_seconds(group[0].attempts))]
    behind = [group for group in batch.groups if group[0].entity in batch.held]
    later += [each for group in behind for each in _defer(group, FIRST_WAIT_SECONDS)]
    return _SendResult([*sent.outcomes, *later], down)


async def _send_groups(
    context: DeliverContext, batch: _DeliveryBatch, groups: Sequence[Sequence[_DeliveryItem]]
) -> list[Outcome]:
    turns = asyncio.Semaphore(MAX_CONCURRENT)
    sent = await asyncio.gather(*(_send_group(context, batch, group, turns) for group in groups))
    return [each for group in sent for each in group]


async def _send_group(
    context: DeliverContext, batch: _DeliveryBatch, group: Sequence[_DeliveryItem], turns: asyncio.Semaphore
) -> list[Outcome]:
    """One after the other, up to the first that is refused. What was refused for too long is given up."""
    outcomes: list[Outcome] = []
    for number, item in enumerate(group):
        async with turns:
            error = await _send(context, batch, item)
        outcome = replace(_current_outcome(item), attempts=item.attempts + 1, error=error)
        given_up = item.row is not None and item.row.too_old
        if error is None or given_up:
            outcomes.append(outcome)
            continue
        wait = _backoff_seconds(item.attempts)
        return [*outcomes, replace(outcome, wait=wait), *_defer(group[number + 1 :], wait, behind=True)]
    return outcomes


def _defer(group: Sequence[_DeliveryItem], wait: float, *, behind: bool = False) -> list[Outcome]:
    """The first of a thing waits, unless it does already, and what is new waits behind it."""
    return [
        replace(_current_outcome(item), wait=wait)
        for number, item in enumerate(group)
        if item.row is None or (number == 0 and not behind)
    ]


def _current_outcome(item: _DeliveryItem) -> Outcome:
    error = item.row.last_error if item.row else None
    return Outcome(item.event_id, item.position, *item.entity, item.body, item.attempts, error, None)


def _is_first_refusal(outcome: Outcome) -> bool:
    return outcome.attempts == 1 and outcome.error is not None


def _backoff_seconds(attempts: int) -> float:
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(attempts, 20))
    return longest * random.uniform(0.5, 1)


async def _send(context: DeliverContext, batch: _DeliveryBatch, item: _DeliveryItem) -> str | None:
    """Why it was not accepted; None where it was."""
    posted = await context.post(
        batch.webhook.url, build_headers(batch.secret, f"msg_{item.event_id}", item.body), item.body.encode()
    )
    return posted.failure


async def _disable(connection: Connection, lease: Lease, error: str) -> None:
    """Nothing was accepted for too long: a person decides."""
    await webhooks.disable(connection, UUID(lease.subject), f"nothing was accepted for three days: {error}")
    entry = NewLedgerEntry("WEBHOOK_DISABLED", "webhook", lease.subject, payload={"error": error})
    await ledger.append_entries(connection, lease.organization, [entry])
    await feed.append_event(connection, "webhook.disabled", "webhook", lease.subject)
    await work.finish(connection, [FinishedWork(lease)])


def matches_filter(kinds: Sequence[str], kind: str) -> bool:
    """Whether an event passes the filter. What is told of webhooks themselves is for people."""
    if kind.startswith("webhook."):
        return False
    return not kinds or any(
        kind == each or (each.endswith(".*") and kind.startswith(each[:-1])) for each in kinds
    )


def build_body(event: FeedEvent) -> str:
    data = {
        "entity_type": event.entity_type,
        "entity_id": event.entity_id,
        "position": event.position,
        **event.data,
    }
    told = {"type": event.kind, "timestamp": event.created_at, "data": data}
    return msgspec.json.encode(told).decode()


def build_headers(secret: Secret, message: str, body: str) -> dict[str, str]:
    """As Standard Webhooks has it: an id that stays, a time, and a signature over both and the body."""
    now = str(int(time.time()))
    key = b64decode(secret.reveal().removeprefix(SECRET_PREFIX))
    signature = hmac.new(key, f"{message}.{now}.{body}".encode(), sha256).digest()
    return {
        "content-type": "application/json",
        "user-agent": f"Postroom/{__version__}",
        "webhook-id": message,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{b64encode(signature).decode()}",
    }


def secret_context(organization: OrganizationId, webhook: UUID) -> str:
    return f"webhooks/{organization}/{webhook}"
