"""A person's decision about a document: confirm, correct, reject, undo, or have it read again.

Runs in the caller's transaction. `value_checks` validates the corrections, `route` requests the reviews and
makes the record, `record_changes` changes it later.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from postroom.documents.pipelines import Pipeline
from postroom.errors import NotFound, PermanentError
from postroom.flow.documents import order_links, record_changes, route, value_checks
from postroom.flow.documents.record_changes import RecordChange
from postroom.flow.documents.route import DocumentCase, ExtractedValues
from postroom.flow.documents.value_checks import ReviewContext
from postroom.model import DocumentState, OrganizationId, WorkKind
from postroom.store import documents, ledger, orders, records, review_queue, reviews, work
from postroom.store.connection import Connection
from postroom.store.documents import Document
from postroom.store.ledger import JsonValue, NewLedgerEntry
from postroom.store.records import ExtractionRow, Record, RecordState
from postroom.store.reviews import Decision
from postroom.store.work import WorkRequest

RETRYABLE = frozenset({DocumentState.FAILED, DocumentState.SKIPPED, DocumentState.NEEDS_REVIEW})


async def confirm(
    connection: Connection,
    context: ReviewContext,
    organization: OrganizationId,
    document: UUID,
    *,
    actor: str,
    corrections: Mapping[str, Any] | None = None,
    override: Collection[str] = (),
    order: str | None = None,
    replaces: UUID | None = None,
) -> UUID:
    """Confirm a document, with corrections, as a record. Later documents learn from the corrections.

    `order` is the reference of an open order; "" means none, and None the one that fits. `replaces` is the
    record that this document amends. Raises ChecksFailed if the values fail a check whose name is not in
    `override`.
    """
    case, pipeline, extraction = await _load_case(connection, context, organization, document, actor)
    reopened = await record_changes.get_reopened(connection, case.document)
    identity = context.routing.identities[extraction.kind]
    entered = await value_checks.evaluate(connection, context, case.document, extraction, corrections or {})
    right = entered.changes
    overridden = value_checks.require_passed_checks(entered.checks, override)
    decision = Decision.CORRECTED if right else Decision.CONFIRMED
    review = await _decide(connection, case, decision)
    if right:
        field_corrections = value_checks.build_field_corrections(
            identity, value_checks.get_read_values(extraction), right
        )
        await reviews.add_corrections(connection, review, field_corrections, layout=extraction.layout)
    await _record_decision(connection, case, decision, list(right), overridden)
    unsure = route.find_uncertain_fields(extraction.fields, identity, is_ocr=extraction.is_ocr)
    known_values = {name: value for name, value in entered.values.items() if value is not None}
    extracted = ExtractedValues(extraction.kind, known_values, unsure - set(right))
    if reopened:
        record = await record_changes.confirm_again(
            connection, context, reopened, case, extracted.values, order=order
        )
    else:
        record = await _confirm_new(connection, context, pipeline, case, extracted, right, order)
    if replaces is not None:
        change = RecordChange(organization, replaces, actor, "replaced by an amendment")
        await record_changes.merge(connection, context, change, into=record)
    return record


async def _confirm_new(
    connection: Connection,
    context: ReviewContext,
    pipeline: Pipeline,
    case: DocumentCase,
    extracted: ExtractedValues,
    right: Mapping[str, Any],
    order: str | None,
) -> UUID:
    """Confirm a document as a new record, or as another copy of a known one."""
    shapes = context.routing.identities[extracted.kind].shapes
    # If the person's values differ from the record it resembles, the document becomes a new record.
    known = await route.look_up_record(connection, context.routing, pipeline.name, extracted)
    if known.record:
        await value_checks.require_same_values(connection, known.record, right)
    if known.resembles and known.resembles.state is RecordState.REOPENED:
        raise PermanentError(f"Record {known.resembles.name} is under review. Decide that review first.")
    open_orders = await orders.list_open_orders(connection, extracted.kind)
    match = await asyncio.to_thread(order_links.choose_order, extracted.values, open_orders, shapes, order)
    return await route.confirm_record(
        connection, context.routing, pipeline, case, extracted, known, open_orders, match
    )


async def reject(
    connection: Connection,
    context: ReviewContext,
    organization: OrganizationId,
    document: UUID,
    *,
    actor: str,
    reason: str,
) -> None:
    """Reject a document: it does not belong to this pipeline. Also dismisses a failed one."""
    found = await _lock_document(connection, document)
    reopened = await record_changes.get_reopened(connection, found)
    if reopened and found.state in RETRYABLE:
        await _reject_reopened(
            connection, context, reopened, DocumentCase(organization, found, actor), reason
        )
        return
    if found.state is DocumentState.FAILED:
        failed = DocumentCase(organization, found, actor)
        reason = f"rejected: {reason}"
        await route.finish_document(connection, failed, DocumentState.SKIPPED, skip_reason=reason)
        return
    if found.state is DocumentState.NEEDS_REVIEW and found.needs_password:
        case = DocumentCase(organization, found, actor)  # nothing was extracted
    else:
        case, _, _ = await _load_case(connection, context, organization, document, actor)
    await _decide(connection, case, Decision.REJECTED)
    await _record_decision(connection, case, Decision.REJECTED)
    await route.finish_document(connection, case, DocumentState.SKIPPED, skip_reason=f"rejected: {reason}")


async def _reject_reopened(
    connection: Connection, context: ReviewContext, record: Record, case: DocumentCase, reason: str
) -> None:
    """Void the record of a document that was reviewed again and rejected."""
    if case.document.state is DocumentState.NEEDS_REVIEW:
        await _decide(connection, case, Decision.REJECTED)
        await _record_decision(connection, case, Decision.REJECTED)
    change = RecordChange(case.organization, record.id, case.actor, f"rejected: {reason}")
    await record_changes.void(connection, context, change)


async def retry(connection: Connection, organization: OrganizationId, document: UUID, *, actor: str) -> None:
    """Queue a document that ended without a record again."""
    found = await _lock_document(connection, document)
    moved = await documents.change_state(connection, document, among=RETRYABLE, to=DocumentState.QUEUED)
    if moved is None and found.state is DocumentState.COMPLETED:
        raise PermanentError(
            "The document is completed. Only documents without a record can be retried: reopen the record."
        )
    if moved is None:
        raise PermanentError(f"The document is already {found.state}. Wait until it has been processed.")
    await reviews.withdraw(connection, document)
    await route.publish_state(connection, moved)
    entry = NewLedgerEntry("DOCUMENT_QUEUED_AGAIN", "document", str(document), actor_id=actor)
    await ledger.append_entries(connection, organization, [entry])
    await work.enqueue(connection, [WorkRequest(organization, WorkKind.PROCESS_DOCUMENT, str(document))])


async def undo(
    connection: Connection,
    context: ReviewContext,
    organization: OrganizationId,
    document: UUID,
    *,
    actor: str,
) -> None:
    """Have a document reviewed again that this person has just confirmed or rejected.

    Its record is reopened. A document that joined the record of another one is split off by hand instead.
    """
    found = await _lock_document(connection, document)
    decision = await review_queue.find_recent(connection, actor, document=document)
    if decision is None:
        raise PermanentError("Nothing to undo: you have not decided on this document recently.")
    record = await records.get(connection, found.record_id) if found.record_id else None
    if record:
        if len(await documents.list_by_record(connection, record.id)) > 1:
            raise PermanentError(
                f"Record {record.name} has other documents, too. Split this one off, or reopen the record."
            )
        change = RecordChange(organization, record.id, actor, "decision undone")
        await record_changes.reopen(connection, context, change)
        return
    *_, last = await reviews.list_by_document(connection, document)
    await reviews.request(connection, document, last.reason)
    case = DocumentCase(organization, found, actor)
    await route.finish_document(connection, case, DocumentState.NEEDS_REVIEW)


async def _lock_document(connection: Connection, document: UUID) -> Document:
    """Get a document that no other decision and no worker changes until the commit."""
    await records.lock(connection)
    found = await documents.lock(connection, document)
    if found is None:
        raise NotFound("There is no such document.")
    return found


async def _load_case(
    connection: Connection, context: ReviewContext, organization: OrganizationId, document: UUID, actor: str
) -> tuple[DocumentCase, Pipeline, ExtractionRow]:
    found = await _lock_document(connection, document)
    if found.state is not DocumentState.NEEDS_REVIEW:
        raise PermanentError(f"The document is {found.state}; it does not need review.")
    if found.needs_password:
        raise PermanentError("The document is encrypted. Enter its password first, or reject it.")
    pipeline = context.pipelines.get(found.pipeline)
    extraction = await records.get_newest_extraction(connection, document)
    if pipeline is None or extraction is None:
        raise PermanentError(f"The pipeline {found.pipeline} no longer exists. Add it to the pipelines file.")
    return DocumentCase(organization, found, actor), pipeline, extraction


async def _decide(connection: Connection, case: DocumentCase, decision: Decision) -> int:
    review = await reviews.decide(connection, case.document.id, decision, actor=case.actor)
    if review is None:
        raise PermanentError("Another person has already decided on this document.")
    return review


async def _record_decision(
    connection: Connection,
    case: DocumentCase,
    decision: Decision,
    corrected: Sequence[str] = (),
    overridden: Sequence[str] = (),
) -> None:
    payload: dict[str, JsonValue] = {"fields": list(corrected)}
    payload |= {"overridden_checks": list(overridden)} if overridden else {}
    entry = NewLedgerEntry(
        f"REVIEW_{decision.upper()}",
        "document",
        str(case.document.id),
        actor_id=case.actor,
        payload=payload,
    )
    await ledger.append_entries(connection, case.organization, [entry])
