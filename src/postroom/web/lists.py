"""Pages of lists: what the URL asks for, the rows with links to sort and filter, exports and saved views.

The lists themselves are in `store.lists`. Everything that a page shows is in its URL, so that it can be
shared, saved and exported.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Final
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.model import Role
from postroom.store import saved_views
from postroom.store.connection import Connection
from postroom.store.lists import list_reading
from postroom.store.lists.list_definition import (
    ALL,
    FilterChoice,
    ListColumn,
    ListDefinition,
    ListFilter,
    ListPosition,
    ListQuery,
)
from postroom.store.lists.list_parameters import (
    MAX_QUERY,
    Choices,
    describe_query,
    find_rejected_filter,
    format_position,
    format_value,
    parse_query,
)
from postroom.store.lists.list_reading import MAX_COUNTED, ListCount, ListRow
from postroom.store.saved_views import SavedView
from postroom.web import field_labels, forms, list_export, pages
from postroom.web.list_export import ListFormat
from postroom.web.sessions import SiteContext, get_visitor, member_route

PAGE_SIZE: Final = 50

LoadChoices = Callable[[Connection], Awaitable[Choices]]


@dataclass(frozen=True)
class ListPages:
    """The pages of one list. `choices` loads those of filters that depend on the organization.

    `prepare` runs before the list is read. `report` returns what the URL says about a finished action.
    """

    site: SiteContext
    definition: ListDefinition
    template: str
    choices: LoadChoices
    prepare: Callable[[Connection], Awaitable[None]] | None = None
    report: Callable[[Mapping[str, str]], object] = lambda _: None


@dataclass(frozen=True, slots=True)
class FilterView:
    """A filter in the form, with the text of its value. `rest_url` is the list without this filter."""

    filter: ListFilter
    value: str
    choices: Sequence[FilterChoice]
    rest_url: str


@dataclass(frozen=True, slots=True)
class ListTab:
    label: str
    url: str
    count: int | None  # at most MAX_COUNTED + 1; None if other filters are set
    is_current: bool


@dataclass(frozen=True, slots=True)
class ListHeading:
    """A column, and the link that sorts by it. `order` is for the column that the list is sorted by."""

    column: ListColumn
    url: str | None
    order: str | None


@dataclass(frozen=True, slots=True)
class ListView:
    """A list as the template shows it."""

    definition: ListDefinition
    query: str  # of the URL, without the position
    headings: Sequence[ListHeading]
    below: Mapping[str, ListColumn]  # by the name of the column that it is shown in
    rows: Sequence[ListRow]
    count: ListCount
    tabs: Sequence[ListTab]
    filters: Sequence[FilterView]
    sort: str
    views: Sequence[SavedView]
    next_url: str | None
    is_first: bool
    exports: Sequence[tuple[str, str]]
    problem: str | None  # why a filter is ignored

    @property
    def path(self) -> str:
        return f"/{self.definition.name}"

    @property
    def is_filtered(self) -> bool:
        return any(each.value for each in self.filters)


def routes(lists: ListPages) -> list[Route]:
    """The routes of one list."""
    site, path = lists.site, f"/{lists.definition.name}"
    return [
        member_route(site, path, partial(list_page, lists)),
        member_route(site, f"{path}/export", partial(export, lists)),
        member_route(site, f"{path}/views", partial(save_view, lists), Role.READER, methods=["POST"]),
    ]


def view_routes(site: SiteContext) -> list[Route]:
    """The routes of saved views, whatever their list."""
    return [
        member_route(site, "/views/{view:uuid}/remove", partial(remove_view, site), methods=["POST"]),
    ]


async def list_page(lists: ListPages, request: Request) -> Response:
    """Show a page of the list."""
    visitor = get_visitor(request)
    async with lists.site.database.transaction(visitor.organization) as connection:
        if lists.prepare:
            await lists.prepare(connection)
        view = await load_view(connection, lists, request, visitor.member)
    return pages.render_page(
        request,
        lists.template,
        list=view,
        report=lists.report(request.query_params),
        kind_label=field_labels.kind_label,
        max_counted=MAX_COUNTED,
        now=datetime.now(UTC),
        today=datetime.now(UTC).date().isoformat(),
    )


async def load_view(connection: Connection, lists: ListPages, request: Request, member: UUID) -> ListView:
    """Read what the URL asks for."""
    definition, params = lists.definition, request.query_params
    choices = await lists.choices(connection)
    query = await list_reading.search(connection, parse_query(definition, params, choices))
    async with connection.in_one_round_trip() as tasks:
        page = tasks.create_task(list_reading.read_page(connection, query, PAGE_SIZE))
        count = tasks.create_task(_count(connection, query, page))
        tabs = tasks.create_task(_count_tabs(connection, query, choices, count))
        views = tasks.create_task(saved_views.list_by_member(connection, member, definition.name))
    rows, behind = page.result()
    chosen = describe_query(query)
    shown = definition.list_columns(is_trade=query.is_trade)
    after = {**chosen, "after": format_position(behind)} if behind else None
    return ListView(
        definition,
        urlencode(chosen),
        _build_headings(definition, shown, query, chosen),
        _place_below(shown),
        rows,
        count.result(),
        _build_tabs(definition, query, chosen, tabs.result()),
        _build_filters(definition, query, choices, chosen),
        chosen.get("sort", ""),
        views.result(),
        f"/{definition.name}?{urlencode(after)}" if after else None,
        query.after is None,
        [
            (form.label, f"/{definition.name}/export?{urlencode({**chosen, 'format': form.value})}")
            for form in list_export.list_available()
        ],
        _describe_problem(definition, params, choices),
    )


def _describe_problem(definition: ListDefinition, params: Mapping[str, str], choices: Choices) -> str | None:
    rejected = find_rejected_filter(definition, params, choices)
    if rejected is None:
        return None
    text = params[rejected.name].strip()[:60]
    expected = {"amount": " Enter a number such as 1234.50.", "day": " Enter a date such as 2026-02-04."}
    return f"“{rejected.label}” does not accept “{text}”.{expected.get(rejected.shape, '')}"


def _build_headings(
    definition: ListDefinition, columns: Sequence[ListColumn], query: ListQuery, chosen: Mapping[str, str]
) -> list[ListHeading]:
    sorts = {sort.name: sort for sort in definition.sorts}
    headings: list[ListHeading] = []
    for column in columns:
        if column.placement not in ("heading", "column"):
            continue
        sort = sorts.get(column.name)
        url = order = None
        if sort is not None:
            is_current = sort == query.sort
            descend = not query.is_descending if is_current else sort.is_descending
            order = ("descending" if query.is_descending else "ascending") if is_current else None
            if not sort.nulls_first:
                name = ("-" if descend else "") + sort.name
                url = f"/{definition.name}?{urlencode({**chosen, 'sort': name})}"
        headings.append(ListHeading(column, url, order))
    return headings


def _place_below(columns: Sequence[ListColumn]) -> dict[str, ListColumn]:
    """The columns that are the second line of another one, by its name."""
    return {before.name: column for before, column in pairwise(columns) if column.placement == "below"}


async def _count(
    connection: Connection, query: ListQuery, page: asyncio.Task[tuple[list[ListRow], ListPosition | None]]
) -> ListCount:
    if query.definition.is_aggregate and query.after is None:
        rows, _ = await page
        return list_reading.get_count(rows)
    count = await list_reading.count(connection, query, PAGE_SIZE)
    rows, _ = await page
    return replace(count, rows=max(count.rows, len(rows)))


async def _count_tabs(
    connection: Connection, query: ListQuery, choices: Choices, count: asyncio.Task[ListCount]
) -> list[tuple[FilterChoice, int | None]]:
    """The choices of the list's main filter, and how many rows each has, unless other filters are set.

    The count of an unfiltered list is also that of its first tab.
    """
    definition, name = query.definition, query.definition.tabs
    if not name:
        return []
    main = next(each for each in definition.filters if each.name == name)
    offered = [choice for choice in (*main.choices, *choices.get(name, ())) if choice.value != ALL]
    if len(offered) > 8:
        return []
    every = (FilterChoice("", main.default_label), *offered)
    if query.values.keys() - {name}:
        return [(each, None) for each in every]
    counts = await list_reading.count_choices(connection, definition, every if query.values else offered)
    if not query.values:
        counts[""] = min((await count).rows, MAX_COUNTED + 1)
    return [(each, counts[each.value]) for each in every]


def _build_tabs(
    definition: ListDefinition,
    query: ListQuery,
    chosen: Mapping[str, str],
    counts: Sequence[tuple[FilterChoice, int | None]],
) -> list[ListTab]:
    """The tabs, with the other filters kept."""
    name = definition.tabs
    current = query.values.get(name, "")
    tabs: list[ListTab] = []
    for choice, count in counts:
        rest = {key: text for key, text in chosen.items() if key != name}
        rest |= {name: choice.value} if choice.value else {}
        tabs.append(ListTab(choice.label, _build_url(definition, rest), count, str(current) == choice.value))
    return tabs


def _build_filters(
    definition: ListDefinition, query: ListQuery, choices: Choices, chosen: Mapping[str, str]
) -> list[FilterView]:
    return [
        FilterView(
            each,
            format_value(query.values[each.name]) if each.name in query.values else "",
            (*each.choices, *choices.get(each.name, ())),
            _build_url(definition, {key: text for key, text in chosen.items() if key != each.name}),
        )
        for each in definition.filters
    ]


def _build_url(definition: ListDefinition, chosen: Mapping[str, str]) -> str:
    return f"/{definition.name}{'?' if chosen else ''}{urlencode(chosen)}"


async def export(lists: ListPages, request: Request) -> Response:
    """Send all rows that the list shows with these filters, in its order, as a file."""
    try:
        form = ListFormat(request.query_params.get("format", ""))
    except ValueError:
        raise HTTPException(404) from None
    if form not in list_export.list_available():
        raise HTTPException(404)
    definition = lists.definition
    async with lists.site.database.transaction(get_visitor(request).organization) as connection:
        query = parse_query(definition, request.query_params, await lists.choices(connection))
        query = await list_reading.search(connection, query)
        rows = await list_reading.read_all(connection, query)
    if len(rows) > list_reading.MAX_EXPORTED:
        return pages.render_page(request, "list_too_long.html", 413, limit=list_reading.MAX_EXPORTED)
    columns = definition.list_columns(is_trade=query.is_trade)
    content = await run_in_threadpool(list_export.write, form, columns, rows)
    name = f"{definition.name}-{datetime.now(UTC):%Y-%m-%d}.{form.value}"
    return Response(
        content,
        media_type=form.media_type,
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


async def save_view(lists: ListPages, request: Request) -> Response:
    """Keep the filters and the sorting of a list under a name, for this member."""
    visitor, form = get_visitor(request), await forms.read(request)
    name = form.get("name", "").strip()[:60]
    query = form.get("query", "")[:MAX_QUERY]
    if not name or "\0" in name:
        raise HTTPException(400)
    async with lists.site.database.transaction(visitor.organization) as connection:
        parsed = parse_query(lists.definition, dict(parse_qsl(query)), await lists.choices(connection))
        query = urlencode(describe_query(parsed))
        await saved_views.save(connection, visitor.member, lists.definition.name, name, query)
    return RedirectResponse(f"/{lists.definition.name}{'?' if query else ''}{query}", 303)


async def remove_view(site: SiteContext, request: Request) -> Response:
    """Remove a view that the member saved."""
    visitor = get_visitor(request)
    async with site.database.transaction(visitor.organization) as connection:
        name = await saved_views.remove(connection, visitor.member, request.path_params["view"])
    if name is None:
        raise HTTPException(404)
    return RedirectResponse(f"/{name}", 303)
