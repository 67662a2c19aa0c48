"""Checks answers of /gmail/v1 against Google's own discovery document, unknown properties included."""

import base64
import functools
import json
import re
from importlib import resources
from typing import Any

# Kept short, and each with its reason.
EXCEPTIONS: dict[str, str] = {}

LONGEST = 256 * 1024
_LIMITS = {"int32": (-(2**31), 2**31), "uint32": (0, 2**32)}
_TEXT_LIMITS = {"int64": (-(2**63), 2**63), "uint64": (0, 2**64)}
_ERROR = {"code", "message", "errors", "status", "details"}
_ENTRY = {"message", "domain", "reason", "location", "locationType"}
_STATUSES = {
    "INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "ABORTED",
    "RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN",
}  # fmt: skip


@functools.cache
def document() -> dict[str, Any]:
    file = resources.files("googleapiclient") / "discovery_cache" / "documents" / "gmail.v1.json"
    return json.loads(file.read_text())


@functools.cache
def methods() -> dict[str, dict[str, Any]]:
    """Every method of the document by its id without the leading `gmail.`."""
    found: dict[str, dict[str, Any]] = {}

    def walk(resource: dict[str, Any]) -> None:
        for method in resource.get("methods", {}).values():
            found[method["id"].removeprefix("gmail.")] = method
        for inner in resource.get("resources", {}).values():
            walk(inner)

    walk(document())
    return found


@functools.cache
def _patterns() -> list[tuple[str, re.Pattern[str], str]]:
    ordered = sorted(methods().values(), key=lambda method: method["path"].count("{"))
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


def problems(exchange: dict[str, Any]) -> list[str]:
    """What is wrong with the answer of one logged request; nothing for answers that faults made."""
    if "/gmail/" not in exchange["path"] or exchange.get("fault") or not exchange["status"]:
        return []
    status, body = exchange["status"], exchange.get("response_body", "")
    kind = dict(exchange.get("response_headers", [])).get("content-type", "")
    if status == 204:
        return ["204 with a body"] if body else []
    if status == 404 and kind == "text/html; charset=UTF-8":
        return []
    if exchange["path"].startswith("/batch/") and status == 200:
        return [] if kind.startswith("multipart/mixed; boundary=") else [f"a batch answered as {kind!r}"]
    if kind != "application/json; charset=UTF-8":
        return [f"content type {kind!r}"]
    return list(_json(exchange, status, body))


def _json(exchange: dict[str, Any], status: int, body: str):
    if len(body.encode()) >= LONGEST - 4:
        return  # the log keeps no more of it, and may have cut a character
    value = json.loads(body)
    if status >= 400:
        yield from _error(value, status)
        return
    for http, pattern, answer in _patterns():
        if http == exchange["method"] and pattern.match(exchange["path"]):
            if answer:
                yield from _object(value, answer, answer)
            elif value != {}:
                yield "an answer that nobody expects"
            return
    yield f"no method of the API has {exchange['method']} {exchange['path']}"


def _error(value: Any, status: int):
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


def _object(value: Any, name: str, where: str):
    properties = document()["schemas"][name]["properties"]
    if not isinstance(value, dict):
        yield f"{where} is no object"
        return
    for key, item in value.items():
        place = f"{where}.{key}"
        if key not in properties:
            if f"{name}.{key}" not in EXCEPTIONS:
                yield f"{place} is unknown"
        else:
            yield from _value(item, properties[key], place)


def _value(value: Any, schema: dict[str, Any], where: str):
    if "$ref" in schema:
        yield from _object(value, schema["$ref"], where)
    elif schema["type"] == "array":
        if not isinstance(value, list) or not value:
            yield f"{where} is not a list with entries: {value!r}"
            return
        for place, item in enumerate(value):
            yield from _value(item, schema["items"], f"{where}[{place}]")
    elif schema["type"] == "integer":
        low, high = _LIMITS[schema["format"]]
        if type(value) is not int or not low <= value < high:
            yield f"{where} is no {schema['format']}: {value!r}"
    elif schema["type"] == "string":
        yield from _text(value, schema, where)
    else:
        yield f"{where} has a type that nobody checks: {schema['type']}"


def _text(value: Any, schema: dict[str, Any], where: str):
    if not isinstance(value, str):
        yield f"{where} is no text: {value!r}"
        return
    form = schema.get("format", "")
    if form in _TEXT_LIMITS:
        low, high = _TEXT_LIMITS[form]
        if not re.fullmatch(r"-?\d+", value) or not low <= int(value) < high:
            yield f"{where} is no {form}: {value!r}"
    elif form == "byte":
        if not re.fullmatch(r"[\w-]*={0,2}", value, re.ASCII):
            yield f"{where} is not base64url"
        else:
            base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is none of {schema['enum']}: {value!r}"
