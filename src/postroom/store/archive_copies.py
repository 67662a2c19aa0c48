"""The table `archive_copies`, and the archived copy that a document names: `documents.archive_path`."""

from collections.abc import Collection
from uuid import UUID

from postroom.store.database import Connection


async def record_path(connection: Connection, document: UUID, path: str) -> None:
    """Record a path that a copy is written to, so that it is known even if its worker crashes."""
    await connection.execute(
        """
        INSERT INTO archive_copies (organization_id, document_id, path)
        SELECT organization_id, id, %(path)s FROM documents
        WHERE id = %(document)s AND archive_path IS DISTINCT FROM %(path)s
        ON CONFLICT DO NOTHING
        """,
        {"document": document, "path": path},
    )


async def forget_paths(connection: Connection, document: UUID, paths: Collection[str]) -> None:
    """Forget recorded paths that hold other files."""
    if paths:
        await connection.execute(
            "DELETE FROM archive_copies WHERE document_id = %s AND path = ANY(%s)", [document, list(paths)]
        )


async def mark_archived(connection: Connection, document: UUID, path: str, *, keep_earlier: bool) -> None:
    """Record the current archived copy. Earlier ones at other paths are kept, or were removed for a purge."""
    await connection.execute(
        """
        WITH kept AS (
            INSERT INTO archive_copies (organization_id, document_id, path)
            SELECT organization_id, id, archive_path FROM documents
            WHERE id = %(document)s AND archive_path <> %(path)s AND %(keep)s
            ON CONFLICT DO NOTHING
        ), removed AS (
            DELETE FROM archive_copies WHERE document_id = %(document)s AND (path = %(path)s OR NOT %(keep)s)
        )
        UPDATE documents SET archive_path = %(path)s, archived_at = postroom_now(),
            archive_outdated_at = NULL, last_error = NULL
        WHERE id = %(document)s
        """,
        {"document": document, "path": path, "keep": keep_earlier},
    )


async def list_earlier(connection: Connection, document: UUID) -> list[str]:
    """Paths of the earlier archived copies of a document, oldest first."""
    cursor = await connection.execute(
        "SELECT path FROM archive_copies WHERE document_id = %s ORDER BY replaced_at, path", [document]
    )
    return [row[0] for row in await cursor.fetchall()]


async def mark_outdated(connection: Connection, document: UUID) -> None:
    await connection.execute(
        "UPDATE documents SET archive_outdated_at = postroom_now() WHERE id = %s", [document]
    )


async def is_shared(engine: Connection, document: UUID, *, sha256: bytes, path: str) -> bool:
    """Whether another document, of any organization, names this archived copy or may be about to."""
    cursor = await engine.execute("SELECT needs_archived_copy(%s, %s, %s)", [sha256, path, document])
    row = await cursor.fetchone()
    assert row is not None, "a function returns a row"
    return row[0]


async def lock_arrivals(connection: Connection, document: UUID) -> None:
    """Wait for a purge of these arrivals, and let the next one wait for this transaction."""
    await connection.execute("SELECT FROM arrivals WHERE document_id = %s FOR SHARE", [document])


async def record_error(connection: Connection, document: UUID, reason: str) -> None:
    """Record why a completed document is not archived yet."""
    await connection.execute("UPDATE documents SET last_error = %s WHERE id = %s", [reason, document])


async def mark_revised(connection: Connection, documents: Collection[UUID]) -> list[UUID]:
    """Have archived documents archived again, at the path that follows from the record; returns them."""
    cursor = await connection.execute(
        """
        UPDATE documents SET archived_at = NULL WHERE id = ANY(%s) AND archived_at IS NOT NULL RETURNING id
        """,
        [list(documents)],
    )
    return [row[0] for row in await cursor.fetchall()]


async def hold_record(connection: Connection, record: UUID) -> None:
    """Wait for a change of the record, and let the next one wait for this transaction."""
    await connection.execute("SELECT FROM records WHERE id = %s FOR SHARE", [record])
