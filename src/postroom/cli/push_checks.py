"""Checks of `subscriptions check`: whether a push reaches this Postroom, from the public URL to the database.

A provider that proves its pushes with a secret of ours gets a test push from here. One that signs them itself
(Gmail) is asked for a push: a new watch causes one. What `doctor` can check without a push is there.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from postroom.errors import PostroomError
from postroom.model import Secret, SubscriptionId

if TYPE_CHECKING:
    from datetime import datetime

    from postroom.engine import Engine
    from postroom.store.mailboxes import Mailbox
    from postroom.store.subscriptions import Subscription

WAIT_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class PushCheckResult:
    ok: bool
    words: str


async def check_push(engine: "Engine", mailbox: "Mailbox", live: "Subscription") -> PushCheckResult:
    """Check the whole path of a push about this mailbox."""
    if live.provider_subscription_id is None:
        return await _check_with_new_watch(engine, mailbox, live)
    return await _check_with_test_push(engine, mailbox)


async def _check_with_test_push(engine: "Engine", mailbox: "Mailbox") -> PushCheckResult:
    """Send a notification with the secret of a temporary subscription, as the provider would."""
    from postroom.store import subscriptions

    id_, secret = SubscriptionId(uuid4()), Secret(token_urlsafe(48))
    url = f"{engine.subscribe.prefix(mailbox.provider)}{id_}"
    digest = sha256(secret.reveal().encode()).digest()
    async with engine.database.transaction(mailbox.organization) as connection:
        await subscriptions.add_unconfirmed(
            connection, mailbox.id, id_, notification_url=url, secret_sha256=digest
        )
    try:
        fault = await engine.url_checker.find_push_fault(url, secret)
        async with engine.database.transaction(mailbox.organization) as connection:
            rows = await subscriptions.list_by_mailbox(connection, mailbox.id)
    finally:
        async with engine.database.transaction(mailbox.organization) as connection:
            await subscriptions.discard_unconfirmed(connection, id_)
    if fault is None and not any(row.id == id_ and row.last_notified_at for row in rows):
        fault = "it uses another database"
    if fault is not None:
        return PushCheckResult(ok=False, words=f"a test push to {engine.settings.public_url} failed: {fault}")
    return PushCheckResult(
        ok=True,
        words="a test push was verified; not checked: whether the provider can reach the public URL; it could"
        " when the subscription was created",
    )


async def _check_with_new_watch(
    engine: "Engine", mailbox: "Mailbox", live: "Subscription"
) -> PushCheckResult:
    """Renew the watch, which makes the provider push at once, and wait for that push."""
    from postroom.store import subscriptions

    async with engine.database.transaction(mailbox.organization) as connection:
        began = await subscriptions.read_clock(connection)
    try:
        expires_at = live.remote_subscription.expires_at
        await engine.remote(mailbox).renew(live.remote_subscription, expires_at=expires_at)
    except PostroomError as error:
        return PushCheckResult(ok=False, words=str(error))
    async with _pulling(engine):
        return await _wait_for_notification(engine, mailbox, began)


@asynccontextmanager
async def _pulling(engine: "Engine") -> AsyncGenerator[None]:
    """Pull during the block, if notifications are pulled: a worker may not be running."""
    from postroom.flow.mail import pull

    task = asyncio.create_task(pull.keep_pulling(engine.pull)) if engine.pull else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _wait_for_notification(engine: "Engine", mailbox: "Mailbox", began: "datetime") -> PushCheckResult:
    from postroom.store import mailboxes

    waited = 0.0
    while waited < WAIT_SECONDS:
        async with engine.database.transaction(mailbox.organization) as connection:
            found = await mailboxes.get(connection, mailbox.id)
        if found is not None and found.last_notified_at is not None and found.last_notified_at >= began:
            words = "was pulled" if engine.pull else "was pushed and verified"
            return PushCheckResult(ok=True, words=f"a notification from the provider {words}")
        await asyncio.sleep(POLL_SECONDS)
        waited += POLL_SECONDS
    if engine.pull:
        return PushCheckResult(
            ok=False,
            words=f"no notification was pulled within {WAIT_SECONDS:.0f} seconds of a new watch. Check that"
            f" {engine.settings.pubsub_subscription} belongs to {engine.settings.pubsub_topic}, has no push"
            " endpoint, and that the service account may pull from it",
        )
    return PushCheckResult(
        ok=False,
        words=f"no push arrived within {WAIT_SECONDS:.0f} seconds of a new watch. Check that the Pub/Sub"
        f" subscription pushes to {engine.settings.public_url}/webhooks/{mailbox.provider} with the token or"
        " audience that is set here, and look for rejected pushes in the ledger",
    )
