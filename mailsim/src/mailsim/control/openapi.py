"""The control's OpenAPI 3.1 document, made from the table of endpoints and their structs."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mailsim import __version__
from mailsim.control.endpoint import JSON, MAIL, Endpoint
from mailsim.control.shapes import Problem

_REF = "#/components/schemas/{name}"
Json = dict[str, Any]


def document(endpoints: Iterable[Endpoint]) -> Json:
    listed = tuple(endpoints)
    types = [shape for one in listed for shape in (one.takes, one.gives) if shape not in {None, bytes}]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    of_type = dict(zip(types, schemas, strict=False))
    paths: dict[str, Json] = {}
    for endpoint in listed:
        paths.setdefault(f"/_sim{endpoint.path}", {})[endpoint.method.lower()] = _operation(endpoint, of_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "mailsim control", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(endpoint: Endpoint, of_type: dict[Any, Json]) -> Json:
    problem = {
        "description": "What is wrong",
        "content": {JSON: {"schema": {"$ref": _REF.format(name="Problem")}}},
    }
    operation: Json = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint)],
        "responses": {**_success(endpoint, of_type), "4XX": problem},
    }
    content: Json = {JSON: {"schema": of_type[endpoint.takes]}} if endpoint.takes else {}
    if endpoint.mail:
        content[MAIL] = {}
    if content:
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _success(endpoint: Endpoint, of_type: dict[Any, Json]) -> Json:
    if endpoint.gives is None:
        return {"204": {"description": "Done"}}
    content: Json = {MAIL: {}} if endpoint.gives is bytes else {JSON: {"schema": of_type[endpoint.gives]}}
    return {str(endpoint.status): {"description": endpoint.summary, "content": content}}


def _path_parameters(endpoint: Endpoint) -> list[Json]:
    names = re.findall(r"\{(\w+)\}", endpoint.path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(endpoint: Endpoint) -> list[Json]:
    if endpoint.query is None:
        return []
    _, components = msgspec.json.schema_components([endpoint.query], ref_template=_REF)
    properties: Json = components[endpoint.query.__name__]["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in properties.items()
    ]


def document_route(endpoints: Iterable[Endpoint]) -> Route:
    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(document(endpoints))

    async def answer(_: Request) -> Response:
        return Response(encoded(), media_type=JSON)

    return Route("/_sim/openapi.json", answer, methods=["GET"], name="control.openapi")
