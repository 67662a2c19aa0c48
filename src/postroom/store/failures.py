"""The table `failures`: messages and attachments that failed while the rest was stored.

A retry only makes them due; the sync fetches them. Parked work is in `work`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from postroom.model import MailboxId
from postroom.store.database import Connection

FailureKind = Literal["message", "attachment"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed message or attachment.

    `wait`: seconds until the retry; None: only on request. `scope`: the scope whose feed or listing names
    the message; None keeps the recorded one.
    """

    kind: FailureKind
    subject: str
    error: str
    wait: float | None
    scope: str | None = None

    @property
    def message(self) -> str:
        return message_key(self.subject)


@dataclass(frozen=True, slots=True)
class DueFailure:
    """A failure to retry. `is_listed`: a scope names the message, so a 404 does not mean that it is gone."""

    kind: FailureKind
    subject: str
    attempts: int
    is_listed: bool

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
        INSERT INTO failures AS stored
            (organization_id, mailbox_id, kind, subject, last_error, due_at, scope, listed_at)
        SELECT current_organization(), %b, kind, subject, error, postroom_now() + wait * interval '1 second',
            scope, CASE WHEN scope IS NOT NULL THEN postroom_now() END
        FROM unnest(%b::text[], %b::text[], %b::text[], %b::float8[], %b::text[])
            AS input (kind, subject, error, wait, scope)
        ON CONFLICT (mailbox_id, kind, subject) DO UPDATE SET
            scope = CASE WHEN stored.resolved_at IS NULL AND excluded.scope IS NULL THEN stored.scope
                ELSE excluded.scope END,
            listed_at = CASE WHEN stored.resolved_at IS NULL AND excluded.scope IS NULL THEN stored.listed_at
                ELSE excluded.listed_at END,
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
            [row.scope for row in rows],
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


async def resolve_by_messages(
    connection: Connection,
    mailbox: MailboxId,
    messages: Collection[str],
    *,
    still_failing: Collection[str] = (),
) -> None:
    """Resolve the failures of these messages, except for these subjects, so that nothing retries them."""
    if messages:
        await connection.execute(
            """
            UPDATE failures SET resolved_at = postroom_now(), due_at = NULL
            WHERE mailbox_id = %b AND resolved_at IS NULL AND split_part(subject, E'\\n', 1) = ANY(%b::text[])
                AND subject <> ALL(%b::text[])
            """,
            [mailbox, list(messages), list(still_failing)],
        )


async def record_listed(connection: Connection, mailbox: MailboxId, scopes: Mapping[str, str]) -> None:
    """Record, for open failures, which scope names these messages now."""
    if scopes:
        await connection.execute(
            """
            UPDATE failures SET scope = input.scope, listed_at = postroom_now()
            FROM unnest(%b::text[], %b::text[]) AS input (message, scope)
            WHERE mailbox_id = %b AND resolved_at IS NULL AND split_part(subject, E'\\n', 1) = message
            """,
            [list(scopes), list(scopes.values()), mailbox],
        )


async def record_unlisted(connection: Connection, mailbox: MailboxId, messages: Collection[str]) -> None:
    """Record, for open failures, that a complete listing did not contain these messages."""
    if messages:
        await connection.execute(
            """
            UPDATE failures SET scope = NULL
            WHERE mailbox_id = %b AND resolved_at IS NULL AND split_part(subject, E'\\n', 1) = ANY(%b::text[])
            """,
            [mailbox, list(messages)],
        )


async def settle_left(connection: Connection, mailbox: MailboxId, scopes: Mapping[str, str]) -> None:
    """Settle failures of messages that left these scopes, unless another scope names them.

    One that is not stored is resolved. One that is stored is looked up by the caller.
    """
    if scopes:
        await connection.execute(
            """
            UPDATE failures SET scope = NULL, due_at = CASE WHEN stored THEN due_at END,
                resolved_at = CASE WHEN NOT stored THEN postroom_now() END
            FROM unnest(%b::text[], %b::text[]) AS input (message, scope)
            CROSS JOIN LATERAL (
                SELECT EXISTS (
                    SELECT FROM messages
                    WHERE mailbox_id = %b AND provider_message_id = message
                        AND deleted_at IS NULL AND left_at IS NULL)
            ) AS found (stored)
            WHERE mailbox_id = %b AND resolved_at IS NULL AND split_part(subject, E'\\n', 1) = message
                AND (failures.scope IS NULL OR failures.scope = input.scope)
            """,
            [list(scopes), list(scopes.values()), mailbox, mailbox],
        )


async def settle_unlisted(
    connection: Connection, mailbox: MailboxId, scope: str, *, listed_before: datetime | None = None
) -> None:
    """Resolve failures of unknown messages that a complete listing of their scope did not contain.

    `listed_before`: when that listing started; None: the scope itself is gone.
    """
    await connection.execute(
        """
        UPDATE failures SET resolved_at = postroom_now(), due_at = NULL
        WHERE mailbox_id = %(mailbox)s AND resolved_at IS NULL AND scope = %(scope)s
            AND (%(before)s::timestamptz IS NULL OR listed_at < %(before)s)
            AND NOT EXISTS (
                SELECT FROM messages WHERE messages.mailbox_id = failures.mailbox_id
                    AND provider_message_id = split_part(subject, E'\\n', 1) AND deleted_at IS NULL
                    AND left_at IS NULL)
        """,
        {"mailbox": mailbox, "scope": scope, "before": listed_before},
    )


async def postpone(connection: Connection, mailbox: MailboxId, message: str, wait: float | None) -> None:
    """Postpone all open failures of a message by this many seconds; None: until a person retries them."""
    await connection.execute(
        """
        UPDATE failures SET due_at = postroom_now() + %b::float8 * interval '1 second'
        WHERE mailbox_id = %b AND resolved_at IS NULL AND split_part(subject, E'\\n', 1) = %b
        """,
        [wait, mailbox, message],
    )


async def list_due(connection: Connection, mailbox: MailboxId, *, limit: int) -> list[DueFailure]:
    cursor = await connection.execute(
        """
        SELECT kind, subject, attempts, scope IS NOT NULL FROM failures
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
