"""The table `folders`: folders and labels at the provider. A deleted folder keeps its row."""

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
    parent: str | None
    role: FolderRole | None
    scope: str | None
    deleted: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", FolderRole(self.role) if self.role else None)


_READ = """
    SELECT id, provider_folder_id AS key, name, parent_provider_id AS parent, role, scope,
        deleted_at IS NOT NULL AS deleted
    FROM folders WHERE mailbox_id = %s
"""


async def list_all(connection: Connection, mailbox: MailboxId) -> list[Folder]:
    """All folders, including deleted ones, which messages may still refer to."""
    cursor = connection.cursor(row_factory=class_row(Folder))
    await cursor.execute(_READ + " ORDER BY id", [mailbox])
    return await cursor.fetchall()


async def reconcile(
    connection: Connection, mailbox: MailboxId, remote: Sequence[RemoteFolder]
) -> list[Folder]:
    """Update the table to the provider's folders and return all rows. Unchanged rows are not written."""
    by_key = {folder.key: folder for folder in remote}
    rows = [by_key[key] for key in sorted(by_key)]
    await connection.execute(
        """
        WITH input AS (
            SELECT * FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[])
                AS input (key, parent, name, role, scope)
        ), deleted AS (
            UPDATE folders SET deleted_at = postroom_now()
            WHERE mailbox_id = %b AND deleted_at IS NULL
                AND NOT EXISTS (SELECT FROM input WHERE key = provider_folder_id)
        )
        INSERT INTO folders AS stored
            (organization_id, mailbox_id, provider_folder_id, parent_provider_id, name, role, scope)
        SELECT current_organization(), %b, key, parent, name, role, scope FROM input ORDER BY key
        ON CONFLICT (mailbox_id, provider_folder_id) DO UPDATE SET
            parent_provider_id = excluded.parent_provider_id, name = excluded.name, role = excluded.role,
            scope = excluded.scope, deleted_at = NULL
        WHERE (stored.parent_provider_id, stored.name, stored.role, stored.scope, stored.deleted_at)
            IS DISTINCT FROM (excluded.parent_provider_id, excluded.name, excluded.role, excluded.scope, NULL)
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
