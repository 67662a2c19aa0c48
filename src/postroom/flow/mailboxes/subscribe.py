"""The work `subscribe`: create a mailbox's push subscription, renew it, recreate it when it is gone.

    none ──▶ pending ──▶ live ──(renewed in time)──▶ live
                │          ├──(silent)──▶ moved to another URL, if that does not help: replaced
                │          └──(gone)──▶ replaced: a new one is pending
                └──(crash: does the provider have it?)──▶ live, or none

The row and its secret are committed before the request to the provider, and the row's id is part of the
notification URL. So a subscription whose response was lost is found again, and one without a row is removed:
the account's listing shows both. With an application's own credential, the listing would contain the
subscriptions of all its mailboxes, so the conflict that the provider reports shows the lost one, and
`orphan_subscriptions` removes the others once a day.
Every run renews, so to have a subscription checked, enqueue this work. Pushes are received in
`flow.mail.push`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final
from uuid import UUID, uuid4

from postroom.errors import (
    AlreadyExists,
    DatabaseUnavailable,
    InvalidGrant,
    NotFound,
    OperatorError,
    PermanentError,
    RateLimited,
    RateLimitWait,
    TransientError,
    UrlUnreachable,
)
from postroom.flow.mailboxes import mailbox_health
from postroom.flow.mailboxes.orphan_subscriptions import find_orphans, select_own
from postroom.flow.mailboxes.subscribe_context import SubscribeContext, parse_subscription_id
from postroom.logs import Log
from postroom.model import (
    CredentialKind,
    HealthCause,
    MailboxHealth,
    MailboxId,
    RemoteSubscription,
    Secret,
    SubscriptionId,
    WorkKind,
)
from postroom.ports import RemoteMailbox, SubscriptionRequest
from postroom.store import credentials, ledger, mailboxes, subscriptions, unannounced_messages, work
from postroom.store import mailbox_health as stored_health
from postroom.store.connection import Connection
from postroom.store.database import Database, repeat_hourly
from postroom.store.ledger import JsonValue, NewLedgerEntry
from postroom.store.mailboxes import Mailbox
from postroom.store.subscriptions import Subscription
from postroom.store.work import FinishedWork, Lease, WorkRequest

log = Log()

LIFETIME: Final = timedelta(days=7, hours=-1)  # Graph allows seven days, by its own clock
RENEWAL_LEAD_SECONDS: Final = 86400.0  # before expiry, if the interval is longer
# The least time between two renewals that nothing asked for.
MIN_RENEWAL_GAP_SECONDS: Final = 600.0
# The least time between two renewals that the provider asked for: it may not be content with the first one.
MIN_REAUTHORIZATION_GAP_SECONDS: Final = 60.0
# A denied mailbox may become accessible: a license, a policy or a permission changes.
REFUSED_SECONDS: Final = 6 * 3600.0
CREATE_ATTEMPTS: Final = 3
LOST: Final = "The provider had dropped the subscription. It is being recreated."
# After these errors, the provider has created nothing.
REFUSALS: Final = (PermanentError, RateLimited, RateLimitWait, UrlUnreachable)


async def run(context: SubscribeContext, lease: Lease) -> None:
    """Create or renew the subscription of one mailbox. The last commit also finishes the lease."""
    async with context.database.transaction(lease.organization) as connection:
        mailbox = await mailboxes.get(connection, MailboxId(UUID(lease.subject)))
        credential = await credentials.load(connection, MailboxId(UUID(lease.subject)))
    if mailbox is None or mailbox.disconnected_at is not None or mailbox.has_lost_grant:
        async with work.fenced_transaction(context.database, lease) as connection:
            await work.finish(connection, [FinishedWork(lease)])
        return
    try:
        if mailbox.provider in context.unpushed:
            await _finish_without_push(context, lease, mailbox)
            return
        remote, prefix = context.remote(mailbox), context.prefix(mailbox.provider)
        is_app_only = credential is not None and credential.kind is not CredentialKind.DELEGATED
        await _SubscribeRun(context, lease, mailbox, remote, prefix, is_app_only).run()
    except InvalidGrant as error:
        # Nothing to do until a reconnect, which enqueues this work again.
        await _finish_with_failure(context, lease, mailbox, HealthCause.CONSENT_LOST, error, again_after=None)
    except PermanentError as error:
        await _finish_with_failure(
            context, lease, mailbox, HealthCause.SUBSCRIPTION_DENIED, error, again_after=REFUSED_SECONDS
        )
    except DatabaseUnavailable:
        raise
    except (OperatorError, TransientError) as error:
        await _record_trouble(context, lease, mailbox, error)
        raise


async def _finish_without_push(context: SubscribeContext, lease: Lease, mailbox: Mailbox) -> None:
    """Leave the mailbox to sweeps. An earlier subscription expires by itself.

    A worker that starts with a public URL schedules this work again.
    """
    async with work.fenced_transaction(context.database, lease) as connection:
        await stored_health.clear_push_problem(connection, mailbox.id)
        await work.finish(connection, [FinishedWork(lease)])


async def _finish_with_failure(
    context: SubscribeContext,
    lease: Lease,
    mailbox: Mailbox,
    cause: HealthCause,
    error: PermanentError,
    *,
    again_after: float | None,
) -> None:
    """Record the failure and finish, unless a reconnect has enqueued this work again."""
    async with work.fenced_transaction(context.database, lease) as connection:
        await mailbox_health.record_failure(connection, mailbox, error, cause=cause)
        await work.finish(connection, [FinishedWork(lease, again_after)])


async def _record_trouble(
    context: SubscribeContext, lease: Lease, mailbox: Mailbox, error: OperatorError | TransientError
) -> None:
    """Record a failed attempt, unless a subscription is still live.

    An error that concerns every request, such as an unreadable grant, is recorded in any case.
    """
    cause = mailbox_health.find_cause(error)
    concerns_all = cause.health is MailboxHealth.OPERATOR_ERROR and cause is not HealthCause.OPERATOR_REQUIRED
    async with work.fenced_transaction(context.database, lease) as connection:
        if concerns_all:
            await mailbox_health.record_failure(connection, mailbox, error)
            return
        live = await subscriptions.get_live(connection, mailbox.id)
        if live is None or live.seconds_left <= 0:
            await mailbox_health.record_failure(connection, mailbox, error, cause=HealthCause.NO_SUBSCRIPTION)


async def schedule_missing(database: Database) -> int:
    """Enqueue this work for every connected mailbox without it; how many there were."""
    async with database.engine() as connection:
        found = await subscriptions.list_mailboxes_without_work(connection, WorkKind.SUBSCRIBE)
        await work.enqueue(
            connection,
            [WorkRequest(organization, WorkKind.SUBSCRIBE, str(mailbox)) for organization, mailbox in found],
        )
    return len(found)


async def keep_scheduled(database: Database) -> None:
    """Call `schedule_missing` hourly, forever, so that lost work is recreated."""

    async def schedule() -> None:
        if count := await schedule_missing(database):
            log.info("subscription.scheduled", count=count)

    await repeat_hourly(schedule)


def _build_entry(event: str, subscription: UUID, mailbox: UUID, **payload: JsonValue) -> NewLedgerEntry:
    all_values: dict[str, JsonValue] = {"mailbox_id": str(mailbox), **payload}
    return NewLedgerEntry(event, "subscription", str(subscription), payload=all_values)


@dataclass(frozen=True)
class _SubscribeRun:
    """One run of the step for one mailbox."""

    context: SubscribeContext
    lease: Lease
    mailbox: Mailbox
    remote: RemoteMailbox
    prefix: str
    is_app_only: bool

    async def run(self) -> None:
        async with work.fenced_transaction(self.context.database, self.lease) as connection:
            await subscriptions.delete_replaced(connection, self.mailbox.id)
            rows = await subscriptions.list_by_mailbox(connection, self.mailbox.id)
        live = next((row for row in rows if row.is_live), None)
        if live is not None and live.replacement_requested_at is not None:
            if await self._move(live, rows):
                return
        elif live is not None and await self._renew_live(live):
            return
        pending = [row for row in rows if row.confirmed_at is None]
        again = len(pending) < len(rows)
        if self.is_app_only:
            await self._remove_replaced(rows)
            await self._create(pending, again=again)
        elif not await self._adopt_pending(pending):
            await self._create([], again=again)

    # A live subscription

    async def _renew_live(self, live: Subscription) -> bool:
        """Renew the live subscription. False, after recording it, if it is gone."""
        if parse_subscription_id(live.notification_url, self.prefix) is None:
            await self._check_lease()
            await self.remote.unsubscribe(live.remote_subscription)
        elif (wait := _seconds_until_allowed(live)) > 0:
            if await self.remote.find_subscription(live.remote_subscription):
                await self._finish_later(wait)
                return True
        else:
            try:
                remote_subscription = await self.remote.renew(
                    live.remote_subscription, expires_at=await self._choose_expiry()
                )
            except NotFound:
                pass
            else:
                await self._confirm(live.id, remote_subscription, "SUBSCRIPTION_RENEWED")
                return True
        await self._mark_gone(live)
        return False

    async def _move(self, live: Subscription, rows: Sequence[Subscription]) -> bool:
        """Move a silent subscription to another URL. False, after removing it, if a move did not help before.

        Graph accepts no second equal subscription, so a new one cannot be created first. It validates the
        URL before it changes anything, so the subscription stays as it was while we cannot be reached.
        """
        pending = [row for row in rows if row.confirmed_at is None]
        id_ = SubscriptionId(uuid4())
        url = f"{self.prefix}{id_}"
        async with work.fenced_transaction(self.context.database, self.lease) as connection:
            has_moved = await subscriptions.count_silent(connection, self.mailbox.id) > 0
            for row in pending:
                await subscriptions.discard_unconfirmed(connection, row.id)
            await subscriptions.add_successor(connection, live.id, id_, notification_url=url)
        try:
            remote_subscription = await self.remote.renew(
                live.remote_subscription, expires_at=await self._choose_expiry(), notification_url=url
            )
        except NotFound:
            await self._mark_gone(live, successor=id_)
            return False
        if not has_moved:
            await self._confirm(id_, remote_subscription, "SUBSCRIPTION_RECREATED", silent=live, sync=True)
            log.info("subscription.moved", mailbox=self.mailbox.id)
            return True
        await self._check_lease()
        if remote_subscription.provider_subscription_id is not None:
            await self.remote.unsubscribe(remote_subscription)
        await self._mark_gone(live, successor=id_, is_silent=True)
        return False

    async def _mark_gone(
        self, live: Subscription, *, successor: SubscriptionId | None = None, is_silent: bool = False
    ) -> None:
        async with work.fenced_transaction(self.context.database, self.lease) as connection:
            if successor is not None:
                await subscriptions.discard_unconfirmed(connection, successor)
            if is_silent:
                await self._mark_silent(connection, live)
            else:
                status = await subscriptions.mark_replaced(connection, live.id)
                await self._append_entry(connection, f"SUBSCRIPTION_{status.upper()}", live.id)
                await stored_health.record_problem(
                    connection, self.mailbox.id, HealthCause.NO_SUBSCRIPTION, LOST
                )
            if live.proven_since is not None:  # the next sweep may be far away, and no push comes before it
                await self._enqueue_sync(connection)
        log.info("subscription.lost", mailbox=self.mailbox.id, state="silent" if is_silent else "gone")

    async def _mark_silent(self, connection: Connection, live: Subscription) -> None:
        await subscriptions.mark_silent(connection, live.id)
        await unannounced_messages.delete_all(connection, self.mailbox.id)
        await self._append_entry(connection, "SUBSCRIPTION_EXPIRED", live.id, silent=True)

    # A pending subscription

    async def _adopt_pending(self, pending: Sequence[Subscription]) -> bool:
        """Adopt a subscription that was requested before a crash; remove orphans."""
        listed = select_own(await self.remote.list_subscriptions(), self.prefix)
        for found in listed:
            if row := _find_by_url(pending, found):
                await self._remove_orphans([subscription for subscription in listed if subscription != found])
                await self._confirm(row.id, found, "SUBSCRIPTION_ADOPTED", discarding=_get_ids(pending))
                return True
        await self._remove_orphans(listed)
        async with work.fenced_transaction(self.context.database, self.lease) as connection:
            for row in pending:
                await subscriptions.discard_unconfirmed(connection, row.id)
        return False

    async def _remove_replaced(self, rows: Sequence[Subscription]) -> None:
        """Remove subscriptions that were replaced without asking the provider: the folder has changed."""
        replaced = [row for row in rows if row.replaced_at and row.provider_subscription_id]
        await self._remove_orphans([row.remote_subscription for row in replaced if row.seconds_left > 0])

    async def _remove_orphans(self, listed: Sequence[RemoteSubscription]) -> None:
        """Remove subscriptions that belong to no row, or to a row of this mailbox."""
        if not listed:
            return
        for orphan in await find_orphans(self.context, listed, self.prefix, mailbox=self.mailbox.id):
            await self._check_lease()
            await self.remote.unsubscribe(orphan)
            log.info("subscription.orphan_removed", mailbox=self.mailbox.id)

    # A new subscription

    async def _create(self, pending: Sequence[Subscription], *, again: bool) -> None:
        """Create a subscription, or adopt the pending one that the provider has created already."""
        id_, secret = SubscriptionId(uuid4()), Secret(token_urlsafe(48))
        url = f"{self.prefix}{id_}"
        async with work.fenced_transaction(self.context.database, self.lease) as connection:
            now = await subscriptions.add_unconfirmed(
                connection,
                self.mailbox.id,
                id_,
                notification_url=url,
                secret_sha256=sha256(secret.reveal().encode()).digest(),
            )
        wanted = SubscriptionRequest(url, url, secret, self.mailbox.folder, now + LIFETIME)
        for _ in range(CREATE_ATTEMPTS):
            try:
                remote_subscription = await self.remote.subscribe(wanted)
            except AlreadyExists as existing:
                if await self._adopt_equal(id_, existing.provider_id, pending):
                    return
            except REFUSALS as error:
                async with work.fenced_transaction(self.context.database, self.lease) as connection:
                    await subscriptions.discard_unconfirmed(connection, id_)
                if isinstance(error, NotFound):
                    raise PermanentError(
                        "The provider cannot find this mailbox or its folder."
                        " Check that both exist, then reconnect the mailbox."
                    ) from error
                raise
            else:
                event = "SUBSCRIPTION_RECREATED" if again else "SUBSCRIPTION_CREATED"
                unused = _get_ids(pending)
                await self._confirm(id_, remote_subscription, event, discarding=unused, sync=again)
                return
        raise TransientError(
            "The provider reports an identical subscription but neither lists nor deletes it."
        )

    async def _adopt_equal(
        self, id_: SubscriptionId, provider_id: str, pending: Sequence[Subscription]
    ) -> bool:
        """Adopt an equal subscription if a live or pending row knows its secret; otherwise remove it."""
        equal = RemoteSubscription(provider_id, "", None, await self._choose_expiry())
        async with self.context.database.engine() as engine:
            rows = await subscriptions.find_secrets(engine, [], [provider_id])
        holder = next((row for row in rows if row.is_live), None)
        if holder is None:
            return await self._adopt_lost(id_, equal, pending)
        try:
            remote_subscription = await self.remote.renew(equal, expires_at=equal.expires_at)
        except NotFound:
            return False
        await self._confirm(
            id_,
            remote_subscription,
            "SUBSCRIPTION_ADOPTED",
            secret_sha256=holder.client_state_sha256,
            discarding=_get_ids(pending),
        )
        return True

    async def _adopt_lost(
        self, id_: SubscriptionId, equal: RemoteSubscription, pending: Sequence[Subscription]
    ) -> bool:
        found = await self.remote.find_subscription(equal) if pending else None
        if found and (row := _find_by_url(pending, found)):
            unused = [id_, *_get_ids(pending)]
            await self._confirm(row.id, found, "SUBSCRIPTION_ADOPTED", discarding=unused)
            return True
        await self._check_lease()
        await self.remote.unsubscribe(equal)
        return False

    # Writes

    async def _confirm(
        self,
        id_: SubscriptionId,
        remote_subscription: RemoteSubscription,
        event: str,
        *,
        secret_sha256: bytes | None = None,
        discarding: Sequence[SubscriptionId] = (),
        silent: Subscription | None = None,
        sync: bool = False,
    ) -> None:
        """Record the provider's confirmation and finish the lease, in one transaction.

        `silent` is the subscription that this one replaces.
        """
        async with work.fenced_transaction(self.context.database, self.lease) as connection:
            if silent is not None:
                await self._mark_silent(connection, silent)
            left = await subscriptions.confirm(
                connection, id_, remote_subscription, secret_sha256=secret_sha256
            )
            for unused in discarding:
                await subscriptions.discard_unconfirmed(connection, unused)
            await self._append_entry(
                connection, event, id_, expires_at=remote_subscription.expires_at.isoformat()
            )
            # A handshake shows that pushes reach us. Without one (Gmail), the next push will show it.
            unproven = HealthCause.PUSH_SILENT if remote_subscription.notification_url is None else None
            await stored_health.clear_push_problem(connection, self.mailbox.id, except_cause=unproven)
            if sync:  # nothing announced the changes while there was no subscription
                await self._enqueue_sync(connection)
            await work.finish(connection, [FinishedWork(self.lease, self._get_renewal_wait(left))])

    def _get_renewal_wait(self, seconds_left: float) -> float:
        """The wait until the next renewal, long before the expiry.

        A renewal also notices a subscription that the provider dropped or paused without a notification that
        reached us. Jitter spreads the renewals of subscriptions that were created together.
        """
        interval = self.context.renewal_seconds[self.mailbox.provider]
        wait = min(seconds_left - RENEWAL_LEAD_SECONDS, interval) * random.uniform(0.95, 1)
        return max(wait, MIN_RENEWAL_GAP_SECONDS)

    async def _enqueue_sync(self, connection: Connection) -> None:
        sync = WorkRequest(self.mailbox.organization, WorkKind.SYNC, str(self.mailbox.id))
        await work.enqueue(connection, [sync])

    async def _finish_later(self, seconds: float) -> None:
        async with work.fenced_transaction(self.context.database, self.lease) as connection:
            await work.finish(connection, [FinishedWork(self.lease, seconds)])

    async def _append_entry(
        self, connection: Connection, event: str, id_: SubscriptionId, **payload: JsonValue
    ) -> None:
        await ledger.append_entries(
            connection, self.mailbox.organization, [_build_entry(event, id_, self.mailbox.id, **payload)]
        )

    async def _choose_expiry(self) -> datetime:
        """The expiry to request, by the database's clock."""
        async with self.context.database.transaction(self.mailbox.organization) as connection:
            return await subscriptions.read_clock(connection) + LIFETIME

    async def _check_lease(self) -> None:
        """Raise LeaseLost before removing anything that the next holder may just have created."""
        async with work.fenced_transaction(self.context.database, self.lease):
            return


def _seconds_until_allowed(live: Subscription) -> float:
    """The seconds until the next renewal. The provider may ask for one at once, but not in a loop."""
    if live.needs_reauthorization:
        return MIN_REAUTHORIZATION_GAP_SECONDS - live.reauthorized_seconds_ago
    return MIN_RENEWAL_GAP_SECONDS - live.renewed_seconds_ago


def _find_by_url(rows: Sequence[Subscription], found: RemoteSubscription) -> Subscription | None:
    return next((row for row in rows if row.notification_url == found.notification_url), None)


def _get_ids(rows: Sequence[Subscription]) -> list[SubscriptionId]:
    return [row.id for row in rows]
