"""Receive pushes: check each notification's secret, then enqueue syncs for many in one commit.

A push is a hint, never data: it enqueues a sync and says where to look first. Lifecycle events also enqueue
`subscribe`. Nothing here calls a provider or knows HTTP: the endpoints are in `web.push`, the formats in
`providers`. Rejected notifications are counted and recorded by `push_rejections` after the response, so that
a wrong secret and an unknown subscription take the same time.
"""

import asyncio
import hmac
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_bytes
from typing import Final

from postroom.errors import PostroomError, TransientError
from postroom.flow.mail.push_rejections import PushRejections
from postroom.logs import Log
from postroom.model import LifecycleEvent, Notification, ProviderName, Secret, SubscriptionId, WorkKind
from postroom.store import notifications
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.group_commit import GroupCommit, WaitLimits
from postroom.store.notifications import MailboxNotification, NotifiedMailbox, PushSubscription
from postroom.store.work import WorkRequest

# Graph waits three seconds for the response, Pub/Sub longer: from the arrival of a push to the start of its
# group commit, and the commit.
RESPONSE_LIMITS: Final = WaitLimits(max_waiting=5000, queue_seconds=1.25, write_seconds=1.25)
MAX_GROUP: Final = 1000
# After this many notifications, other tasks of the process get a turn.
VERIFIED_PER_TURN: Final = 100
# Compared with the secret of an unknown subscription. No secret has this digest.
_UNMATCHABLE_DIGEST: Final = token_bytes(32)

log = Log()


@dataclass(frozen=True, slots=True)
class ReceivedPush:
    """One push: its provider, the subscription in its URL, its source IP address, its notifications.

    It arrived at `waiting_since` by the monotonic clock, or now.
    """

    provider: ProviderName
    subscription: SubscriptionId | None
    source: str
    notifications: Sequence[Notification]
    trace: str | None = None
    waiting_since: float | None = None


@dataclass(slots=True)
class PushVerdict:
    """How many notifications of a push were accepted and rejected.

    Gmail's name an address and were authenticated with the whole push before.
    """

    accepted: int = 0
    rejected: int = 0


@dataclass
class PushGroup:
    """The combined effect of the pushes in one group commit."""

    verdicts: list[PushVerdict] = field(default_factory=list[PushVerdict])
    rejected: list[tuple[PushSubscription | None, ReceivedPush]] = field(
        default_factory=list[tuple[PushSubscription | None, ReceivedPush]]
    )
    hints: dict[NotifiedMailbox, dict[str, None]] = field(
        default_factory=dict[NotifiedMailbox, dict[str, None]]
    )
    missed: set[NotifiedMailbox] = field(default_factory=set[NotifiedMailbox])
    subscriptions: set[SubscriptionId] = field(default_factory=set[SubscriptionId])
    lifecycle: dict[tuple[SubscriptionId, LifecycleEvent], NotifiedMailbox] = field(
        default_factory=dict[tuple[SubscriptionId, LifecycleEvent], NotifiedMailbox]
    )
    trace: str | None = None  # of the current push
    traced: dict[NotifiedMailbox, str | None] = field(default_factory=dict[NotifiedMailbox, str | None])

    def add_hint(self, mailboxes: Iterable[NotifiedMailbox], message_id: str | None) -> None:
        for mailbox in mailboxes:
            ids = self.hints.setdefault(mailbox, {})
            self.traced[mailbox] = self.trace
            if message_id is not None:
                ids[message_id] = None

    def add_lifecycle_event(self, known: PushSubscription, event: LifecycleEvent) -> None:
        """Add a lifecycle event. `missed` affects only the mailboxes; the others also the subscription."""
        self.add_hint(known.mailboxes, None)
        if event is LifecycleEvent.MISSED:
            self.missed.update(known.mailboxes)
        else:
            self.lifecycle[known.id, event] = known.owner

    def build_work_requests(self) -> list[WorkRequest]:
        return [self._build_work_request(WorkKind.SYNC, mailbox) for mailbox in self.hints] + [
            self._build_work_request(WorkKind.SUBSCRIBE, mailbox) for mailbox in self.lifecycle.values()
        ]

    def _build_work_request(self, kind: str, mailbox: NotifiedMailbox) -> WorkRequest:
        return WorkRequest(mailbox.organization, kind, str(mailbox.mailbox), trace=self.traced.get(mailbox))


class PushReceiver:
    """Accepts pushes, and returns once their effect is committed."""

    def __init__(self, database: Database, rejections: PushRejections) -> None:
        self._database = database
        self._rejections = rejections
        self._group = GroupCommit(self._flush, largest=MAX_GROUP, limits=RESPONSE_LIMITS)

    async def accept(self, push: ReceivedPush) -> PushVerdict:
        """Store a push. Raises TransientError or DatabaseUnavailable if the provider must send it again."""
        return await self._group.write(push, waiting_since=push.waiting_since)

    def count_rejected(self, provider: ProviderName, source: str) -> None:
        """Count a push that its provider did not send. It concerns no subscription."""
        self._rejections.count(None, provider, source)

    async def _flush(self, pushes: Sequence[ReceivedPush]) -> Sequence[PushVerdict]:
        try:
            try:
                group = await _process_group(self._database, pushes)
            except TransientError:  # a deadlock, or a mailbox was removed concurrently
                group = await _process_group(self._database, pushes)
        except asyncio.CancelledError:  # timed out
            log.warning("push.not_stored", count=len(pushes))
            raise
        except PostroomError as error:
            log.warning("push.not_stored", count=len(pushes), error=error)
            raise
        for known, push in group.rejected:
            self._rejections.count(known, push.provider, push.source)
        return group.verdicts


async def _process_group(database: Database, pushes: Sequence[ReceivedPush]) -> PushGroup:
    async with database.engine() as connection:
        index = await _load_subscriptions(connection, pushes)
        group = await verify_pushes(pushes, index, await _load_addresses(connection, pushes))
        if group.hints:
            await _write_group(connection, group)
    return group


async def verify_pushes(
    pushes: Sequence[ReceivedPush],
    index: "SubscriptionIndex",
    by_address: Mapping[tuple[ProviderName, str], Sequence[tuple[NotifiedMailbox, SubscriptionId | None]]],
) -> PushGroup:
    """Verify the notifications of some pushes, which can be many, with pauses for other tasks."""
    group, turns = PushGroup(), itertools.count(1)
    for push in pushes:
        verdict = PushVerdict()
        group.trace = push.trace
        for notification in push.notifications:
            if next(turns) % VERIFIED_PER_TURN == 0:
                await asyncio.sleep(0)
            if notification.address is not None:
                verdict.accepted += 1
                for mailbox, subscription in by_address.get((push.provider, notification.address), ()):
                    group.add_hint([mailbox], None)
                    if subscription is not None:
                        group.subscriptions.add(subscription)
            else:
                check_notification(push, notification, index, verdict, group)
        group.verdicts.append(verdict)
    return group


def check_notification(
    push: ReceivedPush,
    notification: Notification,
    index: "SubscriptionIndex",
    verdict: PushVerdict,
    group: PushGroup,
) -> None:
    candidates = index.list_candidates(push.subscription, notification.provider_subscription_id)
    match = find_by_secret(notification.client_state, candidates)
    if match is None:
        verdict.rejected += 1
        group.rejected.append((candidates[0] if candidates else None, push))
        return
    verdict.accepted += 1
    group.subscriptions.add(match.id)
    if notification.lifecycle is not None:
        group.add_lifecycle_event(match, notification.lifecycle)
    else:
        group.add_hint(match.mailboxes, notification.message_id)


def find_by_secret(secret: Secret | None, candidates: Sequence[PushSubscription]) -> PushSubscription | None:
    """Find the subscription with this secret. Without candidates, a dummy is compared in the same time."""
    received_digest = sha256(secret.reveal().encode(errors="surrogatepass") if secret else b"").digest()
    match: PushSubscription | None = None
    for known in candidates or (None,):
        digest = known.client_state_sha256 if known else None
        if hmac.compare_digest(received_digest, digest or _UNMATCHABLE_DIGEST):
            match = known
    return match


@dataclass(frozen=True, slots=True)
class SubscriptionIndex:
    """Subscriptions by our id and by the provider's."""

    by_id: dict[SubscriptionId, PushSubscription]
    by_provider_id: dict[str, list[PushSubscription]]

    def list_candidates(
        self, subscription: SubscriptionId | None, provider_id: str | None
    ) -> list[PushSubscription]:
        """List the rows it may belong to. The URL may name a row whose provider id is not known yet."""
        found = self.by_provider_id.get(provider_id, []) if provider_id else []
        own = self.by_id.get(subscription) if subscription else None
        return [own, *(row for row in found if row is not own)] if own else found


async def _load_subscriptions(connection: Connection, pushes: Sequence[ReceivedPush]) -> SubscriptionIndex:
    ids = {push.subscription for push in pushes if push.subscription}
    provider_ids = {
        notification.provider_subscription_id
        for push in pushes
        for notification in push.notifications
        if notification.provider_subscription_id
    }
    by_provider_id: dict[str, list[PushSubscription]] = {}
    if not ids and not provider_ids:
        return SubscriptionIndex({}, by_provider_id)
    found = await notifications.find_subscriptions(connection, ids, provider_ids)
    for known in found:
        if known.provider_subscription_id:
            by_provider_id.setdefault(known.provider_subscription_id, []).append(known)
    return SubscriptionIndex({known.id: known for known in found}, by_provider_id)


async def _load_addresses(
    connection: Connection, pushes: Sequence[ReceivedPush]
) -> dict[tuple[ProviderName, str], list[tuple[NotifiedMailbox, SubscriptionId | None]]]:
    wanted: dict[ProviderName, set[str]] = {}
    for push in pushes:
        for notification in push.notifications:
            if notification.address is not None:
                wanted.setdefault(push.provider, set()).add(notification.address)
    found: dict[tuple[ProviderName, str], list[tuple[NotifiedMailbox, SubscriptionId | None]]] = {}
    for provider, addresses in wanted.items():
        for address, mailbox, subscription in await notifications.find_mailboxes_by_address(
            connection, provider, addresses
        ):
            found.setdefault((provider, address), []).append((mailbox, subscription))
    return found


async def _write_group(connection: Connection, group: PushGroup) -> None:
    hints = [
        MailboxNotification(mailbox, ids, mailbox in group.missed) for mailbox, ids in group.hints.items()
    ]
    if group.lifecycle:
        await notifications.record_lifecycle_events(connection, group.lifecycle)
    await notifications.record_notifications(
        connection, hints, group.subscriptions, group.build_work_requests()
    )
