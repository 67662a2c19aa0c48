"""Mail folders: found by id or well-known name, listed level by level, created, renamed, moved, deleted."""

from typing import Any

from mailsim.errors import SimulatorError
from mailsim.graph import filters, kinds, odata
from mailsim.graph.context import Answer, Call, argument, text_of
from mailsim.graph.errors import GraphError, bad_request, malformed_id, not_found
from mailsim.graph.ids import MalformedIdError
from mailsim.mailbox import Mailbox
from mailsim.state import OUTLOOK_ROOT, Folder

DEFAULT_PAGE = 10
WELL_KNOWN = frozenset(
    {
        "archive",
        "clutter",
        "conflicts",
        "conversationhistory",
        "deleteditems",
        "drafts",
        "inbox",
        "junkemail",
        "localfailures",
        "msgfolderroot",
        "outbox",
        "recoverableitemsdeletions",
        "scheduled",
        "searchfolders",
        "sentitems",
        "serverfailures",
        "syncissues",
    }
)


def find(call: Call, name: str) -> Folder:
    """The folder of a path, by id or by well-known name in any case."""
    if name.lower() in WELL_KNOWN:
        found = call.mailbox.folders.get(name.lower())
        if found is None:
            raise not_found()
        return found
    try:
        key = call.ids.read_folder(name)
    except MalformedIdError as error:
        raise malformed_id() from error
    if key is None:
        raise not_found()
    return call.mailbox.folders[key]


def _visible(folder: Folder, *, hidden: bool) -> bool:
    return hidden or not folder.hidden


def _children(mailbox: Mailbox, key: str, *, hidden: bool) -> list[Folder]:
    return [one for one in mailbox.folders.values() if one.parent == key and _visible(one, hidden=hidden)]


def shape(call: Call, folder: Folder, select: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Search folders say their type; counts are those of now."""
    mailbox, ids = call.mailbox, call.ids
    states = mailbox.states
    inside = mailbox.inside(folder.key)
    answer: dict[str, Any] = {
        "id": ids.folder(folder.key),
        "displayName": folder.name,
        "parentFolderId": ids.folder(folder.parent or OUTLOOK_ROOT),
        "childFolderCount": len(_children(mailbox, folder.key, hidden=False)),
        "unreadItemCount": states.count(lambda state: inside(state) and not state.read),
        "totalItemCount": states.count(inside),
        "isHidden": folder.hidden,
    }
    if select is not None:
        answer = {name: value for name, value in answer.items() if name in select or name == "id"}
    if folder.kind != "search":
        return answer
    sources = [ids.folder(OUTLOOK_ROOT)]
    extra: dict[str, Any] = {"isSupported": True, "includeNestedFolders": True, "sourceFolderIds": sources}
    typed = {"@odata.type": "#microsoft.graph.mailSearchFolder", **answer}
    return typed | ({**extra, "filterQuery": folder.query} if select is None else {})


async def page(call: Call) -> Answer:
    return _listed(call, OUTLOOK_ROOT, "mailFolders")


async def children(call: Call) -> Answer:
    parent = find(call, call.names[0])
    return _listed(call, parent.key, f"mailFolders('{call.ids.folder(parent.key)}')/childFolders")


def _listed(call: Call, parent: str, tail: str) -> Answer:
    """One level only, ten at a time unless asked otherwise."""
    assert call.user is not None
    query = call.query(kinds.FOLDER)
    if query.search:
        raise bad_request("The query parameter '$search' is not supported.", "ErrorInvalidUrlQuery")
    found = _children(call.mailbox, parent, hidden=odata.flag(call.raw, "includeHiddenFolders"))
    if query.where is not None or query.orderby:
        found = _chosen(call, found, query)
    size = query.top or DEFAULT_PAGE
    part = [shape(call, folder, query.select) for folder in found[query.skip : query.skip + size]]
    answer: dict[str, Any] = {"@odata.context": call.context(f"users('{call.user.oid}')/{tail}")}
    if query.count:
        answer["@odata.count"] = len(found)
    answer["value"] = part
    if query.skip + size < len(found):
        options = {**call.raw, "$skip": str(query.skip + size)}
        answer["@odata.nextLink"] = odata.link(call.url, options)
    return Answer(200, answer)


def _chosen(call: Call, found: list[Folder], query: odata.Query) -> list[Folder]:
    """Filtered and ordered by what the folders would show."""
    shown = [(shape(call, folder), folder) for folder in found]
    where = query.where
    if where is not None:
        shown = [pair for pair in shown if filters.holds(where, pair[0].get)]
    for path, descending in reversed(query.orderby):
        shown.sort(key=lambda pair: _sortable(pair[0][path]), reverse=descending)
    return [folder for _, folder in shown]


def _sortable(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


async def get(call: Call) -> Answer:
    return _entity(call, find(call, call.names[0]), 200)


def _entity(call: Call, folder: Folder, status: int) -> Answer:
    assert call.user is not None
    query = call.query(kinds.FOLDER)
    context = call.context(f"users('{call.user.oid}')/mailFolders/$entity")
    return Answer(status, {"@odata.context": context, **shape(call, folder, query.select)})


async def count(call: Call) -> Answer:
    parent = find(call, call.names[0]).key if call.names else OUTLOOK_ROOT
    hidden = odata.flag(call.raw, "includeHiddenFolders")
    number = len(_children(call.mailbox, parent, hidden=hidden))
    return Answer(200, str(number).encode(), "text/plain")


async def create(call: Call) -> Answer:
    """Under the root, or under the folder that the path names; with a filterQuery, a search folder."""
    wanted = call.json()
    name = text_of(wanted, "displayName")
    if not name.strip():
        raise bad_request("The property 'displayName' is required.", "ErrorInvalidRequest")
    parent = find(call, call.names[0]).key if call.names else OUTLOOK_ROOT
    query = text_of(wanted, "filterQuery")
    if query:
        filters.parse(query, kinds.MESSAGE)
    try:
        made = call.mailbox.add_folder(name, parent, hidden=wanted.get("isHidden") is True, query=query)
    except SimulatorError as error:
        message = f"A folder with the specified name already exists., {error}"
        raise GraphError(409, "ErrorFolderExists", message) from error
    return _entity(call, made, 201)


def _changed(call: Call, folder: Folder, name: str | None, parent: str | None, status: int) -> Answer:
    try:
        changed = call.mailbox.change_folder(folder.key, name=name, parent=parent)
    except SimulatorError as error:
        if error.status == 409:
            raise GraphError(409, "ErrorFolderExists", str(error)) from error
        raise bad_request(str(error), "ErrorInvalidOperation") from error
    return _entity(call, changed, status)


async def update(call: Call) -> Answer:
    folder = find(call, call.names[0])
    return _changed(call, folder, text_of(call.json(), "displayName") or None, None, 200)


async def move(call: Call) -> Answer:
    folder = find(call, call.names[0])
    target = find(call, str(argument(call.json(), "destinationId")))
    return _changed(call, folder, None, target.key, 201)


async def delete(call: Call) -> Answer:
    folder = find(call, call.names[0])
    if folder.kind == "system":
        message = "Distinguished folders cannot be deleted."
        raise GraphError(403, "ErrorDeleteDistinguishedFolder", message)
    call.mailbox.delete_folder(folder.key)
    return Answer(204)
