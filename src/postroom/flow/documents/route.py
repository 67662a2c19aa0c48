"""Move a document to the state its fields lead to: completed, needs review, skipped or failed.

Finds the record it duplicates, conflicting values, uncertain fields and a matching order; confirms the
record. Everything runs in the caller's transaction. Every state change is recorded in the feed and the
ledger.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self
from uuid import UUID

from postroom.documents import record_matching
from postroom.documents.fields.table_validation import TableColumn, list_table_columns
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.field_spec import FieldShape
from postroom.documents.pipelines import Pipeline
from postroom.documents.record_matching import ExpectedOrder, OrderMatch, ReadValue, ReviewReasons
from postroom.documents.stored_extraction import StoredExtraction
from postroom.errors import PermanentError
from postroom.flow.documents import supplier_trust
from postroom.model import DocumentState, OrganizationId, WorkKind
from postroom.store import documents, feed, ledger, orders, records, reviews, shared_messages, work
from postroom.store.connection import Connection
from postroom.store.documents import Arrival, Document
from postroom.store.ledger import JsonValue, NewLedgerEntry
from postroom.store.orders import Order
from postroom.store.records import Record, RecordState
from postroom.store.work import WorkRequest

MACHINE: Final = "postroom"  # the actor, if no person confirmed
UNKNOWN_SENDER: Final = "unknown@localhost"  # the sender, after a purge removed the name
CERTAIN_CONFIDENCE: Final = 0.9  # from this confidence on, a VAT ID or an IBAN identifies the supplier
IDENTIFIED_AT_ONCE: Final = 1000  # records of earlier versions


@dataclass(frozen=True, slots=True)
class RecordIdentity:
    """What a record of a kind requires, what distinguishes and names it, and the shapes of its fields."""

    required: tuple[str, ...]
    fingerprint: tuple[str, ...]
    key: tuple[str, ...]
    shapes: Mapping[str, FieldShape]
    choices: Mapping[str, Sequence[str]]  # of the fields that have some
    identity_alternatives: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    distinguishing_fields: tuple[str, ...] = ()
    document_identity: tuple[str, ...] = ()
    compared_fields: tuple[str, ...] = ()
    # The columns of each field that is a table.
    tables: Mapping[str, Mapping[str, TableColumn]] = field(
        default_factory=dict[str, Mapping[str, TableColumn]]
    )
    # Amounts that may be in another currency than the record: the price and the gross amount of a trade.
    foreign_amounts: frozenset[str] = frozenset()

    @classmethod
    def of_kind(cls, kind: DocumentKind) -> Self:
        return cls(
            required=kind.required,
            fingerprint=kind.identity,
            key=kind.key,
            shapes={name: field.shape for name, field in kind.fields.items()},
            choices={name: list(field.choices) for name, field in kind.fields.items() if field.choices},
            identity_alternatives=kind.identity_alternatives,
            distinguishing_fields=kind.distinguishing_fields,
            document_identity=kind.document_identity,
            compared_fields=kind.compared_fields,
            tables=list_table_columns(kind),
            foreign_amounts=kind.foreign_amounts,
        )

    def get_hashes(
        self, kind: str, values: Mapping[str, Any], *, doubted: Collection[str] = ()
    ) -> tuple[bytes, ...]:
        """Hashes that identify the invoice or trade with these values, and the document that names it."""
        record = record_matching.identity_hashes(
            kind,
            self.fingerprint,
            values,
            self.shapes,
            identity_alternatives=self.identity_alternatives,
            doubted=doubted,
        )
        if not record or not self.document_identity:
            return record
        document = record_matching.identity_hashes(
            f"{kind} document", self.document_identity, values, self.shapes
        )
        return (*record, *document)

    def get_fingerprint(self, marks: Sequence[bytes], values: Mapping[str, Any]) -> bytes | None:
        """A hash that two records share only if they agree in all fields that can distinguish them."""
        names = (*self.required, *self.distinguishing_fields, *self.compared_fields)
        return record_matching.record_fingerprint(marks[0], names, values, self.shapes) if marks else None

    def get_issuer_hashes(
        self, kind: str, values: Mapping[str, Any], *, doubted: Collection[str] = ()
    ) -> tuple[bytes, ...]:
        """Hashes that identify the issuer of the document with these values."""
        return record_matching.issuer_hashes(kind, values, self.shapes, doubted=doubted)


@dataclass(frozen=True, slots=True)
class RouteContext:
    """The dependencies of routing: the document kinds, and whether there is an archive."""

    identities: Mapping[str, RecordIdentity]
    kinds: Mapping[str, DocumentKind]
    archives: bool


@dataclass(frozen=True, slots=True)
class DocumentCase:
    """A document to be moved to another state, and the actor who moves it."""

    organization: OrganizationId
    document: Document
    actor: str = MACHINE


@dataclass(frozen=True, slots=True)
class ExtractedValues:
    """The values of a document, and the fields that are too uncertain to identify it by, or to record."""

    kind: str
    values: Mapping[str, Any]
    doubted: frozenset[str] = frozenset()
    unrecorded: frozenset[str] = frozenset()  # below the pipeline's threshold, and confirmed by no person


@dataclass(frozen=True, slots=True)
class RecordLookup:
    """The record that a document duplicates, or why it conflicts with the one it resembles."""

    marks: tuple[bytes, ...]
    record: Record | None = None
    conflict: str | None = None
    resembles: Record | None = None


async def look_up_record(
    connection: Connection,
    context: RouteContext,
    pipeline: str,
    extracted: ExtractedValues,
    *,
    except_record: UUID | None = None,
) -> RecordLookup:
    """Find the record of the same invoice or trade. A copy of a merged one leads to the record that is left.

    Call `records.lock` and `identify_earlier_records` first.
    """
    identity = context.identities[extracted.kind]
    marks = identity.get_hashes(extracted.kind, extracted.values, doubted=extracted.doubted)
    found = RecordLookup(marks)
    for record in await records.find_by_identifiers(connection, pipeline, marks):
        if record.id == except_record:
            continue
        others = await _find_differing_values(connection, identity, record, extracted)
        if any(other.is_sure and name not in extracted.doubted for name, other in others.items()):
            continue  # such as another fill of the same order: all equal, except the note's number
        compared = [
            *identity.required,
            *(name for name in identity.compared_fields if name not in extracted.doubted),
        ]
        wrong = record_matching.find_disagreements(extracted.values, record.fields, compared, identity.shapes)
        instead = {name: record.fields[name] for name in wrong}
        instead |= {name: other.value for name, other in others.items()}
        if not instead:
            left = await _follow_merges(connection, record)
            if left.state is RecordState.CONFIRMED and left.id != except_record:
                return RecordLookup(marks, record=left)
            if left.state is RecordState.REOPENED:
                return RecordLookup(marks, conflict=f"record {left.name} is under review", resembles=left)
        elif record.state is not RecordState.MERGED and found.conflict is None:
            words = ", ".join(
                f"{name} {extracted.values[name]} instead of {other}" for name, other in instead.items()
            )
            is_amended = not set(wrong).isdisjoint(identity.fingerprint)
            same = " and ".join(identity.document_identity if is_amended else identity.fingerprint)
            conflict = f"the same {same} as record {record.name}, but {words}"
            found = RecordLookup(marks, conflict=conflict, resembles=record)
    return found


async def _follow_merges(connection: Connection, record: Record) -> Record:
    """Return the record that has the documents of this one: itself, unless it was merged."""
    while record.merged_into is not None:
        into = await records.get(connection, record.merged_into)
        assert into is not None, "a foreign key"
        record = into
    return record


async def identify_all_earlier_records(connection: Connection, context: RouteContext) -> None:
    """Find the suppliers of all records that an earlier version confirmed."""
    for pipeline in await records.list_pending_pipelines(connection):
        await identify_earlier_records(connection, context, pipeline)


async def identify_earlier_records(connection: Connection, context: RouteContext, pipeline: str) -> None:
    """Add the identifiers of records that an earlier version confirmed without them.

    There may be many: in batches, so that the event loop keeps running and leases are extended.
    """
    kinds = list(context.identities)
    if not await records.has_unidentified(connection, pipeline, kinds):
        return
    await records.lock(connection)  # before rows are locked, as everywhere
    while found := await records.take_unidentified(connection, pipeline, kinds, limit=IDENTIFIED_AT_ONCE):
        issuers = [
            (record.id, context.identities[record.kind].get_issuer_hashes(record.kind, record.fields))
            for record in found
        ]
        await records.assign_suppliers(connection, issuers)
        identifiers = [
            (record.id, digest)
            for record in found
            for digest in context.identities[record.kind].get_hashes(record.kind, record.fields)
        ]
        identifiers += [(record, digest) for record, digests in issuers for digest in digests]
        await records.add_identifiers(connection, pipeline, identifiers)


async def _find_differing_values(
    connection: Connection, identity: RecordIdentity, record: Record, extracted: ExtractedValues
) -> dict[str, ReadValue]:
    """Find the distinguishing fields for which the record or its documents have another value."""
    if not identity.distinguishing_fields:
        return {}
    found: dict[str, list[ReadValue]] = {name: [] for name in identity.distinguishing_fields}
    for stored in await records.list_extractions(connection, record.id):
        unsure = find_uncertain_fields(stored.fields, identity, is_ocr=stored.is_ocr)
        for name in identity.distinguishing_fields:
            if name in stored.fields:
                found[name].append(ReadValue(stored.fields[name]["value"], name not in unsure))
    for name, statements in found.items():
        value = record.fields.get(name)
        if value not in [statement.value for statement in statements]:
            statements.append(ReadValue(value, is_sure=True))  # a person confirmed this value
    shapes = identity.shapes
    differing = {
        name: record_matching.find_contradiction(extracted.values.get(name), statements, shapes[name])
        for name, statements in found.items()
    }
    return {name: other for name, other in differing.items() if other}


def find_uncertain_fields(
    fields: Mapping[str, Mapping[str, Any]], identity: RecordIdentity, *, is_ocr: bool
) -> frozenset[str]:
    """Find the fields that were not read reliably: codes in a scan have no check digits to verify."""
    return frozenset(
        name
        for name, extracted in fields.items()
        if extracted["confidence"] < CERTAIN_CONFIDENCE or (is_ocr and identity.shapes.get(name) == "code")
    )


async def lock_case(connection: Connection, case: DocumentCase) -> Record | None:
    """Lock records and document, and return the document's record. Raise if the document was moved."""
    await records.lock(connection)
    current = await documents.lock(connection, case.document.id)
    if current is None or current.state is not case.document.state:
        raise PermanentError("The document changed its state while it was being read.")
    return await records.get(connection, current.record_id) if current.record_id else None


async def route_document(
    connection: Connection,
    context: RouteContext,
    pipeline: Pipeline,
    case: DocumentCase,
    extraction: StoredExtraction,
) -> None:
    """Move a document to the state that follows from its fields.

    Only a person decides about a reopened record. Raises if the document was moved meanwhile.
    """
    own = await lock_case(connection, case)
    if own and own.state is RecordState.REOPENED:
        await reviews.request(connection, case.document.id, f"record {own.name} is under review")
        await finish_document(connection, case, DocumentState.NEEDS_REVIEW)
        return
    if extraction.skip_reason is not None:
        skipped, reason = DocumentState.SKIPPED, extraction.skip_reason
        await finish_document(connection, case, skipped, kind=extraction.kind, skip_reason=reason)
        return
    open_orders = await orders.list_open_orders(connection, extraction.kind)
    identity = context.identities[extraction.kind]
    expected = [ExpectedOrder(order.reference, order.fields) for order in open_orders]
    match = await asyncio.to_thread(record_matching.match_order, extraction.values, expected, identity.shapes)
    read = {name: {"confidence": value.confidence} for name, value in extraction.fields.items()}
    unsure = find_uncertain_fields(read, identity, is_ocr=extraction.is_ocr)
    uncertain = frozenset(
        name for name, value in extraction.fields.items() if value.confidence < pipeline.confirm_above
    )
    extracted = ExtractedValues(extraction.kind, extraction.values, unsure, uncertain)
    known = await look_up_record(connection, context, pipeline.name, extracted)
    kind = context.kinds[extraction.kind]
    doubts = _find_doubts(kind, pipeline, extraction, known, match)
    trusted: Mapping[str, Sequence[UUID]] = {}
    # Only if nothing else is in doubt, and the document becomes a record of its own: a value that no person
    # checked must not add a document to an existing record.
    if doubts and not (known.record or _find_doubts(kind, pipeline, extraction, known, match, uncertain)):
        issuer = identity.get_issuer_hashes(extraction.kind, extraction.values, doubted=unsure)
        trusted = await supplier_trust.find_trusted_fields(connection, kind, pipeline, extraction, issuer)
        doubts = _find_doubts(kind, pipeline, extraction, known, match, trusted)
        extracted = replace(extracted, unrecorded=uncertain - trusted.keys())
    if doubts:
        await reviews.request(connection, case.document.id, str(doubts))
        await finish_document(connection, case, DocumentState.NEEDS_REVIEW, kind=extraction.kind)
        return
    await confirm_record(connection, context, pipeline, case, extracted, known, open_orders, match, trusted)


def _find_doubts(
    kind: DocumentKind,
    pipeline: Pipeline,
    extraction: StoredExtraction,
    known: RecordLookup,
    match: OrderMatch,
    trusted: Collection[str] = (),
) -> ReviewReasons:
    return record_matching.find_review_reasons(
        required=kind.required,
        certain=kind.certain,
        confidences={name: value.confidence for name, value in extraction.fields.items()},
        confirm_above=pipeline.confirm_above,
        failed_checks=[check.words for check in extraction.checks if check.is_failed],
        differences=[known.conflict] if known.conflict else [],
        match=match,
        trusted=trusted,
    )


async def confirm_record(
    connection: Connection,
    context: RouteContext,
    pipeline: Pipeline,
    case: DocumentCase,
    extracted: ExtractedValues,
    known: RecordLookup,
    open_orders: Sequence[Order],
    match: OrderMatch,
    trusted: Mapping[str, Sequence[UUID]] | None = None,
) -> UUID:
    """Confirm the values as a record: the existing one if another file led to it, otherwise a new one.

    `trusted` fields were uncertain, but people confirmed such values in these records.
    """
    identity, values = context.identities[extracted.kind], extracted.values
    order = next((order for order in open_orders if order.reference == match.reference), None)
    record, is_new = (known.record.id, False) if known.record else (None, True)
    if record is None:
        record, is_new = await records.confirm(
            connection,
            kind=extracted.kind,
            pipeline=pipeline.name,
            # Without all distinguishing fields, only equal bytes count as the same.
            fingerprint=identity.get_fingerprint(known.marks, values) or case.document.sha256,
            key=await build_key(connection, identity, case.document, values, order),
            fields={name: value for name, value in values.items() if name not in extracted.unrecorded},
            order=order.id if order else None,
            confirmed_by=case.actor,
        )
    issuer = identity.get_issuer_hashes(extracted.kind, values, doubted=extracted.doubted)
    if is_new:
        await records.assign_suppliers(connection, [(record, issuer)])
    identifiers = [(record, digest) for digest in (*known.marks, *issuer)]
    await records.add_identifiers(connection, pipeline.name, identifiers)
    if order and is_new:
        await orders.match_order(connection, order.id)
    if is_new:
        await publish_record(connection, record, "confirmed", kind=extracted.kind, version=1)
    payload: dict[str, JsonValue] = {"record_id": str(record), "duplicate": not is_new, "order": match.reason}
    payload |= {"trusted": {name: list(map(str, trusted[name])) for name in trusted}} if trusted else {}
    await finish_document(
        connection, case, DocumentState.COMPLETED, kind=extracted.kind, record=record, details=payload
    )
    if context.archives and pipeline.archive:
        await work.enqueue(
            connection, [WorkRequest(case.organization, WorkKind.ARCHIVE, str(case.document.id))]
        )
    return record


async def build_key(
    connection: Connection,
    identity: RecordIdentity,
    document: Document,
    values: Mapping[str, Any],
    order: Order | None,
) -> str:
    """Build the key of the record of a document; empty if a part is missing."""
    _, sender = get_origin(await documents.list_arrivals(connection, document.id))
    username = order.username if order and order.username else sender.partition("@")[0]
    key = record_matching.build_record_key(identity.key, values, identity.shapes, username=username)
    return key or ""


def get_origin(arrivals: Sequence[Arrival]) -> tuple[Arrival, str]:
    """Return the first arrival whose sender is still known, and that sender."""
    first = next((arrival for arrival in arrivals if arrival.sender is not None), arrivals[0])
    return first, UNKNOWN_SENDER if first.sender is None else first.sender


async def fail_document(connection: Connection, case: DocumentCase, reason: str) -> None:
    """Mark a document as unreadable. A person may have it read again."""
    await finish_document(connection, case, DocumentState.FAILED, error=reason)


async def finish_document(
    connection: Connection,
    case: DocumentCase,
    state: DocumentState,
    *,
    kind: str | None = None,
    skip_reason: str | None = None,
    error: str | None = None,
    record: UUID | None = None,
    details: Mapping[str, JsonValue] | None = None,
) -> bool:
    """Move the document and record it. One that was moved concurrently stays as it is: False."""
    moved = await documents.change_state(
        connection,
        case.document.id,
        among=[case.document.state],
        to=state,
        kind=kind,
        skip_reason=skip_reason,
        error=error,
        record=record,
    )
    if moved is None:
        return False
    await publish_state(connection, moved)
    await wake_shared_state(connection, moved.id)
    payload: dict[str, JsonValue] = {"pipeline": moved.pipeline, "kind": moved.kind, **(details or {})}
    payload |= {"reason": skip_reason or error} if skip_reason or error else {}
    await ledger.append_entries(
        connection,
        case.organization,
        [
            NewLedgerEntry(
                f"DOCUMENT_{state.upper()}", "document", str(moved.id), actor_id=case.actor, payload=payload
            )
        ],
    )
    return True


async def wake_shared_state(connection: Connection, document: UUID) -> None:
    """Wake the shared-state work that waits for the documents of a message."""
    await work.make_due(
        connection, WorkKind.SHARE_STATE, await shared_messages.list_work_subjects(connection, document)
    )


async def publish_state(connection: Connection, document: Document) -> None:
    """Publish the state of a document to pages and applications."""
    await feed.append_event(
        connection,
        "document.changed",
        "document",
        str(document.id),
        {"state": document.state, "pipeline": document.pipeline, "kind": document.kind},
    )


async def publish_record(
    connection: Connection, record: UUID, state: str, *, kind: str, version: int
) -> None:
    """Publish the state of a record to applications."""
    data: dict[str, JsonValue] = {"state": state, "kind": kind, "version": version}
    await feed.append_event(connection, "record.changed", "record", str(record), data)
