"""The table `failures`: what failed alone, written with the page whose cursor passes over it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from postroom.model import MailboxId
from postroom.store.database import Connection

FailureKind = Literal["message", "attachment"]


@dataclass(frozen=True, slots=True)
class Failure:
    """`wait` is how long until it is tried again; None: it waits for a person."""

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
    """How a failure names an attachment."""
    return f"{key}\n{part}"


def message_key(subject: str) -> str:
    """The message that a failure concerns."""
    return subject.partition("\n")[0]


async def record(connection: Connection, mailbox: MailboxId, failures: Collection[Failure]) -> None:
    """A failure that is known counts one attempt more."""
    by_key = {(each.kind, each.subject): each for each in failures}
    rows: Sequence[Failure] = [by_key[key] for key in sorted(by_key)]
    if not rows:
        return
    await connection.execute(
        """
        INSERT INTO failures AS kept (organization_id, mailbox_id, kind, subject, last_error, due_at)
        SELECT current_organization(), %b, kind, subject, error, postroom_now() + wait * interval '1 second'
        FROM unnest(%b::text[], %b::text[], %b::text[], %b::float8[]) AS given (kind, subject, error, wait)
        ON CONFLICT (mailbox_id, kind, subject) DO UPDATE SET
            attempts = CASE WHEN kept.resolved_at IS NULL THEN kept.attempts + 1 ELSE 1 END,
            first_failed_at = CASE WHEN kept.resolved_at IS NULL THEN kept.first_failed_at
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
        rows = sorted((each.kind, each.subject) for each in solved)
        await connection.execute(
            """
            UPDATE failures SET resolved_at = postroom_now(), due_at = NULL
            FROM unnest(%b::text[], %b::text[]) AS given (kind, subject)
            WHERE mailbox_id = %b AND failures.kind = given.kind AND failures.subject = given.subject
                AND resolved_at IS NULL
            """,
            [[kind for kind, _ in rows], [subject for _, subject in rows], mailbox],
        )


async def resolve_by_messages(connection: Connection, mailbox: MailboxId, messages: Collection[str]) -> None:
    """Nothing of these messages is tried again."""
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


async def retry_all(connection: Connection, mailbox: MailboxId) -> int:
    """A person asks for another round of those that wait for one; how many there are."""
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
