"""Generates the OpenAPI 3.1 document of the control API from its endpoints and structs, and serves it."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mailsim import __version__
from mailsim.control.endpoint import JSON, ControlEndpoint
from mailsim.control.schemas import Problem

_REF = "#/components/schemas/{name}"
Json = dict[str, Any]


def build_document(endpoints: Iterable[ControlEndpoint]) -> Json:
    all_endpoints = tuple(endpoints)
    types = [
        shape
        for endpoint in all_endpoints
        for shape in (endpoint.takes, endpoint.gives)
        if shape not in {None, bytes}
    ]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=False))
    paths: dict[str, Json] = {}
    for endpoint in all_endpoints:
        paths.setdefault(f"/_sim{endpoint.path}", {})[endpoint.method.lower()] = _operation(
            endpoint, schema_of
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "mailsim control", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(endpoint: ControlEndpoint, schema_of: dict[Any, Json]) -> Json:
    problem = {
        "description": "Error",
        "content": {JSON: {"schema": {"$ref": _REF.format(name="Problem")}}},
    }
    operation: Json = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint)],
        "responses": {**_success(endpoint, schema_of), "4XX": problem},
    }
    content: Json = {JSON: {"schema": schema_of[endpoint.takes]}} if endpoint.takes else {}
    if endpoint.mail:
        content[endpoint.media] = {}
    if content:
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _success(endpoint: ControlEndpoint, schema_of: dict[Any, Json]) -> Json:
    if endpoint.gives is None:
        return {"204": {"description": "Done"}}
    content: Json = (
        {endpoint.media: {}} if endpoint.gives is bytes else {JSON: {"schema": schema_of[endpoint.gives]}}
    )
    return {str(endpoint.status): {"description": endpoint.summary, "content": content}}


def _path_parameters(endpoint: ControlEndpoint) -> list[Json]:
    names = re.findall(r"\{(\w+)\}", endpoint.path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(endpoint: ControlEndpoint) -> list[Json]:
    if endpoint.query is None:
        return []
    _, components = msgspec.json.schema_components([endpoint.query], ref_template=_REF)
    properties: Json = components[endpoint.query.__name__]["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in properties.items()
    ]


def document_route(endpoints: Iterable[ControlEndpoint]) -> Route:
    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(build_document(endpoints))

    async def respond(_: Request) -> Response:
        return Response(encoded(), media_type=JSON)

    return Route("/_sim/openapi.json", respond, methods=["GET"], name="control.openapi")
