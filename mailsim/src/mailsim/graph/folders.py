"""The mail folder routes of Graph: find by ID or well-known name, list, create, rename, move, delete.

Other routes use its lookup and its JSON.
"""

from typing import Any

from mailsim.errors import SimulatorError
from mailsim.graph import entity_types, filters, odata
from mailsim.graph.errors import GraphError, bad_request, malformed_id, not_found, not_simulated
from mailsim.graph.ids import MalformedIdError
from mailsim.graph.request import GraphCall, GraphResponse, get_argument, get_text
from mailsim.mailbox import Mailbox
from mailsim.message_state import OUTLOOK_ROOT, Folder

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


def find(call: GraphCall, name: str) -> Folder:
    """Return a folder by ID or by well-known name in any case."""
    if name.lower() in WELL_KNOWN:
        folder = call.mailbox.folders.get(name.lower())
        if folder is None:
            raise not_found()
        return folder
    try:
        key = call.ids.parse_folder_id(name)
    except MalformedIdError as error:
        raise malformed_id() from error
    if key is None:
        raise not_found()
    return call.mailbox.folders[key]


def find_destination(call: GraphCall, name: str) -> Folder:
    """Return a folder that can hold messages."""
    folder = find(call, name)
    if folder.kind == "search":
        raise bad_request("A search folder holds no messages of its own.", "ErrorInvalidOperation")
    return folder


def _is_visible(folder: Folder, *, hidden: bool) -> bool:
    return hidden or not folder.hidden


def _list_children(mailbox: Mailbox, key: str, *, hidden: bool) -> list[Folder]:
    folders = mailbox.folders.values()
    return [folder for folder in folders if folder.parent == key and _is_visible(folder, hidden=hidden)]


def to_json(call: GraphCall, folder: Folder, select: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return the JSON of a folder with current counts. Only search folders state their type."""
    mailbox, ids = call.mailbox, call.ids
    states = mailbox.states
    inside = mailbox.in_folder(folder.key)
    response: dict[str, Any] = {
        "id": ids.folder_id(folder.key),
        "displayName": folder.name,
        "parentFolderId": ids.folder_id(folder.parent or OUTLOOK_ROOT),
        "childFolderCount": len(_list_children(mailbox, folder.key, hidden=False)),
        "unreadItemCount": states.count(lambda state: inside(state) and not state.read),
        "totalItemCount": states.count(inside),
        "isHidden": folder.hidden,
    }
    if call.version == "beta":
        response["wellKnownName"] = folder.key if folder.key in WELL_KNOWN else None
    if select is not None:
        response = {name: value for name, value in response.items() if name in select or name == "id"}
    if folder.kind != "search":
        return response
    sources = [ids.folder_id(OUTLOOK_ROOT)]
    search_properties: dict[str, Any] = {
        "isSupported": True,
        "includeNestedFolders": True,
        "sourceFolderIds": sources,
    }
    response = {"@odata.type": "#microsoft.graph.mailSearchFolder", **response}
    return response | ({**search_properties, "filterQuery": folder.query} if select is None else {})


def _show(call: GraphCall, folder: Folder, query: odata.ODataQuery) -> dict[str, Any]:
    """Return the JSON of a folder with what $select and $expand ask for."""
    response = to_json(call, folder, query.select)
    for expand in query.expand:
        name, _, selected = expand.options.partition("=")
        if expand.name != "childFolders" or name.strip().lower() not in {"", "$select"} or ";" in selected:
            raise not_simulated(call.method, f"{call.full_path}?$expand={expand.name}({expand.options})")
        inner = odata.parse_query({"$select": selected} if name else {}, entity_types.FOLDER)
        children = _list_children(call.mailbox, folder.key, hidden=False)
        response["childFolders"] = [to_json(call, child, inner.select) for child in children]
    return response


async def list_page(call: GraphCall) -> GraphResponse:
    return _folders_page(call, OUTLOOK_ROOT, "mailFolders")


async def list_children(call: GraphCall) -> GraphResponse:
    parent = find(call, call.names[0])
    return _folders_page(call, parent.key, f"mailFolders('{call.ids.folder_id(parent.key)}')/childFolders")


def _folders_page(call: GraphCall, parent: str, tail: str) -> GraphResponse:
    """Return a page of one folder level, by default ten folders."""
    assert call.user is not None
    query = call.query(entity_types.FOLDER)
    if query.search:
        raise bad_request("The query parameter '$search' is not supported.", "ErrorInvalidUrlQuery")
    children = _list_children(call.mailbox, parent, hidden=odata.get_flag(call.raw, "includeHiddenFolders"))
    if query.where is not None or query.orderby:
        children = _filter_and_sort(call, children, query)
    size = query.top or DEFAULT_PAGE
    part = [_show(call, folder, query) for folder in children[query.skip : query.skip + size]]
    response: dict[str, Any] = {"@odata.context": call.context(f"users('{call.user.oid}')/{tail}")}
    if query.count:
        response["@odata.count"] = len(children)
    response["value"] = part
    if query.skip + size < len(children):
        options = {**call.raw, "$skip": str(query.skip + size)}
        response["@odata.nextLink"] = odata.build_link(call.url, options)
    return GraphResponse(200, response)


def _filter_and_sort(call: GraphCall, children: list[Folder], query: odata.ODataQuery) -> list[Folder]:
    """Filter and sort folders by their JSON."""
    pairs = [(to_json(call, folder), folder) for folder in children]
    where = query.where
    if where is not None:
        pairs = [pair for pair in pairs if filters.matches(where, pair[0].get)]
    for path, descending in reversed(query.orderby):
        pairs.sort(key=lambda pair: _sortable(pair[0][path]), reverse=descending)
    return [folder for _, folder in pairs]


def _sortable(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


async def get(call: GraphCall) -> GraphResponse:
    return _entity_response(call, find(call, call.names[0]), 200)


def _entity_response(call: GraphCall, folder: Folder, status: int) -> GraphResponse:
    assert call.user is not None
    query = call.query(entity_types.FOLDER)
    context = call.context(f"users('{call.user.oid}')/mailFolders/$entity")
    return GraphResponse(status, {"@odata.context": context, **_show(call, folder, query)})


async def count(call: GraphCall) -> GraphResponse:
    parent = find(call, call.names[0]).key if call.names else OUTLOOK_ROOT
    hidden = odata.get_flag(call.raw, "includeHiddenFolders")
    number = len(_list_children(call.mailbox, parent, hidden=hidden))
    return GraphResponse(200, str(number).encode(), "text/plain")


async def create(call: GraphCall) -> GraphResponse:
    """Create a folder under the root or the folder of the path; a filterQuery makes it a search folder."""
    body = call.json()
    name = get_text(body, "displayName")
    if not name.strip():
        raise bad_request("The property 'displayName' is required.", "ErrorInvalidRequest")
    parent = find(call, call.names[0]).key if call.names else OUTLOOK_ROOT
    query = get_text(body, "filterQuery")
    if query:
        filters.parse(query, entity_types.MESSAGE)
    try:
        created = call.mailbox.add_folder(name, parent, hidden=body.get("isHidden") is True, query=query)
    except SimulatorError as error:
        if error.status != 409:
            raise bad_request(str(error), "ErrorInvalidOperation") from error
        message = f"A folder with the specified name already exists., {error}"
        raise GraphError(409, "ErrorFolderExists", message) from error
    return _entity_response(call, created, 201)


def _change(
    call: GraphCall, folder: Folder, name: str | None, parent: str | None, status: int
) -> GraphResponse:
    try:
        changed = call.mailbox.change_folder(folder.key, name=name, parent=parent)
    except SimulatorError as error:
        if error.status == 409:
            raise GraphError(409, "ErrorFolderExists", str(error)) from error
        raise bad_request(str(error), "ErrorInvalidOperation") from error
    return _entity_response(call, changed, status)


async def update(call: GraphCall) -> GraphResponse:
    folder = find(call, call.names[0])
    return _change(call, folder, get_text(call.json(), "displayName") or None, None, 200)


async def move(call: GraphCall) -> GraphResponse:
    folder = find(call, call.names[0])
    target = find(call, str(get_argument(call.json(), "destinationId")))
    return _change(call, folder, None, target.key, 201)


async def copy(call: GraphCall) -> GraphResponse:
    """Copy a folder with its messages and child folders."""
    folder = find(call, call.names[0])
    target = find(call, str(get_argument(call.json(), "destinationId")))
    if folder.key == OUTLOOK_ROOT or call.mailbox.is_within(target.key, folder.key):
        raise bad_request("A folder cannot be copied into itself.", "ErrorInvalidOperation")
    try:
        copied = call.mailbox.copy_folder(folder.key, target.key)
    except SimulatorError as error:
        if error.status != 409:
            raise bad_request(str(error), "ErrorInvalidOperation") from error
        raise GraphError(409, "ErrorFolderExists", str(error)) from error
    return _entity_response(call, copied, 201)


async def delete(call: GraphCall) -> GraphResponse:
    folder = find(call, call.names[0])
    if folder.kind == "system":
        message = "Distinguished folders cannot be deleted."
        raise GraphError(403, "ErrorDeleteDistinguishedFolder", message)
    call.mailbox.delete_folder(folder.key)
    return GraphResponse(204)
