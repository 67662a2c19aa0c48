"""The table `audits`: how complete and true the mirror of a mailbox was found to be, and when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from postroom.model import MailboxId
from postroom.store.database import Connection

MOST_IDS = 100


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

    @property
    def is_clean(self) -> bool:
        return self.missing == self.extra == self.different == 0


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
            list(missing[:MOST_IDS]),
            list(extra[:MOST_IDS]),
            list(different[:MOST_IDS]),
        ],
    )


async def latest(connection: Connection, mailbox: MailboxId) -> Audit | None:
    cursor = connection.cursor(row_factory=class_row(Audit))
    await cursor.execute(
        """
        SELECT started_at, completed_at, listed, missing, extra, different, missing_ids, extra_ids,
            different_ids
        FROM audits WHERE mailbox_id = %s ORDER BY id DESC LIMIT 1
        """,
        [mailbox],
    )
    return await cursor.fetchone()
