"""Checks JSON responses and pushes of Graph against Microsoft's own description.

With $select, exactly the selected properties must be present; without it, all default properties.
"""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast
from urllib.parse import parse_qsl

from simulator.graph_types import document, is_a, properties
from simulator.json_schemas import list_violations

MAX_RECORDED = 256 * 1024  # longer bodies are cut off, perhaps inside a character
# Deviations from the description, each with its reason.
EXCEPTIONS = {
    "fileAttachment@odata.mediaContentType": "seen on the wire, in no document",
}
_DAMAGED = {"cut", "truncated", "html"}
_ANNOTATIONS = {"@odata.type", "@odata.etag", "@odata.context", "@removed"}
_PAGE = {"@odata.context", "@odata.count", "@odata.nextLink", "@odata.deltaLink", "value"}
_DATE = re.compile(
    r"[0-9]{4,}-(0[1-9]|1[012])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"([.][0-9]{1,12})?(Z|[+-][0-9][0-9]:[0-9][0-9])"
)
_NAMED = {"message", "mailFolder", "attachment", "subscription", "outlookCategory", "messageRule"}
# Without $select, these entities show all properties except links to other entities and _ON_DEMAND.
_WHOLE = {"message", "mailFolder", "subscription", "attachment"}
_ON_DEMAND = {"internetMessageHeaders", "uniqueBody"} | {
    "vapidPublicKey", "webPushEncryptionP256dhPublicKey", "webPushEncryptionSecret",  # of web push
}  # fmt: skip
_OPEN = {"openTypeExtension"}  # has any properties
_PRIVATE = {"body", "bodyPreview"}  # hidden with Mail.ReadBasic
LINKS = {
    "attachments", "extensions", "singleValueExtendedProperties", "multiValueExtendedProperties",
    "childFolders", "messageRules", "messages",
}  # fmt: skip
_USER_SHOWN = {
    "businessPhones", "displayName", "givenName", "jobTitle", "mail", "mobilePhone", "officeLocation",
    "preferredLanguage", "surname", "userPrincipalName", "id",
}  # fmt: skip
_CHANGING = {"isRead", "flag", "categories", "importance", "isDraft", "inferenceClassification"}


@dataclass(frozen=True)
class Operation:
    """An operation. `template` is the path in Microsoft's OpenAPI, `gives` the response type."""

    method: str
    template: str
    gives: str = ""
    many: bool = False
    delta: bool = False

    def matches(self, method: str, path: str) -> bool:
        escaped = re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(self.template))
        return method == self.method and re.fullmatch(escaped, path, re.IGNORECASE) is not None


_USER, _FOLDER, _MESSAGE = "/users/{user-id}", "/mailFolders/{mailFolder-id}", "/messages/{message-id}"
_RULES = f"{_USER}{_FOLDER}/messageRules"
_CATEGORIES = f"{_USER}/outlook/masterCategories"
_REPLIES = ("Reply", "ReplyAll", "Forward")
_SUBSCRIPTION = "/subscriptions/{subscription-id}"
_GROUP = "/groups/{group-id}"


def _of_messages(at: str) -> tuple[Operation, ...]:
    one = at + "/{message-id}"
    return (
        Operation("GET", at, "message", many=True),
        Operation("POST", at, "message"),
        Operation("GET", f"{at}/$count"),
        Operation("GET", one, "message"),
        Operation("PATCH", one, "message"),
        Operation("DELETE", one),
        Operation("GET", f"{one}/$value"),
        Operation("POST", f"{one}/microsoft.graph.move", "message"),
        Operation("POST", f"{one}/microsoft.graph.copy", "message"),
        Operation("POST", f"{one}/microsoft.graph.send"),
        Operation("POST", f"{one}/microsoft.graph.permanentDelete"),
        *(Operation("POST", f"{one}/microsoft.graph.create{name}", "message") for name in _REPLIES),
        *(Operation("POST", f"{one}/microsoft.graph.{name[:1].lower()}{name[1:]}") for name in _REPLIES),
        Operation("GET", f"{one}/attachments", "attachment", many=True),
        Operation("POST", f"{one}/attachments", "attachment"),
        Operation("DELETE", one + "/attachments/{attachment-id}"),
        Operation("POST", f"{one}/attachments/microsoft.graph.createUploadSession", "uploadSession"),
        Operation("GET", f"{one}/attachments/$count"),
        Operation("GET", one + "/attachments/{attachment-id}", "attachment"),
        Operation("GET", f"{one}/extensions", "extension", many=True),
        Operation("POST", f"{one}/extensions", "extension"),
        Operation("GET", f"{one}/extensions/$count"),
        Operation("GET", one + "/extensions/{extension-id}", "extension"),
        Operation("PATCH", one + "/extensions/{extension-id}", "extension"),
        Operation("DELETE", one + "/extensions/{extension-id}"),
    )


_INFERENCE = f"{_USER}/inferenceClassification"
_OVERRIDE = f"{_INFERENCE}/overrides/" + "{inferenceClassificationOverride-id}"
OPERATIONS = (
    *_of_messages(f"{_USER}/messages"),
    *_of_messages(f"{_USER}{_FOLDER}/messages"),
    Operation("GET", f"{_USER}{_FOLDER}/messages/microsoft.graph.delta()", "message", many=True, delta=True),
    Operation("GET", f"{_USER}/messages/microsoft.graph.delta()", "message", many=True, delta=True),
    Operation("GET", _INFERENCE, "inferenceClassification"),
    Operation("PATCH", _INFERENCE, "inferenceClassification"),
    Operation("GET", f"{_INFERENCE}/overrides", "inferenceClassificationOverride", many=True),
    Operation("POST", f"{_INFERENCE}/overrides", "inferenceClassificationOverride"),
    Operation("GET", f"{_INFERENCE}/overrides/$count"),
    Operation("GET", _OVERRIDE, "inferenceClassificationOverride"),
    Operation("PATCH", _OVERRIDE, "inferenceClassificationOverride"),
    Operation("DELETE", _OVERRIDE),
    Operation("GET", f"{_USER}/mailFolders", "mailFolder", many=True),
    Operation("POST", f"{_USER}/mailFolders", "mailFolder"),
    Operation("GET", f"{_USER}/mailFolders/$count"),
    Operation("GET", f"{_USER}/mailFolders/microsoft.graph.delta()", "mailFolder", many=True, delta=True),
    Operation("GET", f"{_USER}{_FOLDER}", "mailFolder"),
    Operation("PATCH", f"{_USER}{_FOLDER}", "mailFolder"),
    Operation("DELETE", f"{_USER}{_FOLDER}"),
    Operation("POST", f"{_USER}{_FOLDER}/microsoft.graph.move", "mailFolder"),
    Operation("POST", f"{_USER}{_FOLDER}/microsoft.graph.copy", "mailFolder"),
    Operation("POST", f"{_USER}{_FOLDER}/microsoft.graph.permanentDelete"),
    Operation("GET", f"{_USER}{_FOLDER}/childFolders", "mailFolder", many=True),
    Operation("POST", f"{_USER}{_FOLDER}/childFolders", "mailFolder"),
    Operation("GET", f"{_USER}{_FOLDER}/childFolders/$count"),
    Operation("GET", _RULES, "messageRule", many=True),
    Operation("POST", _RULES, "messageRule"),
    Operation("GET", f"{_RULES}/$count"),
    Operation("GET", _RULES + "/{messageRule-id}", "messageRule"),
    Operation("PATCH", _RULES + "/{messageRule-id}", "messageRule"),
    Operation("DELETE", _RULES + "/{messageRule-id}"),
    Operation("GET", "/subscriptions", "subscription", many=True),
    Operation("POST", "/subscriptions", "subscription"),
    Operation("GET", _SUBSCRIPTION, "subscription"),
    Operation("PATCH", _SUBSCRIPTION, "subscription"),
    Operation("DELETE", _SUBSCRIPTION),
    Operation("POST", f"{_SUBSCRIPTION}/microsoft.graph.reauthorize"),
)
# These are described in parts of Microsoft's OpenAPI that are not available here.
UNDESCRIBED_OPERATIONS = (
    Operation("GET", "/groups", "group", many=True),
    Operation("GET", _GROUP, "group"),
    Operation("GET", f"{_GROUP}/members", "directoryObject", many=True),
    Operation("GET", f"{_GROUP}/members/microsoft.graph.user", "user", many=True),
    Operation("GET", f"{_GROUP}/transitiveMembers", "directoryObject", many=True),
    Operation("GET", f"{_GROUP}/transitiveMembers/microsoft.graph.user", "user", many=True),
    Operation("GET", "/users", "user", many=True),
    Operation("GET", "/users/$count"),
    Operation("GET", _USER, "user"),
    Operation("POST", f"{_USER}/microsoft.graph.translateExchangeIds", "convertIdResult", many=True),
    Operation("POST", f"{_USER}/microsoft.graph.sendMail"),
    Operation("GET", _USER + "/messages/{message-id}/attachments/{attachment-id}/$value"),
    Operation("GET", f"{_USER}{_FOLDER}{_MESSAGE}/attachments/" + "{attachment-id}/$value"),
    Operation("GET", f"{_USER}/mailboxSettings", "mailboxSettings"),
    Operation("PATCH", f"{_USER}/mailboxSettings", "mailboxSettings"),
    Operation("GET", _USER + "/mailboxSettings/{setting}", "value"),
    Operation("GET", _CATEGORIES, "outlookCategory", many=True),
    Operation("POST", _CATEGORIES, "outlookCategory"),
    Operation("GET", _CATEGORIES + "/$count"),
    Operation("GET", _CATEGORIES + "/{category-id}", "outlookCategory"),
    Operation("PATCH", _CATEGORIES + "/{category-id}", "outlookCategory"),
    Operation("DELETE", _CATEGORIES + "/{category-id}"),
    Operation("POST", "/$batch"),
)
_CALLS = (
    "delta",
    "move",
    "copy",
    "send",
    "permanentDelete",
    "reauthorize",
    "translateExchangeIds",
    "sendMail",
    "createUploadSession",
    "createReply",
    "createReplyAll",
    "createForward",
    "reply",
    "replyAll",
    "forward",
)


def normalize_path(path: str) -> str:
    """Return a path as in the OpenAPI: keys as segments, functions with namespace, no nested folders."""
    path = path.removeprefix("/v1.0")
    path = re.sub(r"^/me(?=/|$)", "/users/me", path, flags=re.IGNORECASE)
    path = re.sub(r"(\w)\('([^')]*)'\)", r"\1/\2", path)
    path = re.sub(r"(?<=/mailfolders/)[^/]+/childfolders/(?!\$)(?=[^/]+)", "", path, flags=re.IGNORECASE)
    head, _, last = path.rpartition("/")
    bare = last.removesuffix("()").removeprefix("microsoft.graph.")
    called = next((name for name in _CALLS if name.lower() == bare.lower()), None)
    if called is None:
        return path
    return f"{head}/microsoft.graph.{called}{'()' if called == 'delta' else ''}"


def list_problems(exchange: dict[str, Any]) -> list[str]:
    if exchange.get("fault") in _DAMAGED or not exchange["status"]:
        return []
    text = exchange.get("response_body", "")
    headers = dict(exchange.get("response_headers", []))
    if not headers or len(text.encode(errors="replace")) >= MAX_RECORDED - 4:
        return []
    if not exchange["path"].startswith("/v1.0"):
        return []
    return list(_of_graph(exchange, text, headers))


def _of_graph(exchange: dict[str, Any], text: str, headers: dict[str, str]) -> Iterator[str]:
    if not exchange.get("via") and not exchange.get("fault"):
        yield from _headers(exchange, text, headers)
    if exchange["status"] >= 400:
        yield from _error(json.loads(text))
        return
    path = normalize_path(exchange["path"])
    candidates = (*OPERATIONS, *UNDESCRIBED_OPERATIONS)
    fitting = [candidate for candidate in candidates if candidate.matches(exchange["method"], path)]
    operation = min(fitting, key=lambda candidate: candidate.template.count("{"), default=None)
    if operation is None:
        yield f"no operation of Graph has {exchange['method']} {path}"
    elif path == "/$batch":
        yield from _batch(json.loads(text))
    elif not operation.gives:
        if text and "json" in headers["content-type"]:
            yield "a response body where none is expected"
    elif operation.many:
        value = json.loads(text)
        yield from _page(value, operation)
        for place, item in enumerate(value.get("value", [])):
            yield from _missing(item, operation, exchange.get("query", ""), f"value[{place}]")
    else:
        value = json.loads(text)
        if operation.gives == "value":  # one property: the object itself, or a string as `value`
            name = next(
                name
                for name in properties("mailboxSettings")
                if name.lower() == path.rpartition("/")[2].lower()
            )
            content = {key: item for key, item in value.items() if key != "@odata.context"}
            value = {name: content.get("value", content)}
            operation = replace(operation, gives="mailboxSettings")
        yield from _entity(value, operation.gives, operation.gives)
        yield from _missing(value, operation, exchange.get("query", ""), operation.gives)


def _missing(value: dict[str, Any], operation: Operation, query: str, where: str) -> Iterator[str]:
    """Report missing properties, and properties that were not selected."""
    options = {name.lower().removeprefix("$"): text for name, text in parse_qsl(query)}
    shown = {name for name in value if "@" not in name}
    followed = {"skiptoken", "deltatoken"} & set(options)  # then the selection is in the link
    if "@removed" in value or followed or (operation.delta and shown <= _CHANGING | {"id"}):
        return
    if "select" in options and "*" not in options["select"]:
        expanded = {name.lower() for name in LINKS if name.lower() in options.get("expand", "").lower()}
        always, perhaps = _selected(options["select"])
        always |= {"id"} if operation.gives in _NAMED else set()
        seen = {name.lower() for name in shown}
        if missing := always - seen:
            yield f"{where} lacks the selected {sorted(missing)}"
        if more := seen - always - perhaps - expanded:
            yield f"{where} shows {sorted(more)}, not selected"
        return
    missing = _all_of(operation.gives) - shown
    if missing - _PRIVATE or (missing and missing != _PRIVATE):
        yield f"{where} lacks {sorted(missing)}"


def _selected(text: str) -> tuple[set[str], set[str]]:
    """Return the selected names in lower case, and the cast ones, which not every entity has."""
    paths = [name.strip().lower() for name in text.split(",")]
    casts = {path.partition("/")[2] for path in paths if path.startswith("microsoft.graph.")}
    return {path.partition("/")[0] for path in paths if not path.startswith("microsoft.graph.")}, casts


def _all_of(name: str) -> set[str]:
    if name == "user":
        return _USER_SHOWN
    return set(properties(name)) - LINKS - _ON_DEMAND if name in _WHOLE else set()


def _headers(exchange: dict[str, Any], text: str, headers: dict[str, str]) -> Iterator[str]:
    if "request-id" not in headers or "client-request-id" not in headers:
        yield "no request-id"
    kind = headers.get("content-type", "")
    described = headers.get("odata-version") == "4.0" and "odata.metadata=minimal" in kind
    if text and "json" in kind and "batch" not in exchange["path"] and not described:
        yield "no OData headers"


def _error(value: Any) -> Iterator[str]:
    error: dict[str, Any] = value.get("error", {})
    whole: Any = error
    if set(value) != {"error"} or not isinstance(whole, dict) or not {"code", "message"} <= set(error):
        yield f"error envelope {value}"
        return
    if set(error) - {"code", "message", "target", "details", "innerError"}:
        yield f"unknown properties in {error}"
    if not isinstance(error.get("code"), str) or not isinstance(error.get("message"), str):
        yield f"code and message are no texts in {error}"
    inner = error.get("innerError", {"date": "", "request-id": "", "client-request-id": ""})
    if not {"date", "request-id", "client-request-id"} <= set(inner):
        yield f"innerError {inner}"


def _batch(value: Any) -> Iterator[str]:
    if set(value) != {"responses"}:
        yield f"batch envelope {set(value)}"
    for part in value["responses"]:
        if not {"id", "status", "headers"} <= set(part) or set(part) - {"id", "status", "headers", "body"}:
            yield f"batch part {set(part)}"


def _page(value: Any, operation: Operation) -> Iterator[str]:
    if set(value) - _PAGE or "value" not in value or "@odata.context" not in value:
        yield f"page with {set(value)}"
    links = {"@odata.nextLink", "@odata.deltaLink"} & set(value)
    if operation.delta and len(links) != 1:
        yield f"a delta page with {len(links)} links"
    if not operation.delta and "@odata.deltaLink" in value:
        yield "a deltaLink outside of delta"
    if any(not value[link].startswith("http") for link in links):
        yield "a link that is not absolute"
    for place, item in enumerate(value.get("value", [])):
        yield from _entity(item, operation.gives, f"value[{place}]")


def _entity(value: Any, declared: str, where: str) -> Iterator[str]:
    """Check an entity, which always has an ID."""
    entity: Any = value
    if declared in _NAMED and isinstance(value, dict) and not entity.get("id"):
        yield f"{where} has no id"
    yield from _object(value, declared, where)


def _object(found: Any, declared: str, where: str) -> Iterator[str]:
    if not isinstance(found, dict):
        yield f"{where} is no object"
        return
    value = cast("dict[str, Any]", found)
    name: str = value.get("@odata.type", f"#microsoft.graph.{declared}").removeprefix("#microsoft.graph.")
    if name != declared and not is_a(name, declared):
        yield f"{where} is a {name}, not a {declared}"
        return
    known = properties(name)
    for key, item in value.items():
        head, at, note = key.partition("@")
        if at:
            fine = key in _ANNOTATIONS or f"{name}{key}" in EXCEPTIONS
            if not fine and not (head in known and note in {"odata.context", "odata.type"}):
                yield f"{where}.{key} is an unknown annotation"
        elif key not in known:
            if name not in _OPEN:
                yield f"{where}.{key} is unknown to {name}"
        else:
            yield from _values(item, known[key], f"{where}.{key}")


def _values(value: Any, known: Any, where: str) -> Iterator[str]:
    if not known.many:
        yield from _value(value, known, where)
    elif not isinstance(value, list):
        yield f"{where} is no list"
    else:
        for place, item in enumerate(cast("list[Any]", value)):
            yield from _value(item, known, f"{where}[{place}]")


def _value(value: Any, known: Any, where: str) -> Iterator[str]:
    if value is None:
        if not known.nullable:
            yield f"{where} may not be null"
    elif known.kind in {"text", "date", "binary", "enum"}:
        yield from _text(value, known, where)
    elif known.kind == "bool":
        if not isinstance(value, bool):
            yield f"{where} is no boolean: {value!r}"
    elif known.kind == "number":
        if type(value) is not int or not -(2**31) <= value < 2**31:
            yield f"{where} is no Int32: {value!r}"
    else:
        yield from _object(value, known.kind, where)


def _text(value: Any, known: Any, where: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{where} is no text: {value!r}"
    elif known.kind == "enum" and value not in known.values:
        yield f"{where} is none of {sorted(known.values)}: {value!r}"
    elif known.kind == "date" and (not _DATE.fullmatch(value) or not datetime.fromisoformat(value[:19])):
        yield f"{where} is no DateTimeOffset: {value!r}"
    elif known.kind == "binary":
        base64.b64decode(value, validate=True)


def list_push_problems(push: dict[str, Any]) -> list[str]:
    """Return what is wrong with a push to a subscriber."""
    text = push.get("request_body", "")
    if push["endpoint"] not in {"push", "lifecycle"} or not 0 < len(text.encode()) < MAX_RECORDED - 4:
        return []
    return list_violations("pushes", "changeNotifications", json.loads(text))


def list_disagreements() -> list[str]:
    """Return where OPERATIONS differs from the OpenAPI."""
    known = document()
    assert known is not None
    found: list[str] = []
    for operation in OPERATIONS:
        described = known["paths"].get(operation.template, {}).get(operation.method.lower())
        if described is None:
            found.append(f"{operation.method} {operation.template} is not described")
            continue
        responses = json.dumps(described["responses"]["2XX"])
        if operation.gives and not re.search(
            rf"microsoft\.graph\.{operation.gives}(CollectionResponse)?\"", responses
        ):
            found.append(f"{operation.method} {operation.template} gives {responses[:200]}")
    return found + _other_links(known["schemas"])


def _other_links(schemas: dict[str, Any]) -> list[str]:
    """Return where LINKS differs from the OpenAPI."""
    marked = {
        name
        for kind in _WHOLE
        for part in schemas[f"microsoft.graph.{kind}"]["allOf"]
        for name, inner in part.get("properties", {}).items()
        if inner.get("x-ms-navigationProperty")
    }
    return [f"{name} is a link only in LINKS or only in the OpenAPI" for name in marked ^ LINKS]
