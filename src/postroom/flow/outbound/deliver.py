"""The work `deliver`: send events to a webhook, signed, at least once, and in order per entity.

    new events ──▶ sent, different entities concurrently ── accepted ──▶ the position advances
                      │ refused
                      ▼
        `deliveries`: retried, and all later events of the same entity behind it

Only a receiver that refuses events of several entities and accepts none counts as down. While nothing is
accepted, a few entities probe it, the least tried first; after three days the webhook is disabled. The
event's id is the idempotency key, so a receiver can recognize duplicates. Also signs the requests, whose
bodies `event_bodies` builds and `providers.webhook_sender` sends.
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

from postroom import __version__
from postroom.errors import TransientError
from postroom.flow.outbound.backoff import backoff_seconds
from postroom.flow.outbound.event_bodies import CONTENT_TYPES, build_event_body
from postroom.model import OrganizationId, Secret, StepResult, WebhookFormat
from postroom.ports import PostResult
from postroom.store import feed, ledger, webhooks, work
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.webhooks import DeliveryOutcome, PendingDelivery, Webhook
from postroom.store.work import FinishedWork, Lease
from postroom.vault import Sealer

BATCH: Final = 100
MAX_WAITING: Final = 5000
MAX_CONCURRENT: Final = 8
PROBES: Final = 3
FIRST_WAIT_SECONDS: Final = 5.0
SECRET_PREFIX: Final = "whsec_"  # noqa: S105  # as Standard Webhooks requires

PostFunction = Callable[[str, Mapping[str, str], bytes], Awaitable[PostResult]]


@dataclass(frozen=True)
class DeliverContext:
    """The dependencies of deliveries."""

    database: Database
    sealer: Sealer
    post: PostFunction
    allows_http: bool = False  # POSTROOM_WEBHOOK_NETWORKS allows plain http


@dataclass(frozen=True, slots=True)
class _DeliveryItem:
    """One delivery to make. `row`: set if it was refused or deferred before."""

    event_id: int
    position: int
    entity: tuple[str, str]
    body: str
    row: PendingDelivery | None = None

    @property
    def attempts(self) -> int:
        return self.row.attempts if self.row else 0


@dataclass(frozen=True, slots=True)
class _DeliveryBatch:
    """The deliveries to make, grouped by entity. Entities in `held` are not due yet."""

    webhook: Webhook
    secret: Secret
    groups: Sequence[Sequence[_DeliveryItem]]
    held: frozenset[tuple[str, str]]
    position: int | None
    more: bool


@dataclass(frozen=True, slots=True)
class _SendResult:
    """The outcomes of a batch.

    `down`: events of several entities were refused and none was accepted. `whole`: every item has an outcome.
    """

    outcomes: Sequence[DeliveryOutcome]
    down: bool = False
    whole: bool = True

    @property
    def errors(self) -> list[str]:
        return [outcome.error for outcome in self.outcomes if outcome.error is not None]

    @property
    def refused(self) -> bool:
        """Whether something was sent and nothing was accepted."""
        accepted = any(outcome.error is None and outcome.wait is None for outcome in self.outcomes)
        return bool(self.errors) and not accepted


async def run(context: DeliverContext, lease: Lease) -> StepResult | None:
    """Send everything that is due. Due again with the next delivery."""
    while True:
        batch = await _load_batch(context, lease)
        if batch is None:
            return StepResult()
        sent = await _send_all(context, batch)
        async with work.fenced_transaction(context.database, lease) as connection:
            position = batch.position if sent.whole else None
            await webhooks.record_outcomes(connection, batch.webhook, sent.outcomes, position=position)
            if sent.refused:
                await webhooks.record_failure(connection, batch.webhook.id, sent.errors[0])
                if batch.webhook.failing_too_long:
                    return await _disable(connection, lease, sent.errors[0])
            if not sent.down and not batch.more:
                again = await webhooks.get_next_due_seconds(connection, batch.webhook.id)
                await work.finish(connection, [FinishedWork(lease, again)])
                return None
        if sent.down:
            raise TransientError("The receiver rejects all deliveries.")


async def _load_batch(context: DeliverContext, lease: Lease) -> _DeliveryBatch | None:
    """Load the deliveries to make: waiting ones that are due, and new events."""
    async with work.fenced_transaction(context.database, lease) as connection:
        webhook = await webhooks.get(connection, UUID(lease.subject))
        sealed = await webhooks.get_secret(connection, UUID(lease.subject))
        if webhook is None or sealed is None or webhook.disabled_at is not None:
            return None
        # Read first: what becomes due in between stays held once more, so nothing overtakes it.
        held = await webhooks.list_blocked_entities(connection, webhook.id)
        waiting = await webhooks.list_due(connection, webhook.id, limit=MAX_WAITING)
        # Unless all waiting deliveries are loaded, a new event could overtake one of them.
        room = BATCH if len(waiting) < MAX_WAITING else 0
        events = await feed.list_after(connection, webhook.position, room)
        known = await webhooks.list_pending_event_ids(connection, webhook.id, webhook.position)
    secret = context.sealer.open(secret_context(lease.organization, webhook.id), sealed)
    items = [
        _DeliveryItem(row.event_id, row.position, (row.entity_type, row.entity_id), row.body, row)
        for row in waiting
        if (row.entity_type, row.entity_id) not in held
    ]
    items += [
        _DeliveryItem(
            event.id,
            event.position,
            (event.entity_type, event.entity_id),
            build_event_body(webhook.format, lease.organization, event),
        )
        for event in events
        if matches_filter(webhook.kinds, event.kind) and event.id not in known
    ]
    groups: dict[tuple[str, str], list[_DeliveryItem]] = {}
    for item in sorted(items, key=lambda item: item.position):
        groups.setdefault(item.entity, []).append(item)
    position = events[-1].position if events else None
    more = room == 0 or len(events) == BATCH
    return _DeliveryBatch(webhook, secret, list(groups.values()), held, position, more)


async def _send_all(context: DeliverContext, batch: _DeliveryBatch) -> _SendResult:
    """Send entities concurrently, events of one entity in order. A failing receiver is probed first."""
    ready = [group for group in batch.groups if group[0].entity not in batch.held]
    probes = ready
    if batch.webhook.failing_since is not None:
        # Entities that keep being refused must not block those that would be accepted.
        ready.sort(key=lambda group: (group[0].attempts, random.random()))
        probes = ready[:PROBES]
    rest = ready[len(probes) :]
    sent = _SendResult(await _send_groups(context, batch, probes))
    down = sent.refused and sum(_is_first_refusal(outcome) for outcome in sent.outcomes) >= PROBES
    if down and rest:
        return replace(sent, down=True, whole=False)
    later = [] if sent.refused else await _send_groups(context, batch, rest)
    if sent.refused:
        later = [
            item
            for group in rest
            for item in _defer(group, backoff_seconds(group[0].attempts, FIRST_WAIT_SECONDS))
        ]
    behind = [group for group in batch.groups if group[0].entity in batch.held]
    later += [item for group in behind for item in _defer(group, FIRST_WAIT_SECONDS)]
    return _SendResult([*sent.outcomes, *later], down)


async def _send_groups(
    context: DeliverContext, batch: _DeliveryBatch, groups: Sequence[Sequence[_DeliveryItem]]
) -> list[DeliveryOutcome]:
    turns = asyncio.Semaphore(MAX_CONCURRENT)
    sent = await asyncio.gather(*(_send_group(context, batch, group, turns) for group in groups))
    return [outcome for group in sent for outcome in group]


async def _send_group(
    context: DeliverContext, batch: _DeliveryBatch, group: Sequence[_DeliveryItem], turns: asyncio.Semaphore
) -> list[DeliveryOutcome]:
    """Send in order up to the first refusal. Deliveries refused for too long are given up."""
    outcomes: list[DeliveryOutcome] = []
    for number, item in enumerate(group):
        async with turns:
            error = await _send(context, batch, item)
        outcome = replace(_current_outcome(item), attempts=item.attempts + 1, error=error)
        given_up = item.row is not None and item.row.too_old
        if error is None or given_up:
            outcomes.append(outcome)
            continue
        wait = backoff_seconds(item.attempts, FIRST_WAIT_SECONDS)
        return [*outcomes, replace(outcome, wait=wait), *_defer(group[number + 1 :], wait, behind=True)]
    return outcomes


def _defer(group: Sequence[_DeliveryItem], wait: float, *, behind: bool = False) -> list[DeliveryOutcome]:
    """Defer the first delivery of an entity, unless it waits already, and the new ones behind it."""
    return [
        replace(_current_outcome(item), wait=wait)
        for number, item in enumerate(group)
        if item.row is None or (number == 0 and not behind)
    ]


def _current_outcome(item: _DeliveryItem) -> DeliveryOutcome:
    error = item.row.last_error if item.row else None
    return DeliveryOutcome(item.event_id, item.position, *item.entity, item.body, item.attempts, error, None)


def _is_first_refusal(outcome: DeliveryOutcome) -> bool:
    return outcome.attempts == 1 and outcome.error is not None


async def _send(context: DeliverContext, batch: _DeliveryBatch, item: _DeliveryItem) -> str | None:
    """Send one delivery; why it was not accepted, or None."""
    headers = build_headers(batch.secret, f"msg_{item.event_id}", batch.webhook.format, item.body)
    posted = await context.post(batch.webhook.url, headers, item.body.encode())
    return posted.failure


async def _disable(connection: Connection, lease: Lease, error: str) -> None:
    """Disable a webhook that has accepted nothing for too long, until a person enables it."""
    reason = f"no delivery was accepted for three days: {error}"
    await webhooks.disable(connection, UUID(lease.subject), reason)
    entry = NewLedgerEntry("WEBHOOK_DISABLED", "webhook", lease.subject, payload={"error": error})
    await ledger.append_entries(connection, lease.organization, [entry])
    await feed.append_event(connection, "webhook.disabled", "webhook", lease.subject)
    await work.finish(connection, [FinishedWork(lease)])


def matches_filter(kinds: Sequence[str], kind: str) -> bool:
    """Whether an event passes the filter. Events about webhooks themselves never do."""
    if kind.startswith("webhook."):
        return False
    return not kinds or any(
        kind == pattern or (pattern.endswith(".*") and kind.startswith(pattern[:-1])) for pattern in kinds
    )


def build_headers(secret: Secret, message: str, style: WebhookFormat, body: str) -> dict[str, str]:
    """Build the headers of Standard Webhooks: id, timestamp, and a signature over both and the body."""
    now = str(int(time.time()))
    key = b64decode(secret.reveal().removeprefix(SECRET_PREFIX))
    signature = hmac.new(key, f"{message}.{now}.{body}".encode(), sha256).digest()
    return {
        "content-type": CONTENT_TYPES[style],
        "user-agent": f"Postroom/{__version__}",
        "webhook-id": message,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{b64encode(signature).decode()}",
    }


def secret_context(organization: OrganizationId, webhook: UUID) -> str:
    return f"webhooks/{organization}/{webhook}"
