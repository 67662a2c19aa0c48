"""The values that a person enters for a document: validation, and the checks that they must pass.

`review` uses it to confirm a document, `record_changes` to correct a record.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from postroom.documents import accounting_controls, record_matching, stored_extraction
from postroom.documents.fields import field_validation, table_validation
from postroom.documents.pipelines import Pipelines
from postroom.documents.stored_extraction import StoredCheck
from postroom.errors import ChecksFailed, InvalidField
from postroom.flow.documents import controls, route
from postroom.flow.documents.route import RecordIdentity, RouteContext
from postroom.model import DocumentState
from postroom.store import records, reviews
from postroom.store.connection import Connection
from postroom.store.documents import Document
from postroom.store.records import ExtractionRow, Record, RecordState
from postroom.store.reviews import FieldCorrection


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """The dependencies of decisions."""

    routing: RouteContext
    pipelines: Pipelines


@dataclass(frozen=True, slots=True)
class EnteredValues:
    """The values of a review, those that differ from what was read, and the checks of all of them."""

    values: Mapping[str, Any]
    changes: Mapping[str, Any]
    checks: tuple[StoredCheck, ...]


async def evaluate(
    connection: Connection,
    context: ReviewContext,
    document: Document,
    extraction: ExtractionRow,
    corrections: Mapping[str, Any],
) -> EnteredValues:
    """What a decision with these corrections would store and check. Raises InvalidField."""
    read = get_read_values(extraction)
    given = validate_corrections(corrections, context.routing.identities[extraction.kind])
    values = {**await get_known_values(connection, document, extraction), **given}
    changes = find_changes(read, values)
    await route.identify_earlier_records(connection, context.routing, document.pipeline)
    checks = await check_values(connection, context, document, extraction, changes)
    return EnteredValues(values, changes, checks)


def split_invalid(
    corrections: Mapping[str, Any], identity: RecordIdentity
) -> tuple[dict[str, Any], dict[str, InvalidField]]:
    """The corrections that are valid, and the error of each of the others."""
    valid: dict[str, Any] = {}
    errors: dict[str, InvalidField] = {}
    for name, value in corrections.items():
        try:
            _validate_correction(name, value, identity)
        except InvalidField as error:
            errors[name] = error
        else:
            valid[name] = value
    return valid, errors


async def get_known_values(
    connection: Connection, document: Document, extraction: ExtractionRow
) -> dict[str, Any]:
    """The values that a correction starts from: those of the document's live record, else those read.

    A value that was too uncertain to be recorded is shown as it was read, unless a person removed it.
    """
    record = await records.get(connection, document.record_id) if document.record_id else None
    read = get_read_values(extraction)
    if record is None or record.state not in (RecordState.CONFIRMED, RecordState.REOPENED):
        return read
    removed = await reviews.get_corrections(connection, document.id)
    unrecorded = {name: value for name, value in read.items() if name not in removed}
    return {**unrecorded, **record.fields}


def get_read_values(extraction: ExtractionRow) -> dict[str, Any]:
    return {name: each.get("value") for name, each in extraction.fields.items()}


def find_changes(read: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that differ from what was read; None for a field that the document does not have."""
    return {name: values.get(name) for name in {**read, **values} if values.get(name) != read.get(name)}


def build_field_corrections(
    identity: RecordIdentity, read: Mapping[str, Any], right: Mapping[str, Any]
) -> list[FieldCorrection]:
    """The corrections for later documents, each with another field that identifies the supplier."""
    known = record_matching.issuer_keys(read, identity.shapes)
    return [
        FieldCorrection(
            name, read.get(name), value, next((known[each] for each in known if each != name), None)
        )
        for name, value in right.items()
    ]


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


def require_passed_checks(checks: Collection[StoredCheck], override: Collection[str]) -> list[str]:
    """Return the names of the failed checks that were overridden. Raise if another one failed."""
    failed = [check for check in checks if check.needs_override]
    if left := [check for check in failed if check.name not in override]:
        raise ChecksFailed([(check.name, check.details) for check in left])
    return sorted({check.name for check in failed})


async def require_same_values(connection: Connection, record: Record, right: Mapping[str, Any]) -> None:
    """Reject corrections that would be lost: a duplicate adds nothing to its record and its documents."""
    read = [each.fields for each in await records.list_extractions(connection, record.id)]
    for name, value in right.items():
        known = [record.fields.get(name), *(fields[name]["value"] for fields in read if name in fields)]
        if value not in known:
            raise InvalidField(
                f"This document duplicates record {record.name}, which has"
                f" {_describe_value(record.fields.get(name))} for {name}. Confirm it without that correction,"
                " or reject it.",
                field=name,
            )


def _describe_value(value: Any) -> str:
    if isinstance(value, list):
        return f"a different table of {len(cast('list[Any]', value))} rows"
    return "no value" if value is None else str(value)


def validate_corrections(corrections: Mapping[str, Any], identity: RecordIdentity) -> dict[str, Any]:
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
