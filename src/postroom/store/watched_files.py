"""The table `watched_files`: which files of watched folders were seen, taken in, or refused and why."""

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
    taken_at: datetime | None
    refused: str | None

    @property
    def is_done(self) -> bool:
        return self.taken_at is not None or self.refused is not None


async def list_states(connection: Connection, pipeline: str | None = None) -> list[WatchedFileState]:
    async with connection.cursor(row_factory=class_row(WatchedFileState)) as cursor:
        await cursor.execute(
            """
            SELECT pipeline, name, version, seen_at, taken_at, refused FROM watched_files
            WHERE %(pipeline)s::text IS NULL OR pipeline = %(pipeline)s ORDER BY pipeline, name
            """,
            {"pipeline": pipeline},
        )
        return await cursor.fetchall()


async def record_seen(connection: Connection, pipeline: str, files: Sequence[WatchedFile]) -> None:
    """Files that are new, or not what they were."""
    rows = sorted(files, key=lambda each: each.name)
    await connection.execute(
        """
        INSERT INTO watched_files (organization_id, pipeline, name, version)
        SELECT current_organization(), %s, * FROM unnest(%s::text[], %s::text[])
        ON CONFLICT (organization_id, pipeline, name) DO UPDATE SET
            version = excluded.version, seen_at = postroom_now(), taken_at = NULL, refused = NULL
        """,
        [pipeline, [each.name for each in rows], [each.version for each in rows]],
    )


async def record_outcome(
    connection: Connection, pipeline: str, file: WatchedFile, *, refused: str | None = None
) -> None:
    """Remember that this version was taken in, or refused."""
    await connection.execute(
        """
        UPDATE watched_files SET taken_at = CASE WHEN %(refused)s::text IS NULL THEN postroom_now() END,
            refused = %(refused)s
        WHERE pipeline = %(pipeline)s AND name = %(name)s AND version = %(version)s
        """,
        {"pipeline": pipeline, "name": file.name, "version": file.version, "refused": refused},
    )


async def remove_missing(connection: Connection, pipeline: str, names: Sequence[str]) -> None:
    """They are no longer there."""
    await connection.execute(
        "DELETE FROM watched_files WHERE pipeline = %s AND name = ANY(%s)", [pipeline, sorted(names)]
    )
