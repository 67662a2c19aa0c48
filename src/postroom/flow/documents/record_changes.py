"""What a person does to a record after its confirmation: reopen, correct, void, merge and split.

The package docstring draws the states. Each change has a reason, is a version of the record, and runs in the
caller's transaction. One change of an organization's records runs at a time; a person who saw an earlier
version gets an error, and nothing of their change is stored.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from postroom.errors import NotFound, PermanentError
from postroom.flow.documents import order_links, route, value_checks
from postroom.flow.documents.record_publishing import archive_again, revise_record
from postroom.flow.documents.route import DocumentCase, ExtractedValues
from postroom.flow.documents.value_checks import ReviewContext
from postroom.model import DocumentState, OrganizationId, WorkKind
from postroom.store import documents, orders, record_versions, records, reviews, work
from postroom.store.connection import Connection
from postroom.store.documents import Document
from postroom.store.ledger import JsonValue
from postroom.store.orders import Order
from postroom.store.record_versions import ChangeKind, VersionNote
from postroom.store.records import ExtractionRow, Record, RecordState
from postroom.store.work import WorkRequest

LIVE: Final = (RecordState.CONFIRMED, RecordState.REOPENED)
# What to do if the state of a record does not allow a change.
_ADVICE: Final = {
    RecordState.CONFIRMED: "Only a merged record can be split without naming a document.",
    RecordState.REOPENED: "Confirm or reject its document first.",
    RecordState.VOIDED: "Reopen it first.",
    RecordState.MERGED: "Undo the merge first: split it off.",
}


@dataclass(frozen=True, slots=True)
class RecordChange:
    """A record that a person changes, why, and the version that they saw; None: any."""

    organization: OrganizationId
    record: UUID
    actor: str
    reason: str
    version: int | None = None

    def note(
        self, kind: ChangeKind, *, other: UUID | None = None, moved: Collection[UUID] = ()
    ) -> VersionNote:
        return VersionNote(kind, self.reason.strip(), self.actor, other, tuple(moved))


async def get_reopened(connection: Connection, document: Document) -> Record | None:
    """The record of a document, if it is reviewed again."""
    record = await records.get(connection, document.record_id) if document.record_id else None
    return record if record and record.state is RecordState.REOPENED else None


async def reopen(connection: Connection, context: ReviewContext, change: RecordChange) -> Record:
    """Have a confirmed or voided record reviewed again, by its first document."""
    record = await _load(connection, change, [RecordState.CONFIRMED, RecordState.VOIDED])
    held = await documents.list_by_record(connection, record.id)
    if not held:
        raise PermanentError(f"Record {record.name} has no document to review.")
    if record.state is RecordState.VOIDED:
        await _require_no_twin(connection, context, record, record.fields)
    after = replace(record, state=RecordState.REOPENED)
    reopened = await revise_record(
        connection, change.organization, record, after, change.note(ChangeKind.REOPENED)
    )
    first, *others = held
    await reviews.request(connection, first.id, f"reopened: {change.reason.strip()}")
    await _finish(connection, change, first, DocumentState.NEEDS_REVIEW)
    for document in others:
        await _finish(connection, change, document, DocumentState.COMPLETED)
    return reopened


async def correct(
    connection: Connection,
    context: ReviewContext,
    change: RecordChange,
    corrections: Mapping[str, Any],
    *,
    override: Collection[str] = (),
    order: str | None = None,
) -> Record:
    """Correct fields of a confirmed record, or its order. Later documents learn from the corrections.

    `order` is the reference of an open order; "" means none, and None keeps it. Raises ChecksFailed if a
    corrected field fails a check whose name is not in `override`.
    """
    record = await _load(connection, change, [RecordState.CONFIRMED])
    identity = context.routing.identities[record.kind]
    given = value_checks.validate_corrections(corrections, identity)
    changed = {name: value for name, value in given.items() if value != record.fields.get(name)}
    if not changed and order is None:
        raise PermanentError(f"Record {record.name} already has these values.")
    values = {name: value for name, value in {**record.fields, **changed}.items() if value is not None}
    document, extraction = await _get_source(connection, record)
    read = value_checks.get_read_values(extraction)
    checks = await value_checks.check_values(
        connection, context, document, extraction, value_checks.find_changes(read, values)
    )
    affected = [check for check in checks if not changed.keys().isdisjoint(check.fields)]
    overridden = value_checks.require_passed_checks(affected, override)
    if changed:
        reason = f"corrected: {change.reason.strip()}"
        review = await reviews.add_decided(connection, document.id, reason, actor=change.actor)
        field_corrections = value_checks.build_field_corrections(identity, read, changed)
        await reviews.add_corrections(connection, review, field_corrections, layout=extraction.layout)
    details: dict[str, JsonValue] = {"fields": sorted(changed)}
    details |= {"overridden_checks": overridden} if overridden else {}
    return await _store_values(
        connection, context, change, record, document, values, ChangeKind.CORRECTED, order, details
    )


async def confirm_again(
    connection: Connection,
    context: ReviewContext,
    record: Record,
    case: DocumentCase,
    values: Mapping[str, Any],
    *,
    order: str | None,
) -> UUID:
    """Confirm a reopened record with the values of its review. Without a choice, its order stays."""
    change = RecordChange(case.organization, record.id, case.actor, "")
    details: dict[str, JsonValue] = {}
    await _store_values(
        connection, context, change, record, case.document, values, ChangeKind.CONFIRMED, order, details
    )
    await route.finish_document(
        connection, case, DocumentState.COMPLETED, record=record.id, details={"record_id": str(record.id)}
    )
    if case.document.archived_at is None and context.routing.archives:
        pipeline = context.pipelines.get(record.pipeline)
        if pipeline and pipeline.archive:
            request = WorkRequest(case.organization, WorkKind.ARCHIVE, str(case.document.id))
            await work.enqueue(connection, [request])
    return record.id


async def void(connection: Connection, context: ReviewContext, change: RecordChange) -> Record:
    """Void a record that should not exist. Its documents are skipped, and its order is open again."""
    record = await _load(connection, change, LIVE)
    after = replace(record, state=RecordState.VOIDED, order_id=None)
    voided = await revise_record(
        connection, change.organization, record, after, change.note(ChangeKind.VOIDED)
    )
    for document in await documents.list_by_record(connection, record.id):
        await reviews.withdraw(connection, document.id)
        await _finish(
            connection, change, document, DocumentState.SKIPPED, f"record voided: {change.reason.strip()}"
        )
    await _release_order(connection, context, change, record)
    return voided


async def merge(
    connection: Connection, context: ReviewContext, change: RecordChange, *, into: UUID
) -> Record:
    """Merge a record into another one of the same invoice or trade, which gets its documents."""
    record = await _load(connection, change, LIVE)
    target = await records.get(connection, into)
    if target is None:
        raise NotFound("There is no such record to merge into.")
    if target.id == record.id or (target.pipeline, target.kind) != (record.pipeline, record.kind):
        raise PermanentError(f"Record {record.name} can only be merged into another one of its pipeline.")
    if target.state is not RecordState.CONFIRMED:
        raise PermanentError(f"Record {target.name} is {target.state}. Merge into a confirmed one.")
    held = await documents.list_by_record(connection, record.id)
    moved = [document.id for document in held]
    organization = change.organization
    after = replace(record, state=RecordState.MERGED, merged_into=target.id, order_id=None)
    note = change.note(ChangeKind.MERGED, other=target.id, moved=moved)
    await revise_record(connection, organization, record, after, note)
    order = target.order_id or record.order_id
    note = change.note(ChangeKind.MERGED, other=record.id, moved=moved)
    left = await revise_record(connection, organization, target, replace(target, order_id=order), note)
    await _move_documents(connection, change, held, left)
    if order != record.order_id:
        await _release_order(connection, context, change, record)
    return left


async def split(
    connection: Connection, context: ReviewContext, change: RecordChange, *, document: UUID | None = None
) -> Record:
    """Undo the merge of a record, or give a document of a record with several a record of its own."""
    if document is None:
        return await _undo_merge(connection, change)
    record = await _load(connection, change, [RecordState.CONFIRMED])
    held = await documents.list_by_record(connection, record.id)
    moved = next((each for each in held if each.id == document), None)
    if moved is None or moved.state is not DocumentState.COMPLETED:
        raise PermanentError(f"That document does not belong to record {record.name}.")
    if len(held) == 1:
        raise PermanentError(f"It is the only document of record {record.name}. Correct the record instead.")
    extraction = await records.get_newest_extraction(connection, moved.id)
    if extraction is None:
        raise PermanentError("The document has no values. Retry it first.")
    corrections = await reviews.get_corrections(connection, moved.id)
    right = {name: correction.right_value for name, correction in corrections.items()}
    read = {**value_checks.get_read_values(extraction), **right}
    values = {name: value for name, value in read.items() if value is not None}
    identity = context.routing.identities[record.kind]
    new, _ = await records.confirm(
        connection,
        kind=record.kind,
        pipeline=record.pipeline,
        fingerprint=sha256(b"split\0" + moved.sha256 + record.id.bytes).digest(),
        key=await route.build_key(connection, identity, moved, values, None),
        fields=values,
        order=None,
        confirmed_by=change.actor,
    )
    await _identify(connection, context, record.kind, record.pipeline, new, values)
    made = await records.get(connection, new)
    assert made is not None, "created in this transaction"
    organization = change.organization
    for one, other in ((record, made), (made, record)):
        note = change.note(ChangeKind.SPLIT, other=other.id, moved=[moved.id])
        await revise_record(connection, organization, one, one, note)
    await _move_documents(connection, change, [moved], made)
    await order_links.link_waiting_records(connection, context.routing, organization, record.kind)
    result = await records.get(connection, new)
    assert result is not None, "created in this transaction"
    return result


async def _undo_merge(connection: Connection, change: RecordChange) -> Record:
    record = await _load(connection, change, [RecordState.MERGED])
    versions = await record_versions.list_versions(connection, record.id)
    place = max(number for number, each in enumerate(versions) if each.change is ChangeKind.MERGED)
    before, merged = versions[place - 1], versions[place]
    found = [await documents.lock(connection, each) for each in merged.document_ids]
    held = [each for each in found if each and each.record_id]
    target = await records.get(connection, held[0].record_id or record.id) if held else None
    order_id, target_after = None, target
    order = await orders.get(connection, before.order_id) if before.order_id else None
    if order and target and target.order_id == order.id:
        order_id, target_after = order.id, replace(target, order_id=None)
    elif order and order.state == "open":
        order_id = order.id
        await orders.match_order(connection, order.id)
    moved = [each.id for each in held]
    if target and target_after:
        note = change.note(ChangeKind.SPLIT, other=record.id, moved=moved)
        await revise_record(connection, change.organization, target, target_after, note)
    after = replace(record, state=RecordState.CONFIRMED, merged_into=None, order_id=order_id)
    note = change.note(ChangeKind.SPLIT, other=target.id if target else None, moved=moved)
    alone = await revise_record(connection, change.organization, record, after, note)
    await _move_documents(connection, change, held, alone)
    return alone


async def _load(connection: Connection, change: RecordChange, states: Collection[RecordState]) -> Record:
    """Get a record that no other transaction changes until the commit, in one of these states."""
    await records.lock(connection)
    record = await records.get(connection, change.record)
    if record is None:
        raise NotFound("There is no such record.")
    if change.version not in (None, record.version):
        raise PermanentError(
            f"Record {record.name} has changed: it is now {record.state}, version {record.version}."
            " Reload it and try again."
        )
    if record.state not in states:
        raise PermanentError(f"Record {record.name} is {record.state}. {_ADVICE[record.state]}")
    if not change.reason.strip():
        raise PermanentError("Give a reason for the change of the record.")
    return record


async def _get_source(connection: Connection, record: Record) -> tuple[Document, ExtractionRow]:
    """The first document of a record, and what was read from it."""
    for document in await documents.list_by_record(connection, record.id):
        if extraction := await records.get_newest_extraction(connection, document.id):
            return document, extraction
    raise PermanentError(f"Record {record.name} has no document to compare its values with.")


async def _store_values(
    connection: Connection,
    context: ReviewContext,
    change: RecordChange,
    record: Record,
    document: Document,
    values: Mapping[str, Any],
    kind: ChangeKind,
    chosen: str | None,
    details: Mapping[str, JsonValue],
) -> Record:
    """Confirm a record with new values: its key, identifiers and order follow them."""
    identity = context.routing.identities[record.kind]
    await _require_no_twin(connection, context, record, values)
    marks = identity.get_hashes(record.kind, values)
    order = await _choose_order(connection, context, record, values, chosen)
    after = replace(
        record,
        state=RecordState.CONFIRMED,
        fields=dict(values),
        order_id=order.id if order else None,
        key=await route.build_key(connection, identity, document, values, order) or record.key,
        confirmed_by=change.actor if kind is ChangeKind.CONFIRMED else record.confirmed_by,
    )
    stored = await revise_record(
        connection,
        change.organization,
        record,
        after,
        change.note(kind),
        fingerprint=identity.get_fingerprint(marks, values),
        details=details,
    )
    await records.remove_identifiers(connection, record.id)
    await _identify(connection, context, record.kind, record.pipeline, record.id, values)
    if order and order.id != record.order_id:
        await orders.match_order(connection, order.id)
    if record.order_id and after.order_id != record.order_id:
        await orders.release(connection, record.order_id)
    return stored


async def _choose_order(
    connection: Connection,
    context: ReviewContext,
    record: Record,
    values: Mapping[str, Any],
    chosen: str | None,
) -> Order | None:
    own = await orders.get(connection, record.order_id) if record.order_id else None
    if chosen is None and own:
        return own
    available = await orders.list_open_orders(connection, record.kind) + ([own] if own else [])
    shapes = context.routing.identities[record.kind].shapes
    match = await asyncio.to_thread(order_links.choose_order, values, available, shapes, chosen)
    return next((order for order in available if order.reference == match.reference), None)


async def _require_no_twin(
    connection: Connection, context: ReviewContext, record: Record, values: Mapping[str, Any]
) -> None:
    """Raise if another live record has these values. One that was split from it may have them already."""
    twin = await _find_twin(connection, context, record, values)
    before = await _find_twin(connection, context, record, record.fields)
    if twin and (record.state is RecordState.VOIDED or before is None or before.id != twin.id):
        raise PermanentError(
            f"Record {twin.name} ({twin.id}) has the same values. Merge the two records, or void one of them."
        )


async def _find_twin(
    connection: Connection, context: ReviewContext, record: Record, values: Mapping[str, Any]
) -> Record | None:
    extracted = ExtractedValues(record.kind, values)
    known = await route.look_up_record(
        connection, context.routing, record.pipeline, extracted, except_record=record.id
    )
    return known.record


async def _identify(
    connection: Connection,
    context: ReviewContext,
    kind: str,
    pipeline: str,
    record: UUID,
    values: Mapping[str, Any],
) -> None:
    """Store the digests by which later documents find the record and its issuer."""
    identity = context.routing.identities[kind]
    issuer = identity.get_issuer_hashes(kind, values)
    await records.assign_suppliers(connection, [(record, issuer)])
    digests = (*identity.get_hashes(kind, values), *issuer)
    await records.add_identifiers(connection, pipeline, [(record, digest) for digest in digests])


async def _move_documents(
    connection: Connection, change: RecordChange, held: Collection[Document], record: Record
) -> None:
    """Give documents to another record: they are completed, and archived under its key."""
    moved = [document.id for document in held]
    await record_versions.move_documents(connection, moved, record.id)
    for document in held:
        await reviews.withdraw(connection, document.id)
        await _finish(connection, change, document, DocumentState.COMPLETED)
    await archive_again(connection, change.organization, moved)


async def _finish(
    connection: Connection,
    change: RecordChange,
    document: Document,
    state: DocumentState,
    skip_reason: str | None = None,
) -> None:
    """Move a document of the record to a state, unless it is there already."""
    if document.state is not state:
        case = DocumentCase(change.organization, document, change.actor)
        await route.finish_document(connection, case, state, skip_reason=skip_reason)


async def _release_order(
    connection: Connection, context: ReviewContext, change: RecordChange, record: Record
) -> None:
    """Open the order of a record that no longer names it, for another record that waits for one."""
    if record.order_id:
        await orders.release(connection, record.order_id)
        await order_links.link_waiting_records(connection, context.routing, change.organization, record.kind)
