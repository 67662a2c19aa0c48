"""API operations on failures: list, get and retry."""

from uuid import UUID

import msgspec

from postroom.api_types import BigInt, FailureResource, ResultPage
from postroom.flow.mail import failure_retry
from postroom.model import Scope
from postroom.store.views import admin
from postroom.web.api import paging
from postroom.web.api.operations import ApiCall, ApiProblem, NoParameters, Operation, PageQuery, require_found


class FailurePath(msgspec.Struct, frozen=True):
    failure: BigInt


class FailuresQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    mailbox: UUID | None = None
    open: bool | None = None


async def list_failures(call: ApiCall[NoParameters, FailuresQuery, None]) -> ResultPage[FailureResource]:
    """List messages and attachments that failed, newest first."""
    below, query = paging.parse_number_cursor(call.query), call.query
    async with call.transaction() as connection:
        rows = await admin.list_failures(
            connection, mailbox=query.mailbox, unresolved=query.open, below=below, limit=query.limit + 1
        )
    return paging.build_page(rows, query, lambda row: row.id)


async def get_failure(call: ApiCall[FailurePath, NoParameters, None]) -> FailureResource:
    """Get a failure."""
    async with call.transaction() as connection:
        return require_found(await admin.get_failure(connection, call.path.failure), "failure")


async def retry_failure(call: ApiCall[FailurePath, NoParameters, None]) -> FailureResource:
    """Retry a failed message or attachment now."""
    async with call.transaction() as connection:
        is_due = await failure_retry.retry(connection, call.caller.organization, call.path.failure)
        failure = require_found(await admin.get_failure(connection, call.path.failure), "failure")
        if not is_due:
            raise ApiProblem(409, "resolved", "This failure is already resolved. There is nothing to retry.")
    return failure


OPERATIONS = [
    Operation("GET", "/failures", list_failures, Scope.READ, "Failures"),
    Operation("GET", "/failures/{failure}", get_failure, Scope.READ, "Failures"),
    Operation("POST", "/failures/{failure}/retry", retry_failure, Scope.MAILBOXES, "Failures", 202),
]
