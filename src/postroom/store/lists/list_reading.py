"""Read a list: a page of rows by key, all rows for an export, and how many there are.

A page costs the same however many rows there are: it starts behind the last row of the one before, and only
its own rows are joined. Few matches of a search are found by their index; if there are many, the list is
walked in its order. Rows are counted and added up only up to a limit; beyond it, the number is an estimate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, LiteralString

from psycopg.rows import dict_row

from postroom.store.database import Connection
from postroom.store.estimates import estimate_rows
from postroom.store.lists.list_definition import (
    ALL,
    FilterChoice,
    ListDefinition,
    ListPosition,
    ListQuery,
    SortShape,
)

MAX_COUNTED: Final = 1_000
MAX_EXPORTED: Final = 100_000
# So many matches of a search are sorted faster than they are met in the order of a long list.
MAX_FOUND: Final = 1_000
SAMPLE: Final = 250  # rows that are tested to estimate how many match

_TYPES: Final[Mapping[SortShape, LiteralString]] = {
    "moment": "timestamptz",
    "text": "text",
    "number": "float8",
}

ListRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ListTotal:
    """The sum of comparable amounts in one currency."""

    label: str
    currency: str | None
    amount: Decimal
    rows: int


@dataclass(frozen=True, slots=True)
class ListCount:
    """How many rows a list has. The totals are over all of them, or only over those of the page."""

    rows: int
    is_estimate: bool
    totals: Sequence[ListTotal]


async def search(connection: Connection, query: ListQuery) -> ListQuery:
    """Find the rows that match the words of a query, if they are few. Later reads then take only these."""
    if query.search is None:
        return query
    values = {query.search.name: query.values[query.search.name], "at_most": MAX_FOUND + 1}
    cursor = await connection.execute(query.search.search, values, prepare=False)
    rows = await cursor.fetchall()
    return query if len(rows) > MAX_FOUND else replace(query, found=[id_ for (id_,) in rows])


async def read_page(
    connection: Connection, query: ListQuery, limit: int
) -> tuple[list[ListRow], ListPosition | None]:
    """A page of rows, and the position where the next one starts, if there are more."""
    rows = await _read_rows(connection, query, limit + 1)
    if len(rows) <= limit:
        return rows, None
    last = rows[limit - 1]
    return rows[:limit], ListPosition(last["position"], last["id"])


async def read_ids(
    connection: Connection, query: ListQuery, limit: int
) -> tuple[list[Any], ListPosition | None]:
    """The ids of the rows of a page, and the position where the next one starts, if there are more."""
    definition = query.definition
    conditions, values = _build_conditions(query)
    cursor = await connection.execute(
        "SELECT " + definition.id + ", " + query.sort.expression + " FROM " + definition.table  # noqa: S608  # of literals
        + _where([*conditions, *_start_behind(query, values)]) + _order(query) + " LIMIT %(limit)s",
        {**values, "limit": limit + 1},
        prepare=False,
    )  # fmt: skip
    rows = await cursor.fetchall()
    ids = [id_ for id_, _ in rows[:limit]]
    return ids, ListPosition(rows[limit - 1][1], ids[-1]) if len(rows) > limit else None


async def read_all(connection: Connection, query: ListQuery) -> list[ListRow]:
    """The rows from the query's position on, at most MAX_EXPORTED and one more."""
    return await _read_rows(connection, query, MAX_EXPORTED + 1)


async def _read_rows(connection: Connection, query: ListQuery, limit: int) -> list[ListRow]:
    statement, values = build_statement(query, limit)
    async with connection.cursor(row_factory=dict_row) as cursor:
        # Planned for these values: a rare state and a common one are found by different indexes.
        await cursor.execute(statement, values, prepare=False)
        return [dict(row) for row in await cursor.fetchall()]


def build_statement(query: ListQuery, limit: int) -> tuple[LiteralString, Mapping[str, Any]]:
    """The statement that reads so many rows, and its values. Only those rows are joined."""
    definition, name, order = query.definition, query.definition.name, _order(query)
    columns: list[LiteralString] = [
        column.value + " AS " + column.name for column in definition.list_columns(is_trade=query.is_trade)
    ]
    columns += definition.links
    row_count: LiteralString = ""
    if definition.is_aggregate:
        columns.append(name + ".row_count")
        row_count = ", count(*) OVER () AS row_count"
    select = ", ".join([definition.id + " AS id", query.sort.expression + " AS position", *columns])
    conditions, values = _build_conditions(query)
    statement = (
        "SELECT " + select + " FROM (SELECT " + name + ".*" + row_count + " FROM " + definition.table  # noqa: S608  # of literals
        + _where([*conditions, *_start_behind(query, values)]) + order + " LIMIT %(limit)s) AS " + name
        + " " + definition.joins + order
    )  # fmt: skip
    return statement, {**values, "limit": limit}


def get_count(rows: Sequence[ListRow]) -> ListCount:
    """The count that came with the first page of an aggregate list."""
    return ListCount(rows[0]["row_count"] if rows else 0, is_estimate=False, totals=[])


async def count(connection: Connection, query: ListQuery, page_size: int) -> ListCount:
    """Count the rows and add up comparable amounts: of all rows, or if too many, of those of the page."""
    conditions, values = _build_conditions(query)
    counted = 0
    estimate = await _estimate_search(connection, query)
    if estimate is None:
        counted, totals = await _add_up(connection, query, _where(conditions), values, MAX_COUNTED + 1)
        if counted <= MAX_COUNTED:
            return ListCount(counted, is_estimate=False, totals=totals)
        estimate = await _estimate(connection, query, _where(conditions), values)
    shown, totals = await _add_up_page(connection, query, page_size)
    return ListCount(max(estimate, counted, shown), is_estimate=True, totals=totals)


async def _add_up_page(
    connection: Connection, query: ListQuery, page_size: int
) -> tuple[int, list[ListTotal]]:
    if not query.definition.totals:
        return 0, []
    conditions, values = _build_conditions(query)
    page = _where([*conditions, *_start_behind(query, values)]) + _order(query)
    return await _add_up(connection, query, page, values, page_size)


async def _estimate_search(connection: Connection, query: ListQuery) -> int | None:
    """Estimate the matches of a common word by their share of the list's first rows; None for a short list.

    Under row-level security the planner has no statistics of words.
    """
    if query.search is None or query.found is not None:
        return None
    searched = query.search.name
    others = replace(query, values={name: query.values[name] for name in query.values if name != searched})
    conditions, values = _build_conditions(others)
    rows = await _estimate(connection, others, _where(conditions), values)
    if rows <= MAX_COUNTED:
        return None
    name = query.definition.name
    cursor = await connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE " + query.search.condition + ") FROM (SELECT "  # noqa: S608  # of literals
        + name + ".* FROM " + query.definition.table + _where(conditions) + _order(query)
        + " LIMIT %(sample)s) AS " + name,
        {**values, searched: query.values[searched], "sample": SAMPLE},
        prepare=False,
    )  # fmt: skip
    row = await cursor.fetchone()
    assert row is not None, "an aggregate has a row"
    tested, matching = row
    return round(rows * matching / max(tested, 1))


async def count_choices(
    connection: Connection, definition: ListDefinition, choices: Sequence[FilterChoice]
) -> dict[str, int]:
    """Count the rows of each tab, as if no other filter were set; at most MAX_COUNTED + 1.

    The tab "" is the unfiltered list. One statement counts them all.
    """
    first = definition.sorts[0]
    unfiltered, _ = _build_conditions(ListQuery(definition, {}, first, is_descending=True))
    chosen: list[LiteralString] = [definition.tab_condition]
    for each in definition.filters:
        if each.otherwise and each.name != definition.tabs:
            chosen.append(each.otherwise)  # noqa: PERF401  a comprehension would not be literal
    begin = "(SELECT count(*) FROM (SELECT FROM " + definition.table  # noqa: S608  # of literals
    end = " LIMIT %(counted)s) AS counted)"
    values = [choice.value for choice in choices]
    every: LiteralString = "SELECT '', " + begin + _where(unfiltered) + end + " UNION ALL "
    cursor = await connection.execute(
        (every if "" in values else "") + "SELECT chosen.value, " + begin + _where(chosen) + end  # noqa: S608  # of literals
        + " FROM unnest(%(choices)s::text[]) AS chosen (value)",
        {"counted": MAX_COUNTED + 1, "choices": [value for value in values if value]},
        prepare=False,
    )  # fmt: skip
    return dict(await cursor.fetchall())


async def _add_up(
    connection: Connection, query: ListQuery, end: LiteralString, values: Mapping[str, Any], limit: int
) -> tuple[int, list[ListTotal]]:
    sums = query.definition.totals
    columns = (
        f"{sums.label} AS label, {sums.currency} AS currency, {sums.amount} AS amount,"
        f" {sums.condition} AS is_comparable"
        if sums
        else "NULL AS label, NULL AS currency, NULL::numeric AS amount, false AS is_comparable"
    )
    cursor = await connection.execute(
        "SELECT label, currency, is_comparable, sum(amount), count(*) FROM (SELECT "  # noqa: S608  # of literals
        + columns + " FROM " + query.definition.table + end
        + " LIMIT %(counted)s) AS counted GROUP BY 1, 2, 3 ORDER BY 1, 2",
        {**values, "counted": limit},
        prepare=False,
    )  # fmt: skip
    groups = await cursor.fetchall()
    totals = [
        ListTotal(label, currency, amount, rows)
        for label, currency, is_comparable, amount, rows in groups
        if is_comparable and amount is not None
    ]
    return sum(group[-1] for group in groups), totals


async def _estimate(
    connection: Connection, query: ListQuery, end: LiteralString, values: Mapping[str, Any]
) -> int:
    return await estimate_rows(connection, "SELECT FROM " + query.definition.table + end, values)


def _build_conditions(query: ListQuery) -> tuple[list[LiteralString], dict[str, Any]]:
    conditions: list[LiteralString] = []
    values: dict[str, Any] = {}
    for each in query.definition.filters:
        value = query.values.get(each.name)
        if value is None or value == ALL:
            if each.otherwise and value is None:
                conditions.append(each.otherwise)
            continue
        if query.found is not None and each.search:
            conditions.append(each.found)
            values["found"] = query.found
            continue
        conditions.append(each.find_condition(value))
        values[each.name] = value
    return conditions, values


def _start_behind(query: ListQuery, values: dict[str, Any]) -> list[LiteralString]:
    """The condition of the rows behind the last one of the page before."""
    if query.after is None:
        return []
    id_, sort = query.definition.id, query.sort.expression
    values |= {"after_value": query.after.value, "after_id": query.after.id}
    if query.after.value is None:
        return ["(" + sort + " IS NOT NULL OR " + id_ + " < %(after_id)s)"]
    value = "%(after_value)s::" + _TYPES[query.sort.shape]
    last = "(" + value + ", %(after_id)s::" + query.definition.id_type + ")"
    return ["(" + sort + ", " + id_ + ")" + (" < " if query.is_descending else " > ") + last]


def _where(conditions: Sequence[LiteralString]) -> LiteralString:
    return " WHERE " + " AND ".join(conditions) if conditions else ""


def _order(query: ListQuery) -> LiteralString:
    direction: LiteralString = " DESC" if query.is_descending else ""
    return " ORDER BY " + query.sort.expression + direction + ", " + query.definition.id + direction
