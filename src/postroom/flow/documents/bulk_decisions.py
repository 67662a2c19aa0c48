"""Decide about several documents at once: each by itself, in a transaction of its own, with a result each.

A failing check is never overridden here: the person opens that document and decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from postroom.errors import ChecksFailed, NotFound, PermanentError, TransientError
from postroom.flow.documents import review
from postroom.flow.documents.value_checks import ReviewContext
from postroom.model import DocumentState, OrganizationId
from postroom.store import documents
from postroom.store.connection import Connection
from postroom.store.database import Database


class BulkAction(StrEnum):
    CONFIRM = "confirm"
    REJECT = "reject"
    RETRY = "retry"
    DISMISS = "dismiss"


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of one document. `problem` says why it was left as it is."""

    document: UUID
    file_name: str | None
    problem: str | None = None


async def decide_all(
    database: Database,
    context: ReviewContext,
    organization: OrganizationId,
    chosen: Sequence[UUID],
    action: BulkAction,
    *,
    actor: str,
    reason: str = "",
) -> list[BulkResult]:
    """Apply the action to each document, in this order. Documents of other organizations are left out."""
    results: list[BulkResult] = []
    for document in chosen:
        async with database.transaction(organization) as connection:
            arrivals = await documents.list_arrivals(connection, document)
        if not arrivals:
            continue
        try:
            async with database.transaction(organization) as connection:
                await _decide(connection, context, organization, document, action, actor, reason)
            problem = None
        except ChecksFailed as error:
            names = "; ".join(name for name, _ in error.checks)
            problem = f"Failed checks: {names}. Open the document to correct or override them."
        except PermanentError as error:
            problem = str(error)
        except TransientError:
            problem = "The database was busy. Try again."
        results.append(BulkResult(document, arrivals[-1].file_name, problem))
    return results


async def _decide(
    connection: Connection,
    context: ReviewContext,
    organization: OrganizationId,
    document: UUID,
    action: BulkAction,
    actor: str,
    reason: str,
) -> None:
    match action:
        case BulkAction.CONFIRM:
            await review.confirm(connection, context, organization, document, actor=actor)
        case BulkAction.REJECT:
            reason = reason or "not for this pipeline"
            await review.reject(connection, context, organization, document, actor=actor, reason=reason)
        case BulkAction.RETRY:
            await review.retry(connection, organization, document, actor=actor)
        case BulkAction.DISMISS:
            found = await documents.get(connection, document)
            if found is None:
                raise NotFound("There is no such document.")
            if found.state is not DocumentState.FAILED:
                state = str(found.state).replace("_", " ")
                raise PermanentError(
                    f"Only failed documents can be dismissed; the state of this one is “{state}”."
                )
            reason = reason or "dismissed"
            await review.reject(connection, context, organization, document, actor=actor, reason=reason)
