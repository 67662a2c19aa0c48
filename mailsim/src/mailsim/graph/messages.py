"""Messages read one by one and page by page: $select, $expand, $filter, $orderby, $search, $count."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from itertools import islice, takewhile
from typing import Any

from mailsim.graph import attachments, filters, folders, kinds, odata, wire
from mailsim.graph.context import Answer, Call
from mailsim.graph.errors import GraphError, access_denied, bad_request, malformed_id, not_found
from mailsim.graph.ids import MalformedIdError
from mailsim.graph.wire import View
from mailsim.state import Folder, State

DEFAULT_PAGE = 10
MOST_SORTED = 50_000  # ordering more than this is what Exchange calls inefficient
MOST_SEARCHED = 5_000
MOST_LOOKED_AT = 50_000  # of the messages that a filter must read one by one
INDEXED = 1_000  # a mailbox with more messages than this is not read through for a Message-ID
_BREATH = 50  # messages looked at between two looks at other requests
SEARCH_PAGE = 25
_STATE_PATHS = frozenset({"isRead", "isDraft", "flag/flagStatus", "categories"})
_TERM = re.compile(r'(?:(\w+):)?("[^"]*"|\S+)')


def find(call: Call, name: str) -> View:
    """The message of a path; under a folder it must lie in that folder."""
    try:
        number = call.ids.read_message(name)
    except MalformedIdError as error:
        raise malformed_id() from error
    if number is None or not call.graph.readable(call.mailbox, number):
        raise not_found()
    view = call.graph.view(call.mailbox, number, call.prefer)
    if view is None:
        raise not_found()
    return view


def found(call: Call) -> View:
    """The message that the path names, with or without its folder before it."""
    folder, name = place(call)
    view = find(call, name)
    if folder is not None and view.state.folder != folder.key:
        raise not_found()
    return view


def place(call: Call) -> tuple[Folder | None, str]:
    """The folder and the message id of a path, or only the id."""
    nested = "/mailfolders" in call.path.lower()
    return (folders.find(call, call.names[0]), call.names[1]) if nested else (None, call.names[0])


def names_for(call: Call, query: odata.Query) -> tuple[str, ...]:
    """The properties to show: the selected ones, or the default set; less of it with Mail.ReadBasic."""
    if query.select is None:
        return tuple(n for n in wire.DEFAULT if n not in kinds.PRIVATE) if call.basic else wire.DEFAULT
    wanted = {"id", *query.select}
    if call.basic and wanted & kinds.PRIVATE:
        raise access_denied()
    return tuple(name for name in wire.BUILDERS if name in wanted)


def shapes(
    call: Call, views: Iterable[View], query: odata.Query, names: tuple[str, ...], *, typed: bool = False
) -> list[dict[str, Any]]:
    if query.expand and call.basic:
        raise access_denied()
    answers: list[dict[str, Any]] = []
    for view, answer in wire.messages(views, names, typed=typed):
        for expand in query.expand:
            if expand.name == "attachments":
                shown = attachments.shapes(call, view, expand.options)
                base = f"users('{call.user.oid if call.user else ''}')/messages('{view.id}')/attachments"
                answer["attachments@odata.context"] = call.context(base)
                answer["attachments"] = shown
        answers.append(answer)
    return answers


async def get(call: Call) -> Answer:
    assert call.user is not None
    query = call.query(kinds.MESSAGE)
    view = found(call)
    tail = f"users('{call.user.oid}')/messages{_selection(query)}/$entity"
    [shown] = shapes(call, [view], query, names_for(call, query))
    return Answer(200, {"@odata.context": call.context(tail), **shown}, headers=call.applied())


def _selection(query: odata.Query) -> str:
    return f"({','.join(query.select)})" if query.select else ""


async def value(call: Call) -> Answer:
    """The message as MIME."""
    return Answer(200, call.mailbox.raw(found(call).number), "text/plain")


async def count(call: Call) -> Answer:
    query = call.query(kinds.MESSAGE)
    return Answer(200, str(await _count(call, query)).encode(), "text/plain")


async def page(call: Call) -> Answer:
    assert call.user is not None
    query = call.query(kinds.MESSAGE)
    names = names_for(call, query)
    if query.search is not None:
        return await _searched(call, query, names)
    odata.check_efficiency(query)
    if (
        call.basic
        and query.where is not None
        and kinds.PRIVATE & {p.split("/")[0] for p in filters.paths(query.where)}
    ):
        raise access_denied()
    size = query.top or DEFAULT_PAGE
    views = await _ordered(call, query, size + 1)
    tail = f"users('{call.user.oid}')/messages{_selection(query)}"
    answer: dict[str, Any] = {"@odata.context": call.context(tail)}
    if query.count:
        answer["@odata.count"] = await _count(call, query)
    answer["value"] = shapes(call, views[:size], query, names)
    if len(views) > size:
        options = {**call.raw, "$skip": str(query.skip + size)}
        answer["@odata.nextLink"] = odata.link(call.url, options)
    return Answer(200, answer, headers=call.applied())


def _folder_of(call: Call) -> Folder | None:
    return folders.find(call, call.names[0]) if "/mailfolders" in call.path.lower() else None


def _where(call: Call, query: odata.Query) -> tuple[Callable[[State], bool], filters.Node | None]:
    """What the state alone decides, once for all messages of equal state, and what is left of the filter."""
    folder = _folder_of(call)
    parts = (
        query.where.parts if isinstance(query.where, filters.Both) else (query.where,) if query.where else ()
    )
    if folder is not None and folder.kind == "search":
        parts = (*parts, filters.parse(folder.query, kinds.MESSAGE))
    cheap = [part for part in parts if _STATE_PATHS.issuperset(filters.paths(part))]
    rest = tuple(part for part in parts if part not in cheap)
    key = folder.key if folder is not None and folder.kind != "search" else None

    def fits(state: State) -> bool:
        if key is None:
            if "recoverableitemsdeletions" in state.places:
                return False
        elif key not in state.places:
            return False
        return all(filters.holds(part, lambda name: _of_state(state, name)) for part in cheap)

    return fits, filters.Both(rest) if rest else None


def _of_state(state: State, name: str) -> Any:
    known: dict[str, Any] = {
        "isRead": state.read,
        "isDraft": state.draft,
        "flag": {"flagStatus": state.flag},
        "categories": state.categories,
    }
    return known[name]


async def _matching(
    call: Call, query: odata.Query, *, oldest: bool = False, skip: int = 0
) -> AsyncGenerator[View]:
    """Messages that pass the filter, newest first unless asked otherwise, each made when it is needed.

    However many must be looked at, other requests are answered meanwhile.
    """
    fits, rest = _where(call, query)
    numbers = _numbers(call, fits, rest, oldest=oldest)
    if rest is None:  # then passing over some costs nothing
        numbers, skip = islice(numbers, skip, None), 0
    costly = rest is not None and not wire.CHEAP.issuperset(filters.paths(rest))
    for looked, number in enumerate(numbers):
        if costly and looked > MOST_LOOKED_AT:
            raise GraphError(504, "UnknownError", "The request timed out: the filter is too costly.")
        if looked % _BREATH == _BREATH - 1:
            await asyncio.sleep(0)
        view = call.graph.view(call.mailbox, number, call.prefer)
        if view is not None and (rest is None or filters.holds(rest, view)):
            if skip:
                skip -= 1
            else:
                yield view


def _numbers(
    call: Call, fits: Callable[[State], bool], rest: filters.Node | None, *, oldest: bool
) -> Iterator[int]:
    """Candidates, by the bounds that a filter sets; a Message-ID in a large mailbox is found by its index."""
    mailbox = call.mailbox
    wanted = filters.equal_to(rest, "internetMessageId")
    if wanted is not None and len(mailbox) > INDEXED:
        known = mailbox.all_by_message_id(str(wanted))
        states = ((number, mailbox.state(number)) for number in (known if oldest else reversed(known)))
        return (number for number, state in states if state is not None and fits(state))
    since = filters.not_before(rest, "receivedDateTime")
    first = mailbox.number_at(int(since.timestamp() * 1000)) if since is not None else 0
    if oldest:
        return mailbox.states.oldest(fits, first)
    return takewhile(lambda number: number >= first, mailbox.states.newest(fits))


async def _first(views: AsyncGenerator[View], count: int) -> list[View]:
    found: list[View] = []
    async with aclosing(views):
        async for view in views:
            found.append(view)
            if len(found) == count:
                break
    return found


async def _ordered(call: Call, query: odata.Query, count: int) -> list[View]:
    """The first so many messages after the skipped ones."""
    order = query.orderby
    if not order or order[0][0] in {"receivedDateTime", "createdDateTime"}:
        oldest = bool(order) and not order[0][1]
        return await _first(_matching(call, query, oldest=oldest, skip=query.skip), count)
    found: list[tuple[View, list[tuple[bool, Any]]]] = []
    async for view in _matching(call, query):
        found.append((view, [_sortable(filters.reach(view, path)) for path, _ in order]))
        if len(found) > MOST_SORTED:
            raise bad_request(
                "The restriction or sort order is too complex for this operation.", "InefficientFilter"
            )
    for place, (_, descending) in reversed([*enumerate(order)]):
        found.sort(key=lambda one, place=place: one[1][place], reverse=descending)
    return [view for view, _ in found[query.skip : query.skip + count]]


def _sortable(value: Any) -> tuple[bool, Any]:
    return value is not None, value.casefold() if isinstance(value, str) else value


async def _count(call: Call, query: odata.Query) -> int:
    fits, rest = _where(call, query)
    if rest is None:
        return call.mailbox.states.count(fits)
    return len([1 async for _ in _matching(call, query)])


async def _searched(call: Call, query: odata.Query, names: tuple[str, ...]) -> Answer:
    """$search looks at the newest mail for words, and goes with neither $filter nor $orderby."""
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
    size = query.top or SEARCH_PAGE
    start = _skipped(call)
    hits = await _hits(call, query, _terms(query.search), start + size + 1)
    hits = hits[start:]
    answer: dict[str, Any] = {
        "@odata.context": call.context(f"users('{call.user.oid}')/messages{_selection(query)}"),
        "value": shapes(call, hits[:size], query, names),
    }
    if len(hits) > size:
        options = {**call.raw, "$skiptoken": str(start + size)}
        answer["@odata.nextLink"] = odata.link(call.url, options)
    return Answer(200, answer, headers=call.applied())


async def _hits(call: Call, query: odata.Query, terms: list[tuple[str, str]], most: int) -> list[View]:
    """Of the newest mail, what holds all the words."""
    hits: list[View] = []
    looked = 0
    async with aclosing(_matching(call, query)) as newest:
        async for view in newest:
            looked += 1
            if all(_hit(view, *term) for term in terms):
                hits.append(view)
            if len(hits) == most or looked == MOST_SEARCHED:
                break
    return hits


def _skipped(call: Call) -> int:
    text = call.raw.get("$skiptoken", "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        raise bad_request("The query parameter '$skiptoken' is not valid.")
    return int(text)


def _terms(text: str) -> list[tuple[str, str]]:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].replace('\\"', '"')
    return [(name.lower(), word.strip('"').casefold()) for name, word in _TERM.findall(text)]


def _hit(view: View, name: str, word: str) -> bool:
    """A property's words, or with no property named those of subject, sender and body."""
    sources = {"subject": ("subject",), "from": ("from",), "body": ("body",), "to": ("toRecipients",)}
    named = sources.get(name, ("subject", "from", "bodyPreview", "body"))
    return any(word in str(view(one)).casefold() for one in named)
