"""The table `folders`: folders and labels as the provider has them. A folder that is gone keeps its row."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from postroom.model import FolderRole, MailboxId, RemoteFolder
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class Folder:
    id: int
    key: str
    name: str
    role: FolderRole | None
    scope: str | None
    deleted: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", FolderRole(self.role) if self.role else None)


_READ = """
    SELECT id, provider_folder_id AS key, name, role, scope, deleted_at IS NOT NULL AS deleted
    FROM folders WHERE mailbox_id = %s
"""


async def list_all(connection: Connection, mailbox: MailboxId) -> list[Folder]:
    """Those that are gone, too: messages may still refer to them."""
    cursor = connection.cursor(row_factory=class_row(Folder))
    await cursor.execute(_READ + " ORDER BY id", [mailbox])
    return await cursor.fetchall()


async def reconcile(
    connection: Connection, mailbox: MailboxId, remote: Sequence[RemoteFolder]
) -> list[Folder]:
    """Make the table say what the provider says now. Rows that say so already are not written."""
    by_key = {folder.key: folder for folder in remote}
    rows = [by_key[key] for key in sorted(by_key)]
    await connection.execute(
        """
        WITH given AS (
            SELECT * FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[])
                AS given (key, parent, name, role, scope)
        ), gone AS (
            UPDATE folders SET deleted_at = postroom_now()
            WHERE mailbox_id = %b AND deleted_at IS NULL
                AND NOT EXISTS (SELECT FROM given WHERE key = provider_folder_id)
        )
        INSERT INTO folders AS kept
            (organization_id, mailbox_id, provider_folder_id, parent_provider_id, name, role, scope)
        SELECT current_organization(), %b, key, parent, name, role, scope FROM given ORDER BY key
        ON CONFLICT (mailbox_id, provider_folder_id) DO UPDATE SET
            parent_provider_id = excluded.parent_provider_id, name = excluded.name, role = excluded.role,
            scope = excluded.scope, deleted_at = NULL
        WHERE (kept.parent_provider_id, kept.name, kept.role, kept.scope, kept.deleted_at) IS DISTINCT FROM
            (excluded.parent_provider_id, excluded.name, excluded.role, excluded.scope, NULL)
        """,
        [
            [row.key for row in rows],
            [row.parent for row in rows],
            [row.name for row in rows],
            [row.role.value if row.role else None for row in rows],
            [row.scope for row in rows],
            mailbox,
            mailbox,
        ],
    )
    return await list_all(connection, mailbox)
