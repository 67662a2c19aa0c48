"""The REST API under `/api/v1`: its routes, the OpenAPI document and the documentation page.

Start with `operations` (what an operation is) and `mail` (a table of them); `operation_runner` runs them.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.web import pages
from postroom.web.api import (
    api_keys,
    comments,
    directories,
    documents,
    events,
    failures,
    ledger,
    mail,
    notices,
    openapi,
    orders,
    organization,
    records,
    reviews,
    subscriptions,
    suppliers,
    webhooks,
)
from postroom.web.api.authentication import ApiAuthenticator
from postroom.web.api.openapi import PREFIX
from postroom.web.api.operation_runner import ApiHandler, to_problem_response
from postroom.web.api.operations import ApiContext, ApiProblem, Operation
from postroom.web.sessions import SiteContext, member_route

OPERATIONS: Sequence[Operation] = [
    *mail.OPERATIONS,
    *directories.OPERATIONS,
    *documents.OPERATIONS,
    *comments.OPERATIONS,
    *reviews.OPERATIONS,
    *records.OPERATIONS,
    *orders.OPERATIONS,
    *suppliers.OPERATIONS,
    *organization.OPERATIONS,
    *events.OPERATIONS,
    *ledger.OPERATIONS,
    *subscriptions.OPERATIONS,
    *failures.OPERATIONS,
    *webhooks.OPERATIONS,
    *notices.OPERATIONS,
    *api_keys.OPERATIONS,
]


def routes(
    site: SiteContext,
    context: ApiContext,
    *,
    operations: Sequence[Operation] = OPERATIONS,
    per_minute: float = 6000,
) -> list[Route]:
    api = ApiHandler(context, ApiAuthenticator(site, per_minute))
    describe = cache(partial(_describe, operations, site.url))  # built when a client asks for it
    return [
        *(
            Route(f"{PREFIX}{path}", partial(_serve, api, by_method), methods=list(by_method))
            for path, by_method in _group_by_path(operations).items()
        ),
        Route(f"{PREFIX}/openapi.json", partial(_serve_document, describe)),
        member_route(site, "/api", partial(_docs_page, operations)),
        Route(
            f"{PREFIX}/{{rest:path}}", _operation_not_found, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]
        ),
    ]


def _group_by_path(operations: Sequence[Operation]) -> dict[str, dict[str, Operation]]:
    found: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        found.setdefault(operation.path, {})[operation.method] = operation
    return found


async def _serve(api: ApiHandler, by_method: dict[str, Operation], request: Request) -> Response:
    method = "GET" if request.method == "HEAD" else request.method
    return await api.serve(by_method[method], request)


def _describe(operations: Sequence[Operation], url: str) -> bytes:
    return msgspec.json.encode(openapi.build_document(operations, url=url))


async def _serve_document(describe: Callable[[], bytes], _request: Request) -> Response:
    return Response(describe(), media_type="application/json", headers={"cache-control": "no-cache"})


async def _operation_not_found(_request: Request) -> Response:
    return to_problem_response(
        ApiProblem(
            404, "not-found", "Operation not found. See /api/v1/openapi.json for the list of operations."
        )
    )


async def _docs_page(operations: Sequence[Operation], request: Request) -> Response:
    """Show all operations with forms to try them, authenticated by the session."""
    tags: dict[str, list[Operation]] = {}
    for operation in operations:
        tags.setdefault(operation.tag, []).append(operation)
    return pages.render_page(request, "api.html", tags=tags, prefix=PREFIX)
