"""The table `orders`: purchases and trades for which documents are expected.

open → matched (a record names the order) or closed. An order whose record is voided is open again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg.rows import class_row

from postroom.store.database import Connection

MAX_CANDIDATES: Final = 1_000  # open orders that one record without an order is compared with
MAX_PAIRS: Final = 100_000  # such comparisons of all records


@dataclass(frozen=True, slots=True)
class Order:
    """A purchase or trade for which a document is expected."""

    id: UUID
    kind: str
    reference: str
    username: str | None
    fields: dict[str, Any]
    state: str
    record_id: UUID | None = None  # of the record that names it


async def import_orders(
    connection: Connection, kind: str, orders: Sequence[tuple[str, str | None, Mapping[str, Any]]]
) -> tuple[int, int]:
    """Upsert orders by reference; only open ones change. Returns the numbers of new and changed orders."""
    rows = sorted({reference: (user, fields) for reference, user, fields in orders}.items())
    cursor = await connection.execute(
        """
        INSERT INTO orders (organization_id, kind, reference, username, fields)
        SELECT current_organization(), %s, reference, username, fields::jsonb
        FROM unnest(%s::text[], %s::text[], %s::text[]) AS input (reference, username, fields)
        ON CONFLICT (organization_id, kind, reference) DO UPDATE SET
            username = excluded.username, fields = excluded.fields
        WHERE orders.state = 'open' AND (orders.username, orders.fields)
            IS DISTINCT FROM (excluded.username, excluded.fields)
        RETURNING xmax = 0
        """,
        [
            kind,
            [reference for reference, _ in rows],
            [user for _, (user, _) in rows],
            [json.dumps(dict(fields)) for _, (_, fields) in rows],
        ],
    )
    inserted = [row[0] for row in await cursor.fetchall()]
    return sum(inserted), len(inserted) - sum(inserted)


async def list_open_orders(connection: Connection, kind: str) -> list[Order]:
    """Open orders, locked so that two documents cannot match the same one."""
    async with connection.cursor(row_factory=class_row(Order)) as cursor:
        await cursor.execute(
            """
            SELECT id, kind, reference, username, fields, state FROM orders
            WHERE kind = %s AND state = 'open' ORDER BY reference FOR UPDATE
            """,
            [kind],
        )
        return await cursor.fetchall()


async def list_orders(connection: Connection, ids: Sequence[UUID]) -> list[Order]:
    """These orders, in this order."""
    async with connection.cursor(row_factory=class_row(Order)) as cursor:
        await cursor.execute(
            """
            SELECT orders.id, kind, reference, username, fields, state,
                (SELECT records.id FROM records WHERE order_id = orders.id LIMIT 1) AS record_id
            FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS listed (id, place)
            JOIN orders ON orders.id = listed.id ORDER BY place
            """,
            {"ids": ids},
        )
        return await cursor.fetchall()


async def count_open(connection: Connection, kind: str) -> int:
    cursor = await connection.execute(
        "SELECT count(*) FROM orders WHERE kind = %s AND state = 'open'", [kind]
    )
    row = await cursor.fetchone()
    return row[0] if row else 0


async def list_offered(connection: Connection, kind: str, own: UUID | None) -> list[Order]:
    """List the open orders and, in any state, the record's own order, newest first."""
    async with connection.cursor(row_factory=class_row(Order)) as cursor:
        await cursor.execute(
            """
            SELECT id, kind, reference, username, fields, state,
                (SELECT records.id FROM records WHERE order_id = orders.id LIMIT 1) AS record_id
            FROM orders WHERE kind = %s AND (state = 'open' OR id = %s) ORDER BY created_at DESC, reference
            """,
            [kind, own],
        )
        return await cursor.fetchall()


async def list_by_kind(connection: Connection, kind: str) -> list[Order]:
    """All orders for which documents of this kind are expected, newest first."""
    async with connection.cursor(row_factory=class_row(Order)) as cursor:
        await cursor.execute(
            """
            SELECT id, kind, reference, username, fields, state,
                (SELECT records.id FROM records WHERE order_id = orders.id LIMIT 1) AS record_id
            FROM orders WHERE kind = %s ORDER BY created_at DESC, reference
            """,
            [kind],
        )
        return await cursor.fetchall()


async def match_order(connection: Connection, order: UUID) -> None:
    await connection.execute("UPDATE orders SET state = 'matched' WHERE id = %s AND state = 'open'", [order])


async def close_order(connection: Connection, order: UUID) -> bool:
    cursor = await connection.execute(
        "UPDATE orders SET state = 'closed' WHERE id = %s AND state = 'open' RETURNING 1", [order]
    )
    return await cursor.fetchone() is not None


async def release(connection: Connection, order: UUID) -> None:
    """Expect a document for a matched order again."""
    await connection.execute("UPDATE orders SET state = 'open' WHERE id = %s AND state = 'matched'", [order])


async def get(connection: Connection, order: UUID) -> Order | None:
    async with connection.cursor(row_factory=class_row(Order)) as cursor:
        await cursor.execute(
            """
            SELECT id, kind, reference, username, fields, state,
                (SELECT records.id FROM records WHERE order_id = orders.id LIMIT 1) AS record_id
            FROM orders WHERE id = %s
            """,
            [order],
        )
        return await cursor.fetchone()


async def list_waiting_records(
    connection: Connection, kind: str, names: Sequence[str], *, order: UUID | None = None
) -> list[tuple[UUID, list[UUID]]]:
    """Confirmed records without an order, and the open orders that agree with one of these fields.

    With `order`, only that one. Compares letters and digits only; the caller compares the other fields.
    A record with more than `MAX_CANDIDATES` such orders is left out, and records beyond `MAX_PAIRS` wait.
    """
    cursor = await connection.execute(
        """
        WITH wanted AS (
            SELECT DISTINCT orders.id, name, regexp_replace(lower(value), '[^[:alnum:]]', '', 'g') AS value
            FROM orders CROSS JOIN LATERAL jsonb_each_text(fields) AS field (name, value)
            WHERE kind = %(kind)s AND state = 'open' AND name = ANY(%(names)s)
                AND (%(order)s::uuid IS NULL OR orders.id = %(order)s)
        ), waiting AS (
            SELECT records.id, min(confirmed_at) AS confirmed_at, array_agg(DISTINCT wanted.id) AS orders
            FROM records CROSS JOIN unnest(%(names)s::text[]) AS known (name)
            JOIN wanted ON wanted.name = known.name
                AND wanted.value = regexp_replace(lower(fields->>known.name), '[^[:alnum:]]', '', 'g')
            WHERE kind = %(kind)s AND order_id IS NULL AND state = 'confirmed' AND wanted.value <> ''
            GROUP BY records.id HAVING count(DISTINCT wanted.id) <= %(candidates)s
        )
        SELECT id, orders FROM (
            SELECT *, sum(cardinality(orders)) OVER (ORDER BY confirmed_at, id) AS pairs FROM waiting
        ) AS counted
        WHERE pairs <= %(pairs)s ORDER BY confirmed_at, id
        """,
        {
            "kind": kind,
            "names": list(names),
            "order": order,
            "candidates": MAX_CANDIDATES,
            "pairs": MAX_PAIRS,
        },
    )
    return await cursor.fetchall()
