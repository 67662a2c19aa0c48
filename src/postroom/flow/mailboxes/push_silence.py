"""Notice that new mail arrives without pushes, and have the subscription replaced.

    announced ──(a sync finds a new message without a push)──▶ suspected ──(two stay unannounced)──▶ silent
        ▲                                                          │                                   │
        └─────────────────(a push comes in time)───────────────────┴───────────────────────────────────┘

Providers delay or drop the pushes to an endpoint that was slow, sometimes for long after it recovered. One
lost push proves nothing. Two messages, received too far apart to share a push, do. Every sync checks what it
found; `subscribe` replaces the subscription.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from postroom.logs import Log
from postroom.model import HealthCause, WorkKind
from postroom.store import mailbox_health, mailboxes, subscriptions, unannounced_messages, work
from postroom.store.connection import Connection
from postroom.store.mailboxes import Mailbox
from postroom.store.notifications import MAX_HINTS, SyncHints
from postroom.store.subscriptions import Subscription
from postroom.store.unannounced_messages import UnannouncedMessage
from postroom.store.work import WorkRequest

log = Log()

# A push that comes this long after a sync found its message was only slower than the sync.
GRACE: Final = timedelta(seconds=30)
# A push about an older message than this was late. Allows for the difference between the clocks.
MAX_TIMELY_AGE: Final = timedelta(seconds=120)
# A push that came so shortly before, during the last sync, may have been for this one.
OVERLAP: Final = timedelta(seconds=60)
# Messages received closer together than this may share one push.
MIN_SPAN: Final = timedelta(seconds=10)
# Between two replacements. Doubled with every replacement of the last day that did not help.
MIN_GAP_SECONDS: Final = 180.0
MAX_GAP_SECONDS: Final = 6 * 3600.0
MESSAGE: Final = "New mail arrived without notifications. The subscription is being replaced."


@dataclass(frozen=True, slots=True)
class PushCheck:
    """Whether new messages arrived without pushes, and the seconds until the next check, if one is needed."""

    has_unannounced: bool = False
    next_in: float | None = None


async def check_pushes(
    connection: Connection,
    mailbox: Mailbox,
    found: Mapping[str, datetime | None],
    hints: SyncHints,
    *,
    names_messages: bool,
) -> PushCheck:
    """Compare the new messages of a sync with the pushes.

    `mailbox` is as it was when the sync began; `hints` are those that the sync followed. Works in the
    caller's transaction.
    """
    suspects = await unannounced_messages.list_recent(connection, mailbox.id)
    if not found and not suspects and mailbox.health_cause is not HealthCause.PUSH_SILENT:
        return PushCheck()
    live = await subscriptions.get_live(connection, mailbox.id)
    if live is None or live.confirmed_at is None:
        return PushCheck()
    now = await subscriptions.read_clock(connection)
    notified_at = await _get_last_notified_at(connection, mailbox, live)
    # Its first push may come before the provider's response. The row is older than the request.
    if notified_at is not None and notified_at > live.created_at:
        await _end_silence(connection, mailbox, live)
    announced = _find_announced(mailbox, now, found, hints, notified_at, names_messages=names_messages)
    is_incomplete = len(announced) < len(found)
    if _is_working(now, found, announced, suspects, hints, notified_at, names_messages=names_messages):
        if suspects:
            await unannounced_messages.delete_all(connection, mailbox.id)
        return PushCheck(is_incomplete)
    # What arrived before the subscription, or before the last sync, needs no push.
    if mailbox.last_synced_at is not None and live.confirmed_at < mailbox.last_synced_at:
        fresh = {key: at for key, at in found.items() if key not in announced}
        await unannounced_messages.add(connection, mailbox.id, fresh)
        suspects = await unannounced_messages.list_recent(connection, mailbox.id) if fresh else suspects
    next_in = await _judge(connection, mailbox, live, now, suspects)
    return PushCheck(is_incomplete or bool(suspects), next_in)


async def _get_last_notified_at(
    connection: Connection, mailbox: Mailbox, live: Subscription
) -> datetime | None:
    current = await mailboxes.get(connection, mailbox.id)
    times = (current.last_notified_at if current else None, live.last_notified_at)
    return max((moment for moment in times if moment is not None), default=None)


async def _end_silence(connection: Connection, mailbox: Mailbox, live: Subscription) -> None:
    """A push came through the current subscription: it works."""
    if mailbox.health_cause is HealthCause.PUSH_SILENT and live.replacement_requested_at is None:
        await mailbox_health.clear_push_problem(connection, mailbox.id)
        log.info("subscription.push_restored", mailbox=mailbox.id)


def _find_announced(
    mailbox: Mailbox,
    now: datetime,
    found: Mapping[str, datetime | None],
    hints: SyncHints,
    notified_at: datetime | None,
    *,
    names_messages: bool,
) -> Collection[str]:
    """The new messages that pushes announced. A push that names none announces all since the last sync."""
    if names_messages:
        is_full = len(hints.message_ids) >= MAX_HINTS  # then it may lack some that were announced
        return found.keys() if is_full else found.keys() & hints.message_ids
    since = min(mailbox.last_synced_at or now, now - OVERLAP)
    return found.keys() if notified_at and notified_at > since else ()


def _is_working(
    now: datetime,
    found: Mapping[str, datetime | None],
    announced: Collection[str],
    suspects: Sequence[UnannouncedMessage],
    hints: SyncHints,
    notified_at: datetime | None,
    *,
    names_messages: bool,
) -> bool:
    """Whether a push came in time: with a new message, or shortly after a sync had found one by itself."""
    received = [found[key] or now for key in announced]
    if any(now - moment < MAX_TIMELY_AGE for moment in received):
        return True
    if names_messages:
        return any(each.key in hints.message_ids and now - each.found_at < GRACE for each in suspects)
    return any(notified_at and each.found_at < notified_at < each.found_at + GRACE for each in suspects)


async def _judge(
    connection: Connection,
    mailbox: Mailbox,
    live: Subscription,
    now: datetime,
    suspects: Sequence[UnannouncedMessage],
) -> float | None:
    received = [each.received_at for each in suspects if each.found_at <= now - GRACE]
    if len(received) > 1 and max(received) - min(received) >= MIN_SPAN:
        await _request_replacement(connection, mailbox, live)
    if len(received) < len(suspects):
        return GRACE.total_seconds() + 1
    return None


async def _request_replacement(connection: Connection, mailbox: Mailbox, live: Subscription) -> None:
    silences = await subscriptions.count_silent(connection, mailbox.id)
    gap = min(MIN_GAP_SECONDS * 2**silences, MAX_GAP_SECONDS)
    if not await subscriptions.request_replacement(connection, live.id, min_age_seconds=gap):
        return
    await mailbox_health.record_problem(connection, mailbox.id, HealthCause.PUSH_SILENT, MESSAGE)
    await work.enqueue(connection, [WorkRequest(mailbox.organization, WorkKind.SUBSCRIBE, str(mailbox.id))])
    log.warning("subscription.silent", mailbox=mailbox.id, attempts=silences + 1)
