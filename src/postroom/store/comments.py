"""The table `comments`: what people wrote about documents."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class Comment:
    id: int
    document_id: UUID
    actor_id: str
    text: str
    created_at: datetime


async def add(connection: Connection, document: UUID, text: str, *, actor: str) -> Comment:
    async with connection.cursor(row_factory=class_row(Comment)) as cursor:
        await cursor.execute(
            """
            INSERT INTO comments (organization_id, document_id, actor_id, text)
            VALUES (current_organization(), %s, %s, %s)
            RETURNING id, document_id, actor_id, text, created_at
            """,
            [document, actor, text],
        )
        comment = await cursor.fetchone()
    assert comment is not None, "an insert returns its row"
    return comment


async def list_by_document(
    connection: Connection, document: UUID, *, below: int | None = None, limit: int = 200
) -> list[Comment]:
    """Comments on a document, newest first."""
    async with connection.cursor(row_factory=class_row(Comment)) as cursor:
        await cursor.execute(
            """
            SELECT id, document_id, actor_id, text, created_at FROM comments
            WHERE document_id = %(document)s AND (%(below)s::bigint IS NULL OR id < %(below)s)
            ORDER BY id DESC LIMIT %(limit)s
            """,
            {"document": document, "below": below, "limit": limit},
        )
        return await cursor.fetchall()
