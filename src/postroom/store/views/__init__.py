"""Read-only queries for the API and the pages: typed rows, page by page, newest first.

The next page starts below the key of the last row, so that new rows do not shift pages.
"""

from collections.abc import Sequence
from typing import Any, LiteralString, Protocol, TypeVar

from psycopg.rows import args_row

from postroom.store.database import Connection

Row = TypeVar("Row")


class RowWithId(Protocol):
    """A row that has an id."""

    @property
    def id(self) -> Any: ...


IdentifiedRow = TypeVar("IdentifiedRow", bound=RowWithId)


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


async def fetch_in_order(
    connection: Connection, row: type[IdentifiedRow], statement: LiteralString, ids: Sequence[object]
) -> list[IdentifiedRow]:
    """Fetch the rows with `%(ids)s`, in the order of the ids."""
    found = {each.id: each for each in await fetch_all(connection, row, statement, {"ids": list(ids)})}
    return [found[id_] for id_ in ids if id_ in found]


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
