"""The table `watched_files`: files of watched folders that were seen, imported or rejected.

The folders themselves are read by `postroom.blobs`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from postroom.ports import WatchedFile
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class WatchedFileState:
    pipeline: str
    name: str
    version: str
    seen_at: datetime
    imported_at: datetime | None
    rejection: str | None

    @property
    def is_done(self) -> bool:
        return self.imported_at is not None or self.rejection is not None


async def list_states(connection: Connection, pipeline: str | None = None) -> list[WatchedFileState]:
    async with connection.cursor(row_factory=class_row(WatchedFileState)) as cursor:
        await cursor.execute(
            """
            SELECT pipeline, name, version, seen_at, imported_at, rejection FROM watched_files
            WHERE %(pipeline)s::text IS NULL OR pipeline = %(pipeline)s ORDER BY pipeline, name
            """,
            {"pipeline": pipeline},
        )
        return await cursor.fetchall()


async def record_seen(connection: Connection, pipeline: str, files: Sequence[WatchedFile]) -> None:
    """Record new files and new versions of known files."""
    rows = sorted(files, key=lambda file: file.name)
    await connection.execute(
        """
        INSERT INTO watched_files (organization_id, pipeline, name, version)
        SELECT current_organization(), %s, * FROM unnest(%s::text[], %s::text[])
        ON CONFLICT (organization_id, pipeline, name) DO UPDATE SET
            version = excluded.version, seen_at = postroom_now(), imported_at = NULL, rejection = NULL
        """,
        [pipeline, [file.name for file in rows], [file.version for file in rows]],
    )


async def record_outcome(
    connection: Connection, pipeline: str, file: WatchedFile, *, rejection: str | None = None
) -> None:
    """Record that this version was imported, or why it was rejected."""
    await connection.execute(
        """
        UPDATE watched_files SET imported_at = CASE WHEN %(rejection)s::text IS NULL THEN postroom_now() END,
            rejection = %(rejection)s
        WHERE pipeline = %(pipeline)s AND name = %(name)s AND version = %(version)s
        """,
        {"pipeline": pipeline, "name": file.name, "version": file.version, "rejection": rejection},
    )


async def remove_missing(connection: Connection, pipeline: str, names: Sequence[str]) -> None:
    """Delete the rows of files that no longer exist."""
    await connection.execute(
        "DELETE FROM watched_files WHERE pipeline = %s AND name = ANY(%s)", [pipeline, sorted(names)]
    )
