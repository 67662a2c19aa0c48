"""The tables `cursors` (where each sync left off) and `listed_messages` (what a listing showed).

Cursor values are opaque: only the provider's adapter reads them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from psycopg.rows import class_row

from postroom.model import MailboxId
from postroom.store.database import Connection


class CursorKind(StrEnum):
    LIVE = "live"  # the position in the change feed
    BACKFILL = "backfill"  # the first listing, back to `since`; completed with its last page
    # A full listing, as after an expired cursor; completed with its last page, deleted once the messages that
    # it did not list are settled.
    RESYNC = "resync"
    REFILL = "refill"  # refetches stored messages after the content policy was raised
    FOLDERS = "folders"  # when the folder tree was last read


@dataclass(frozen=True, slots=True)
class Cursor:
    kind: CursorKind
    scope: str
    value: str | None
    since: datetime | None
    listed: int
    expected: int | None
    started_at: datetime
    updated_at: datetime
    completed_at: datetime | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", CursorKind(self.kind))


@dataclass(frozen=True, slots=True)
class CursorStart:
    """A cursor to start or restart."""

    kind: CursorKind
    scope: str
    value: str | None = None
    since: datetime | None = None
    completed: bool = False


@dataclass(frozen=True, slots=True)
class CursorAdvance:
    """A cursor's move past a page."""

    kind: CursorKind
    scope: str
    value: str
    listed: int = 0
    expected: int | None = None
    completed: bool = False


async def list_by_mailbox(connection: Connection, mailbox: MailboxId) -> list[Cursor]:
    cursor = connection.cursor(row_factory=class_row(Cursor))
    await cursor.execute(
        """
        SELECT kind, scope, value, since, listed, expected, started_at, updated_at, completed_at
        FROM cursors WHERE mailbox_id = %s ORDER BY started_at, scope, kind
        """,
        [mailbox],
    )
    return await cursor.fetchall()


async def start(connection: Connection, mailbox: MailboxId, begins: Sequence[CursorStart]) -> None:
    rows = sorted(begins, key=lambda row: (row.kind, row.scope))
    if not rows:
        return
    await _forget_listed(connection, mailbox, [row for row in rows if not row.completed])
    await connection.execute(
        """
        INSERT INTO cursors AS stored
            (organization_id, mailbox_id, kind, scope, value, since, completed_at)
        SELECT current_organization(), %b, kind, scope, value, since,
            CASE WHEN completed THEN postroom_now() END
        FROM unnest(%b::text[], %b::text[], %b::text[], %b::timestamptz[], %b::bool[])
            AS input (kind, scope, value, since, completed)
        ON CONFLICT (organization_id, mailbox_id, kind, scope) DO UPDATE SET
            value = excluded.value, since = coalesce(excluded.since, stored.since), listed = 0,
            expected = NULL, started_at = postroom_now(), updated_at = postroom_now(),
            completed_at = excluded.completed_at
        """,
        [
            mailbox,
            [row.kind.value for row in rows],
            [row.scope for row in rows],
            [row.value for row in rows],
            [row.since for row in rows],
            [row.completed for row in rows],
        ],
    )


async def _forget_listed(connection: Connection, mailbox: MailboxId, begins: Sequence[CursorStart]) -> None:
    """Forget what listings that start again have named, but not what a complete one is still settled by."""
    await connection.execute(
        """
        DELETE FROM listed_messages AS listed
        WHERE mailbox_id = %b AND kind = 'resync' AND (scope = ANY(%b::text[]) OR scope = ANY(%b::text[])
            AND NOT EXISTS (
                SELECT FROM cursors WHERE cursors.mailbox_id = listed.mailbox_id AND cursors.kind = 'resync'
                    AND cursors.scope = listed.scope AND completed_at IS NOT NULL))
        """,
        [
            mailbox,
            [row.scope for row in begins if row.kind is CursorKind.RESYNC],
            [row.scope for row in begins if row.kind is CursorKind.BACKFILL],
        ],
    )


async def is_restarted(connection: Connection, mailbox: MailboxId, cursor: Cursor) -> bool:
    """Whether a cursor was started again since it was read."""
    found = await connection.execute(
        """
        SELECT FROM cursors WHERE mailbox_id = %s AND kind = %s AND scope = %s AND started_at <> %s
        """,
        [mailbox, cursor.kind, cursor.scope, cursor.started_at],
    )
    return found.rowcount == 1


async def advance(connection: Connection, mailbox: MailboxId, moves: Sequence[CursorAdvance]) -> None:
    """Advance cursors, in the transaction that stores the page.

    A live cursor without a value stays so: a full sync was requested while the page was fetched.
    """
    rows = sorted(moves, key=lambda row: (row.kind, row.scope))
    if not rows:
        return
    await connection.execute(
        """
        UPDATE cursors SET value = input.value, listed = cursors.listed + input.listed,
            expected = coalesce(input.expected, cursors.expected), updated_at = postroom_now(),
            completed_at = CASE WHEN completed THEN postroom_now() END
        FROM unnest(%b::text[], %b::text[], %b::text[], %b::int8[], %b::int8[], %b::bool[])
            AS input (kind, scope, value, listed, expected, completed)
        WHERE mailbox_id = %b AND cursors.kind = input.kind AND cursors.scope = input.scope
            AND (cursors.kind <> 'live' OR cursors.value IS NOT NULL)
        """,
        [
            [row.kind.value for row in rows],
            [row.scope for row in rows],
            [row.value for row in rows],
            [row.listed for row in rows],
            [row.expected for row in rows],
            [row.completed for row in rows],
            mailbox,
        ],
    )


async def delete(
    connection: Connection, mailbox: MailboxId, cursors: Sequence[tuple[CursorKind, str]]
) -> None:
    if cursors:
        await connection.execute(
            """
            DELETE FROM cursors USING unnest(%b::text[], %b::text[]) AS input (kind, scope)
            WHERE mailbox_id = %b AND cursors.kind = input.kind AND cursors.scope = input.scope
            """,
            [[kind.value for kind, _ in cursors], [scope for _, scope in cursors], mailbox],
        )
        await delete_listed(
            connection, mailbox, "resync", {scope for kind, scope in cursors if _is_full_listing(kind)}
        )


def _is_full_listing(kind: CursorKind) -> bool:
    """Whether the cursor lists everything at the provider."""
    return kind in {CursorKind.BACKFILL, CursorKind.RESYNC}


ListingKind = Literal["resync", "audit"]


async def record_listed(
    connection: Connection,
    mailbox: MailboxId,
    kind: ListingKind,
    scope: str,
    keys: Collection[str],
    *,
    only_relevant: bool = False,
) -> None:
    """Record messages that the listing or a single lookup showed.

    `only_relevant`: only those that are stored, or that a retry may store.
    """
    if keys:
        await connection.execute(
            """
            INSERT INTO listed_messages (organization_id, mailbox_id, kind, scope, provider_message_id)
            SELECT current_organization(), %(mailbox)b, %(kind)b, %(scope)b, key
            FROM unnest(%(keys)b::text[]) AS key
            WHERE NOT %(only_relevant)b
                OR EXISTS (SELECT FROM messages WHERE mailbox_id = %(mailbox)b AND provider_message_id = key)
                OR key IN (
                    SELECT split_part(subject, E'\\n', 1) FROM failures
                    WHERE mailbox_id = %(mailbox)b AND resolved_at IS NULL)
            ON CONFLICT DO NOTHING
            """,
            {
                "mailbox": mailbox,
                "kind": kind,
                "scope": scope,
                "keys": sorted(keys),
                "only_relevant": only_relevant,
            },
        )


async def delete_listed(
    connection: Connection, mailbox: MailboxId, kind: ListingKind, scopes: Collection[str]
) -> None:
    if not scopes:
        return
    await connection.execute(
        "DELETE FROM listed_messages WHERE mailbox_id = %s AND kind = %s AND scope = ANY(%s)",
        [mailbox, kind, list(scopes)],
    )


async def list_unlisted(
    connection: Connection,
    mailbox: MailboxId,
    kind: ListingKind,
    scope: str,
    *,
    folders: Collection[int] | None,
    limit: int,
    since: datetime | None = None,
    created_before: datetime | None = None,
    written_before: datetime | None = None,
) -> list[str]:
    """Stored messages of these folders (None: all) that the listing did not show.

    They may have arrived or moved meanwhile, so the caller must look up each one. `created_before`,
    `written_before`: only rows that were inserted, or last written, before this time.
    """
    cursor = await connection.execute(
        """
        SELECT provider_message_id FROM messages
        WHERE mailbox_id = %(mailbox)s AND deleted_at IS NULL AND left_at IS NULL
            AND (%(since)s::timestamptz IS NULL OR received_at >= %(since)s OR received_at IS NULL)
            AND (%(folders)s::int8[] IS NULL OR folder_id = ANY(%(folders)s::int8[]))
            AND (%(created_before)s::timestamptz IS NULL OR created_at < %(created_before)s)
            AND (%(written_before)s::timestamptz IS NULL OR updated_at < %(written_before)s)
            AND NOT EXISTS (
                SELECT FROM listed_messages AS listed
                WHERE listed.mailbox_id = messages.mailbox_id AND kind = %(kind)s AND scope = %(scope)s
                    AND listed.provider_message_id = messages.provider_message_id
            )
        ORDER BY received_at DESC, id DESC LIMIT %(limit)s
        """,
        {
            "mailbox": mailbox,
            "kind": kind,
            "scope": scope,
            "folders": None if folders is None else list(folders),
            "limit": limit,
            "since": since,
            "created_before": created_before,
            "written_before": written_before,
        },
    )
    return [row[0] for row in await cursor.fetchall()]
