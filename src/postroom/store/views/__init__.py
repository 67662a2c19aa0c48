"""Read-only queries for the API and the pages: typed rows, page by page, newest first.

The next page starts below the key of the last row, so that new rows do not shift pages.
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
    """Fetch all rows. `prepare=False` plans for these values, so that unused filters do not hide an index."""
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
