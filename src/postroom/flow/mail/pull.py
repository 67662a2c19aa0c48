"""Pull notifications where no public URL exists to push them to.

A pulled notification takes the path of a pushed one (`push`): it enqueues a sync. It is acknowledged only
after that is committed. A process that dies in between leaves it in the queue, which delivers it again; the
second one enqueues a sync that finds nothing new.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from postroom import traces
from postroom.errors import OperatorError, PostroomError, TransientError
from postroom.flow.mail.push import PushReceiver, ReceivedPush
from postroom.flow.mail.push_rejections import PushRejections
from postroom.logs import Log
from postroom.model import OrganizationId, ProviderName
from postroom.ports import NotificationQueue, PulledNotification
from postroom.store import alerts
from postroom.store.database import Database

log = Log()

# A queue may return nothing at once.
PAUSE_SECONDS: Final = 1.0
MAX_BACKOFF_SECONDS: Final = 60.0


@dataclass(frozen=True)
class PullContext:
    """`operator`: the organization that sees the alert while notifications cannot be pulled."""

    database: Database
    queue: NotificationQueue
    provider: ProviderName
    operator: OrganizationId


async def keep_pulling(context: PullContext) -> None:
    """Pull and store notifications, forever. Backs off after failures; sweeps find the mail meanwhile."""
    receiver = PushReceiver(context.database, PushRejections(context.database, context.operator))
    failures, is_reported = 0, False
    while True:
        try:
            count = await pull_once(context, receiver)
        except PostroomError as error:
            failures += 1
            seconds = min(PAUSE_SECONDS * 2 ** min(failures, 10), MAX_BACKOFF_SECONDS)
            log.warning("pull.failed", error=error, attempts=failures, seconds=seconds)
            if not isinstance(error, TransientError):
                is_reported = not await _report(context, error)
            await asyncio.sleep(seconds)
        else:
            failures, is_reported = 0, is_reported or await _report(context, None)
            if not count:
                await asyncio.sleep(PAUSE_SECONDS)


async def pull_once(context: PullContext, receiver: PushReceiver) -> int:
    """Pull notifications, store their effect and acknowledge them; how many there were."""
    pulled = await context.queue.pull()
    if pulled:
        with traces.span("receive", {"postroom.provider": context.provider}, kind="CONSUMER"):
            await _take_in(context, receiver, pulled)
    return len(pulled)


async def _take_in(
    context: PullContext, receiver: PushReceiver, pulled: Sequence[PulledNotification]
) -> None:
    notifications = [each.notification for each in pulled if each.notification is not None]
    push = ReceivedPush(context.provider, None, "pull", notifications, traces.current_traceparent())
    await receiver.accept(push)
    # An unreadable notification is acknowledged too: it would not become readable.
    await context.queue.acknowledge([each.receipt for each in pulled])


async def _report(context: PullContext, error: PostroomError | None) -> bool:
    """Raise the alert about this queue, or clear it. False if the database is unavailable."""
    try:
        async with context.database.transaction(context.operator) as connection:
            await alerts.raise_or_clear(
                connection, context.operator, f"{context.provider}:pull", str(error) if error else None
            )
    except (OperatorError, TransientError) as failure:
        log.warning("pull.not_reported", error=failure)
        return False
    return True
