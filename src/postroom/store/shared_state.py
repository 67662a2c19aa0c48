"""The table that a foreign scheduler shares with us (K6): who processes which message, in its own words.

        claim                        succeed, fail, skip (only while the row names us)
 none, failed, skipped ──▶ processing ──▶ success | failed | skipped
                            ▲      └─ not touched for long: claimed anew

The scheduler's own claim also takes rows that are being processed, and overwrites `worker_id`. Ours does
not; and what we write at the end requires our `worker_id`, so a row taken from us is left to its taker. Their
last statements ask for no owner and may reopen what we ended: that we have processed a message, and that one
of us does so at a time, is known from our own rows (documents, work), never from this table alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from psycopg.types.json import Jsonb

from postroom.store.database import Connection

MAX_ADDRESS_LENGTH: Final = 255  # characters of an address in this table


class SharedClaim(Enum):
    OURS = "ours"  # ours to process
    THEIRS = "theirs"  # somebody else is at it: look again later, it may be left behind
    DONE = "done"  # somebody else has processed it
    ENDED = "ended"  # we have


@dataclass(frozen=True, slots=True)
class SharedStateKey:
    """One message for one application, by the id that the other side uses."""

    app_name: str
    message_id: str


@dataclass(frozen=True, slots=True)
class SharedMessageDetails:
    """What the table tells of a message."""

    mailbox_email: str
    sender_email: str | None
    received_at: datetime | None
    subject: str | None


async def claim(
    connection: Connection,
    key: SharedStateKey,
    mail: SharedMessageDetails,
    worker_id: str,
    *,
    stale_seconds: float,
) -> SharedClaim:
    """Take a message that nobody has, or whose owner has not touched it for so long; or show we are at it."""
    cursor = await connection.execute(
        _CLAIM,
        {
            "app": key.app_name,
            "message": key.message_id,
            "mailbox": mail.mailbox_email,
            "sender": mail.sender_email[:MAX_ADDRESS_LENGTH] if mail.sender_email else None,
            "received": mail.received_at,
            "subject": mail.subject,
            "worker": worker_id,
            "stale": stale_seconds,
        },
    )
    if await cursor.fetchone() is not None:
        return SharedClaim.OURS
    ended_by = await _find_successful_worker(connection, key)
    if ended_by is None:
        return SharedClaim.THEIRS
    return SharedClaim.ENDED if ended_by == worker_id else SharedClaim.DONE


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
    """Every document of the message has ended. False: it is not ours any more, and nothing was written."""
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
    """The other side may try it, and so may we."""
    return await _settle(connection, key, worker_id, status="failed", error=error)


async def skip(connection: Connection, key: SharedStateKey, worker_id: str) -> bool:
    """There was nothing in it for us."""
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
