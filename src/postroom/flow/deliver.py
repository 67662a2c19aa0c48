"""Tells outside applications of events (W5): signed, at least once, and in order about each thing.

    new events ──▶ sent, those about different things side by side ──accepted──▶ position moves on
                      │ some were not                      │ none was
                      ▼                                    ▼
        `deliveries`: tried again, and all that     nothing moves; the whole is tried again,
        follows about the same thing behind it      after three days of this it is disabled

The event's id is the idempotency id: who gets one twice can tell.
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
from postroom.model import Done, OrganizationId, Secret
from postroom.ports import Posted
from postroom.store import feed, ledger, webhooks, work
from postroom.store.database import Database
from postroom.store.feed import Event
from postroom.store.ledger import Entry
from postroom.store.webhooks import Outcome, Waiting, Webhook
from postroom.store.work import Finish, Lease
from postroom.vault import Sealer

KIND: Final = "deliver"
BATCH: Final = 100
MOST_WAITING: Final = 5000
AT_A_TIME: Final = 8
PROBES: Final = 3
FIRST_WAIT_SECONDS: Final = 5.0
LONGEST_WAIT_SECONDS: Final = 6 * 3600.0
SECRET_PREFIX: Final = "whsec_"  # noqa: S105  how the standard marks one

Post = Callable[[str, Mapping[str, str], bytes], Awaitable[Posted]]


@dataclass(frozen=True)
class Delivering:
    database: Database
    sealer: Sealer
    post: Post


@dataclass(frozen=True, slots=True)
class _Item:
    """One delivery to make. `ready`: nothing about the same thing has to go before it."""

    event_id: int
    position: int
    entity: tuple[str, str]
    body: str
    attempts: int
    ready: bool


@dataclass(frozen=True, slots=True)
class _Look:
    webhook: Webhook
    secret: Secret
    items: Sequence[_Item]
    waiting: Sequence[Waiting]
    position: int | None
    more: bool


async def run(delivering: Delivering, lease: Lease) -> Done | None:
    """Tell everything there is to tell; due again when the next delivery is."""
    while True:
        look = await _look(delivering, lease)
        if look is None:
            return Done()
        outcomes = await _send_all(delivering, look)
        tried = [each for each in outcomes if each.attempts]
        if tried and all(each.error is not None for each in tried):
            return await _nothing_accepted(delivering, lease, look, tried[0].error or "")
        async with work.fenced(delivering.database, lease) as connection:
            await webhooks.settle(connection, look.webhook.id, outcomes, position=look.position)
            if not look.more:
                again = await webhooks.next_due_seconds(connection, look.webhook.id)
                await work.finish(connection, [Finish(lease, again)])
                return None


async def _look(delivering: Delivering, lease: Lease) -> _Look | None:
    """What is to be sent: what waits and is due, then what is new."""
    async with work.fenced(delivering.database, lease) as connection:
        webhook = await webhooks.get(connection, UUID(lease.subject))
        sealed = await webhooks.secret(connection, UUID(lease.subject))
        if webhook is None or sealed is None or webhook.disabled_at is not None:
            return None
        waiting = await webhooks.waiting(connection, webhook.id, limit=MOST_WAITING)
        # Where not all that waits is known, nobody can tell what may overtake it.
        room = BATCH if len(waiting) < MOST_WAITING else 0
        events = await feed.after(connection, webhook.position, room)
    secret = delivering.sealer.open(context(lease.organization, webhook.id), sealed)
    held = {(each.entity_type, each.entity_id) for each in waiting if not each.is_due}
    items = [
        _Item(
            each.event_id,
            each.position,
            (each.entity_type, each.entity_id),
            each.body,
            each.attempts,
            each.is_due and (each.entity_type, each.entity_id) not in held,
        )
        for each in waiting
    ]
    known = {each.event_id for each in waiting}
    items += [
        _Item(event.id, event.position, entity, body_of(event), 0, entity not in held)
        for event in events
        if wanted(webhook.kinds, event.kind) and event.id not in known
        for entity in [(event.entity_type, event.entity_id)]
    ]
    position = events[-1].position if events else None
    return _Look(webhook, secret, items, waiting, position, more=len(events) == BATCH)


async def _send_all(delivering: Delivering, look: _Look) -> list[Outcome]:
    """Things side by side, the events of one thing one after the other. Where it fails, a few probe first."""
    groups: dict[tuple[str, str], list[_Item]] = {}
    for item in look.items:
        groups.setdefault(item.entity, []).append(item)
    ordered = list(groups.values())
    turns = asyncio.Semaphore(AT_A_TIME)
    outcomes: list[Outcome] = []
    ready = [group for group in ordered if group[0].ready]
    if look.webhook.failing_since is not None and ready:
        for group in ready[:PROBES]:
            outcomes += await _send_group(delivering, look, group[:1], turns)
        if all(each.error is not None for each in outcomes):
            return outcomes
        outcomes = [each for each in outcomes if each.error is None]
        done = {each.event_id for each in outcomes}
        ordered = [[item for item in group if item.event_id not in done] for group in ordered]
    sent = await asyncio.gather(*(_send_group(delivering, look, group, turns) for group in ordered))
    return [*outcomes, *(each for group in sent for each in group)]


async def _send_group(
    delivering: Delivering, look: _Look, group: Sequence[_Item], turns: asyncio.Semaphore
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    known = {each.event_id: each for each in look.waiting}
    wait: float | None = None
    for item in group:
        outcome = Outcome(item.event_id, item.position, *item.entity, item.body, item.attempts, None, None)
        if not item.ready or wait is not None:
            # It waits behind another; only new ones need a row for it.
            if item.event_id not in known:
                outcomes.append(replace(outcome, wait=wait or FIRST_WAIT_SECONDS))
            continue
        async with turns:
            error = await _send(delivering, look, item)
        if error is None:
            outcomes.append(replace(outcome, attempts=item.attempts + 1))
            continue
        longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(item.attempts, 20))
        wait = longest * random.uniform(0.5, 1)
        given_up = item.event_id in known and known[item.event_id].too_old
        outcomes.append(
            replace(outcome, attempts=item.attempts + 1, error=error, wait=None if given_up else wait)
        )
        if given_up:
            wait = None
    return outcomes


async def _send(delivering: Delivering, look: _Look, item: _Item) -> str | None:
    """Why it was not accepted; None where it was."""
    posted = await delivering.post(
        look.webhook.url, headers_of(look.secret, f"msg_{item.event_id}", item.body), item.body.encode()
    )
    return posted.fault


async def _nothing_accepted(delivering: Delivering, lease: Lease, look: _Look, error: str) -> Done | None:
    """Leave everything as it is, for a later attempt; after three days of this, for a person."""
    async with work.fenced(delivering.database, lease) as connection:
        await webhooks.failed(connection, look.webhook.id, error)
        if look.webhook.failing_too_long:
            because = f"nothing was accepted for three days: {error}"
            await webhooks.disable(connection, look.webhook.id, because)
            entry = Entry("WEBHOOK_DISABLED", "webhook", str(look.webhook.id), payload={"error": error})
            await ledger.append(connection, lease.organization, [entry])
            await feed.tell(connection, "webhook.disabled", "webhook", str(look.webhook.id))
            await work.finish(connection, [Finish(lease)])
            return None
    raise TransientError("the receiver of a webhook accepts nothing")


def wanted(kinds: Sequence[str], kind: str) -> bool:
    """Whether an event passes the filter. What is told of webhooks themselves is for people."""
    if kind.startswith("webhook."):
        return False
    return not kinds or any(
        kind == each or (each.endswith(".*") and kind.startswith(each[:-1])) for each in kinds
    )


def body_of(event: Event) -> str:
    data = {
        "entity_type": event.entity_type,
        "entity_id": event.entity_id,
        "position": event.position,
        **event.data,
    }
    told = {"type": event.kind, "timestamp": event.created_at, "data": data}
    return msgspec.json.encode(told).decode()


def headers_of(secret: Secret, message: str, body: str) -> dict[str, str]:
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


def context(organization: OrganizationId, webhook: UUID) -> str:
    return f"webhooks/{organization}/{webhook}"
