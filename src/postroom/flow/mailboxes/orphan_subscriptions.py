"""The work `remove_orphans`: once a day, remove subscriptions of our applications that no row knows.

An orphan is left by a database that was lost or restored, or by a request that reached the provider after it
was given up. It sends pushes that are rejected, until it expires after a week. The listing of an application
contains the subscriptions of all its mailboxes, so one run per application replaces a listing per mailbox. A
mailbox that its owner connected by sign-in has a listing of its own, which `subscribe` reads.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from postroom.errors import OperatorError, PermanentError, TransientError
from postroom.flow.mailboxes.subscribe_context import SubscribeContext, parse_subscription_id
from postroom.logs import Log
from postroom.model import MailboxId, RemoteSubscription, StepResult
from postroom.store import mailboxes, subscriptions, work
from postroom.store.mailboxes import Mailbox
from postroom.store.work import Lease

EVERY_SECONDS: Final = 86_400.0

log = Log()


async def run(context: SubscribeContext, lease: Lease) -> StepResult:
    """Remove the orphans of each application of the organization. One that fails does not stop the others."""
    async with context.database.transaction(lease.organization) as connection:
        ids = await mailboxes.list_one_per_application(connection)
        found = [mailbox for id_ in ids if (mailbox := await mailboxes.get(connection, id_))]
    failure: OperatorError | TransientError | None = None
    for mailbox in found:
        try:
            if mailbox.provider not in context.unpushed:
                await _remove_listed(context, lease, mailbox)
        except PermanentError:  # the work of the mailbox itself reports it
            continue
        except (OperatorError, TransientError) as error:
            failure = error
    if failure is not None:
        raise failure
    return StepResult(again_after=EVERY_SECONDS)


async def _remove_listed(context: SubscribeContext, lease: Lease, mailbox: Mailbox) -> None:
    remote, prefix = context.remote(mailbox), context.prefix(mailbox.provider)
    listed = select_own(await remote.list_subscriptions(), prefix)
    for orphan in await find_orphans(context, listed, prefix):
        async with work.fenced_transaction(context.database, lease):
            pass
        await remote.unsubscribe(orphan)
        log.info("subscription.orphan_removed", organization=lease.organization)


def select_own(listed: Iterable[RemoteSubscription], prefix: str) -> list[RemoteSubscription]:
    """Subscriptions with a notification URL of this Postroom."""
    return [found for found in listed if parse_subscription_id(found.notification_url, prefix)]


async def find_orphans(
    context: SubscribeContext,
    listed: Sequence[RemoteSubscription],
    prefix: str,
    *,
    mailbox: MailboxId | None = None,
) -> list[RemoteSubscription]:
    """Subscriptions that belong to no row in any organization. Rows of the given mailbox do not count.

    Call it after listing: the row of a subscription is committed before the subscription is requested.
    """
    ids = [parse_subscription_id(subscription.notification_url, prefix) for subscription in listed]
    provider_ids = [subscription.provider_subscription_id or "" for subscription in listed]
    async with context.database.engine() as engine:
        rows = await subscriptions.find_secrets(engine, [id_ for id_ in ids if id_], provider_ids)
    others = [row for row in rows if row.mailbox != mailbox]
    known = {row.id for row in others}
    held = {row.provider_subscription_id for row in others if row.is_live}
    return [
        subscription
        for id_, subscription in zip(ids, listed, strict=True)
        if id_ not in known and subscription.provider_subscription_id not in held
    ]
