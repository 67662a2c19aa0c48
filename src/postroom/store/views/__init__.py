"""What the API shows: rows as plain typed values, page by page, newest first. Reads only.

A page ends with the key of its last row; the next page begins below it, whatever came in between.
"""

from typing import LiteralString, TypeVar

from psycopg.rows import args_row

from postroom.store.database import Connection

Row = TypeVar("Row")


async def fetch_all(
    connection: Connection,
    row: type[Row],
    statement: LiteralString,
    values: dict[str, object],
    *,
    prepare: bool | None = None,
) -> list[Row]:
    """`prepare=False` plans for these very values, where what is not asked would hide an index."""
    async with connection.cursor(row_factory=args_row(row)) as cursor:
        await cursor.execute(statement, values, prepare=prepare)
        return await cursor.fetchall()


async def fetch_one(
    connection: Connection,
    row: type[Row],
    statement: LiteralString,
    values: dict[str, object],
    *,
    prepare: bool | None = None,
) -> Row | None:
    async with connection.cursor(row_factory=args_row(row)) as cursor:
        await cursor.execute(statement, values, prepare=prepare)
        return await cursor.fetchone()
