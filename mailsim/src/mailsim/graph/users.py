"""The user routes of Graph: get and list users, and translate IDs between formats (translateExchangeIds)."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from mailsim.entra.directory import EntraUser
from mailsim.graph import authorization, entity_types, filters, odata
from mailsim.graph.errors import GraphError, bad_request, not_simulated
from mailsim.graph.ids import FORMATS
from mailsim.graph.request import GraphCall, GraphResponse, get_argument

MAX_IDS = 1000
DEFAULT_PAGE = 100
MAX_PAGE = 999
# What Graph returns without $select.
_DEFAULT_PROPERTIES = (
    "businessPhones", "displayName", "givenName", "jobTitle", "mail", "mobilePhone", "officeLocation",
    "preferredLanguage", "surname", "userPrincipalName", "id",
)  # fmt: skip
_TOKEN = b"mailsim:"
T = TypeVar("T")


async def get(call: GraphCall) -> GraphResponse:
    assert call.user is not None
    query = call.query(entity_types.USER)
    tail = f"users({','.join(query.select)})/$entity" if query.select else "users/$entity"
    return GraphResponse(
        200, {"@odata.context": call.context(tail), **to_json(call, call.user, query.select)}
    )


def to_json(call: GraphCall, user: EntraUser, select: tuple[str, ...] | None) -> dict[str, Any]:
    properties = _get_properties(call, user)
    return {name: properties[name] for name in (_DEFAULT_PROPERTIES if select is None else select)}


def _get_properties(call: GraphCall, user: EntraUser) -> dict[str, Any]:
    given_name, _, surname = user.name.rpartition(" ")
    unset: dict[str, Any] = {
        path: [] if kind == "texts" else None for path, kind in entity_types.USER.types.items()
    }
    return unset | {
        "displayName": user.name,
        "givenName": given_name or surname,
        "mail": user.upn,
        "mailNickname": user.upn.partition("@")[0],
        "proxyAddresses": [f"SMTP:{user.upn}"],
        "surname": surname if given_name else None,
        "userPrincipalName": user.upn,
        "id": user.oid,
        "accountEnabled": user.oid not in call.graph.entra.directory.disabled,
        "userType": "Member",
    }


async def list_page(call: GraphCall) -> GraphResponse:
    """Return a page of the tenant's users, by default a hundred."""
    query, users = _find_users(call)
    return make_page(call, query, "users", users, lambda user: to_json(call, user, query.select))


def make_page(
    call: GraphCall,
    query: odata.ODataQuery,
    kind: str,
    entries: Sequence[T],
    convert: Callable[[T], dict[str, Any]],
) -> GraphResponse:
    """Return a page of directory objects, by default a hundred."""
    size, start = query.top or DEFAULT_PAGE, parse_token(call.raw.get("$skiptoken"))
    tail = f"{kind}({','.join(query.select)})" if query.select else kind
    response: dict[str, Any] = {"@odata.context": call.context(tail)}
    if query.count and _is_advanced(call):
        response["@odata.count"] = len(entries)
    if start + size < len(entries):
        options = {**call.raw, "$skiptoken": make_token(start + size)}
        response["@odata.nextLink"] = odata.build_link(call.url, options)
    response["value"] = [convert(entry) for entry in entries[start : start + size]]
    return GraphResponse(200, response)


async def count(call: GraphCall) -> GraphResponse:
    if not _is_advanced(call):
        raise bad_request("$count is not currently supported.", "Request_BadRequest")
    _, users = _find_users(call)
    return GraphResponse(200, str(len(users)).encode(), "text/plain")


def _is_advanced(call: GraphCall) -> bool:
    return call.headers.get("consistencylevel", "").lower() == "eventual"


def _find_users(call: GraphCall) -> tuple[odata.ODataQuery, list[EntraUser]]:
    """Return the users that pass the filter, in order."""
    authorization.check_directory_permission(call.access)
    query = call.query(entity_types.USER)
    users = call.graph.entra.directory.list_users(call.access.tid)
    return query, select_objects(call, query, users, lambda user: _get_properties(call, user))


def select_objects(
    call: GraphCall, query: odata.ODataQuery, entries: Sequence[T], properties: Callable[[T], dict[str, Any]]
) -> list[T]:
    """Return the directory objects that pass the filter, in order."""
    if query.search is not None:
        raise not_simulated(call.method, f"{call.full_path}?$search")
    if "$skip" in call.raw:
        raise bad_request("'$skip' is not supported by the service.", "Request_BadRequest")
    if query.top is not None and query.top > MAX_PAGE:
        raise bad_request(
            f"Invalid page size specified: '{query.top}'. Must be between 1 and {MAX_PAGE} inclusive.",
            "Request_BadRequest",
        )
    _check_advanced(call, query)
    rows = [(properties(entry), entry) for entry in entries]
    where = query.where
    if where is not None:
        rows = [row for row in rows if filters.matches(where, row[0].get)]
    for path, descending in reversed(query.orderby):
        rows.sort(key=lambda row: str(row[0][path] or "").casefold(), reverse=descending)
    return [entry for _, entry in rows]


def _check_advanced(call: GraphCall, query: odata.ODataQuery) -> None:
    """Raise for a filter that the directory supports only with ConsistencyLevel and $count, or never."""
    tests = set(filters.list_operators(query.where)) if query.where is not None else set[str]()
    if "contains" in tests:
        raise _unsupported("Unsupported Query.")
    needed = next((name for name in ("endswith", "ne", "not") if name in tests), None)
    if needed is None and query.orderby and query.where is not None:
        needed = "orderby"
    if needed is None or (_is_advanced(call) and query.count):
        return
    missing = "$count parameter" if _is_advanced(call) else "'ConsistencyLevel:eventual' header"
    raise _unsupported(
        f"Operator '{needed}' is not supported because the {missing} is missing. "
        "Refer to https://aka.ms/graph-docs/advanced-queries for more information"
    )


def _unsupported(message: str) -> GraphError:
    return bad_request(message, "Request_UnsupportedQuery")


def make_token(position: int) -> str:
    return base64.urlsafe_b64encode(_TOKEN + str(position).encode()).decode()


def parse_token(text: str | None) -> int:
    if text is None:
        return 0
    try:
        position = base64.urlsafe_b64decode(text.encode("ascii")).removeprefix(_TOKEN)
        if position.isdigit() and make_token(int(position)) == text:
            return int(position)
    except (ValueError, binascii.Error):
        pass
    raise bad_request(
        "Specified page token value has expired and can no longer be included in your request.",
        "Directory_ExpiredPageToken",
    )


async def translate_ids(call: GraphCall) -> GraphResponse:
    """Convert IDs of one mailbox to another format; each invalid ID is returned with an error."""
    body = call.json()
    input_ids = get_argument(body, "inputIds")
    source, target = get_argument(body, "sourceIdType"), get_argument(body, "targetIdType")
    if not isinstance(input_ids, list) or not all(
        isinstance(text, str) for text in cast("list[Any]", input_ids)
    ):
        raise bad_request("The value of the parameter 'inputIds' must be a collection of strings.")
    texts = cast("list[str]", input_ids)
    if not 1 <= len(texts) <= MAX_IDS:
        raise bad_request(f"The number of ids must be between 1 and {MAX_IDS}.", "ErrorInvalidParameter")
    formats = {name.lower(): name for name in FORMATS}
    if str(source).lower() not in formats or str(target).lower() not in formats:
        raise bad_request("The id format is not supported.", "ErrorInvalidParameter")
    results = [
        _translate_id(call, text, formats[str(source).lower()], formats[str(target).lower()])
        for text in texts
    ]
    return GraphResponse(
        200, {"@odata.context": call.context("Collection(microsoft.graph.convertIdResult)"), "value": results}
    )


def _translate_id(call: GraphCall, text: str, source: str, target: str) -> dict[str, Any]:
    new = call.ids.translate(text, source, target)
    if new is not None:
        return {"sourceId": text, "targetId": new}
    details = {"code": "ErrorInvalidId", "message": "The id could not be translated."}
    return {"sourceId": text, "targetId": None, "errorDetails": details}
