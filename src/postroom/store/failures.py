"""The table `failures`: messages and attachments that failed while the rest was stored.

A retry only makes them due; the sync fetches them. Parked work is in `work`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from postroom.model import MailboxId
from postroom.store.database import Connection

FailureKind = Literal["message", "attachment"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed message or attachment. `wait`: seconds until the retry; None: only on request."""

    kind: FailureKind
    subject: str
    error: str
    wait: float | None

    @property
    def message(self) -> str:
        return message_key(self.subject)


@dataclass(frozen=True, slots=True)
class DueFailure:
    kind: FailureKind
    subject: str
    attempts: int

    @property
    def message(self) -> str:
        return message_key(self.subject)


def attachment_subject(key: str, part: str) -> str:
    """The subject of a failed attachment."""
    return f"{key}\n{part}"


def message_key(subject: str) -> str:
    """The key of the message that a subject belongs to."""
    return subject.partition("\n")[0]


async def record(connection: Connection, mailbox: MailboxId, failures: Collection[Failure]) -> None:
    """Insert failures, or count another attempt of existing ones."""
    by_key = {(failure.kind, failure.subject): failure for failure in failures}
    rows: Sequence[Failure] = [by_key[key] for key in sorted(by_key)]
    if not rows:
        return
    await connection.execute(
        """
        INSERT INTO failures AS stored (organization_id, mailbox_id, kind, subject, last_error, due_at)
        SELECT current_organization(), %b, kind, subject, error, postroom_now() + wait * interval '1 second'
        FROM unnest(%b::text[], %b::text[], %b::text[], %b::float8[]) AS input (kind, subject, error, wait)
        ON CONFLICT (mailbox_id, kind, subject) DO UPDATE SET
            attempts = CASE WHEN stored.resolved_at IS NULL THEN stored.attempts + 1 ELSE 1 END,
            first_failed_at = CASE WHEN stored.resolved_at IS NULL THEN stored.first_failed_at
                ELSE postroom_now() END,
            last_error = excluded.last_error, last_failed_at = postroom_now(), due_at = excluded.due_at,
            resolved_at = NULL
        """,
        [
            mailbox,
            [row.kind for row in rows],
            [row.subject for row in rows],
            [row.error for row in rows],
            [row.wait for row in rows],
        ],
    )


async def resolve(connection: Connection, mailbox: MailboxId, solved: Collection[DueFailure]) -> None:
    if solved:
        rows = sorted((failure.kind, failure.subject) for failure in solved)
        await connection.execute(
            """
            UPDATE failures SET resolved_at = postroom_now(), due_at = NULL
            FROM unnest(%b::text[], %b::text[]) AS input (kind, subject)
            WHERE mailbox_id = %b AND failures.kind = input.kind AND failures.subject = input.subject
                AND resolved_at IS NULL
            """,
            [[kind for kind, _ in rows], [subject for _, subject in rows], mailbox],
        )


async def resolve_by_messages(connection: Connection, mailbox: MailboxId, messages: Collection[str]) -> None:
    """Resolve all failures of these messages, so that nothing retries them."""
    if messages:
        await connection.execute(
            """
            UPDATE failures SET resolved_at = postroom_now(), due_at = NULL
            WHERE mailbox_id = %b AND resolved_at IS NULL AND split_part(subject, E'\\n', 1) = ANY(%b::text[])
            """,
            [mailbox, list(messages)],
        )


async def list_due(connection: Connection, mailbox: MailboxId, *, limit: int) -> list[DueFailure]:
    cursor = await connection.execute(
        """
        SELECT kind, subject, attempts FROM failures
        WHERE mailbox_id = %s AND resolved_at IS NULL AND due_at <= postroom_now()
        ORDER BY due_at LIMIT %s
        """,
        [mailbox, limit],
    )
    return [DueFailure(*row) for row in await cursor.fetchall()]


async def get_next_due_seconds(connection: Connection, mailbox: MailboxId) -> float | None:
    cursor = await connection.execute(
        """
        SELECT extract(epoch FROM min(due_at) - postroom_now())::float8 FROM failures
        WHERE mailbox_id = %s AND resolved_at IS NULL
        """,
        [mailbox],
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def retry(connection: Connection, failure: int) -> UUID | None:
    """Make a failure due with its attempts reset, and return its mailbox."""
    cursor = await connection.execute(
        """
        UPDATE failures SET due_at = postroom_now(), attempts = 0
        WHERE id = %s AND resolved_at IS NULL RETURNING mailbox_id
        """,
        [failure],
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def retry_all(connection: Connection, mailbox: MailboxId) -> int:
    """Make all open failures due with their attempts reset, and return how many."""
    cursor = await connection.execute(
        """
        UPDATE failures SET due_at = postroom_now(), attempts = 0
        WHERE mailbox_id = %s AND resolved_at IS NULL
        """,
        [mailbox],
    )
    return cursor.rowcount


async def count_open(connection: Connection, mailbox: MailboxId) -> int:
    cursor = await connection.execute(
        "SELECT count(*) FROM failures WHERE mailbox_id = %s AND resolved_at IS NULL", [mailbox]
    )
    row = await cursor.fetchone()
    assert row is not None, "a count has a row"
    return row[0]
