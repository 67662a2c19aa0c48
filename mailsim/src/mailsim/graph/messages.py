"""The routes of Graph that read messages: get, count, list with $filter, $orderby, $search and others.

Other routes use its functions to find a message by path and to convert messages to JSON.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from itertools import islice, takewhile
from typing import Any

from mailsim.graph import (
    attachments,
    entity_types,
    extended_properties,
    filters,
    folders,
    message_json,
    odata,
    search,
)
from mailsim.graph.errors import GraphError, access_denied, bad_request, malformed_id, not_found
from mailsim.graph.ids import MalformedIdError
from mailsim.graph.message_json import MessageView
from mailsim.graph.request import GraphCall, GraphResponse
from mailsim.message_state import RECOVERABLE_ITEMS, Folder, MessageState

DEFAULT_PAGE = 10
MAX_SORTED = 50_000  # Exchange rejects ordering more than this as inefficient
MAX_SEARCHED = 5_000
MAX_HITS = 1_000
MAX_SCANNED = 50_000  # messages that a filter may read one by one
INDEX_THRESHOLD = 1_000  # larger mailboxes are searched for a Message-ID by index, not by scan
_YIELD_EVERY = 50  # messages scanned, then let other requests run
SEARCH_PAGE = 25
_EXPANDED = {
    "singleValueExtendedProperties": extended_properties.expand,
    "multiValueExtendedProperties": extended_properties.expand_arrays,
    "extensions": extended_properties.expand_extensions,
}
_STATE_PATHS = frozenset({"isRead", "isDraft", "flag/flagStatus", "categories"})


def find(call: GraphCall, name: str) -> MessageView:
    """Return the message with this ID."""
    try:
        number = call.ids.parse_message_id(name)
    except MalformedIdError as error:
        raise malformed_id() from error
    if number is None or not call.graph.is_readable(call.mailbox, number):
        raise not_found()
    view = call.graph.make_view(call.mailbox, number, call.prefer)
    if view is None:
        raise not_found()
    return view


def find_in_path(call: GraphCall) -> MessageView:
    """Return the message of the path; if the path names a folder, the message must be in it."""
    folder, name = split_path(call)
    view = find(call, name)
    if folder is not None and view.state.folder != folder.key:
        raise not_found()
    return view


def split_path(call: GraphCall) -> tuple[Folder | None, str]:
    """Return the folder, if the path names one, and the message ID."""
    nested = "/mailfolders" in call.path.lower()
    return (folders.find(call, call.names[0]), call.names[1]) if nested else (None, call.names[0])


def select_names(call: GraphCall, query: odata.ODataQuery) -> tuple[str, ...]:
    """Return the properties to show: the selected or the default ones, fewer with Mail.ReadBasic."""
    if query.select is None:
        return (
            tuple(n for n in message_json.DEFAULT if n not in entity_types.PRIVATE)
            if call.basic
            else message_json.DEFAULT
        )
    selected = {"id", *query.select}
    if call.basic and selected & entity_types.PRIVATE:
        raise access_denied()
    return tuple(name for name in message_json.BUILDERS if name in selected)


def to_json(
    call: GraphCall,
    views: Iterable[MessageView],
    query: odata.ODataQuery,
    names: tuple[str, ...],
    *,
    typed: bool = False,
) -> list[dict[str, Any]]:
    if query.expand and call.basic:
        raise access_denied()
    responses: list[dict[str, Any]] = []
    for view, response in message_json.to_json_many(views, names, typed=typed):
        for expand in query.expand:
            if expand.name == "attachments":
                expanded = attachments.expand(call, view, expand.options)
                base = f"users('{call.user.oid if call.user else ''}')/messages('{view.id}')/attachments"
                response["attachments@odata.context"] = call.context(base)
                response["attachments"] = expanded
            elif (read := _EXPANDED.get(expand.name)) and (found := read(view, expand.options)):
                response[expand.name] = found
        responses.append(response)
    return responses


async def get(call: GraphCall) -> GraphResponse:
    assert call.user is not None
    query = call.query(entity_types.MESSAGE)
    view = find_in_path(call)
    tail = f"users('{call.user.oid}')/messages{_format_selection(query)}/$entity"
    [properties] = to_json(call, [view], query, select_names(call, query))
    return GraphResponse(
        200, {"@odata.context": call.context(tail), **properties}, headers=call.preference_headers()
    )


def _format_selection(query: odata.ODataQuery) -> str:
    return f"({','.join(query.select)})" if query.select else ""


async def get_mime(call: GraphCall) -> GraphResponse:
    """The message as MIME."""
    return GraphResponse(200, call.mailbox.raw(find_in_path(call).number), "text/plain")


async def count(call: GraphCall) -> GraphResponse:
    query = call.query(entity_types.MESSAGE)
    return GraphResponse(200, str(await _count_matching(call, query)).encode(), "text/plain")


async def list_page(call: GraphCall) -> GraphResponse:
    assert call.user is not None
    query = call.query(entity_types.MESSAGE)
    names = select_names(call, query)
    if query.search is not None:
        return await _search_page(call, query, names)
    odata.check_efficiency(query)
    if (
        call.basic
        and query.where is not None
        and entity_types.PRIVATE & {p.split("/")[0] for p in filters.list_paths(query.where)}
    ):
        raise access_denied()
    size = query.top or DEFAULT_PAGE
    views = await _list_ordered(call, query, size + 1)
    tail = f"users('{call.user.oid}')/messages{_format_selection(query)}"
    response: dict[str, Any] = {"@odata.context": call.context(tail)}
    if query.count:
        response["@odata.count"] = await _count_matching(call, query)
    response["value"] = to_json(call, views[:size], query, names)
    if len(views) > size:
        options = {**call.raw, "$skip": str(query.skip + size)}
        response["@odata.nextLink"] = odata.build_link(call.url, options)
    return GraphResponse(200, response, headers=call.preference_headers())


def _find_folder(call: GraphCall) -> Folder | None:
    return folders.find(call, call.names[0]) if "/mailfolders" in call.path.lower() else None


def _split_filter(
    call: GraphCall, query: odata.ODataQuery
) -> tuple[Callable[[MessageState], bool], filters.FilterNode | None]:
    """Split the filter into a predicate on the message state and the rest.

    The predicate is evaluated once for all messages with equal state.
    """
    folder = _find_folder(call)
    parts = (
        query.where.parts
        if isinstance(query.where, filters.Conjunction)
        else (query.where,)
        if query.where
        else ()
    )
    if folder is not None and folder.kind == "search":
        parts = (*parts, filters.parse(folder.query, entity_types.MESSAGE))
    cheap = [part for part in parts if _STATE_PATHS.issuperset(filters.list_paths(part))]
    rest = tuple(part for part in parts if part not in cheap)
    key = folder.key if folder is not None and folder.kind != "search" else None

    def fits(state: MessageState) -> bool:
        if key is None:
            if RECOVERABLE_ITEMS in state.folder_keys:
                return False
        elif key not in state.folder_keys:
            return False
        return all(filters.matches(part, lambda name: _get_state_property(state, name)) for part in cheap)

    return fits, filters.Conjunction(rest) if rest else None


def _get_state_property(state: MessageState, name: str) -> Any:
    properties: dict[str, Any] = {
        "isRead": state.read,
        "isDraft": state.draft,
        "flag": {"flagStatus": state.flag},
        "categories": state.categories,
    }
    return properties[name]


async def _iterate_matching(
    call: GraphCall, query: odata.ODataQuery, *, oldest: bool = False, skip: int = 0
) -> AsyncGenerator[MessageView]:
    """Iterate lazily over the messages that pass the filter, newest first unless `oldest`.

    It yields to other requests while it scans.
    """
    fits, rest = _split_filter(call, query)
    numbers = _iterate_candidates(call, fits, rest, oldest=oldest)
    if rest is None:  # then skipping costs nothing
        numbers, skip = islice(numbers, skip, None), 0
    costly = rest is not None and not message_json.CHEAP.issuperset(filters.list_paths(rest))
    for scanned, number in enumerate(numbers):
        if costly and scanned > MAX_SCANNED:
            raise GraphError(504, "UnknownError", "The request timed out: the filter is too costly.")
        if scanned % _YIELD_EVERY == _YIELD_EVERY - 1:
            await asyncio.sleep(0)
        view = call.graph.make_view(call.mailbox, number, call.prefer)
        if view is not None and (rest is None or filters.matches(rest, view)):
            if skip:
                skip -= 1
            else:
                yield view


def _iterate_candidates(
    call: GraphCall, fits: Callable[[MessageState], bool], rest: filters.FilterNode | None, *, oldest: bool
) -> Iterator[int]:
    """Iterate over candidates within the filter's bounds; large mailboxes look up a Message-ID by index."""
    mailbox = call.mailbox
    message_id = filters.find_required_value(rest, "internetMessageId")
    if message_id is not None and len(mailbox) > INDEX_THRESHOLD:
        numbers = mailbox.find_all_by_message_id(str(message_id))
        states = ((number, mailbox.state(number)) for number in (numbers if oldest else reversed(numbers)))
        return (number for number, state in states if state is not None and fits(state))
    since = filters.find_lower_bound(rest, "receivedDateTime")
    first = mailbox.first_number_since(int(since.timestamp() * 1000)) if since is not None else 0
    if oldest:
        return mailbox.states.oldest(fits, first)
    return takewhile(lambda number: number >= first, mailbox.states.newest(fits))


async def _take(views: AsyncGenerator[MessageView], count: int) -> list[MessageView]:
    taken: list[MessageView] = []
    async with aclosing(views):
        async for view in views:
            taken.append(view)
            if len(taken) == count:
                break
    return taken


async def _list_ordered(call: GraphCall, query: odata.ODataQuery, count: int) -> list[MessageView]:
    """Return the first `count` messages in order, after the skipped ones."""
    order = query.orderby
    if not order or order[0][0] in {"receivedDateTime", "createdDateTime"}:
        oldest = bool(order) and not order[0][1]
        return await _take(_iterate_matching(call, query, oldest=oldest, skip=query.skip), count)
    rows: list[tuple[MessageView, list[tuple[bool, Any]]]] = []
    async for view in _iterate_matching(call, query):
        rows.append((view, [_sortable(filters.get_value(view, path)) for path, _ in order]))
        if len(rows) > MAX_SORTED:
            raise bad_request(
                "The restriction or sort order is too complex for this operation.", "InefficientFilter"
            )
    for position, (_, descending) in reversed([*enumerate(order)]):
        rows.sort(key=lambda row, position=position: row[1][position], reverse=descending)
    return [view for view, _ in rows[query.skip : query.skip + count]]


def _sortable(value: Any) -> tuple[bool, Any]:
    return value is not None, value.casefold() if isinstance(value, str) else value


async def _count_matching(call: GraphCall, query: odata.ODataQuery) -> int:
    fits, rest = _split_filter(call, query)
    if rest is None:
        return call.mailbox.states.count(fits)
    return len([1 async for _ in _iterate_matching(call, query)])


async def _search_page(call: GraphCall, query: odata.ODataQuery, names: tuple[str, ...]) -> GraphResponse:
    """Return a page of $search, which covers the newest mail and excludes $filter and $orderby."""
    assert call.user is not None
    assert query.search is not None
    if call.basic:
        raise access_denied()
    if query.orderby:
        raise bad_request(
            "The query parameter '$orderBy' is not supported with '$search'.", "SearchWithOrderBy"
        )
    if query.where is not None:
        raise bad_request(
            "The query parameter '$filter' is not supported with '$search'.", "SearchWithFilter"
        )
    size, start = query.top or SEARCH_PAGE, _find_search_start(call, query)
    hits = await _find_hits(call, query, search.parse(query.search, call.graph.sim.clock.now()))
    response: dict[str, Any] = {
        "@odata.context": call.context(f"users('{call.user.oid}')/messages{_format_selection(query)}"),
        "value": to_json(call, hits[start : start + size], query, names),
    }
    if len(hits) > start + size:
        options = {name: value for name, value in call.raw.items() if name != "$skip"}
        options["$skiptoken"] = str(start + size)
        response["@odata.nextLink"] = odata.build_link(call.url, options)
    return GraphResponse(200, response, headers=call.preference_headers())


async def _find_hits(
    call: GraphCall, query: odata.ODataQuery, matches: search.Predicate
) -> list[MessageView]:
    """Return the matches among the newest messages, at most 1,000, last sent first."""
    hits: list[MessageView] = []
    scanned = 0
    async with aclosing(_iterate_matching(call, query)) as newest:
        async for view in newest:
            scanned += 1
            if matches(search.SearchedMessage(view)):
                hits.append(view)
            if len(hits) == MAX_HITS or scanned == MAX_SEARCHED:
                break
    return sorted(hits, key=lambda view: view("sentDateTime"), reverse=True)


def _find_search_start(call: GraphCall, query: odata.ODataQuery) -> int:
    text = call.raw.get("$skiptoken", str(query.skip))
    if not (text.isascii() and text.isdecimal() and len(text) < 11):
        raise bad_request("The query parameter '$skiptoken' is not valid.")
    return int(text)
