"""The OpenAPI 3.1 document, made from the table of operations and their types."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response

from postroom import __version__
from postroom.web.api.operations import MAX_IDEMPOTENCY_KEY_LENGTH, Operation

PREFIX: Final = "/api/v1"
_ABOUT: Final = """\
Everything of one organization: mailboxes and their mail, documents and records, and what happens to them.

Show a key (`postroom keys create`) as `Authorization: Bearer pr_…`. Lists come in pages: follow `next` as
`cursor`. Answers carry an `ETag`; with `If-None-Match` an unchanged one is not sent again. A write with an
`Idempotency-Key` is done once, however often it is sent. Errors are problems (RFC 9457)."""


class ProblemResource(msgspec.Struct, frozen=True, rename={"kind": "type"}):
    """Why a call was refused. `type` is for programs, `detail` for people."""

    kind: str
    title: str
    status: int
    detail: str


def build_document(operations: Sequence[Operation], *, url: str) -> dict[str, Any]:
    answers = [each.answer for each in operations if each.answer is not Response]
    bodies = [each.types[2] for each in operations if each.body == "json"]
    given = [each.types[number] for each in operations for number in (0, 1)]
    kinds = [ProblemResource, *(kind for kind in [*answers, *bodies] if kind is not type(None))]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    named = {_type_key(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    _, parameters = msgspec.json.schema_components(given, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _describe_operation(each, named, parameters)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Postroom", "version": __version__, "description": _ABOUT},
        "servers": [{"url": f"{url.rstrip('/')}{PREFIX}"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                "Problem": {
                    "description": "Why not (RFC 9457).",
                    "content": {"application/problem+json": {"schema": named[_type_key(ProblemResource)]}},
                }
            },
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe_operation(
    operation: Operation, named: Mapping[str, Any], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    path, query, body = operation.types
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"{_read_description(operation)}\n\nScope: `{operation.scope}`.".strip(),
        "tags": [operation.tag],
        "parameters": [
            *_describe_parameters(path, "path", parameters),
            *_describe_parameters(query, "query", parameters),
        ],
        "responses": _describe_responses(operation, named),
    }
    found["parameters"] += _describe_headers(operation)
    if operation.body == "file":
        content: dict[str, Any] = {"application/octet-stream": {}}
        found["requestBody"] = {"required": True, "content": content}
    elif operation.body == "json":
        content = {"application/json": {"schema": named[_type_key(body)]}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _read_description(operation: Operation) -> str:
    lines = (operation.call.__doc__ or "").strip().partition("\n")[2]
    return re.sub(r"\s+", " ", lines).strip()


def _describe_parameters(kind: type[Any], place: str, schemas: Mapping[str, Any]) -> list[dict[str, Any]]:
    schema = schemas[kind.__name__]
    required = set(schema.get("required", ())) if place == "query" else set(schema.get("properties", ()))
    return [
        {
            "name": name,
            "in": place,
            "required": name in required,
            "schema": {key: value for key, value in about.items() if key != "description"},
        }
        | ({"description": _find_description(about)} if _find_description(about) else {})
        for name, about in schema.get("properties", {}).items()
    ]


def _find_description(about: Mapping[str, Any]) -> str | None:
    if "description" in about:
        return about["description"]
    return next((each["description"] for each in about.get("anyOf", ()) if "description" in each), None)


def _describe_headers(operation: Operation) -> list[dict[str, Any]]:
    """What may be sent beside the parameters."""
    headers: dict[str, tuple[str, dict[str, Any]]] = {}
    if operation.writes:
        headers["Idempotency-Key"] = (
            "The write is done once, however often it is sent with this key.",
            {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY_LENGTH},
        )
    else:
        headers["If-None-Match"] = ("An `ETag`: where that is still so, 304.", {"type": "string"})
    if operation.matched:
        headers["If-Match"] = ("The `ETag` of what the change is meant for; else 412.", {"type": "string"})
    if operation.answer is Response:
        headers["Range"] = ("Which bytes to send.", {"type": "string"})
    return [
        {"name": name, "in": "header", "required": False, "description": words, "schema": schema}
        for name, (words, schema) in headers.items()
    ]


def _describe_responses(operation: Operation, named: Mapping[str, Any]) -> dict[str, Any]:
    if operation.answer is Response:
        content: dict[str, Any] | None = {operation.answers: {}}
    elif operation.answer is type(None):
        content = None
    else:
        content = {"application/json": {"schema": named[_type_key(operation.answer)]}}
    done = {"description": operation.summary} | ({"content": content} if content else {})
    status = "204" if operation.answer is type(None) else str(operation.status)
    answers: dict[str, Any] = {status: done}
    if not operation.writes:
        answers["304"] = {"description": "It is as `If-None-Match` has it."}
    if operation.answer is Response:
        answers["206"] = done | {"description": "The range that was asked for."}
        answers["416"] = {"description": "There is no such range."}
    problems = {
        each: {"$ref": "#/components/responses/Problem"} for each in _list_problem_statuses(operation)
    }
    return answers | problems


def _list_problem_statuses(operation: Operation) -> list[str]:
    """The problems that can come of it, besides those that nobody foresaw."""
    found = {"400", "401", "403", "429", "503", "default"}
    if operation.writes:
        found |= {"409", "413", "422"}
    if operation.matched:
        found.add("412")
    if "{" in operation.path:
        found.add("404")
    return sorted(found)


def _type_key(kind: object) -> str:
    return repr(kind)
