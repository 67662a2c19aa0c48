"""The files of documents, in the table `documents`: passwords, decrypted copies, parts of a split file.

Their states are in `documents`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A document that is a part of another one, and its pages there, such as 1-2."""

    document: UUID
    pages: str


async def mark_password_needed(connection: Connection, document: UUID) -> None:
    await connection.execute("UPDATE documents SET needs_password = true WHERE id = %s", [document])


async def store_unlocked(connection: Connection, document: UUID, sha256: bytes) -> bool:
    """Store the decrypted copy of a document that needs a password. False if it no longer does."""
    cursor = await connection.execute(
        "UPDATE documents SET needs_password = false, unlocked_sha256 = %s WHERE id = %s AND needs_password",
        [sha256, document],
    )
    return cursor.rowcount == 1


async def lock(connection: Connection, document: UUID) -> None:
    """Let other changes of the document wait for this transaction."""
    await connection.execute("SELECT FROM documents WHERE id = %s FOR UPDATE", [document])


async def list_parts(connection: Connection, document: UUID) -> list[DocumentPart]:
    """The documents into which this one was split, in the order of their pages."""
    async with connection.cursor(row_factory=class_row(DocumentPart)) as cursor:
        await cursor.execute(
            """
            SELECT id AS document, part_pages AS pages FROM documents WHERE part_of = %s
            ORDER BY substring(part_pages from '^[0-9]+')::integer
            """,
            [document],
        )
        return await cursor.fetchall()


async def set_parts(connection: Connection, original: UUID, parts: Sequence[DocumentPart]) -> None:
    await connection.execute(
        """
        UPDATE documents SET part_of = %s, part_pages = pages
        FROM unnest(%s::uuid[], %s::text[]) AS part (document, pages) WHERE id = document
        """,
        [original, [part.document for part in parts], [part.pages for part in parts]],
    )
