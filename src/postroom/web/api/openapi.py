"""The OpenAPI 3.1 document, generated from the operations and their types. No routes."""

import re
from collections.abc import Mapping, Sequence
from inspect import cleandoc
from typing import Any, Final, cast

import msgspec
from starlette.responses import Response

from postroom import __version__
from postroom.api_types import FailedCheck
from postroom.web.api.operations import MAX_IDEMPOTENCY_KEY_LENGTH, Operation

PREFIX: Final = "/api/v1"
_ABOUT: Final = """\
The mailboxes, mail, documents, records and events of one organization.

Authenticate with an API key (`postroom api-keys create`): `Authorization: Bearer pr_…`. Lists are paged: pass
`next` as `cursor` to get the next page. Responses carry an `ETag`; send it as `If-None-Match` to get 304 for
an unchanged response. A write with an `Idempotency-Key` is executed once, however often it is sent. Errors
are problem documents (RFC 9457)."""
_REFERENCE: Final = "#/components/schemas/"


class ProblemResource(msgspec.Struct, frozen=True, rename={"kind": "type"}):
    """An error. `type` is for programs, `detail` for people. `checks` is set for `checks-failed`."""

    kind: str
    title: str
    status: int
    detail: str
    checks: list[FailedCheck] | msgspec.UnsetType = msgspec.UNSET


def build_document(operations: Sequence[Operation], *, url: str) -> dict[str, Any]:
    results = [operation.result_type for operation in operations if operation.result_type is not Response]
    bodies = [operation.types[2] for operation in operations if operation.body == "json"]
    inputs = [operation.types[number] for operation in operations for number in (0, 1)]
    types = [ProblemResource, *(type_ for type_ in [*results, *bodies] if type_ is not type(None))]
    generated, components = msgspec.json.schema_components(types, ref_template=f"{_REFERENCE}{{name}}")
    schemas = {
        _type_key(type_): _publish_names(schema) for type_, schema in zip(types, generated, strict=True)
    }
    _, parameters = msgspec.json.schema_components(inputs, ref_template=f"{_REFERENCE}{{name}}")
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _describe_operation(operation, schemas, parameters)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Postroom", "version": __version__, "description": _ABOUT},
        "servers": [{"url": f"{url.rstrip('/')}{PREFIX}"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": {publish_name(name): _publish_names(schema) for name, schema in components.items()},
            "responses": {
                "Problem": {
                    "description": "An error (RFC 9457).",
                    "content": {"application/problem+json": {"schema": schemas[_type_key(ProblemResource)]}},
                }
            },
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def publish_name(name: str) -> str:
    """The schema name of a class: `Mailbox` for `MailboxResource`, `MailboxPage` for a page of them."""
    item = re.fullmatch(r"ResultPage[\[_](\w+?)[\]_]", name)
    return f"{publish_name(item[1])}Page" if item else name.removesuffix("Resource")


def _publish_names(schema: Any) -> Any:
    """Replace class names in the titles and references of a generated schema, and unindent descriptions."""
    if isinstance(schema, list):
        return [_publish_names(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    published: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key == "$ref":
            published[key] = _REFERENCE + publish_name(value.removeprefix(_REFERENCE))
        elif key == "title" and isinstance(value, str):
            published[key] = publish_name(value)
        elif key == "description" and isinstance(value, str):
            published[key] = cleandoc(value)
        else:
            published[key] = _publish_names(value)
    return published


def _describe_operation(
    operation: Operation, schemas: Mapping[str, Any], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    path, query, body = operation.types
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"{_read_description(operation)}\n\nScope: `{operation.scope}`.".strip(),
        "tags": [operation.tag],
        "parameters": [
            *_describe_parameters(path, "path", parameters),
            *_describe_parameters(query, "query", parameters),
        ],
        "responses": _describe_responses(operation, schemas),
    }
    described["parameters"] += _describe_headers(operation)
    if operation.body == "file":
        content: dict[str, Any] = {"application/octet-stream": {}}
        described["requestBody"] = {"required": True, "content": content}
    elif operation.body == "json":
        content = {"application/json": {"schema": schemas[_type_key(body)]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


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
    """Describe the optional request headers."""
    headers: dict[str, tuple[str, dict[str, Any]]] = {}
    if operation.writes:
        headers["Idempotency-Key"] = (
            "Executes the write once, however often it is sent with this key.",
            {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY_LENGTH},
        )
    else:
        headers["If-None-Match"] = (
            "An `ETag`. If the response is unchanged, the status is 304.",
            {"type": "string"},
        )
    if operation.matched:
        headers["If-Match"] = (
            "The `ETag` that the change is based on. If the version has changed, the status is 412.",
            {"type": "string"},
        )
    if operation.result_type is Response:
        headers["Range"] = ("The range of bytes to send.", {"type": "string"})
    return [
        {"name": name, "in": "header", "required": False, "description": words, "schema": schema}
        for name, (words, schema) in headers.items()
    ]


def _describe_responses(operation: Operation, schemas: Mapping[str, Any]) -> dict[str, Any]:
    if operation.result_type is Response:
        content: dict[str, Any] | None = {operation.media_type: {}}
    elif operation.result_type is type(None):
        content = None
    else:
        content = {"application/json": {"schema": schemas[_type_key(operation.result_type)]}}
    done = {"description": operation.summary} | ({"content": content} if content else {})
    status = "204" if operation.result_type is type(None) else str(operation.status)
    responses: dict[str, Any] = {status: done}
    if not operation.writes:
        responses["304"] = {"description": "Not modified."}
    if operation.result_type is Response:
        responses["206"] = done | {"description": "The requested range."}
        responses["416"] = {"description": "The range is not satisfiable."}
    problems = {
        each: {"$ref": "#/components/responses/Problem"} for each in _list_problem_statuses(operation)
    }
    return responses | problems


def _list_problem_statuses(operation: Operation) -> list[str]:
    """List the error statuses of an operation; `default` covers unexpected ones."""
    statuses = {"400", "401", "403", "429", "503", "default"}
    if operation.writes:
        statuses |= {"409", "413", "422"}
    if operation.matched:
        statuses.add("412")
    if "{" in operation.path:
        statuses.add("404")
    return sorted(statuses)


def _type_key(kind: object) -> str:
    return repr(kind)
