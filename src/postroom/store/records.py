"""The tables `transcripts`, `extractions` and `records`: document text, fields, results.

Also the identifiers by which a duplicate finds its record. Changes of a record are in `record_versions`,
reviews and corrections in `reviews`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from postroom.store import supplier_trust
from postroom.store.database import Connection


class RecordState(StrEnum):
    """The state of a record. `flow.documents` draws the transitions."""

    CONFIRMED = "confirmed"
    REOPENED = "reopened"  # a person reviews it again
    VOIDED = "voided"  # it should not exist
    MERGED = "merged"  # it was the same as another record, which has its documents


@dataclass(frozen=True, slots=True)
class Record:
    """An invoice or trade. `merged_into` is the record that a merged one is the same as."""

    id: UUID
    kind: str
    pipeline: str
    key: str
    fields: dict[str, Any]
    order_id: UUID | None
    confirmed_by: str
    confirmed_at: datetime
    state: RecordState = RecordState.CONFIRMED
    version: int = 1
    merged_into: UUID | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", RecordState(self.state))

    @property
    def name(self) -> str:
        """Its key, or else its id."""
        return self.key or str(self.id)


COLUMNS = """
    id, kind, pipeline, key, fields, order_id, confirmed_by, confirmed_at, state, version, merged_into
"""


@dataclass(frozen=True, slots=True)
class ExtractionRow:
    """Fields read from a document, with value, confidence and position, and the results of checks."""

    kind: str
    reader: str
    fields: Mapping[str, Any]
    checks: Sequence[Any]
    layout: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0
    is_ocr: bool = False  # the text was recognized in an image


async def store_transcript(
    connection: Connection, document: UUID, *, method: str, pages: int, text: str, words: Mapping[str, Any]
) -> None:
    """Store the transcript of a document, replacing the previous one."""
    await connection.execute(
        """
        INSERT INTO transcripts (organization_id, document_id, method, pages, text, words)
        VALUES (current_organization(), %s, %s, %s, %s, %s)
        ON CONFLICT (organization_id, document_id) DO UPDATE SET method = excluded.method,
            pages = excluded.pages, text = excluded.text, words = excluded.words, created_at = postroom_now()
        """,
        [document, method, pages, text, Jsonb(dict(words))],
    )


async def list_pages(connection: Connection, document: UUID) -> list[Any]:
    """Width, height and rotation of each page of the transcript."""
    cursor = await connection.execute(
        "SELECT words->'pages' FROM transcripts WHERE document_id = %s", [document]
    )
    row = await cursor.fetchone()
    return row[0] or [] if row else []


async def list_words(connection: Connection, document: UUID) -> list[Any]:
    """The words of the transcript: text, page, line, and the edges in thousandths of the page."""
    cursor = await connection.execute(
        "SELECT words->'words' FROM transcripts WHERE document_id = %s", [document]
    )
    row = await cursor.fetchone()
    return row[0] or [] if row else []


async def store_extraction(connection: Connection, document: UUID, extraction: ExtractionRow) -> None:
    await connection.execute(
        """
        INSERT INTO extractions (organization_id, document_id, kind, reader, fields, checks, layout,
            input_tokens, output_tokens, cost)
        VALUES (current_organization(), %s, %s, %s, %s, %s, %s, %s, %s, %s)
        """,
        [
            document,
            extraction.kind,
            extraction.reader,
            Jsonb(dict(extraction.fields)),
            Jsonb(list(extraction.checks)),
            extraction.layout,
            extraction.input_tokens,
            extraction.output_tokens,
            extraction.cost,
        ],
    )


async def sum_cost_today(connection: Connection) -> float:
    """The organization's extraction costs since midnight UTC, in US dollars."""
    cursor = await connection.execute(
        """
        SELECT coalesce(sum(cost), 0)::float8 FROM extractions
        WHERE cost > 0
          AND created_at >= date_trunc('day', postroom_now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
        """
    )
    row = await cursor.fetchone()
    assert row
    return row[0]


async def get_newest_extraction(connection: Connection, document: UUID) -> ExtractionRow | None:
    async with connection.cursor(row_factory=class_row(ExtractionRow)) as cursor:
        await cursor.execute(
            """
            SELECT kind, reader, fields, checks, layout, input_tokens, output_tokens, cost::float8 AS cost,
                coalesce(method = 'ocr', false) AS is_ocr
            FROM extractions LEFT JOIN transcripts USING (organization_id, document_id)
            WHERE document_id = %s ORDER BY extractions.id DESC LIMIT 1
            """,
            [document],
        )
        return await cursor.fetchone()


async def list_extractions(connection: Connection, record: UUID) -> list[ExtractionRow]:
    """The newest extraction of each document of this record."""
    async with connection.cursor(row_factory=class_row(ExtractionRow)) as cursor:
        await cursor.execute(
            """
            SELECT DISTINCT ON (documents.id) extractions.kind, reader, fields, checks,
                coalesce(method = 'ocr', false) AS is_ocr
            FROM documents
            JOIN extractions ON document_id = documents.id
            LEFT JOIN transcripts ON transcripts.document_id = documents.id
            WHERE record_id = %s ORDER BY documents.id, extractions.id DESC
            """,
            [record],
        )
        return await cursor.fetchall()


async def confirm(
    connection: Connection,
    *,
    kind: str,
    pipeline: str,
    fingerprint: bytes,
    key: str,
    fields: Mapping[str, Any],
    order: UUID | None,
    confirmed_by: str,
) -> tuple[UUID, bool]:
    """Insert the record of this fingerprint, or find it. Returns its id and whether it is new."""
    cursor = await connection.execute(
        """
        INSERT INTO records
            (organization_id, kind, pipeline, fingerprint, key, fields, order_id, confirmed_by,
                supplier_pending)
        VALUES (current_organization(), %s, %s, %s, %s, %s, %s, %s, false)
        ON CONFLICT (organization_id, pipeline, fingerprint) WHERE state IN ('confirmed', 'reopened')
            DO UPDATE SET key = records.key
        RETURNING id, xmax = 0
        """,
        [kind, pipeline, fingerprint, key, Jsonb(dict(fields)), order, confirmed_by],
    )
    row = await cursor.fetchone()
    assert row
    return row[0], row[1]


async def lock(connection: Connection) -> None:
    """Let no other transaction look up or change records of the organization until the commit.

    Lock before documents and orders are locked, so that transactions never wait for each other in a circle.
    """
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('records ' || current_organization()::text, 0))"
    )


async def find_by_identifiers(
    connection: Connection, pipeline: str, identifiers: Sequence[bytes]
) -> list[Record]:
    """Records with one of these identifiers, oldest first, except voided ones. Call `lock` first."""
    async with connection.cursor(row_factory=class_row(Record)) as cursor:
        await cursor.execute(
            "SELECT "  # noqa: S608  # of literals
            + COLUMNS
            + """
            FROM records
            WHERE id IN (SELECT record_id FROM record_identifiers
                WHERE pipeline = %s AND identifier_sha256 = ANY(%s)) AND state <> 'voided'
            ORDER BY confirmed_at, id
            """,
            [pipeline, list(identifiers)],
        )
        return await cursor.fetchall()


async def has_unidentified(connection: Connection, pipeline: str, kinds: Sequence[str]) -> bool:
    """Whether the pipeline has records of earlier versions, without digests of their issuer or supplier."""
    cursor = await connection.execute(
        """
        SELECT FROM records
        WHERE organization_id = current_organization() AND pipeline = %s AND supplier_pending
            AND kind = ANY(%s)
        LIMIT 1
        """,
        [pipeline, list(kinds)],
    )
    return await cursor.fetchone() is not None


async def take_unidentified(
    connection: Connection, pipeline: str, kinds: Sequence[str], *, limit: int
) -> list[Record]:
    """Records of earlier versions, without digests or supplier. The caller adds both."""
    async with connection.cursor(row_factory=class_row(Record)) as cursor:
        await cursor.execute(
            """
            UPDATE records SET supplier_pending = false
            WHERE id IN (SELECT id FROM records
                WHERE organization_id = current_organization() AND pipeline = %s AND supplier_pending
                    AND kind = ANY(%s)
                LIMIT %s)
            RETURNING """  # noqa: S608  # of literals
            + COLUMNS,
            [pipeline, list(kinds), limit],
        )
        return await cursor.fetchall()


async def add_identifiers(
    connection: Connection, pipeline: str, identifiers: Sequence[tuple[UUID, bytes]]
) -> None:
    """Add identifiers to records."""
    await connection.execute(
        """
        INSERT INTO record_identifiers (organization_id, pipeline, identifier_sha256, record_id)
        SELECT current_organization(), %s, identifier, record
        FROM unnest(%s::uuid[], %s::bytea[]) AS input (record, identifier)
        ON CONFLICT DO NOTHING
        """,
        [pipeline, [record for record, _ in identifiers], [identifier for _, identifier in identifiers]],
    )


async def assign_suppliers(connection: Connection, issuers: Sequence[tuple[UUID, Sequence[bytes]]]) -> None:
    """Give records the supplier of another record with one of these issuer digests, or else a new one.

    Suppliers that turn out to be one are merged. Call it before the digests are added, after `lock`. A record
    without digests has no supplier.
    """
    cursor = await connection.execute(
        """
        SELECT digest, supplier_id FROM unnest(%s::bytea[]) AS input (digest)
        CROSS JOIN LATERAL (
            SELECT supplier_id FROM record_identifiers JOIN records ON records.id = record_id
            WHERE identifier_sha256 = digest AND supplier_id IS NOT NULL LIMIT 1
        ) AS known
        """,
        [[digest for _, digests in issuers for digest in digests]],
    )
    known: dict[bytes, UUID] = dict(await cursor.fetchall())
    merged: dict[UUID, UUID] = {}  # a record with the name of one supplier and the VAT ID of another

    def follow(supplier: UUID) -> UUID:
        while supplier in merged:
            supplier = merged[supplier]
        return supplier

    for _, digests in issuers:
        found = list(dict.fromkeys(follow(known[digest]) for digest in digests if digest in known))
        for other in found[1:]:
            merged[other] = found[0]
        for digest in digests:
            known[digest] = found[0] if found else UUID(bytes=digests[0][:16])
    assigned = [follow(known[digests[0]]) if digests else None for _, digests in issuers]
    into = {supplier: follow(supplier) for supplier in merged}
    await connection.execute(
        """
        UPDATE records SET supplier_id = assigned
        FROM unnest(%s::uuid[], %s::uuid[]) AS input (record, assigned) WHERE id = record
        """,
        [[record for record, _ in issuers], assigned],
    )
    await connection.execute(
        """
        UPDATE records SET supplier_id = into_supplier
        FROM unnest(%s::uuid[], %s::uuid[]) AS input (old, into_supplier) WHERE supplier_id = old
        """,
        [list(into), list(into.values())],
    )
    if into:
        await supplier_trust.merge_suppliers(connection, into)


async def list_pending_pipelines(connection: Connection) -> list[str]:
    """Pipelines that have records of earlier versions, without a supplier."""
    cursor = await connection.execute(
        "SELECT DISTINCT pipeline FROM records WHERE supplier_pending ORDER BY pipeline"
    )
    return [row[0] for row in await cursor.fetchall()]


async def list_earlier_values(
    connection: Connection, document: UUID, pipeline: str, issuer: bytes, names: Sequence[str]
) -> list[list[str | None]]:
    """These fields of an issuer's confirmed records before the document's own one, newest first."""
    cursor = await connection.execute(
        """
        SELECT ARRAY(SELECT fields->>name FROM unnest(%s::text[]) WITH ORDINALITY AS input (name, place)
            ORDER BY place)
        FROM records
        WHERE id IN (SELECT record_id FROM record_identifiers
                WHERE pipeline = %s AND identifier_sha256 = %s)
            AND state = 'confirmed'
            AND confirmed_at < coalesce((SELECT own.confirmed_at
                FROM documents JOIN records AS own ON own.id = record_id WHERE documents.id = %s), 'infinity')
        ORDER BY confirmed_at DESC, id LIMIT 500
        """,
        [list(names), pipeline, issuer, document],
    )
    return [row[0] for row in await cursor.fetchall()]


async def remove_identifiers(connection: Connection, record: UUID) -> None:
    """Remove the identifiers of a record whose values change. The caller adds the new ones."""
    await connection.execute("DELETE FROM record_identifiers WHERE record_id = %s", [record])


async def get(connection: Connection, record: UUID) -> Record | None:
    async with connection.cursor(row_factory=class_row(Record)) as cursor:
        await cursor.execute(
            "SELECT " + COLUMNS + " FROM records WHERE id = %s",  # noqa: S608  # of literals
            [record],
        )
        return await cursor.fetchone()


async def get_supplier(connection: Connection, record: UUID) -> UUID | None:
    """The supplier of a record; None if nothing identifies it, or none was assigned yet."""
    cursor = await connection.execute("SELECT supplier_id FROM records WHERE id = %s", [record])
    row = await cursor.fetchone()
    return row[0] if row else None


async def list_merged_into(connection: Connection, record: UUID) -> list[Record]:
    """Records that were merged into this one."""
    async with connection.cursor(row_factory=class_row(Record)) as cursor:
        await cursor.execute(
            "SELECT " + COLUMNS + " FROM records WHERE merged_into = %s ORDER BY confirmed_at, id",  # noqa: S608  # of literals
            [record],
        )
        return await cursor.fetchall()


async def find_by_name(connection: Connection, name: str, pipeline: str | None = None) -> list[Record]:
    """Records with this key, or an id that starts with it: the live ones, or else all. At most three."""
    async with connection.cursor(row_factory=class_row(Record)) as cursor:
        await cursor.execute(
            "SELECT "  # noqa: S608  # of literals
            + COLUMNS
            + """
            FROM records
            WHERE (key = %(name)s OR starts_with(id::text, lower(%(name)s))) AND %(name)s <> ''
                AND (%(pipeline)s::text IS NULL OR pipeline = %(pipeline)s)
            ORDER BY state IN ('voided', 'merged'), confirmed_at DESC, id LIMIT 3
            """,
            {"name": name, "pipeline": pipeline},
        )
        found = await cursor.fetchall()
    live = [record for record in found if record.state not in (RecordState.VOIDED, RecordState.MERGED)]
    return live or found


async def list_for_export(connection: Connection, ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """These records, in this order, each with its first document."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(
            """
            SELECT records.id::text AS record, records.kind, records.pipeline, key, confirmed_by,
                confirmed_at, records.state, records.version, reference AS order, source.*, records.fields
            FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS listed (id, place)
            JOIN records ON records.id = listed.id
            LEFT JOIN orders ON orders.id = order_id
            LEFT JOIN LATERAL (
                SELECT documents.id::text AS document, file_name, sender, received_at, archive_path
                FROM documents JOIN arrivals ON document_id = documents.id
                WHERE record_id = records.id ORDER BY arrivals.id LIMIT 1
            ) AS source ON true
            ORDER BY place
            """,
            {"ids": ids},
        )
        return await cursor.fetchall()
