"""What the API shows: rows as plain typed values, page by page, newest first. Reads only.

A page ends with the key of its last row; the next page begins below it, whatever came in between.
"""

from typing import LiteralString, TypeVar

from psycopg.rows import args_row

from postroom.store.database import Connection

Row = TypeVar("Row")


async def many(
    connection: Connection, row: type[Row], statement: LiteralString, values: dict[str, object]
) -> list[Row]:
    async with connection.cursor(row_factory=args_row(row)) as cursor:
        await cursor.execute(statement, values)
        return await cursor.fetchall()


async def one(
    connection: Connection, row: type[Row], statement: LiteralString, values: dict[str, object]
) -> Row | None:
    async with connection.cursor(row_factory=args_row(row)) as cursor:
        await cursor.execute(statement, values)
        return await cursor.fetchone()
