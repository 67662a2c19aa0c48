"""The work `share_state`: agree with another scheduler on who processes each message.

For each message of such a pipeline, one work item claims its row in a table that both share, sends
heartbeats, and completes the row once every document of the message is done. `process` asks here before it
reads: a document is read only while one of its messages is claimed for us. Our own rows say whether we have
read it, so nothing in the shared table makes us read it again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from postroom.documents.pipelines import Pipeline, Pipelines
from postroom.errors import OperatorError, PermanentError
from postroom.flow.documents import route
from postroom.flow.documents.route import DocumentCase
from postroom.model import DocumentState, OrganizationId, StepResult, WorkKind
from postroom.ports import RemoteMailbox
from postroom.store import documents, mailboxes, shared_messages, shared_state, work
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.documents import Document
from postroom.store.mailboxes import Mailbox
from postroom.store.shared_messages import SharedMessage
from postroom.store.shared_state import SharedClaim, SharedStateKey
from postroom.store.work import Lease, WorkRequest

POLL_SECONDS: Final = 30.0  # while the other scheduler has it; also the heartbeat interval
PROCESSED_ELSEWHERE: Final = "another system that shares the pipeline's state has processed the message"


@dataclass(frozen=True)
class SharedStateContext:
    database: Database
    pipelines: Pipelines
    remote: Callable[[Mailbox], RemoteMailbox]
    archives: bool


@dataclass(frozen=True, slots=True)
class _SharedPipeline:
    """A pipeline with shared state, and its name in the shared table."""

    pipeline: Pipeline
    app_name: str


async def run(context: SharedStateContext, lease: Lease) -> StepResult:
    """Claim one message of one pipeline, complete its row, or check again later."""
    name, _, number = lease.subject.partition("/")
    shared = _get_shared_pipeline(context, name)
    if shared is None:
        return StepResult()
    async with context.database.transaction(lease.organization) as connection:
        found = await shared_messages.list_by_ids(connection, name, [int(number)])
        mailbox = await mailboxes.get(connection, found[0].mailbox) if found else None
    if mailbox is None:
        return StepResult()  # the message was removed
    [message] = found
    foreign_id = message.foreign_id or await _find_foreign_id(context, shared.pipeline, mailbox, message)
    async with work.fenced_transaction(context.database, lease) as connection:
        if message.foreign_id is None:
            await shared_messages.store_foreign_id(connection, name, message.id, foreign_id)
        claimed = await _claim(connection, shared, lease.organization, message, foreign_id)
        if claimed is SharedClaim.CLAIMED and await _finish_row(
            connection, context, shared, lease, message.id, foreign_id
        ):
            return StepResult()
    # Wake the work of the message's queued documents, in a transaction of its own: that work locks its own
    # row before the shared row, so waking it with the shared row locked could deadlock.
    async with context.database.transaction(lease.organization) as connection:
        waiting = await shared_messages.list_queued_documents(connection, name, message.id)
        await work.make_due(connection, WorkKind.PROCESS_DOCUMENT, waiting)
    return (
        StepResult()
        if claimed in {SharedClaim.DONE_BY_OTHER, SharedClaim.DONE_BY_US}
        else StepResult(again_after=POLL_SECONDS)
    )


async def find_excluded_pipelines(context: SharedStateContext, lease: Lease) -> frozenset[str] | None:
    """Find the pipelines for which the other scheduler processes a document; None to wait for it.

    If no other pipeline accepts the document, it is skipped.
    """
    async with work.fenced_transaction(context.database, lease) as connection:
        document = await _get_unread_document(connection, lease)
        if document is None:
            return frozenset()
        permissions = {
            name: await _check_permission(connection, shared, lease.organization, document)
            for name in sorted(document.pipelines)
            if (shared := _get_shared_pipeline(context, name)) is not None
        }
    if _ReadPermission.WAIT in permissions.values():
        return None
    excluded = frozenset(name for name, found in permissions.items() if found is _ReadPermission.SKIP)
    if excluded and excluded.issuperset(document.pipelines):
        await _skip_document(context, lease)
    return excluded


async def _get_unread_document(connection: Connection, lease: Lease) -> Document | None:
    document = await documents.get(connection, UUID(lease.subject))
    is_unread = document is not None and document.state in {DocumentState.QUEUED, DocumentState.PROCESSING}
    return document if is_unread else None


async def _skip_document(context: SharedStateContext, lease: Lease) -> None:
    """Skip a document in its own transaction: waking other work must not wait with shared rows locked."""
    async with work.fenced_transaction(context.database, lease) as connection:
        document = await _get_unread_document(connection, lease)
        if document is not None:
            case = DocumentCase(lease.organization, document)
            await route.finish_document(
                connection, case, DocumentState.SKIPPED, skip_reason=PROCESSED_ELSEWHERE
            )


class _ReadPermission(Enum):
    READ = "read"
    WAIT = "wait"
    SKIP = "skip"


async def _check_permission(
    connection: Connection, shared: _SharedPipeline, organization: OrganizationId, document: Document
) -> _ReadPermission:
    """Decide who may read a document: we may if one of its messages is ours, or if it was uploaded."""
    arrivals = await documents.list_arrivals(connection, document.id)
    if any(each.source in {"manual_upload", "poller"} for each in arrivals):
        return _ReadPermission.READ
    brought = [each.message_id for each in arrivals if each.message_id is not None]
    messages = await shared_messages.list_by_ids(connection, shared.pipeline.name, brought)
    claims = [
        await _claim(connection, shared, organization, each, each.foreign_id)
        for each in messages
        if each.foreign_id is not None
    ]
    # The work of each message completes its row later, and finds ids that are not known yet.
    await work.ensure_scheduled(
        connection, [_build_work_request(organization, shared, each) for each in messages]
    )
    if not messages or SharedClaim.CLAIMED in claims or SharedClaim.DONE_BY_US in claims:
        return _ReadPermission.READ
    if SharedClaim.HELD_BY_OTHER in claims or len(claims) < len(messages):
        return _ReadPermission.WAIT
    return _ReadPermission.SKIP


def _build_work_request(
    organization: OrganizationId, shared: _SharedPipeline, message: SharedMessage
) -> WorkRequest:
    delay = 0 if message.foreign_id is None else POLL_SECONDS
    return WorkRequest(organization, WorkKind.SHARE_STATE, f"{shared.pipeline.name}/{message.id}", delay)


def _get_shared_pipeline(context: SharedStateContext, name: str) -> _SharedPipeline | None:
    pipeline = context.pipelines.get(name)
    if pipeline is None or pipeline.shared_state is None:
        return None
    return _SharedPipeline(pipeline, pipeline.shared_state)


async def _find_foreign_id(
    context: SharedStateContext, pipeline: Pipeline, mailbox: Mailbox, message: SharedMessage
) -> str:
    """Find the ID that the other scheduler uses; our own if the provider no longer has another."""
    ours = message.provider_message_id
    if pipeline.shared_state_ids == "immutable":
        return ours
    try:
        found = await context.remote(mailbox).get_mutable_ids([ours])
    except PermanentError as error:
        raise OperatorError(
            f"Cannot translate message IDs for the pipeline {pipeline.name} ({error}). Grant the application"
            ' permission to read users, or set shared_state_ids = "immutable" if the other system uses those.'
        ) from error
    return found.get(ours, ours)


async def _claim(
    connection: Connection,
    shared: _SharedPipeline,
    organization: OrganizationId,
    message: SharedMessage,
    foreign_id: str,
) -> SharedClaim:
    return await shared_state.claim(
        connection,
        SharedStateKey(shared.app_name, foreign_id),
        message.details,
        _worker_name(organization),
        stale_seconds=shared.pipeline.shared_state_minutes * 60,
    )


async def _finish_row(
    connection: Connection,
    context: SharedStateContext,
    shared: _SharedPipeline,
    lease: Lease,
    message: int,
    foreign_id: str,
) -> bool:
    """Complete the row with the result of the documents. False if some are still pending."""
    key, worker = SharedStateKey(shared.app_name, foreign_id), _worker_name(lease.organization)
    archives = context.archives and shared.pipeline.archive
    found = await shared_messages.get_progress(connection, shared.pipeline.name, message, archives=archives)
    if found.pending:
        return False
    if not found.documents:
        await shared_state.skip(connection, key, worker)
    elif found.error is not None:
        await shared_state.fail(connection, key, worker, found.error)
    else:
        paths: Sequence[str] = found.archive_paths
        await shared_state.succeed(
            connection, key, worker, attachments=found.documents, records=found.records, archive_paths=paths
        )
    return True


def _worker_name(organization: OrganizationId) -> str:
    """One name for all workers of an organization: our leases say which of them is at work."""
    return f"postroom {organization}"
