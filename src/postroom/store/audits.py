"""The table `audits`: results of audits. Also reads the stored message fields that one compares.

The comparison itself is in `flow.mail.audit`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from postroom.model import MailboxId
from postroom.store.database import Connection

MAX_IDS = 100


@dataclass(frozen=True, slots=True)
class Audit:
    started_at: datetime
    completed_at: datetime
    listed: int
    missing: int
    extra: int
    different: int
    missing_ids: list[str]
    extra_ids: list[str]
    different_ids: list[str]
    repair_started_at: datetime | None

    @property
    def is_clean(self) -> bool:
        return self.missing == self.extra == self.different == 0


@dataclass(frozen=True, slots=True)
class AuditProgress:
    """How many messages an audit has listed so far; one that is not running yet waits for a worker."""

    is_running: bool
    listed: int


@dataclass(frozen=True, slots=True)
class AuditedMessage:
    """The stored fields of a message that an audit compares."""

    thread: str
    subject: str | None
    from_address: str | None
    internet_message_id: str | None
    raw_sha256: bytes | None
    parts: set[str]  # positions of its attachments
    lacks_content: bool
    lacks_bytes: bool  # an attachment's bytes are not stored


async def find_messages(
    connection: Connection, mailbox: MailboxId, keys: Sequence[str]
) -> dict[str, AuditedMessage]:
    cursor = await connection.execute(
        """
        SELECT provider_message_id, provider_thread_id, messages.subject, from_address, internet_message_id,
            raw_sha256, coalesce(parts, '{}'), message_contents.message_id IS NULL, coalesce(lacking, false)
        FROM messages
        JOIN threads ON threads.organization_id = messages.organization_id AND threads.id = thread_id
        LEFT JOIN message_contents ON message_contents.organization_id = messages.organization_id
            AND message_contents.message_id = messages.id
        LEFT JOIN LATERAL (
            SELECT array_agg(part) AS parts, bool_or(sha256 IS NULL AND kind <> 'reference') AS lacking
            FROM attachments WHERE attachments.message_id = messages.id
        ) AS attached ON true
        WHERE messages.mailbox_id = %s AND provider_message_id = ANY(%s)
        """,
        [mailbox, list(keys)],
    )
    return {
        key: AuditedMessage(*fields, parts=set(parts), lacks_content=bare, lacks_bytes=lacking)
        for key, *fields, parts, bare, lacking in await cursor.fetchall()
    }


async def add(
    connection: Connection,
    mailbox: MailboxId,
    *,
    started_at: datetime,
    listed: int,
    missing: Sequence[str],
    extra: Sequence[str],
    different: Sequence[str],
) -> None:
    await connection.execute(
        """
        INSERT INTO audits (organization_id, mailbox_id, started_at, listed, missing, extra, different,
            missing_ids, extra_ids, different_ids)
        VALUES (current_organization(), %s, %s, %s, %s, %s, %s, %s, %s, %s)
        """,
        [
            mailbox,
            started_at,
            listed,
            len(missing),
            len(extra),
            len(different),
            list(missing[:MAX_IDS]),
            list(extra[:MAX_IDS]),
            list(different[:MAX_IDS]),
        ],
    )


async def list_written_since(
    connection: Connection, mailbox: MailboxId, keys: Collection[str], since: datetime
) -> dict[str, bool]:
    """Those of these messages that were written since, and whether they are mirrored."""
    cursor = await connection.execute(
        """
        SELECT provider_message_id, deleted_at IS NULL AND left_at IS NULL FROM messages
        WHERE mailbox_id = %s AND provider_message_id = ANY(%s) AND updated_at >= %s
        """,
        [mailbox, list(keys), since],
    )
    return dict(await cursor.fetchall())


async def record_repair(connection: Connection, mailbox: MailboxId, *, started_at: datetime) -> None:
    """Record that a repair of this audit's findings has started."""
    await connection.execute(
        "UPDATE audits SET repair_started_at = postroom_now() WHERE mailbox_id = %s AND started_at = %s",
        [mailbox, started_at],
    )


async def list_absent_failures(
    connection: Connection, mailbox: MailboxId, *, listed_before: datetime
) -> list[str]:
    """Messages of open failures that were listed before this audit, but not by it, and are not stored."""
    cursor = await connection.execute(
        """
        SELECT DISTINCT message FROM failures CROSS JOIN split_part(subject, E'\\n', 1) AS message
        WHERE mailbox_id = %(mailbox)s AND resolved_at IS NULL AND listed_at < %(before)s
            AND NOT EXISTS (
                SELECT FROM listed_messages AS listed WHERE listed.mailbox_id = %(mailbox)s
                    AND listed.kind = 'audit' AND provider_message_id = message)
            AND NOT EXISTS (
                SELECT FROM messages WHERE messages.mailbox_id = %(mailbox)s
                    AND provider_message_id = message AND deleted_at IS NULL AND left_at IS NULL)
        """,
        {"mailbox": mailbox, "before": listed_before},
    )
    return [row[0] for row in await cursor.fetchall()]


async def get_latest(connection: Connection, mailbox: MailboxId) -> Audit | None:
    cursor = connection.cursor(row_factory=class_row(Audit))
    await cursor.execute(
        """
        SELECT started_at, completed_at, listed, missing, extra, different, missing_ids, extra_ids,
            different_ids, repair_started_at
        FROM audits WHERE mailbox_id = %s ORDER BY id DESC LIMIT 1
        """,
        [mailbox],
    )
    return await cursor.fetchone()


async def get_progress(connection: Connection, mailbox: MailboxId, kind: str) -> AuditProgress | None:
    """The progress of an audit that runs, or starts as soon as a worker is free."""
    cursor = connection.cursor(row_factory=class_row(AuditProgress))
    await cursor.execute(
        """
        SELECT state = 'leased' AS is_running, CASE WHEN state = 'leased' THEN (
            SELECT count(*) FROM listed_messages
            WHERE mailbox_id = %(mailbox)s AND kind = 'audit' AND scope = '') ELSE 0 END AS listed
        FROM work WHERE kind = %(kind)s AND subject = %(subject)s
            AND (state = 'leased' OR (state = 'waiting' AND due_at <= postroom_now()))
        """,
        {"mailbox": mailbox, "kind": kind, "subject": str(mailbox)},
    )
    return await cursor.fetchone()
