"""Decide when a mailbox is swept next: later than usual while its pushes are proven to arrive.

    unproven ──(a push came through the subscription, and the next sweep found nothing)──▶ proven
        ▲                                                                                     │
        └──(a sweep found a change that no push announced; the provider lost pushes;          │
            no push for a day and a half; the subscription is replaced or silent)─────────────┘

The proof belongs to the subscription, so a new one starts without. The longer it holds, the longer the wait:
as long as pushes have been proven, up to a multiple of the usual interval. So a subscription that dies
silently delays mail by that multiple at most.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from postroom.store import subscriptions
from postroom.store.connection import Connection
from postroom.store.mailboxes import Mailbox
from postroom.store.notifications import NO_HINTS, SyncHints
from postroom.store.subscriptions import Subscription

# A Gmail watch is renewed once a day, which causes a push. Other mailboxes must receive or change something.
MAX_SILENCE: Final = timedelta(hours=36)
# A push that came so shortly before the last sync may have been for the changes of this one.
OVERLAP: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class SweepIntervals:
    """Seconds between sweeps of a mailbox: usually, and at most while its pushes are proven."""

    usual: float
    longest: float


@dataclass(frozen=True, slots=True)
class SyncFindings:
    """What one sync found. `unannounced`: new messages of the last day that no push announced."""

    hints: SyncHints
    has_changes: bool
    is_complete: bool
    has_unannounced: bool


async def plan_next_sweep(
    connection: Connection, mailbox: Mailbox, findings: SyncFindings, intervals: SweepIntervals
) -> float:
    """Update the proof, and return the seconds until the next sweep.

    `mailbox` is as it was when the sync began. Works in the transaction that finishes the sync.
    """
    if intervals.longest <= intervals.usual:
        return intervals.usual
    live = await subscriptions.get_live(connection, mailbox.id)
    if live is None:
        return intervals.usual
    now = await subscriptions.read_clock(connection)
    since = _judge(mailbox, live, findings, now)
    if since != live.proven_since:
        await subscriptions.set_proven_since(connection, live.id, since)
    if since is None or not findings.is_complete:
        return intervals.usual
    seconds = min((now - since).total_seconds(), intervals.longest, live.seconds_left)
    return max(seconds, intervals.usual)


def _judge(mailbox: Mailbox, live: Subscription, findings: SyncFindings, now: datetime) -> datetime | None:
    """Since when pushes are proven, or None."""
    pushed_at, last_synced_at = live.last_notified_at, mailbox.last_synced_at
    if pushed_at is None or pushed_at < max(live.created_at, now - MAX_SILENCE) or last_synced_at is None:
        return None
    lost_pushes = findings.has_unannounced or findings.hints.missed_until is not None
    is_in_doubt = live.replacement_requested_at is not None or _has_push_problem(mailbox)
    if lost_pushes or is_in_doubt:
        return None
    if findings.has_changes and pushed_at < min(last_synced_at, now - OVERLAP):
        return None
    if live.proven_since is not None:
        return live.proven_since
    is_sweep = findings.hints == NO_HINTS and pushed_at < last_synced_at
    return now if is_sweep and findings.is_complete and not findings.has_changes else None


def _has_push_problem(mailbox: Mailbox) -> bool:
    return mailbox.health_cause is not None and mailbox.health_cause.concerns_push
