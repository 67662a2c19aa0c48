"""API operations on reviews: list, get, confirm and reject, with the same effects as on the pages."""

from typing import Annotated
from uuid import UUID

import msgspec
from starlette.requests import Request

from postroom.api_types import (
    BigInt,
    RecordResource,
    Rejection,
    ResultPage,
    ReviewResource,
    TableRows,
    Text,
)
from postroom.flow.documents import review as flow
from postroom.model import Scope
from postroom.store.connection import Connection
from postroom.store.views import documents as views
from postroom.web.api import http_content, paging
from postroom.web.api.operations import ApiCall, ApiProblem, NoParameters, Operation, PageQuery, require_found


class ReviewPath(msgspec.Struct, frozen=True):
    review: BigInt


class ReviewsQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    open: bool | None = None


class Confirmation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Corrected values of fields that were extracted wrongly; for a table, all its rows.

    `override` names the failed checks despite which the values are confirmed, `order` an open order (empty:
    none), `replaces` the record that the document amends.
    """

    corrections: dict[Text, Text | TableRows | None] = {}
    override: Annotated[list[Text], msgspec.Meta(max_length=100)] = []
    order: Text | None = None
    replaces: UUID | None = None


async def list_reviews(call: ApiCall[NoParameters, ReviewsQuery, None]) -> ResultPage[ReviewResource]:
    """List reviews, newest first; with `open=true`, only those without a decision."""
    below = paging.parse_number_cursor(call.query)
    async with call.transaction() as connection:
        rows = await views.list_reviews(
            connection, undecided=call.query.open, below=below, limit=call.query.limit + 1
        )
    return paging.build_page(rows, call.query, lambda row: row.id)


async def get_review(call: ApiCall[ReviewPath, NoParameters, None]) -> ReviewResource:
    """Get a review."""
    async with call.transaction() as connection:
        return await _get_review(connection, call.path.review)


async def confirm_review(call: ApiCall[ReviewPath, NoParameters, Confirmation]) -> RecordResource:
    """Confirm the extracted fields, with corrections, and get the resulting record.

    An empty or null correction states that the document does not contain the field. For a table, such as the
    line items of an invoice, send all rows. `order` chooses an open order where several fit. With `replaces`,
    the document amends an earlier one, whose record is merged into the new one. If the values fail a check
    that `override` does not name, nothing is confirmed; the error (409, `checks-failed`) lists the failed
    `checks`. With `If-Match`, the call fails if another person has decided.
    """
    caller = call.caller
    async with call.transaction() as connection:
        review = await _get_open_review(connection, call.path.review, call.request)
        record_id = await flow.confirm(
            connection,
            call.context.review,
            caller.organization,
            review.document_id,
            actor=caller.actor,
            corrections=call.body.corrections,
            override=call.body.override,
            order=call.body.order,
            replaces=call.body.replaces,
        )
        record = await views.get_record(connection, record_id)
    assert record, "confirming creates or finds the record"
    return record


async def reject_review(call: ApiCall[ReviewPath, NoParameters, Rejection]) -> ReviewResource:
    """Reject a document as not relevant for its pipeline.

    With `If-Match`, the call fails if another person has decided.
    """
    caller = call.caller
    async with call.transaction() as connection:
        review = await _get_open_review(connection, call.path.review, call.request)
        await flow.reject(
            connection,
            call.context.review,
            caller.organization,
            review.document_id,
            actor=caller.actor,
            reason=call.body.reason,
        )
        return await _get_review(connection, review.id)


async def _get_open_review(connection: Connection, review_id: int, request: Request) -> ReviewResource:
    """Get a review that is undecided and, with `If-Match`, unchanged."""
    review = await _get_review(connection, review_id)
    http_content.require_if_match(request, review)
    if review.decision is not None:
        raise ApiProblem(409, "decided", f"This review was already {review.decision}.")
    return review


async def _get_review(connection: Connection, review_id: int) -> ReviewResource:
    return require_found(await views.get_review(connection, review_id), "review")


OPERATIONS = [
    Operation("GET", "/reviews", list_reviews, Scope.READ, "Documents"),
    Operation("GET", "/reviews/{review}", get_review, Scope.READ, "Documents"),
    Operation(
        "POST", "/reviews/{review}/confirm", confirm_review, Scope.DOCUMENTS, "Documents", matched=True
    ),
    Operation("POST", "/reviews/{review}/reject", reject_review, Scope.DOCUMENTS, "Documents", matched=True),
]
