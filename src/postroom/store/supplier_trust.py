"""Which documents of a supplier people confirmed unchanged, and the table `untrusted_suppliers`.

`documents.supplier_trust` says what follows from them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class ConfirmedDocument:
    """A document that a person confirmed unchanged: what was read from it, and its record's values.

    `read` has the value, confidence, position and evidence of each field.
    """

    record_id: UUID
    layout: str
    kind: str
    pipeline: str
    reader: str
    read: Mapping[str, Mapping[str, Any]]
    recorded: Mapping[str, Any]


async def find_suppliers(connection: Connection, issuer: Sequence[bytes]) -> set[UUID | None]:
    """The suppliers that these issuer digests identify; None for a digest that no record has."""
    cursor = await connection.execute(
        """
        SELECT (SELECT supplier_id FROM record_identifiers JOIN records ON records.id = record_id
            WHERE identifier_sha256 = digest AND supplier_id IS NOT NULL LIMIT 1)
        FROM unnest(%s::bytea[]) AS input (digest)
        """,
        [list(issuer)],
    )
    return {row[0] for row in await cursor.fetchall()}


async def has_records(connection: Connection, supplier: UUID) -> bool:
    """Whether there is such a supplier."""
    cursor = await connection.execute("SELECT FROM records WHERE supplier_id = %s LIMIT 1", [supplier])
    return await cursor.fetchone() is not None


async def is_trusted(connection: Connection, supplier: UUID) -> bool:
    cursor = await connection.execute("SELECT FROM untrusted_suppliers WHERE supplier_id = %s", [supplier])
    return await cursor.fetchone() is None


async def distrust(connection: Connection, supplier: UUID) -> bool:
    """Switch trust off. Returns whether it was on."""
    cursor = await connection.execute(
        """
        INSERT INTO untrusted_suppliers (organization_id, supplier_id) VALUES (current_organization(), %s)
        ON CONFLICT DO NOTHING RETURNING 1
        """,
        [supplier],
    )
    return await cursor.fetchone() is not None


async def trust(connection: Connection, supplier: UUID) -> bool:
    """Switch trust on. Returns whether it was off."""
    cursor = await connection.execute(
        "DELETE FROM untrusted_suppliers WHERE supplier_id = %s RETURNING 1", [supplier]
    )
    return await cursor.fetchone() is not None


async def merge_suppliers(connection: Connection, merged: Mapping[UUID, UUID]) -> None:
    """Keep trust off for suppliers that turn out to be one if it was off for one of them."""
    await connection.execute(
        """
        INSERT INTO untrusted_suppliers (organization_id, supplier_id)
        SELECT current_organization(), into_supplier
        FROM unnest(%s::uuid[], %s::uuid[]) AS input (old, into_supplier)
        JOIN untrusted_suppliers ON supplier_id = old
        ON CONFLICT DO NOTHING
        """,
        [list(merged), list(merged.values())],
    )


async def list_layouts(connection: Connection, supplier: UUID, *, limit: int) -> list[str]:
    """The layouts of a supplier's confirmed records, the one with the newest record first."""
    cursor = await connection.execute(
        """
        SELECT layout FROM records
        JOIN documents ON record_id = records.id
        JOIN extractions ON document_id = documents.id
        WHERE supplier_id = %s AND records.state = 'confirmed' AND layout IS NOT NULL
        GROUP BY layout ORDER BY max(confirmed_at) DESC, layout LIMIT %s
        """,
        [supplier, limit],
    )
    return [row[0] for row in await cursor.fetchall()]


async def list_confirmed(
    connection: Connection, supplier: UUID, layouts: Sequence[str]
) -> list[ConfirmedDocument]:
    """List the documents that people confirmed unchanged since the count of their layout restarted.

    Every correction, rejection, reopening, voiding, merge or split of a document of the layout restarts it.
    Scans are omitted, because one scan proves nothing about the next.
    """
    async with connection.cursor(row_factory=class_row(ConfirmedDocument)) as cursor:
        await cursor.execute(
            """
            WITH alike AS (
                SELECT DISTINCT layout, documents.id AS document, record_id
                FROM extractions JOIN documents ON documents.id = document_id WHERE layout = ANY(%(layouts)s)
            ), started AS MATERIALIZED (
                SELECT layout, max(doubted_at) AS doubted_at FROM (
                    SELECT layout, decided_at AS doubted_at FROM alike JOIN reviews ON document_id = document
                    WHERE decision IN ('corrected', 'rejected')
                    UNION ALL
                    SELECT layout, changed_at FROM alike JOIN record_versions USING (record_id)
                    WHERE change NOT IN ('confirmed', 'linked')
                ) AS doubts GROUP BY layout
            )
            SELECT records.id AS record_id, alike.layout, read.kind, records.pipeline, read.reader,
                read.fields AS read, records.fields AS recorded
            FROM alike
            LEFT JOIN started ON started.layout = alike.layout
            JOIN records ON records.id = record_id
            JOIN transcripts ON transcripts.document_id = document
            CROSS JOIN LATERAL (SELECT * FROM extractions WHERE document_id = document
                ORDER BY extractions.id DESC LIMIT 1) AS read
            CROSS JOIN LATERAL (SELECT decision, decided_at FROM reviews WHERE document_id = document
                ORDER BY reviews.id DESC LIMIT 1) AS review
            WHERE supplier_id = %(supplier)s AND records.state = 'confirmed' AND read.layout = alike.layout
                AND decision = 'confirmed' AND method <> 'ocr'
                AND decided_at > coalesce(doubted_at, '-infinity')
            ORDER BY decided_at DESC, document LIMIT 100
            """,
            {"supplier": supplier, "layouts": list(layouts)},
        )
        return await cursor.fetchall()
