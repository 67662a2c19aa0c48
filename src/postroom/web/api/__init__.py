"""The API `/api/v1` (W3). Read operations (what one is), then mail and the other tables; serving runs all."""

from collections.abc import Sequence
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.web import pages
from postroom.web.api import decisions, documents, mail, openapi, orders, upkeep, webhooks
from postroom.web.api.callers import Callers
from postroom.web.api.openapi import PREFIX
from postroom.web.api.operations import Operation, Parts, Problem
from postroom.web.api.serving import Api, problem_of
from postroom.web.sessions import Gate, guarded

OPERATIONS: Sequence[Operation] = [
    *mail.OPERATIONS,
    *documents.OPERATIONS,
    *decisions.OPERATIONS,
    *orders.OPERATIONS,
    *upkeep.OPERATIONS,
    *webhooks.OPERATIONS,
]


def routes(
    gate: Gate, parts: Parts, *, operations: Sequence[Operation] = OPERATIONS, per_minute: float = 6000
) -> list[Route]:
    api = Api(parts, Callers(gate, per_minute))
    described = msgspec.json.encode(openapi.document(operations, url=gate.url))
    return [
        *(
            Route(f"{PREFIX}{path}", partial(_serve, api, by_method), methods=list(by_method))
            for path, by_method in _by_path(operations).items()
        ),
        Route(f"{PREFIX}/openapi.json", partial(_described, described)),
        guarded(gate, "/api", partial(_docs, operations)),
        Route(f"{PREFIX}/{{rest:path}}", _missing, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
    ]


def _by_path(operations: Sequence[Operation]) -> dict[str, dict[str, Operation]]:
    found: dict[str, dict[str, Operation]] = {}
    for each in operations:
        found.setdefault(each.path, {})[each.method] = each
    return found


async def _serve(api: Api, by_method: dict[str, Operation], request: Request) -> Response:
    method = "GET" if request.method == "HEAD" else request.method
    return await api.serve(by_method[method], request)


async def _described(described: bytes, _request: Request) -> Response:
    return Response(described, media_type="application/json", headers={"cache-control": "no-cache"})


async def _missing(_request: Request) -> Response:
    return problem_of(Problem(404, "not-found", "There is no such operation. See /api/v1/openapi.json."))


async def _docs(operations: Sequence[Operation], _request: Request) -> Response:
    """The operations for a person to read and try, with the session as the key."""
    tags: dict[str, list[Operation]] = {}
    for each in operations:
        tags.setdefault(each.tag, []).append(each)
    return pages.page("api.html", tags=tags, prefix=PREFIX)
