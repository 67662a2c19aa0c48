"""A person's decision about a document: confirm, correct, reject, or have it read again.

Validates the corrections and runs in the caller's transaction. `route` requests the reviews and makes the
record.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from postroom.documents import accounting_controls, record_matching, stored_extraction
from postroom.documents.fields import field_validation, table_validation
from postroom.documents.pipelines import Pipeline, Pipelines
from postroom.documents.record_matching import ExpectedOrder
from postroom.documents.stored_extraction import StoredCheck
from postroom.errors import ChecksFailed, InvalidField, NotFound, PermanentError
from postroom.flow.documents import controls, route
from postroom.flow.documents.route import DocumentCase, ExtractedValues, RecordIdentity, RouteContext
from postroom.model import DocumentState, OrganizationId, WorkKind
from postroom.store import documents, ledger, records, reviews, work
from postroom.store.connection import Connection
from postroom.store.documents import Document
from postroom.store.ledger import JsonValue, NewLedgerEntry
from postroom.store.records import ExtractionRow, Record
from postroom.store.reviews import Decision, FieldCorrection
from postroom.store.work import WorkRequest

REPROCESSABLE = frozenset({DocumentState.FAILED, DocumentState.SKIPPED, DocumentState.NEEDS_REVIEW})


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """The dependencies of decisions."""

    routing: RouteContext
    pipelines: Pipelines


async def confirm(
    connection: Connection,
    context: ReviewContext,
    organization: OrganizationId,
    document: UUID,
    *,
    actor: str,
    corrections: Mapping[str, Any] | None = None,
    override: Collection[str] = (),
) -> UUID:
    """Confirm a document, with corrections, as a record. Later documents learn from the corrections.

    Raises ChecksFailed if the values fail a check whose name is not in `override`.
    """
    case, pipeline, extraction = await _load_case(connection, context, organization, document, actor)
    read = {name: each.get("value") for name, each in extraction.fields.items()}
    given = _validate_corrections(corrections or {}, context.routing.identities[extraction.kind])
    right = {name: value for name, value in given.items() if value != read.get(name)}
    await route.identify_earlier_records(connection, context.routing, pipeline.name)
    checks = await check_values(connection, context, case.document, extraction, right)
    overridden = _require_passed_checks(checks, override)
    decision = Decision.CORRECTED if right else Decision.CONFIRMED
    review = await _decide(connection, case, decision)
    if right:
        known = record_matching.issuer_keys(read, context.routing.identities[extraction.kind].shapes)
        lessons = [
            FieldCorrection(
                name, read.get(name), value, next((known[each] for each in known if each != name), None)
            )
            for name, value in right.items()
        ]
        await reviews.add_corrections(connection, review, lessons, layout=extraction.layout)
    await _record_decision(connection, case, decision, list(right), overridden)
    values = {name: value for name, value in {**read, **right}.items() if value is not None}
    orders = await records.list_open_orders(connection, extraction.kind)
    shapes = context.routing.identities[extraction.kind].shapes
    match = record_matching.match_order(
        values, [ExpectedOrder(each.reference, each.fields) for each in orders], shapes
    )
    identity = context.routing.identities[extraction.kind]
    unsure = route.find_uncertain_fields(extraction.fields, identity, is_ocr=extraction.is_ocr)
    extracted = ExtractedValues(extraction.kind, values, unsure - set(right))
    # If the person's values differ from the record it resembles, the document becomes a new record.
    known = await route.look_up_record(connection, context.routing, pipeline, extracted)
    if known.record:
        await _require_same_values(connection, known.record, right)
    return await route.confirm_record(
        connection, context.routing, pipeline, case, extracted, known, orders, match
    )


async def check_values(
    connection: Connection,
    context: ReviewContext,
    document: Document,
    extraction: ExtractionRow,
    corrections: Mapping[str, Any],
) -> tuple[StoredCheck, ...]:
    """The checks of the extracted values with these corrections.

    In a review, the controls are computed again: other records may have been confirmed meanwhile.
    """
    checks = tuple(stored_extraction.read_check(check) for check in extraction.checks)
    kind = context.routing.kinds.get(extraction.kind)
    if kind is None or not (corrections or document.state is DocumentState.NEEDS_REVIEW):
        return checks
    read = {name: field.get("value") for name, field in extraction.fields.items()}
    if corrections:
        checks = stored_extraction.check_corrected(kind, checks, read, corrections)
    identity = context.routing.identities[extraction.kind]
    unsure = route.find_uncertain_fields(extraction.fields, identity, is_ocr=extraction.is_ocr)
    found = await controls.check_record(
        connection,
        context.routing,
        document,
        kind,
        {**read, **corrections},
        doubted=unsure - corrections.keys(),
    )
    outdated = accounting_controls.list_names(kind)
    kept = (check for check in checks if check.name not in outdated)
    return (*kept, *map(stored_extraction.to_stored_check, found))


def _require_passed_checks(checks: Collection[StoredCheck], override: Collection[str]) -> list[str]:
    """Return the names of the failed checks that were overridden. Raise if another one failed."""
    failed = [check for check in checks if check.needs_override]
    if left := [check for check in failed if check.name not in override]:
        raise ChecksFailed([(check.name, check.details) for check in left])
    return sorted({check.name for check in failed})


async def _require_same_values(connection: Connection, record: Record, right: Mapping[str, Any]) -> None:
    """Reject corrections that would be lost: a duplicate adds nothing to its record and its documents."""
    read = [each.fields for each in await records.list_extractions(connection, record.id)]
    for name, value in right.items():
        known = [record.fields.get(name), *(fields[name]["value"] for fields in read if name in fields)]
        if value not in known:
            raise InvalidField(
                f"This document duplicates record {record.key or record.id}, which has"
                f" {_describe_value(record.fields.get(name))} for {name}. Confirm it without that correction,"
                " or reject it.",
                field=name,
            )


def _describe_value(value: Any) -> str:
    if isinstance(value, list):
        return f"a different table of {len(cast('list[Any]', value))} rows"
    return "no value" if value is None else str(value)


def _validate_corrections(corrections: Mapping[str, Any], identity: RecordIdentity) -> dict[str, Any]:
    """Validate and normalize corrections. An empty value means that the document does not have it."""
    return {name: _validate_correction(name, value, identity) for name, value in corrections.items()}


def _validate_correction(name: str, value: Any, identity: RecordIdentity) -> Any:
    shape = identity.shapes.get(name)
    if shape is None:
        raise InvalidField(f"{name} is not a field; the fields are {', '.join(identity.shapes)}.", field=name)
    if value in (None, ""):
        if name in identity.required:
            raise InvalidField(f"{name} is required. Enter its value, or reject the document.", field=name)
        return None
    if shape in table_validation.TABLE_SHAPES:
        return table_validation.parse_rows(name, value, identity.tables.get(name, {}))
    if not isinstance(value, str):
        raise InvalidField(f"{name} is not a table.", field=name)
    if right := field_validation.describe_expected_format(shape, value, identity.choices.get(name, ())):
        raise InvalidField(f"{name} must be {right}, not {value}.", field=name)
    return value


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
    found = await _get_document(connection, document)
    if found.state is DocumentState.FAILED:
        failed = DocumentCase(organization, found, actor)
        reason = f"rejected: {reason}"
        if not await route.finish_document(connection, failed, DocumentState.SKIPPED, skip_reason=reason):
            raise PermanentError("The document changed meanwhile. Reload it and decide again.")
        return
    if found.state is DocumentState.NEEDS_REVIEW and found.needs_password:
        case = DocumentCase(organization, found, actor)  # nothing was extracted
    else:
        case, _, _ = await _load_case(connection, context, organization, document, actor)
    await _decide(connection, case, Decision.REJECTED)
    await _record_decision(connection, case, Decision.REJECTED)
    await route.finish_document(connection, case, DocumentState.SKIPPED, skip_reason=f"rejected: {reason}")


async def read_again(
    connection: Connection, organization: OrganizationId, document: UUID, *, actor: str
) -> None:
    """Queue a document again that ended without a record."""
    found = await _get_document(connection, document)
    moved = await documents.change_state(connection, document, among=REPROCESSABLE, to=DocumentState.QUEUED)
    if moved is None:
        raise PermanentError(
            f"The document is {found.state}. Only documents without a record can be reprocessed."
        )
    await reviews.withdraw(connection, document)
    await route.publish_state(connection, moved)
    entry = NewLedgerEntry("DOCUMENT_QUEUED_AGAIN", "document", str(document), actor_id=actor)
    await ledger.append_entries(connection, organization, [entry])
    await work.enqueue(connection, [WorkRequest(organization, WorkKind.PROCESS_DOCUMENT, str(document))])


async def _get_document(connection: Connection, document: UUID) -> Document:
    found = await documents.get(connection, document)
    if found is None:
        raise NotFound("There is no such document.")
    return found


async def _load_case(
    connection: Connection, context: ReviewContext, organization: OrganizationId, document: UUID, actor: str
) -> tuple[DocumentCase, Pipeline, ExtractionRow]:
    found = await _get_document(connection, document)
    if found.state is not DocumentState.NEEDS_REVIEW:
        raise PermanentError(f"The document is {found.state}; it does not need a review.")
    if found.needs_password:
        raise PermanentError("The document is encrypted. Enter its password first, or reject it.")
    pipeline = context.pipelines.get(found.pipeline)
    extraction = await records.get_newest_extraction(connection, document)
    if pipeline is None or extraction is None:
        raise PermanentError(f"The pipeline {found.pipeline} no longer exists.")
    return DocumentCase(organization, found, actor), pipeline, extraction


async def _decide(connection: Connection, case: DocumentCase, decision: Decision) -> int:
    review = await reviews.decide(connection, case.document.id, decision, actor=case.actor)
    if review is None:
        raise PermanentError("Another person has already decided about this document.")
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
