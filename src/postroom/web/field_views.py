"""The fields of a document as its page shows them, and the corrections in a submitted form.

Table fields are in `table_fields`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from postroom.errors import InvalidField
from postroom.flow.documents.route import RecordIdentity
from postroom.flow.documents.value_checks import ReviewContext
from postroom.store.records import ExtractionRow
from postroom.store.reviews import Correction
from postroom.web import field_labels, pages, table_fields
from postroom.web.table_fields import TableField

# Shapes of fields that hold amounts of money.
_MONEY_SHAPES: Final = frozenset({"amount", "rates", "lines"})
_NOT_FOUND: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class RejectedDecision:
    """A decision that failed: the message, the submitted form, and the field that caused it."""

    message: str
    form: Mapping[str, str]
    error: InvalidField | None = None

    @property
    def field(self) -> str | None:
        return self.error.field if self.error else None


@dataclass(frozen=True, slots=True)
class FieldView:
    """A field as the page shows it.

    `box` is its position in thousandths of its page: left, top, width, height. `rejected_value` is what the
    reviewer submitted when the decision failed.
    """

    name: str
    label: str
    value: Any
    confidence: float
    evidence: str
    page: int | None
    box: tuple[int, int, int, int] | None
    rejected_value: str | None = None
    problem: str | None = None
    table: TableField | None = None
    correction: Correction | None = None
    shape: str = ""
    choices: Sequence[str] = ()
    is_required: bool = False
    is_doubtful: bool = False  # read with a confidence below the pipeline's threshold

    @property
    def displayed_value(self) -> str:
        """The rejected value if there is one, else the extracted one."""
        if self.rejected_value is not None:
            return self.rejected_value
        return "" if self.value is None else str(self.value)

    @property
    def is_missing(self) -> bool:
        return self.is_required and self.value is None

    @property
    def needs_attention(self) -> bool:
        """Whether a person must look at it: a required value is missing, or one is doubtful."""
        return self.is_missing or self.is_doubtful


def list_fields(
    context: ReviewContext,
    pipeline: str,
    extraction: ExtractionRow | None,
    corrections: Mapping[str, Correction],
    shown: Mapping[str, Any] | None,
    rejected: RejectedDecision | None,
) -> list[FieldView]:
    """The fields as corrected; in a form (those `shown`), also those that were not found."""
    if extraction is None:
        return []
    kind = context.routing.identities.get(extraction.kind)
    extracted = extraction.fields
    if shown is None:
        extracted = {**extracted, **_apply_corrections(extracted, corrections)}
    elif kind:  # a reviewer can fill in the fields that were not found
        extracted = {**dict.fromkeys(kind.shapes, _NOT_FOUND), **shown}
    fields = build_fields(extracted, extraction.kind, kind, rejected)
    confirm_above = context.pipelines[pipeline].confirm_above if pipeline in context.pipelines else 1.0
    return [
        replace(field, is_doubtful=field.value is not None and field.confidence < confirm_above)
        for field in fields
    ]


def _apply_corrections(
    extracted: Mapping[str, Any], corrections: Mapping[str, Correction]
) -> dict[str, Mapping[str, Any]]:
    """Replace extracted values by the ones that a reviewer entered."""
    return {
        name: {
            **extracted.get(name, _NOT_FOUND),
            "value": correction.right_value,
            "confidence": 1.0,
            "correction": correction,
        }
        for name, correction in corrections.items()
    }


def build_fields(
    extracted: Mapping[str, Any],
    kind_name: str | None,
    kind: RecordIdentity | None,
    rejected: RejectedDecision | None = None,
) -> list[FieldView]:
    """Order the fields as their kind declares them: a JSON object in the database has no order."""
    shapes: Mapping[str, str] = kind.shapes if kind else {}
    currency = str(extracted.get("currency", {}).get("value") or "")
    rank = {name: number for number, name in enumerate(shapes)}
    fields: list[FieldView] = []
    for name, field in sorted(extracted.items(), key=lambda item: rank.get(item[0], len(rank))):
        unit = find_unit(kind, name, currency) if kind else ""
        table = _build_table(name, field.get("value"), unit, kind, rejected)
        label = field_labels.field_label(kind_name, name, "" if table is not None else unit)
        built = _build_field(name, label, field, table, rejected)
        if kind:
            built = replace(
                built,
                shape=shapes.get(name, ""),
                choices=kind.choices.get(name, ()),
                is_required=name in kind.required,
            )
        fields.append(built)
    return fields


def find_unit(kind: RecordIdentity, name: str, currency: str) -> str:
    """The unit of a field: the currency, if it holds money that is certainly in this currency."""
    holds_money = kind.shapes.get(name) in _MONEY_SHAPES
    return currency if holds_money and name not in kind.foreign_amounts else ""


def _build_table(
    name: str, value: Any, unit: str, kind: RecordIdentity | None, rejected: RejectedDecision | None
) -> TableField | None:
    columns = kind.tables.get(name) if kind else None
    if columns is None and not isinstance(value, list):
        return None
    form, error = (rejected.form, rejected.error) if rejected else (None, None)
    return table_fields.build_table(name, value, columns or {}, unit, form, error)


def _build_field(
    name: str,
    label: str,
    extracted: Mapping[str, Any],
    table: TableField | None,
    rejected: RejectedDecision | None,
) -> FieldView:
    return FieldView(
        name,
        label,
        extracted.get("value"),
        extracted.get("confidence", 0.0),
        extracted.get("evidence", ""),
        extracted.get("page"),
        _to_svg_box(extracted.get("box")),
        rejected.form.get(f"field-{name}") if rejected else None,
        rejected.message if rejected and rejected.field == name else None,
        table,
        extracted.get("correction"),
    )


def _to_svg_box(box: Any) -> tuple[int, int, int, int] | None:
    """Convert a box in fractions of the page to left, top, width and height, with a small margin."""
    if not box:
        return None
    left, top, right, bottom = (round(1000 * edge) for edge in box)
    return left - 4, top - 3, right - left + 8, bottom - top + 6


def find_corrections(fields: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """Compare the form with the extracted values; an emptied field is a correction too."""
    extracted: dict[str, Any] = {name: field.get("value") for name, field in fields.items()}
    corrections: dict[str, Any] = {}
    for input_name, text in form.items():
        prefix, _, name = input_name.partition("-")
        if prefix == "table":
            rows = table_fields.find_changed_rows(name, extracted.get(name), form)
            if rows is not None:
                corrections[name] = rows
        elif prefix == "field" and not isinstance(extracted.get(name), list | dict):
            before = "" if extracted.get(name) is None else pages.neutralize_bidi(str(extracted[name]))
            if text.strip() != before:
                corrections[name] = text.strip() or None
    return corrections
