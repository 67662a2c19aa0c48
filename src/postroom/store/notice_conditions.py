"""The table `notice_conditions`: what a destination was or will be notified about.

    true ──▶ row ── sent ──▶ announced ── a day ──▶ reminded, every day
              │                  └── no longer true ──▶ resolved ── sent ──▶ deleted
              └── no longer true ──▶ deleted: it ended before it was announced

A condition is read from the tables it is about. Only its key and its times are stored: no address, no URL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from psycopg.rows import class_row

from postroom.notice_types import NoticeKind
from postroom.store.database import Connection
from postroom.store.notices import NoticeDestination

# A webhook may be down for a moment; an audit is retried after an error.
WEBHOOK_FAILING_HOURS: Final = 1
AUDIT_FAILED_ATTEMPTS: Final = 3
REMINDER_HOURS: Final = 24
# What `flow.outbound.webhooks` stores when a person disables a webhook.
DISABLED_BY_HAND: Final = "disabled by hand"


class NoticeStage(StrEnum):
    """Why a condition is announced now."""

    STARTED = "started"
    REMINDER = "reminder"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class NoticeCondition:
    """A condition to announce. `label`: the address of its mailbox or the URL of its webhook.

    `detail` distinguishes the forms of one kind: `differences`, `repairing`, `unfinished`, `failing`,
    `disabled`. `amount` counts documents or messages.
    """

    kind: NoticeKind
    subject: str
    stage: NoticeStage
    since: datetime
    sent_at: datetime | None
    label: str | None
    amount: int
    detail: str | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", NoticeKind(self.kind))
        object.__setattr__(self, "stage", NoticeStage(self.stage))


_ACTIVE: Final = """
    active AS MATERIALIZED (
        SELECT 'review_queue' AS kind, '' AS subject,
            min(state_since) + %(hours)s * interval '1 hour' AS since, count(*) AS amount, NULL AS detail
        FROM documents
        WHERE state = 'needs_review' AND state_since < postroom_now() - %(hours)s * interval '1 hour'
        HAVING count(*) > 0
        UNION ALL
        SELECT 'consent_lost', id::text, health_since, 1, NULL FROM mailboxes
        WHERE health = 'token_refresh_failed' AND disconnected_at IS NULL AND paused_at IS NULL
        UNION ALL
        SELECT 'audit_failed', mailboxes.id::text,
            CASE WHEN found > 0 THEN completed_at ELSE postroom_now() END, coalesce(found, 0),
            CASE WHEN coalesce(found, 0) = 0 THEN 'unfinished'
                WHEN repair_started_at IS NULL THEN 'differences' ELSE 'repairing' END
        FROM mailboxes LEFT JOIN LATERAL (
            SELECT missing + extra + different AS found, completed_at, repair_started_at
            FROM audits WHERE audits.mailbox_id = mailboxes.id ORDER BY id DESC LIMIT 1
        ) AS latest ON true
        WHERE disconnected_at IS NULL AND (found > 0 OR EXISTS (
            SELECT FROM work WHERE work.kind = 'audit' AND work.subject = mailboxes.id::text
                AND work.last_error IS NOT NULL
                AND (work.state IN ('parked', 'waiting_for_operator') OR work.attempts >= %(attempts)s)))
        UNION ALL
        SELECT 'webhook_stopped', id::text, coalesce(failing_since, disabled_at), 1,
            CASE WHEN disabled_at IS NULL THEN 'failing' ELSE 'disabled' END
        FROM webhooks
        WHERE CASE WHEN disabled_at IS NULL
            THEN failing_since < postroom_now() - %(failing)s * interval '1 hour'
            ELSE disabled_because IS DISTINCT FROM %(by_hand)s END
    )
"""


async def refresh(connection: Connection, destination: NoticeDestination) -> None:
    """Store the conditions that hold now, and when announced ones ended."""
    given = _parameters(destination)
    await connection.execute(
        "WITH "  # noqa: S608  # of literals
        + _ACTIVE
        + """
        INSERT INTO notice_conditions (organization_id, destination_id, kind, subject, since)
        SELECT current_organization(), %(destination)s, kind, subject, since FROM active
        WHERE kind = ANY(%(kinds)s)
        ON CONFLICT (organization_id, destination_id, kind, subject) DO UPDATE SET resolved_at = NULL
            WHERE notice_conditions.resolved_at IS NOT NULL
        """,
        given,
    )
    await connection.execute(
        "WITH "  # noqa: S608  # of literals
        + _ACTIVE
        + """
        , ended AS MATERIALIZED (
            SELECT kind, subject, sent_at IS NULL OR kind <> ALL(%(kinds)s) AS is_silent
            FROM notice_conditions WHERE destination_id = %(destination)s AND resolved_at IS NULL
                AND (kind <> ALL(%(kinds)s) OR (kind, subject) NOT IN (SELECT kind, subject FROM active))
        ), deleted AS (
            DELETE FROM notice_conditions AS stored USING ended
            WHERE destination_id = %(destination)s AND is_silent
                AND stored.kind = ended.kind AND stored.subject = ended.subject
        )
        UPDATE notice_conditions AS stored SET resolved_at = postroom_now() FROM ended
        WHERE destination_id = %(destination)s AND NOT is_silent
            AND stored.kind = ended.kind AND stored.subject = ended.subject
        """,
        given,
    )


async def list_due(connection: Connection, destination: NoticeDestination) -> list[NoticeCondition]:
    """Conditions to announce now, the oldest first.

    The end of a condition is not announced if its mailbox or webhook is gone; its row is deleted.
    """
    cursor = connection.cursor(row_factory=class_row(NoticeCondition))
    await cursor.execute(
        "WITH "  # noqa: S608  # of literals
        + _ACTIVE
        + """
        , gone AS (
            DELETE FROM notice_conditions
            WHERE destination_id = %(destination)s AND resolved_at IS NOT NULL AND subject <> ''
                AND subject NOT IN (SELECT id::text FROM mailboxes WHERE disconnected_at IS NULL
                    UNION ALL SELECT id::text FROM webhooks)
            RETURNING kind, subject
        )
        SELECT stored.kind, stored.subject, stored.since, sent_at, coalesce(address, url) AS label,
            CASE WHEN resolved_at IS NOT NULL THEN 'resolved' WHEN sent_at IS NULL THEN 'started'
                ELSE 'reminder' END AS stage,
            coalesce(amount, 0) AS amount, detail
        FROM notice_conditions AS stored
        LEFT JOIN active ON active.kind = stored.kind AND active.subject = stored.subject
        LEFT JOIN mailboxes ON mailboxes.id::text = stored.subject
        LEFT JOIN webhooks ON webhooks.id::text = stored.subject
        WHERE destination_id = %(destination)s
            AND (stored.kind, stored.subject) NOT IN (SELECT kind, subject FROM gone)
            AND (sent_at IS NULL OR resolved_at IS NOT NULL
                OR sent_at <= postroom_now() - %(reminder)s * interval '1 hour')
        ORDER BY stored.since, stored.kind, stored.subject
        """,
        _parameters(destination),
    )
    return await cursor.fetchall()


async def record_sent(
    connection: Connection, destination: UUID, conditions: Sequence[NoticeCondition]
) -> None:
    """Record that these were announced. A condition whose end was announced is deleted."""
    ended = [each for each in conditions if each.stage is NoticeStage.RESOLVED]
    lasting = [each for each in conditions if each.stage is not NoticeStage.RESOLVED]
    await connection.execute(
        """
        DELETE FROM notice_conditions WHERE destination_id = %s AND resolved_at IS NOT NULL
            AND (kind, subject) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
        """,
        [destination, [each.kind for each in ended], [each.subject for each in ended]],
    )
    await connection.execute(
        """
        UPDATE notice_conditions SET sent_at = postroom_now() WHERE destination_id = %s
            AND (kind, subject) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
        """,
        [destination, [each.kind for each in lasting], [each.subject for each in lasting]],
    )


def _parameters(destination: NoticeDestination) -> dict[str, object]:
    return {
        "destination": destination.id,
        "kinds": list(destination.announced_kinds),
        "hours": float(destination.review_hours),
        "attempts": AUDIT_FAILED_ATTEMPTS,
        "failing": WEBHOOK_FAILING_HOURS,
        "reminder": REMINDER_HOURS,
        "by_hand": DISABLED_BY_HAND,
    }
