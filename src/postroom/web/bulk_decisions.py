"""Decide about the selected documents of a list, and show what became of each."""

from functools import partial
from typing import Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.flow.documents import bulk_decisions
from postroom.flow.documents.bulk_decisions import BulkAction
from postroom.model import Role
from postroom.web import forms, pages
from postroom.web.document_context import DocumentPagesContext
from postroom.web.sessions import get_visitor, member_route

MAX_SELECTED: Final = 200
_PREFIX: Final = "document-"
_VERBS: Final = {
    BulkAction.CONFIRM: "confirmed",
    BulkAction.REJECT: "rejected",
    BulkAction.RETRY: "queued again",
    BulkAction.DISMISS: "dismissed",
}


def routes(context: DocumentPagesContext) -> list[Route]:
    return [
        member_route(
            context.site,
            "/documents/bulk",
            partial(decide_selected, context),
            Role.REVIEWER,
            methods=["POST"],
        )
    ]


async def decide_selected(context: DocumentPagesContext, request: Request) -> Response:
    """Decide about each selected document by itself."""
    visitor, form = get_visitor(request), await forms.read(request)
    try:
        action = BulkAction(form.get("action", ""))
        selected = [UUID(name.removeprefix(_PREFIX)) for name in form if name.startswith(_PREFIX)]
    except ValueError:
        raise HTTPException(400) from None
    results = await bulk_decisions.decide_all(
        context.site.database,
        context.review,
        visitor.organization,
        selected[:MAX_SELECTED],
        action,
        actor=visitor.actor,
        reason=form.get("reason", "").strip()[:200],
    )
    return pages.render_page(
        request,
        "bulk_results.html",
        results=results,
        verb=_VERBS[action],
        done=sum(result.problem is None for result in results),
    )
