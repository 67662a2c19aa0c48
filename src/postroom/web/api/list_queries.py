"""Filters and sorts of the API's lists, by the names that they have on the pages."""

from datetime import date
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from postroom.store.connection import Connection
from postroom.store.lists import list_reading
from postroom.store.lists.list_definition import ListDefinition, ListPosition, ListQuery
from postroom.store.lists.list_parameters import (
    MAX_TEXT,
    find_problem,
    format_position,
    format_value,
    parse_query,
)
from postroom.web.api.operations import ApiProblem, PageQuery

Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT, pattern=r"^[^\x00]*$")]
Words = Annotated[
    str,
    msgspec.Meta(
        max_length=MAX_TEXT,
        description="Words to search for. Quotes group words, a minus excludes one. A word of three"
        " characters or more also finds those that begin with it.",
    ),
]
Sort = Annotated[
    Text, msgspec.Meta(description="The column to sort by, as in the URL of the page; `-` sorts descending.")
]


class ListPageQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    q: Words | None = None
    sort: Sort | None = None


class BusinessListQuery(ListPageQuery, frozen=True, forbid_unknown_fields=True):
    """Filters that documents and records share. Dates are those on the document."""

    kind: Text | None = None
    due: Literal["overdue", "week"] | None = None
    from_: Annotated[date, msgspec.Meta(description="Dated on this day or later.")] | None = msgspec.field(
        name="from", default=None
    )
    until: Annotated[date, msgspec.Meta(description="Dated on this day or earlier.")] | None = None
    min: Annotated[float, msgspec.Meta(description="Minimum amount.")] | None = None
    max: Annotated[float, msgspec.Meta(description="Maximum amount.")] | None = None


class DocumentsQuery(BusinessListQuery, frozen=True, forbid_unknown_fields=True):
    state: Literal["queued", "processing", "completed", "skipped", "needs_review", "failed", "all"] = "all"
    pipeline: Text | None = None


class RecordsQuery(BusinessListQuery, frozen=True, forbid_unknown_fields=True):
    state: Literal["confirmed", "reopened", "voided", "merged", "all"] = "confirmed"
    order: Literal["linked", "missing"] | None = None
    supplier: UUID | None = None


class OrdersQuery(ListPageQuery, frozen=True, forbid_unknown_fields=True):
    kind: Text | None = None
    state: Literal["open", "matched", "closed"] | None = None


class SuppliersQuery(ListPageQuery, frozen=True, forbid_unknown_fields=True):
    kind: Text | None = None


class MessagesQuery(ListPageQuery, frozen=True, forbid_unknown_fields=True):
    mailbox: UUID | None = None
    attachments: Literal["yes", "no"] | None = None
    deleted: Annotated[Literal["all"], msgspec.Meta(description="Include deleted messages.")] | None = None
    from_: Annotated[date, msgspec.Meta(description="Received on this day or later.")] | None = msgspec.field(
        name="from", default=None
    )
    until: Annotated[date, msgspec.Meta(description="Received on this day or earlier.")] | None = None


async def read_ids(
    connection: Connection, definition: ListDefinition, query: PageQuery
) -> tuple[list[Any], str | None]:
    """The ids of the rows of a page, and the cursor of the next one."""
    parsed = await list_reading.search(connection, _parse(definition, query))
    ids, behind = await list_reading.read_ids(connection, parsed, query.limit)
    return ids, _format_cursor(behind)


async def read_rows(
    connection: Connection, definition: ListDefinition, query: PageQuery
) -> tuple[list[list_reading.ListRow], str | None]:
    """The rows of a page, and the cursor of the next one."""
    parsed = await list_reading.search(connection, _parse(definition, query))
    rows, behind = await list_reading.read_page(connection, parsed, query.limit)
    return rows, _format_cursor(behind)


def _parse(definition: ListDefinition, query: PageQuery) -> ListQuery:
    given = {
        field.encode_name: format_value(value).replace("\0", " ")
        for field in msgspec.structs.fields(query)
        if field.name not in ("limit", "cursor") and (value := getattr(query, field.name)) is not None
    }
    if problem := find_problem(definition, given, {}):
        raise ApiProblem(400, "bad-request", problem)
    parsed = parse_query(definition, {**given, "after": query.cursor or ""}, {})
    if query.cursor and parsed.after is None:
        raise ApiProblem(400, "bad-cursor", "Invalid cursor. Use `next` of the same list, or omit it.")
    return parsed


def _format_cursor(behind: ListPosition | None) -> str | None:
    return format_position(behind) if behind else None
