"""The health of mailboxes in the table `mailboxes`: record a problem, clear it when work succeeds.

A problem of reading the mailbox hides a problem of its pushes, which is derived again once the mailbox can be
read. Only a reconnect ends `token_refresh_failed`. The health of the system is in `health`.
"""

from dataclasses import dataclass
from datetime import datetime

from postroom.model import HealthCause, MailboxHealth, MailboxId
from postroom.store import feed
from postroom.store.database import Connection

_PUSH_CAUSES = [cause.value for cause in HealthCause if cause.concerns_push]
_LOST_SUBSCRIPTION = "The provider sends no notifications. The subscription is being restored."


@dataclass(frozen=True, slots=True)
class CauseCount:
    """How many connected mailboxes have a problem with this cause, and since when the first one."""

    cause: HealthCause
    mailboxes: int
    since: datetime


async def record_problem(
    connection: Connection,
    mailbox: MailboxId,
    cause: HealthCause,
    error: str,
    *,
    connected_at: datetime | None = None,
) -> bool:
    """Set the health that the cause implies, and return whether anything changed.

    With `connected_at`, nothing changes if the mailbox was reconnected since: the finding is outdated.
    """
    cursor = await connection.execute(
        """
        UPDATE mailboxes SET health = %(health)s, health_cause = %(cause)s, last_error = %(error)s,
            health_since = CASE WHEN health = %(health)s AND health_cause = %(cause)s THEN health_since
                ELSE coalesce(CASE WHEN NOT %(push)s THEN failing_since END, postroom_now()) END
        WHERE id = %(mailbox)s
            AND (health, health_cause, last_error) IS DISTINCT FROM (%(health)s, %(cause)s, %(error)s)
            AND (health <> 'token_refresh_failed' OR %(cause)s = 'consent_lost')
            AND (NOT %(push)s OR health = 'active' OR health_cause = ANY(%(push_causes)s))
            AND connected_at = coalesce(%(connected_at)s, connected_at)
        """,
        {
            "health": cause.health,
            "cause": cause,
            "error": error,
            "push": cause.concerns_push,
            "push_causes": _PUSH_CAUSES,
            "mailbox": mailbox,
            "connected_at": connected_at,
        },
    )
    if cursor.rowcount != 1:
        return False
    await append_health_event(connection, mailbox, cause)
    return True


async def record_failed_attempt(connection: Connection, mailbox: MailboxId, error: str | None) -> None:
    """Remember since when attempts to read the mailbox fail. An error is shown; the health stays as it is."""
    await connection.execute(
        """
        UPDATE mailboxes SET failing_since = coalesce(failing_since, postroom_now()),
            last_error = CASE WHEN health = 'active' THEN coalesce(%s, last_error) ELSE last_error END
        WHERE id = %s
        """,
        [error, mailbox],
    )


async def record_sync(connection: Connection, mailbox: MailboxId, *, error: str | None = None) -> None:
    """Record a completed sync, which ends a problem of reading. `error` is what remains to report."""
    cursor = await connection.execute(
        """
        UPDATE mailboxes SET last_synced_at = postroom_now(), failing_since = NULL,
            last_error = CASE WHEN health = 'active' THEN %s::text ELSE last_error END
        WHERE id = %s RETURNING health, health_cause
        """,
        [error, mailbox],
    )
    row = await cursor.fetchone()
    cause = HealthCause.resolve(MailboxHealth(row[0]), row[1]) if row else None
    if cause is None or cause.concerns_push or cause is HealthCause.CONSENT_LOST:
        return
    await _clear(connection, mailbox, error=error)
    if (push_error := await _find_push_problem(connection, mailbox)) is not None:
        await record_problem(connection, mailbox, HealthCause.NO_SUBSCRIPTION, push_error)


async def clear_push_problem(
    connection: Connection, mailbox: MailboxId, *, except_cause: HealthCause | None = None
) -> None:
    """End a problem of pushes, unless it has this cause. A problem of reading stays."""
    cursor = await connection.execute(
        "SELECT health, health_cause FROM mailboxes WHERE id = %s FOR UPDATE", [mailbox]
    )
    row = await cursor.fetchone()
    cause = HealthCause.resolve(MailboxHealth(row[0]), row[1]) if row else None
    if cause is not None and cause.concerns_push and cause is not except_cause:
        await _clear(connection, mailbox, error=None)


async def _clear(connection: Connection, mailbox: MailboxId, *, error: str | None) -> None:
    await connection.execute(
        """
        UPDATE mailboxes SET health = 'active', health_cause = NULL, last_error = %s,
            health_since = postroom_now()
        WHERE id = %s
        """,
        [error, mailbox],
    )
    await append_health_event(connection, mailbox, None)


async def _find_push_problem(connection: Connection, mailbox: MailboxId) -> str | None:
    """Why no push can arrive: the subscription's work failed, and no subscription is live."""
    cursor = await connection.execute(
        """
        SELECT coalesce(last_error, %(lost)s) FROM work
        WHERE kind = 'subscribe' AND subject = %(mailbox)s::text AND (last_error IS NOT NULL OR EXISTS (
                SELECT FROM subscriptions WHERE mailbox_id = %(mailbox)s AND confirmed_at IS NOT NULL))
            AND NOT EXISTS (
                SELECT FROM subscriptions WHERE mailbox_id = %(mailbox)s AND status = 'active'
                    AND confirmed_at IS NOT NULL AND replaced_at IS NULL AND expires_at > postroom_now())
        """,
        {"mailbox": mailbox, "lost": _LOST_SUBSCRIPTION},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def append_health_event(connection: Connection, mailbox: MailboxId, cause: HealthCause | None) -> None:
    """Announce the health of a mailbox in the feed: active, or the cause of its problem."""
    health = cause.health if cause else MailboxHealth.ACTIVE
    payload = {"health": health.value, "cause": cause.value if cause else None}
    await feed.append_event(connection, "mailbox.health_changed", "mailbox", str(mailbox), payload)


async def count_by_cause(connection: Connection) -> list[CauseCount]:
    """Count the connected mailboxes that are not healthy, by cause."""
    cursor = await connection.execute(
        """
        SELECT health, health_cause, count(*), min(health_since) FROM mailboxes
        WHERE health <> 'active' AND disconnected_at IS NULL GROUP BY 1, 2 ORDER BY 1, 2
        """
    )
    return [
        CauseCount(cause, count, since)
        for health, stored, count, since in await cursor.fetchall()
        if (cause := HealthCause.resolve(MailboxHealth(health), stored)) is not None
    ]
