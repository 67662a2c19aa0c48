"""Checks responses of /gmail/v1 and pushes against Google's discovery documents: no unknown properties.

The documents do not say which properties are always present. `ALWAYS` and `FORMATS` do, as described in the
API reference and relied on by clients.
"""

import base64
import functools
import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any
from urllib.parse import parse_qs

from simulator.json_schemas import list_violations

# Allowed deviations, each with its reason.
EXCEPTIONS = {
    "PubsubMessage.message_id": "pushes carry both spellings",
    "PubsubMessage.publish_time": "pushes carry both spellings",
}
# Properties of every response of a type, unless `fields` selects fewer.
ALWAYS = {
    "Profile": {"emailAddress", "messagesTotal", "threadsTotal", "historyId"},
    "WatchResponse": {"historyId", "expiration"},
    "ListHistoryResponse": {"historyId"},
    "History": {"id", "messages"},
    "HistoryMessageAdded": {"message"},
    "HistoryMessageDeleted": {"message"},
    "HistoryLabelAdded": {"message", "labelIds"},
    "HistoryLabelRemoved": {"message", "labelIds"},
    "ListLabelsResponse": {"labels"},
    "Label": {"id", "name"},
    "ListMessagesResponse": {"resultSizeEstimate"},
    "Message": {"id", "threadId"},
    "MessagePart": {"mimeType"},
    "MessagePartHeader": {"name", "value"},
    "MessagePartBody": {"size"},
    "ListThreadsResponse": {"resultSizeEstimate"},
    "Thread": {"id"},
    "ListDraftsResponse": {"resultSizeEstimate"},
    "Draft": {"id", "message"},
    "Userinfo": {"id"},
    "PubsubMessage": {"data", "messageId", "publishTime"},
}
_MINIMAL = {"id", "threadId", "snippet", "historyId", "internalDate", "sizeEstimate"}
FORMATS = {
    "minimal": _MINIMAL,
    "metadata": _MINIMAL | {"payload"},
    "full": _MINIMAL | {"payload"},
    "raw": _MINIMAL | {"raw"},
}
_WHOLE_PART = {"partId", "mimeType", "filename", "body"}

_DIRECTORY = {
    "directory.users.list": "Users",
    "directory.users.get": "User",
    "directory.groups.list": "Groups",
    "directory.members.list": "Members",
}
LONGEST = 256 * 1024
_LIMITS = {"int32": (-(2**31), 2**31), "uint32": (0, 2**32)}
_TEXT_LIMITS = {"int64": (-(2**63), 2**63), "uint64": (0, 2**64)}
_ERROR = {"code", "message", "errors", "status", "details"}
_ENTRY = {"message", "domain", "reason", "location", "locationType"}
_STATUSES = {
    "INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "ABORTED",
    "RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN",
    "UNIMPLEMENTED",
}  # fmt: skip


@functools.cache
def load_document(name: str = "gmail.v1") -> dict[str, Any]:
    file = resources.files("googleapiclient") / "discovery_cache" / "documents" / f"{name}.json"
    return json.loads(file.read_text())


def list_type_problems(name: str, kind: str, value: Any) -> list[str]:
    """List the problems of a value of a type in another of Google's documents."""
    return list(_check_object(value, kind, kind, load_document(name)["schemas"], ALWAYS))


@functools.cache
def list_methods() -> dict[str, dict[str, Any]]:
    """Return the methods of the document by ID without the leading `gmail.`."""
    found: dict[str, dict[str, Any]] = {}

    def walk(resource: dict[str, Any]) -> None:
        for method in resource.get("methods", {}).values():
            found[method["id"].removeprefix("gmail.")] = method
        for inner in resource.get("resources", {}).values():
            walk(inner)

    walk(load_document())
    return found


@functools.cache
def _list_patterns() -> list[tuple[str, re.Pattern[str], str]]:
    ordered = sorted(list_methods().values(), key=lambda method: method["path"].count("{"))
    return [
        (
            method["httpMethod"],
            re.compile(
                "(?:/resumable)?(?:/upload)?/"
                + re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(method["path"]))
                + "$"
            ),
            method.get("response", {}).get("$ref", ""),
        )
        for method in ordered
    ]


def list_problems(exchange: dict[str, Any]) -> list[str]:
    """List the problems of one logged response. Responses of faults are not checked."""
    if exchange.get("fault") or not exchange["status"]:
        return []
    if exchange.get("endpoint") in _DIRECTORY:
        return _list_directory_problems(exchange)
    if "/gmail/" not in exchange["path"]:
        return []
    status, body = exchange["status"], exchange.get("response_body", "")
    kind = dict(exchange.get("response_headers", [])).get("content-type", "")
    if status == 204:
        return ["204 with a body"] if body else []
    if status == 404 and kind == "text/html; charset=UTF-8":
        return []
    if "uploadType=resumable" in exchange.get("query", "") and status in {200, 308} and not body:
        return [] if kind == "text/plain; charset=utf-8" else [f"an upload answered as {kind!r}"]
    if exchange["path"].startswith("/batch/") and status == 200:
        return [] if kind.startswith("multipart/mixed; boundary=") else [f"a batch answered as {kind!r}"]
    if kind != "application/json; charset=UTF-8":
        return [f"content type {kind!r}"]
    if "upload_id=" in exchange.get("query", "") and exchange["method"] == "PUT":
        return []  # the pieces of an upload are no method of the API
    return list(_check_json(exchange, status, body))


def _list_directory_problems(exchange: dict[str, Any]) -> list[str]:
    value = json.loads(exchange["response_body"]) if exchange["method"] == "GET" else {}
    if not value:
        return []
    if exchange["status"] >= 400:
        return list(_check_error(value, exchange["status"]))
    kind = _DIRECTORY[exchange["endpoint"]]
    return list_type_problems("admin.directory_v1", kind, value)


def _check_json(exchange: dict[str, Any], status: int, body: str) -> Iterator[str]:
    if len(body.encode()) >= LONGEST - 4:
        return  # the log truncates longer bodies, perhaps within a character
    value = json.loads(body)
    if status >= 400:
        yield from _check_error(value, status)
        return
    query = {name: texts[-1] for name, texts in parse_qs(exchange.get("query", "")).items()}
    for http, pattern, answer in _list_patterns():
        if http == exchange["method"] and pattern.match(exchange["path"]):
            if answer:
                always = {} if "fields" in query else ALWAYS
                yield from _check_object(value, answer, answer, load_document()["schemas"], always)
                if always:
                    yield from _check_whole_message(value, exchange, query.get("format", "full").lower())
            elif value != {}:
                yield "an unexpected response"
            return
    yield f"no method of the API has {exchange['method']} {exchange['path']}"


def _check_whole_message(value: dict[str, Any], exchange: dict[str, Any], form: str) -> Iterator[str]:
    """What `messages.get` and `threads.get` hold in each format."""
    endpoint = exchange.get("endpoint", "")
    if endpoint == "threads.get":
        if missing := {"id", "historyId", "messages"} - set(value):
            yield f"a thread without {missing}"
    elif endpoint != "messages.get":
        return
    for message in value.get("messages", [value]):
        if missing := FORMATS[form] - set(message):
            yield f"a message in the format {form} without {missing}"
        if form == "full":
            yield from _check_whole_part(message.get("payload", {}))


def _check_whole_part(part: dict[str, Any]) -> Iterator[str]:
    if missing := _WHOLE_PART - set(part):
        yield f"part {part.get('partId')} without {missing}"
    for inner in part.get("parts", []):
        yield from _check_whole_part(inner)


def list_push_problems(push: dict[str, Any]) -> list[str]:
    """The same for what Pub/Sub sent to a subscriber."""
    text = push.get("request_body", "")
    if push["endpoint"] != "push" or not 0 < len(text.encode()) < LONGEST - 4:
        return []
    value = json.loads(text)
    if "subscription" not in value:  # without its wrapper
        return list_violations("pushes", "gmailEvent", value)
    message = value.get("message", {})
    found = list_violations("pushes", "pubsubPush", value) + list_type_problems(
        "pubsub.v1", "PubsubMessage", message
    )
    if not found and push.get("mailbox"):
        found += list_violations("pushes", "gmailEvent", json.loads(base64.b64decode(message["data"])))
    return found


def _check_error(value: Any, status: int) -> Iterator[str]:
    error = value.get("error", {}) if isinstance(value, dict) else {}
    if set(value) != {"error"} or not {"code", "message", "status"} <= set(error) or set(error) - _ERROR:
        yield f"error envelope {value}"
        return
    if error["code"] != status or error["status"] not in _STATUSES or not isinstance(error["message"], str):
        yield f"error {error}"
    for entry in error.get("errors", []):
        if not {"message", "domain", "reason"} <= set(entry) or set(entry) - _ENTRY:
            yield f"errors[] entry {entry}"
    for detail in error.get("details", []):
        if not detail.get("@type", "").startswith("type.googleapis.com/"):
            yield f"details[] entry {detail}"


def _check_object(
    value: Any, name: str, where: str, schemas: dict[str, Any], always: dict[str, set[str]]
) -> Iterator[str]:
    properties = schemas[name]["properties"]
    if not isinstance(value, dict):
        yield f"{where} is no object"
        return
    if missing := always.get(name, set()) - set(value):
        yield f"{where} has no {', '.join(sorted(missing))}"
    for key, item in value.items():
        place = f"{where}.{key}"
        if key not in properties:
            if f"{name}.{key}" not in EXCEPTIONS:
                yield f"{place} is unknown"
        elif properties[key].get("type") == "any":
            continue
        elif "$ref" in properties[key]:
            yield from _check_object(item, properties[key]["$ref"], place, schemas, always)
        elif properties[key]["type"] == "array":
            yield from _check_list(item, properties[key]["items"], place, schemas, always)
        elif "additionalProperties" in properties[key]:
            yield from _check_map(item, properties[key]["additionalProperties"], place)
        else:
            yield from _check_value(item, properties[key], place)


def _check_map(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} is not an object: {value!r}"
        return
    for key, item in value.items():
        yield from _check_value(item, schema, f"{where}[{key}]")


def _check_list(
    value: Any, schema: dict[str, Any], where: str, schemas: dict[str, Any], always: dict[str, set[str]]
) -> Iterator[str]:
    if not isinstance(value, list) or not value:
        yield f"{where} is not a list with entries: {value!r}"
        return
    for place, item in enumerate(value):
        if "$ref" in schema:
            yield from _check_object(item, schema["$ref"], f"{where}[{place}]", schemas, always)
        else:
            yield from _check_value(item, schema, f"{where}[{place}]")


def _check_value(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    if schema["type"] == "integer":
        low, high = _LIMITS[schema["format"]]
        if type(value) is not int or not low <= value < high:
            yield f"{where} is no {schema['format']}: {value!r}"
    elif schema["type"] == "boolean":
        if not isinstance(value, bool):
            yield f"{where} is no boolean: {value!r}"
    elif schema["type"] == "string":
        yield from _check_text(value, schema, where)
    else:
        yield f"{where} has an unchecked type: {schema['type']}"


def _check_text(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{where} is no text: {value!r}"
        return
    form = schema.get("format", "")
    if form in _TEXT_LIMITS:
        low, high = _TEXT_LIMITS[form]
        if not re.fullmatch(r"-?\d+", value) or not low <= int(value) < high:
            yield f"{where} is no {form}: {value!r}"
    elif form == "byte":
        alphabet = (
            r"[\w+/]" if where.startswith("PubsubMessage") else r"[\w-]"
        )  # Pub/Sub's is the usual base64
        if not re.fullmatch(rf"{alphabet}*={{0,2}}", value, re.ASCII) or len(value.rstrip("=")) % 4 == 1:
            yield f"{where} is not base64"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is none of {schema['enum']}: {value!r}"
