"""Rates a language model's answer: positions, and confidence by text, arithmetic and the offline reader.

Where both readers read different values, the more certain one is kept. If the offline reader's is certain, a
check fails, so that a person decides. Pure; it runs in a sandboxed child. `llm_reader` asks the model.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from decimal import Decimal
from typing import Any, Final, cast

from postroom.documents.fields.ambiguity import mark_ambiguous
from postroom.documents.fields.document_text import DocumentText
from postroom.documents.fields.extraction_result import FieldCheck, FieldExtraction, FieldValue
from postroom.documents.fields.field_checks import check_fields
from postroom.documents.fields.value_parsing import ParsedValue, find_values
from postroom.documents.kinds.document_kind import DocumentKind

_CERTAIN_CONFIDENCE: Final = 0.9  # an offline value from here on is not replaced without a review


def rate_answer(
    answer: Any, offline: FieldExtraction, document: DocumentText, kind: DocumentKind
) -> FieldExtraction:
    """Merge a model's answer, an instance of the kind's model, with the offline fields."""
    values = {each.name: getattr(answer, each.name) for each in fields(answer)}
    given = {name: value for name, value in values.items() if value not in (None, "", ())}
    written = find_values(document)
    rated = {
        name: _rate_value(value, offline.fields.get(name), written, document) for name, value in given.items()
    }
    merged = {**offline.fields, **rated}
    disputed = [name for name in rated if _is_disputed(offline.fields.get(name), rated[name])]
    for name in disputed:
        merged[name] = max(offline.fields[name], rated[name], key=lambda field: field.confidence)
    doubts = tuple(
        _check_agreement(name, offline.fields[name], rated[name], merged[name]) for name in disputed
    )
    raised = _raise_confirmed(kind, merged, set(given) - set(disputed))
    marked = mark_ambiguous(kind, raised, written, document)
    # The offline reader has marked its own fields.
    read = {
        name: field if field is offline.fields.get(name) else marked[name] for name, field in merged.items()
    }
    return FieldExtraction(read, (*offline.checks, *doubts))


def _is_disputed(offline: FieldValue | None, rated: FieldValue) -> bool:
    """Whether a value of the model contradicts one that the offline reader is more, or quite, certain of."""
    if offline is None or _is_same_value(offline.value, rated.value):
        return False
    return offline.confidence >= min(rated.confidence, _CERTAIN_CONFIDENCE)


def _check_agreement(name: str, offline: FieldValue, rated: FieldValue, kept: FieldValue) -> FieldCheck:
    other = rated if kept is offline else offline
    words = f"{_describe(kept.value)} or {_describe(other.value)}"
    return FieldCheck(
        f"the readers disagree on {name}", passed=False, words=words, fields=(name,), is_doubt=True
    )


def _describe(value: Any) -> str:
    return f"{len(cast('tuple[Any, ...]', value))} rows" if isinstance(value, tuple) else str(value)


def _raise_confirmed(
    kind: DocumentKind, found: Mapping[str, FieldValue], names: Collection[str]
) -> dict[str, FieldValue]:
    """Raise the confidence of the named fields that a passed check confirms."""
    passed = [check for check in check_fields(kind, found) if check.passed]
    confirmed = {name for check in passed for name in check.fields if name in names}
    return {
        name: replace(each, confidence=min(each.confidence + 0.04, 0.99)) if name in confirmed else each
        for name, each in found.items()
    }


def _rate_value(
    value: Any, other: FieldValue | None, written: tuple[ParsedValue, ...], document: DocumentText
) -> FieldValue:
    if other and _is_same_value(other.value, value):
        return replace(
            other, value=value, confidence=max(other.confidence, 0.98), evidence="both readers agree"
        )
    place = _find_position(value, written, document)
    if place is None and not isinstance(value, tuple):
        return FieldValue(value, 0.4, "read by the language model; not found in the text")
    if place is None:
        return FieldValue(value, 0.8, "read by the language model")
    line, start, end = place
    at = document.lines[line]
    return FieldValue(
        value, 0.92, "read by the language model; found in the text", at.page, at.box(start, end)
    )


def _is_same_value(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return re.sub(r"\W", "", one.casefold()) == re.sub(r"\W", "", other.casefold())
    if isinstance(one, tuple) and isinstance(other, tuple):
        return _list_numbers(one) == _list_numbers(other)
    return bool(one == other)


def _list_numbers(rows: Any) -> list[list[Any]]:
    """The numbers of a table's rows: readers word the descriptions of line items differently."""
    return [
        [value for each in fields(row) if isinstance(value := getattr(row, each.name), Decimal)]
        for row in rows
    ]


def _find_position(
    value: Any, written: tuple[ParsedValue, ...], document: DocumentText
) -> tuple[int, int, int] | None:
    wanted = abs(value) if isinstance(value, Decimal) else value
    for parsed in written:
        content = abs(parsed.content) if isinstance(parsed.content, Decimal) else parsed.content
        if content == wanted:
            return parsed.line, parsed.start, parsed.end
    if isinstance(value, str):
        for line in document.lines:
            start = line.text.casefold().find(value.casefold())
            if start >= 0:
                return line.index, start, start + len(value)
    return None
