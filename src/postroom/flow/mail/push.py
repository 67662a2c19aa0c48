"""Pushes come in: each item proven by its subscription's secret, then one durable write for many of them.

A push is a hint, never data: it makes a sync due and says where to look first. Nothing here calls a provider.
What was refused is counted, and told to the ledger of whom it concerned by `refusals`, after the answer, so
that a wrong secret and an unknown subscription take the same time.
"""

import asyncio
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_bytes
from typing import Final

from postroom.errors import PostroomError, TransientError
from postroom.flow.mail.push_rejections import PushRejections
from postroom.logs import Log
from postroom.model import LifecycleEvent, Notification, ProviderName, Secret, SubscriptionId, WorkKind
from postroom.store import notifications
from postroom.store.database import Connection, Database
from postroom.store.group_commit import GroupCommit, WaitLimits
from postroom.store.notifications import MailboxNotification, NotifiedMailbox, PushSubscription
from postroom.store.work import WorkRequest

# A provider waits three seconds for its answer: so long for its group to begin, and so long for the write.
PATIENCE: Final = WaitLimits(most=5000, queue_seconds=1.5, write_seconds=1.25)
MAX_GROUP: Final = 1000
# What an unknown subscription's secret is compared with: nothing has this digest.
_UNMATCHABLE_DIGEST: Final = token_bytes(32)

log = Log()


@dataclass(frozen=True, slots=True)
class ReceivedPush:
    """One push: who sends it, which subscription its address names, where it came from, what it says."""

    provider: ProviderName
    subscription: SubscriptionId | None
    source: str
    notices: Sequence[Notification]
    trace: str | None = None


@dataclass(slots=True)
class PushVerdict:
    """How many items of a push were right. One that names an address was proven as a whole before."""

    right: int = 0
    wrong: int = 0


@dataclass
class PushGroup:
    """What the pushes of one group add up to."""

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
    trace: str | None = None  # of the push that is being looked at
    traced: dict[NotifiedMailbox, str | None] = field(default_factory=dict[NotifiedMailbox, str | None])

    def add_hint(self, mailboxes: Iterable[NotifiedMailbox], message_id: str | None) -> None:
        for mailbox in mailboxes:
            ids = self.hints.setdefault(mailbox, {})
            self.traced[mailbox] = self.trace
            if message_id is not None:
                ids[message_id] = None

    def add_lifecycle_event(self, known: PushSubscription, event: LifecycleEvent) -> None:
        """`missed` is a matter of the mailboxes; the others of the subscription, and of a sync afterwards."""
        self.add_hint(known.mailboxes, None)
        if event is LifecycleEvent.MISSED:
            self.missed.update(known.mailboxes)
        else:
            self.lifecycle[known.id, event] = known.owner

    def build_wakes(self) -> list[WorkRequest]:
        return [self._wake(WorkKind.SYNC, each) for each in self.hints] + [
            self._wake(WorkKind.SUBSCRIBE, each) for each in self.lifecycle.values()
        ]

    def _wake(self, kind: str, mailbox: NotifiedMailbox) -> WorkRequest:
        return WorkRequest(mailbox.organization, kind, str(mailbox.mailbox), trace=self.traced.get(mailbox))


class PushReceiver:
    """Takes pushes in, and answers when what they said is on disk."""

    def __init__(self, database: Database, refusals: PushRejections) -> None:
        self._database = database
        self._refusals = refusals
        self._group = GroupCommit(self._flush, largest=MAX_GROUP, patience=PATIENCE)

    async def accept(self, arrival: ReceivedPush) -> PushVerdict:
        """Raises TransientError or DatabaseUnavailable where nothing was stored: it shall come again."""
        return await self._group.write(arrival)

    def count_rejected(self, provider: ProviderName, source: str) -> None:
        """A whole push was not from whom it claims to be; that concerns no subscription."""
        self._refusals.count(None, provider, source)

    async def _flush(self, arrivals: Sequence[ReceivedPush]) -> Sequence[PushVerdict]:
        try:
            async with self._database.engine() as connection:
                try:
                    group = await _process_group(connection, arrivals)
                except TransientError:  # it gave way to another, or a mailbox went meanwhile
                    group = await _process_group(connection, arrivals)
        except asyncio.CancelledError:  # it took too long
            log.warning("push.not_stored", count=len(arrivals))
            raise
        except PostroomError as error:
            log.warning("push.not_stored", count=len(arrivals), error=error)
            raise
        for known, arrival in group.rejected:
            self._refusals.count(known, arrival.provider, arrival.source)
        return group.verdicts


async def _process_group(connection: Connection, arrivals: Sequence[ReceivedPush]) -> PushGroup:
    group = PushGroup()
    named = await _load_subscriptions(connection, arrivals)
    addressed = await _load_addresses(connection, arrivals)
    for arrival in arrivals:
        verdict = PushVerdict()
        group.trace = arrival.trace
        for notice in arrival.notices:
            if notice.address is not None:
                verdict.right += 1
                for mailbox, subscription in addressed.get((arrival.provider, notice.address), ()):
                    group.add_hint([mailbox], None)
                    if subscription is not None:
                        group.subscriptions.add(subscription)
            else:
                check_notification(arrival, notice, named, verdict, group)
        group.verdicts.append(verdict)
    if group.hints:
        await _write_group(connection, group)
    return group


def check_notification(
    arrival: ReceivedPush,
    notice: Notification,
    named: "SubscriptionIndex",
    verdict: PushVerdict,
    group: PushGroup,
) -> None:
    candidates = named.candidates(arrival.subscription, notice.provider_subscription_id)
    right = find_by_secret(notice.client_state, candidates)
    if right is None:
        verdict.wrong += 1
        group.rejected.append((candidates[0] if candidates else None, arrival))
        return
    verdict.right += 1
    group.subscriptions.add(right.id)
    if notice.lifecycle is not None:
        group.add_lifecycle_event(right, notice.lifecycle)
    else:
        group.add_hint(right.mailboxes, notice.message_id)


def find_by_secret(secret: Secret | None, candidates: Sequence[PushSubscription]) -> PushSubscription | None:
    """The subscription whose secret this is. For an unknown one nobody's is compared: it costs the same."""
    given = sha256(secret.reveal().encode(errors="surrogatepass") if secret else b"").digest()
    right: PushSubscription | None = None
    for known in candidates or (None,):
        digest = known.client_state_sha256 if known else None
        if hmac.compare_digest(given, digest or _UNMATCHABLE_DIGEST):
            right = known
    return right


@dataclass(frozen=True, slots=True)
class SubscriptionIndex:
    """Subscriptions by our id and by the provider's."""

    by_id: dict[SubscriptionId, PushSubscription]
    by_provider_id: dict[str, list[PushSubscription]]

    def candidates(
        self, subscription: SubscriptionId | None, provider_id: str | None
    ) -> list[PushSubscription]:
        """The address may name a row whose id at the provider is not known yet; the secret decides."""
        found = self.by_provider_id.get(provider_id, []) if provider_id else []
        own = self.by_id.get(subscription) if subscription else None
        return [own, *(each for each in found if each is not own)] if own else found


async def _load_subscriptions(connection: Connection, arrivals: Sequence[ReceivedPush]) -> SubscriptionIndex:
    ids = {arrival.subscription for arrival in arrivals if arrival.subscription}
    provider_ids = {
        notice.provider_subscription_id
        for arrival in arrivals
        for notice in arrival.notices
        if notice.provider_subscription_id
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
    connection: Connection, arrivals: Sequence[ReceivedPush]
) -> dict[tuple[ProviderName, str], list[tuple[NotifiedMailbox, SubscriptionId | None]]]:
    wanted: dict[ProviderName, set[str]] = {}
    for arrival in arrivals:
        for notice in arrival.notices:
            if notice.address is not None:
                wanted.setdefault(arrival.provider, set()).add(notice.address)
    found: dict[tuple[ProviderName, str], list[tuple[NotifiedMailbox, SubscriptionId | None]]] = {}
    for provider, addresses in wanted.items():
        for address, mailbox, subscription in await notifications.find_mailboxes_by_address(
            connection, provider, addresses
        ):
            found.setdefault((provider, address), []).append((mailbox, subscription))
    return found


async def _write_group(connection: Connection, group: PushGroup) -> None:
    """One transaction, and one statement where nothing was said of a subscription itself."""
    told = [
        MailboxNotification(mailbox, ids, mailbox in group.missed) for mailbox, ids in group.hints.items()
    ]
    if not group.lifecycle:
        await notifications.record_notifications(connection, told, group.subscriptions, group.build_wakes())
        return
    async with connection.transaction():
        await notifications.record_lifecycle_events(connection, group.lifecycle)
        await notifications.record_notifications(connection, told, group.subscriptions, group.build_wakes())
