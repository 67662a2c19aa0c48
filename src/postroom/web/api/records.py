"""API operations on records: list, get, versions, and every change that a person may make."""

from typing import Any
from uuid import UUID

import msgspec

from postroom.api_types import (
    ChangeReason,
    RecordCorrection,
    RecordMerge,
    RecordResource,
    RecordSplit,
    RecordVersionResource,
    ResultPage,
)
from postroom.flow.documents import record_changes as flow
from postroom.flow.documents.record_changes import RecordChange
from postroom.model import Scope
from postroom.store import records
from postroom.store.connection import Connection
from postroom.store.lists.records import RECORDS
from postroom.store.views import documents as views
from postroom.web.api import http_content, list_queries
from postroom.web.api.list_queries import RecordsQuery
from postroom.web.api.operations import ApiCall, NoParameters, Operation, require_found


class RecordPath(msgspec.Struct, frozen=True):
    record: UUID


async def list_records(call: ApiCall[NoParameters, RecordsQuery, None]) -> ResultPage[RecordResource]:
    """List records, newest first unless sorted otherwise: the confirmed ones, or those in another `state`.

    Filters and sorts have the same names as in the URL of the page `/records`.
    """
    async with call.transaction() as connection:
        ids, following = await list_queries.read_ids(connection, RECORDS, call.query)
        return ResultPage(await views.list_records(connection, ids), following)


async def get_record(call: ApiCall[RecordPath, NoParameters, None]) -> RecordResource:
    """Get a record in its current state, with its documents and their archived copies."""
    async with call.transaction() as connection:
        return await _get_record(connection, call.path.record)


async def list_record_versions(
    call: ApiCall[RecordPath, NoParameters, None],
) -> ResultPage[RecordVersionResource]:
    """List the versions of a record, oldest first: the state after each change, its actor and its reason."""
    async with call.transaction() as connection:
        await _get_record(connection, call.path.record)
        return ResultPage(await views.list_record_versions(connection, call.path.record), None)


async def reopen_record(call: ApiCall[RecordPath, NoParameters, ChangeReason]) -> RecordResource:
    """Reopen a confirmed or voided record for review. The review of its first document is then open.

    With `If-Match`, the call fails if the record has changed.
    """
    async with call.transaction() as connection:
        change = await _begin(connection, call, call.body.reason)
        await flow.reopen(connection, call.context.review, change)
        return await _get_record(connection, change.record)


async def correct_record(call: ApiCall[RecordPath, NoParameters, RecordCorrection]) -> RecordResource:
    """Correct fields of a confirmed record, or link it to another order.

    An empty or null correction removes the value. For a table, send all rows. `order` is the reference of an
    open order; an empty one means none. If a corrected field fails a check that `override` does not name,
    nothing is stored; the error (409, `checks-failed`) lists the failed `checks`. With `If-Match`, the call
    fails if the record has changed.
    """
    body = call.body
    async with call.transaction() as connection:
        change = await _begin(connection, call, body.reason)
        await flow.correct(
            connection,
            call.context.review,
            change,
            body.corrections,
            override=body.override,
            order=body.order,
        )
        return await _get_record(connection, change.record)


async def void_record(call: ApiCall[RecordPath, NoParameters, ChangeReason]) -> RecordResource:
    """Void a record that should not exist. Its documents are skipped, and its order is open again.

    With `If-Match`, the call fails if the record has changed.
    """
    async with call.transaction() as connection:
        change = await _begin(connection, call, call.body.reason)
        await flow.void(connection, call.context.review, change)
        return await _get_record(connection, change.record)


async def merge_record(call: ApiCall[RecordPath, NoParameters, RecordMerge]) -> RecordResource:
    """Merge a record into another one of the same invoice or trade, and get that one.

    It keeps its values and gets the documents. With `If-Match`, the call fails if the merged record
    has changed.
    """
    async with call.transaction() as connection:
        change = await _begin(connection, call, call.body.reason)
        left = await flow.merge(connection, call.context.review, change, into=call.body.into)
        return await _get_record(connection, left.id)


async def split_record(call: ApiCall[RecordPath, NoParameters, RecordSplit]) -> RecordResource:
    """Undo the merge of a record; or, with `document`, give that document a record of its own, and get it.

    With `If-Match`, the call fails if the record has changed.
    """
    async with call.transaction() as connection:
        change = await _begin(connection, call, call.body.reason)
        alone = await flow.split(connection, call.context.review, change, document=call.body.document)
        return await _get_record(connection, alone.id)


async def _begin(
    connection: Connection, call: ApiCall[RecordPath, NoParameters, Any], reason: str
) -> RecordChange:
    """Lock the records, and reject a change of a version that is no longer current."""
    await records.lock(connection)
    record = await _get_record(connection, call.path.record)
    http_content.require_if_match(call.request, record)
    return RecordChange(call.caller.organization, record.id, call.caller.actor, reason, record.version)


async def _get_record(connection: Connection, record: UUID) -> RecordResource:
    return require_found(await views.get_record(connection, record), "record")


OPERATIONS = [
    Operation("GET", "/records", list_records, Scope.READ, "Records"),
    Operation("GET", "/records/{record}", get_record, Scope.READ, "Records"),
    Operation("GET", "/records/{record}/versions", list_record_versions, Scope.READ, "Records"),
    Operation("POST", "/records/{record}/reopen", reopen_record, Scope.DOCUMENTS, "Records", matched=True),
    Operation("POST", "/records/{record}/correct", correct_record, Scope.DOCUMENTS, "Records", matched=True),
    Operation("POST", "/records/{record}/void", void_record, Scope.DOCUMENTS, "Records", matched=True),
    Operation("POST", "/records/{record}/merge", merge_record, Scope.DOCUMENTS, "Records", matched=True),
    Operation("POST", "/records/{record}/split", split_record, Scope.DOCUMENTS, "Records", matched=True),
]
