"""Sharing the state of messages with a foreign scheduler (K6): what it has, we leave; it sees what we have.

For each message that such a pipeline takes from, one piece of work claims its row in the shared table, shows
that we are at it, and ends the row once every document of the message has ended. A document is read only
while one of its messages is claimed for us. That we have read it is known from our own rows, so nothing that
happens in the shared table makes us read it again.
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
from postroom.store.database import Connection, Database
from postroom.store.documents import Document
from postroom.store.mailboxes import Mailbox
from postroom.store.shared_messages import SharedMessage
from postroom.store.shared_state import SharedClaim, SharedStateKey
from postroom.store.work import Lease, WorkRequest

POLL_SECONDS: Final = 30.0  # while others have it; and so often do we show that we are at it
PROCESSED_ELSEWHERE: Final = "the other system that shares the pipeline's state has processed its message"


@dataclass(frozen=True)
class SharedStateContext:
    database: Database
    pipelines: Pipelines
    remote: Callable[[Mailbox], RemoteMailbox]
    archives: bool


@dataclass(frozen=True, slots=True)
class _SharedPipeline:
    """A pipeline with shared state and the name under which it shares."""

    pipeline: Pipeline
    app_name: str


async def run(context: SharedStateContext, lease: Lease) -> StepResult:
    """One message of one pipeline: claim it, tell how it ended, or look again."""
    name, _, number = lease.subject.partition("/")
    shared = _get_shared_pipeline(context, name)
    if shared is None:
        return StepResult()
    async with context.database.transaction(lease.organization) as connection:
        found = await shared_messages.list_by_ids(connection, name, [int(number)])
        mailbox = await mailboxes.get(connection, found[0].mailbox) if found else None
    if mailbox is None:
        return StepResult()  # the message is gone meanwhile
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
        # Those that may be read now, or need not be read any more.
        waiting = await shared_messages.list_queued_documents(connection, name, message.id)
        await work.make_due(connection, WorkKind.PROCESS_DOCUMENT, waiting)
    return (
        StepResult()
        if claimed in {SharedClaim.DONE_BY_OTHER, SharedClaim.DONE_BY_US}
        else StepResult(again_after=POLL_SECONDS)
    )


async def defer_or_skip(context: SharedStateContext, lease: Lease) -> StepResult | None:
    """How the work on a document ends that is not ours to read now; None where it is."""
    async with work.fenced_transaction(context.database, lease) as connection:
        document = await documents.get(connection, UUID(lease.subject))
        if document is None or document.state not in {DocumentState.QUEUED, DocumentState.PROCESSING}:
            return None
        shared = _get_shared_pipeline(context, document.pipeline)
        if shared is None:
            return None
        match await _check_permission(connection, shared, lease.organization, document):
            case _ReadPermission.READ:
                return None
            case _ReadPermission.WAIT:
                return StepResult(again_after=POLL_SECONDS)
            case _ReadPermission.LEAVE:
                case = DocumentCase(lease.organization, document)
                await route.finish_document(
                    connection, case, DocumentState.SKIPPED, skip_reason=PROCESSED_ELSEWHERE
                )
                return StepResult()


class _ReadPermission(Enum):
    READ = "read"
    WAIT = "wait"
    LEAVE = "leave"


async def _check_permission(
    connection: Connection, shared: _SharedPipeline, organization: OrganizationId, document: Document
) -> _ReadPermission:
    """By one message that is ours, it is ours. What somebody gave us by hand is, too."""
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
    # The work on each message ends its row later; and it finds ids that are not known yet.
    await work.ensure_scheduled(connection, [_build_wake(organization, shared, each) for each in messages])
    if not messages or SharedClaim.CLAIMED in claims or SharedClaim.DONE_BY_US in claims:
        return _ReadPermission.READ
    if SharedClaim.HELD_BY_OTHER in claims or len(claims) < len(messages):
        return _ReadPermission.WAIT
    return _ReadPermission.LEAVE


def _build_wake(organization: OrganizationId, shared: _SharedPipeline, message: SharedMessage) -> WorkRequest:
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
    """The id by which the other side knows the message; ours where the provider has no other any more."""
    ours = message.provider_message_id
    if pipeline.shared_state_ids == "immutable":
        return ours
    try:
        found = await context.remote(mailbox).get_mutable_ids([ours])
    except PermanentError as error:
        raise OperatorError(
            f"The ids of messages cannot be translated for the pipeline {pipeline.name} ({error}). Let the"
            ' application read users, or set shared_state_ids = "immutable" if the other side uses such ids.'
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
    """End the row as the documents ended. False: not all of them have."""
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
    """One name for all of us: which of us is at it, our own leases say."""
    return f"postroom {organization}"
