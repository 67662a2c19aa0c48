"""Queries of one supplier: the issuer that records share, see `records.assign_suppliers`. Read only.

A supplier has no table: what is known of it is what its records and their reviews say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class Supplier:
    """A supplier or broker. The name is that of the newest record."""

    id: UUID
    name: str | None
    kind: str
    records: int
    by_machine: int  # confirmed without a person
    first_at: datetime
    newest_at: datetime


@dataclass(frozen=True, slots=True)
class SupplierIdentifier:
    """A name, VAT ID or IBAN that the records of a supplier have."""

    field: str
    value: str
    records: int
    newest_on: str | None


@dataclass(frozen=True, slots=True)
class SupplierCorrection:
    """A correction in a document of the supplier that later documents reuse."""

    field: str
    read_value: Any
    right_value: Any
    layout: str | None
    decided_at: datetime


async def get(connection: Connection, supplier: UUID, *, machine: str) -> Supplier | None:
    async with connection.cursor(row_factory=class_row(Supplier)) as cursor:
        await cursor.execute(
            """
            SELECT supplier_id AS id, min(kind) AS kind, count(*) AS records,
                count(*) FILTER (WHERE confirmed_by = %(machine)s) AS by_machine,
                min(confirmed_at) AS first_at, max(confirmed_at) AS newest_at,
                (array_agg(supplier ORDER BY confirmed_at DESC)
                    FILTER (WHERE supplier IS NOT NULL))[1] AS name
            FROM records WHERE supplier_id = %(id)s AND state IN ('confirmed', 'reopened')
            GROUP BY supplier_id
            """,
            {"id": supplier, "machine": machine},
        )
        return await cursor.fetchone()


async def list_identifiers(
    connection: Connection, supplier: UUID, names: Sequence[str]
) -> list[SupplierIdentifier]:
    """The values of these fields in the supplier's confirmed records, the most frequent first."""
    async with connection.cursor(row_factory=class_row(SupplierIdentifier)) as cursor:
        await cursor.execute(
            """
            SELECT name AS field, fields->>name AS value, count(*) AS records, max(dated) AS newest_on
            FROM records CROSS JOIN unnest(%(names)s::text[]) WITH ORDINALITY AS known (name, place)
            WHERE supplier_id = %(id)s AND state = 'confirmed' AND fields->>name <> ''
            GROUP BY name, place, fields->>name ORDER BY place, count(*) DESC, value LIMIT 50
            """,
            {"id": supplier, "names": list(names)},
        )
        return await cursor.fetchall()


async def sum_by_month(
    connection: Connection, supplier: UUID, *, months: int
) -> dict[str, dict[str, Decimal]]:
    """The amounts of confirmed records by currency and month, `2026-02`, of the last months."""
    cursor = await connection.execute(
        """
        SELECT currency, left(dated, 7), sum(amount) FROM records
        WHERE supplier_id = %(id)s AND state = 'confirmed' AND currency IS NOT NULL AND amount IS NOT NULL
            AND left(dated, 7) > to_char(postroom_now() - make_interval(months => %(months)s), 'YYYY-MM')
        GROUP BY 1, 2 ORDER BY 1, 2
        """,
        {"id": supplier, "months": months},
    )
    by_currency: dict[str, dict[str, Decimal]] = {}
    for currency, month, amount in await cursor.fetchall():
        by_currency.setdefault(currency, {})[month] = amount
    return by_currency


async def list_corrections(connection: Connection, supplier: UUID) -> list[SupplierCorrection]:
    """Corrections in the supplier's documents that apply to later ones, newest first."""
    async with connection.cursor(row_factory=class_row(SupplierCorrection)) as cursor:
        await cursor.execute(
            """
            SELECT field, read_value, right_value, corrections.layout, decided_at
            FROM records
            JOIN documents ON record_id = records.id
            JOIN reviews ON reviews.document_id = documents.id
            JOIN corrections ON review_id = reviews.id
            WHERE supplier_id = %s AND records.state = 'confirmed'
                AND coalesce(records.fields->field, 'null') = right_value AND right_value <> read_value
            ORDER BY corrections.id DESC LIMIT 50
            """,
            [supplier],
        )
        return await cursor.fetchall()
