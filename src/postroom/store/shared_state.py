"""The table that another scheduler (Airflow) shares with us: which worker has which message.

        claim                        succeed, fail, skip (only while the row names our worker)
 none, failed, skipped ──▶ processing ──▶ success | failed | skipped
                            ▲      └─ stale: claimed again

The scheduler's claim also takes rows in `processing` and overwrites `worker_id`. Ours does not, and our final
statements require our `worker_id`, so a row taken from us stays with its new owner. The scheduler's final
statements check no owner and may reopen rows that we finished. So only our own rows (documents, work) prove
that we processed a message and that one worker did so at a time, never this table alone. Our own rows about
such messages are in `shared_messages`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from psycopg.types.json import Jsonb

from postroom.store.database import Connection

MAX_ADDRESS_LENGTH: Final = 255  # of the address columns


class SharedClaim(Enum):
    CLAIMED = "claimed"  # ours to process
    HELD_BY_OTHER = "held_by_other"  # another worker processes it; check again later, it may become stale
    DONE_BY_OTHER = "done_by_other"
    DONE_BY_US = "done_by_us"


@dataclass(frozen=True, slots=True)
class SharedStateKey:
    """One message for one application, by the id that the other scheduler uses."""

    app_name: str
    message_id: str


@dataclass(frozen=True, slots=True)
class SharedMessageDetails:
    """The columns that describe a message."""

    mailbox_email: str
    sender_email: str | None
    received_at: datetime | None
    subject: str | None


async def claim(
    connection: Connection,
    key: SharedStateKey,
    details: SharedMessageDetails,
    worker_id: str,
    *,
    stale_seconds: float,
) -> SharedClaim:
    """Claim a free or stale message, or renew our own claim on it."""
    cursor = await connection.execute(
        _CLAIM,
        {
            "app": key.app_name,
            "message": key.message_id,
            "mailbox": details.mailbox_email,
            "sender": details.sender_email[:MAX_ADDRESS_LENGTH] if details.sender_email else None,
            "received": details.received_at,
            "subject": details.subject,
            "worker": worker_id,
            "stale": stale_seconds,
        },
    )
    if await cursor.fetchone() is not None:
        return SharedClaim.CLAIMED
    ended_by = await _find_successful_worker(connection, key)
    if ended_by is None:
        return SharedClaim.HELD_BY_OTHER
    return SharedClaim.DONE_BY_US if ended_by == worker_id else SharedClaim.DONE_BY_OTHER


_CLAIM = """
    INSERT INTO bo_airflow.email_ingestion_state AS state (app_name, message_id, mailbox_email, sender_email,
        received_at, subject, status, worker_id, created_at, updated_at)
    VALUES (%(app)s, %(message)s, %(mailbox)s, %(sender)s, %(received)s, %(subject)s, 'processing',
        %(worker)s, postroom_now(), postroom_now())
    ON CONFLICT (app_name, message_id) DO UPDATE SET status = 'processing', worker_id = excluded.worker_id,
        error_message = NULL, updated_at = excluded.updated_at
    WHERE state.status IN ('failed', 'skipped')
        OR (state.status = 'processing' AND (state.worker_id = excluded.worker_id
            OR state.updated_at < excluded.updated_at - %(stale)s * interval '1 second'))
    RETURNING state.id
"""


async def _find_successful_worker(connection: Connection, key: SharedStateKey) -> str | None:
    cursor = await connection.execute(
        """
        SELECT coalesce(worker_id, '') FROM bo_airflow.email_ingestion_state
        WHERE app_name = %s AND message_id = %s AND status = 'success'
        """,
        [key.app_name, key.message_id],
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def succeed(
    connection: Connection,
    key: SharedStateKey,
    worker_id: str,
    *,
    attachments: int,
    records: int,
    archive_paths: Sequence[str],
) -> bool:
    """Mark a message whose documents are all done. False if it is no longer ours; then nothing changes."""
    cursor = await connection.execute(
        """
        UPDATE bo_airflow.email_ingestion_state SET status = 'success', error_message = NULL,
            attachments_processed = %s, trades_extracted = %s, archive_gcs_paths = %s,
            updated_at = postroom_now()
        WHERE app_name = %s AND message_id = %s AND worker_id = %s AND status = 'processing'
        """,
        [attachments, records, Jsonb(list(archive_paths)), key.app_name, key.message_id, worker_id],
    )
    return cursor.rowcount == 1


async def fail(connection: Connection, key: SharedStateKey, worker_id: str, error: str) -> bool:
    """Mark a message as failed. Both sides may retry it."""
    return await _settle(connection, key, worker_id, status="failed", error=error)


async def skip(connection: Connection, key: SharedStateKey, worker_id: str) -> bool:
    """Mark a message without documents for this application."""
    return await _settle(connection, key, worker_id, status="skipped")


async def _settle(
    connection: Connection, key: SharedStateKey, worker_id: str, *, status: str, error: str | None = None
) -> bool:
    cursor = await connection.execute(
        """
        UPDATE bo_airflow.email_ingestion_state
        SET status = %s, error_message = %s, updated_at = postroom_now()
        WHERE app_name = %s AND message_id = %s AND worker_id = %s AND status = 'processing'
        """,
        [status, error, key.app_name, key.message_id, worker_id],
    )
    return cursor.rowcount == 1
