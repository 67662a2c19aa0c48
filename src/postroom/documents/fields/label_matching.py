"""Scores values by their position relative to labels: right of, below, in the column, before a unit.

Scores how well each value fits each field, and why. It does not choose. `label_search` finds the labels,
`value_parsing` the values.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from postroom.documents.fields.document_text import DocumentText
from postroom.documents.fields.label_search import DECOY, LabelHit, compile_phrases
from postroom.documents.fields.value_parsing import ParsedValue
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.field_spec import FieldSpec

VALUE_SHAPES: Final = {
    "amount": "number",
    "quantity": "number",
    "price": "number",
    "date": "date",
    "isin": "isin",
    "iban": "iban",
    "vat_id": "vat_id",
}
_FILLERS: Final = frozenset(
    [
        "ihren",
        "ihre",
        "valuta",
        "value",
        "date",
        "wert",
        "wertstellung",
        "konto",
        "account",
        "compte",
        "depot",
        "handelswahrung",
        "euro",
        "datum",
        "stuck",
        "nach",
        "local",
    ]
)
_PROSE_WORDS: Final = 6  # this many words before a label mean running text
_CONTINUATION: Final = re.compile(
    r"[ ]?(?P<of>(?:(?:d[aeiou]s?|del|dell|della|of|des|van|der|the|la|ihrer|your|votre|uw)[ ']){0,3})"
    r"(?P<noun>[a-z]{4,})"
)
_OTHER_DATE_FACTOR: Final = 0.25
ROWS_BELOW: Final = 5
_IGNORED_LABEL_FACTOR: Final = 0.3  # for a label that continues an ignored one


@dataclass(frozen=True, slots=True)
class FieldCandidate:
    """A value that may be the field's, how well it fits (0 to 1), and why."""

    value: ParsedValue
    score: float
    why: str
    hit: LabelHit | None = None


@dataclass(frozen=True, slots=True)
class LabelContext:
    document: DocumentText
    values: dict[int, list[ParsedValue]]  # by line, from left to right
    hits: dict[int, list[LabelHit]]
    shapes: dict[str, str]  # the value shape that each field takes
    amounts: frozenset[str]  # the fields that hold money
    titles: frozenset[int]  # lines that begin with a title of the document kind
    recipients: frozenset[str]  # the fields that hold the addressee


def build_context(
    document: DocumentText, values: Iterable[ParsedValue], hits: Iterable[LabelHit], kind: DocumentKind
) -> LabelContext:
    by_line: dict[int, list[ParsedValue]] = defaultdict(list)
    for value in sorted(values, key=lambda each: (each.line, each.start, not each.likely)):
        by_line[value.line].append(value)
    hits_by_line: dict[int, list[LabelHit]] = defaultdict(list)
    for hit in hits:
        hits_by_line[hit.line].append(hit)
    shapes = {name: VALUE_SHAPES.get(field.shape, "") for name, field in kind.fields.items()}
    search = compile_phrases(kind.titles)
    titles = frozenset(
        line.index
        for line in document.lines
        for _, start, _ in search.find(line)
        if start == 0 or line.text.rfind(" ", 0, start) < 3 or len(line.words) <= 6
    )
    amounts = frozenset(name for name, field in kind.fields.items() if field.shape == "amount")
    recipients = frozenset(name for name, field in kind.fields.items() if field.shape == "recipient")
    return LabelContext(document, by_line, hits_by_line, shapes, amounts, titles, recipients)


def label_weight(context: LabelContext, hit: LabelHit) -> float:
    """Return the weight of a label: higher in a title line, lower in running text."""
    if hit.line in context.titles:
        return min(hit.weight + 0.4, 1.0)
    words = context.document.lines[hit.line].text[: hit.start].split()
    decoyed = any(other.field == DECOY and other.end <= hit.start for other in context.hits[hit.line])
    if _continues_ignored_label(context, hit):
        return hit.weight * _IGNORED_LABEL_FACTOR
    return (
        hit.weight
        * (0.7 if len(words) >= _PROSE_WORDS else 1.0)
        * (0.6 if decoyed and hit.weight < 1 else 1.0)
    )


def _continues_ignored_label(context: LabelContext, hit: LabelHit) -> bool:
    """In "new balance in your favour", "in your favour" continues the ignored label "balance"."""
    line = context.document.lines[hit.line].text
    return hit.field in context.amounts and any(
        other.field == DECOY and other.end <= hit.start and not line[other.end : hit.start].strip(" :")
        for other in context.hits[hit.line]
    )


def find_candidates(context: LabelContext, name: str, field: FieldSpec) -> list[FieldCandidate]:
    """Return every value that fits, each with its best score."""
    found: dict[ParsedValue, FieldCandidate] = {}
    for line in context.hits.values():
        for hit in line:
            if hit.field == name:
                for beside in _candidates_for_label(context, hit, field):
                    candidate = _penalize_wrong_shape(beside, field)
                    known = found.get(candidate.value)
                    if known is None or known.score < candidate.score:
                        found[candidate.value] = candidate
    return sorted(found.values(), key=lambda each: -each.score)


def _penalize_wrong_shape(candidate: FieldCandidate, field: FieldSpec) -> FieldCandidate:
    """Lower the score of values whose form does not suit the field.

    Money has cents or a currency; a number with neither is probably an account number. Quantities have no
    currency; nominal values have one but are round.
    """
    value = candidate.value
    match field.shape:
        case "amount":
            fits = value.decimals > 0 or (value.currency and value.number < 10_000_000)
        case "quantity":
            fits = not value.currency or value.number == value.number.to_integral_value()
        case _:
            fits = True
    return candidate if fits else replace(candidate, score=candidate.score * 0.3)


def _candidates_for_label(context: LabelContext, hit: LabelHit, field: FieldSpec) -> Iterator[FieldCandidate]:
    if hit.unit:
        yield from _candidates_before_unit(context, hit, field)
        return
    if _is_unit_of_previous_number(context, hit, field):
        return
    beside = list(_candidates_right_of(context, hit, field))
    yield from beside
    worth = 0.35 if any(each.score >= 0.6 * hit.weight for each in beside) else 1.0
    for candidate in _candidates_below(context, hit, field):
        yield FieldCandidate(candidate.value, candidate.score * worth, candidate.why, hit)


def _fitting_values(context: LabelContext, line: int, field: FieldSpec) -> list[ParsedValue]:
    shape = VALUE_SHAPES.get(field.shape, "")
    return [
        value
        for value in context.values.get(line, ())
        if value.shape == shape and not value.rate and not (value.percent and field.shape != "price")
    ]


def _prefer_money(values: list[ParsedValue]) -> list[ParsedValue]:
    """Drop numbers that look like account numbers if there are amounts of money too."""
    money = [value for value in values if value.decimals > 0 or value.currency]
    return money or values


def _label_text(context: LabelContext, hit: LabelHit) -> str:
    return context.document.lines[hit.line].text[hit.start : hit.end]


def _candidates_before_unit(
    context: LabelContext, hit: LabelHit, field: FieldSpec
) -> Iterator[FieldCandidate]:
    line = context.document.lines[hit.line]
    for value in _fitting_values(context, hit.line, field):
        if value.end <= hit.start and not line.text[value.end : hit.start].strip(" -."):
            score = 0.9 if value.likely else 0.7
            yield FieldCandidate(value, score * hit.weight, f"before “{_label_text(context, hit)}”", hit)


def _is_unit_of_previous_number(context: LabelContext, hit: LabelHit, field: FieldSpec) -> bool:
    """In "5 pcs 225.90" the word belongs to the 5, unless that has a label: "Price 5 pcs 20"."""
    is_unit = any(
        other.unit and other.field == hit.field and other.start == hit.start
        for other in context.hits[hit.line]
    )
    for counted in _candidates_before_unit(context, hit, field) if is_unit else ():
        line = context.document.lines[hit.line]
        return not any(
            other.end <= counted.value.start
            and not other.unit
            and other.field != hit.field
            and _compete(context, other, hit)
            and not line.text[other.end : counted.value.start].strip(" :.")
            for other in context.hits[hit.line]
        )
    return False


def _candidates_right_of(context: LabelContext, hit: LabelHit, field: FieldSpec) -> Iterator[FieldCandidate]:
    line = context.document.lines[hit.line]
    others = [
        other
        for other in context.hits.get(hit.line, ())
        if other.start >= hit.end
        and not other.unit
        and other.field != hit.field
        and _compete(context, other, hit)
    ]
    rank, last = 0, -1
    mine = [
        value
        for value in _fitting_values(context, hit.line, field)
        if value.start >= hit.end and not any(other.end <= value.start for other in others)
    ]
    mine = _prefer_money(mine) if field.shape == "amount" else mine
    end = max((value.end for value in mine), default=0)
    for value in mine:
        rank += value.start > last
        last = max(last, value.end - 1)
        between = [
            word
            for word in line.text[hit.end : value.start].split()
            if any(map(str.isalpha, word)) and len(word) != 3
        ]
        # The last amount of a row is the sum.
        ranked = (
            0.7
            if rank > 1 and value.end == end and field.shape == "amount"
            else (1.0, 0.45, 0.35)[min(rank - 1, 2)]
        )
        score = (
            max(1.0 - 0.07 * len(between), 0.5)
            * ranked
            * _continuation_factor(line.folded[hit.end : value.start], field.shape)
        )
        score *= 1.0 if value.likely else 0.75
        yield FieldCandidate(
            value, score * label_weight(context, hit), f"right of “{_label_text(context, hit)}”", hit
        )


def _continuation_factor(between: str, shape: str) -> float:
    """A label followed by a noun is a different label: "total costs" is not "total".

    "Date of order" is another date than "date".
    """
    word = _CONTINUATION.match(between)
    if word is None or word["noun"] in _FILLERS:
        return 1.0
    return _OTHER_DATE_FACTOR if shape == "date" and word["of"] else 0.7


def _compete(context: LabelContext, other: LabelHit, hit: LabelHit) -> bool:
    """Check whether the other label takes values of the same shape; an ignored label takes any."""
    return other.field == DECOY or context.shapes.get(other.field) == context.shapes.get(hit.field)


def _candidates_below(context: LabelContext, hit: LabelHit, field: FieldSpec) -> Iterator[FieldCandidate]:
    line = context.document.lines[hit.line]
    heads = [other for other in context.hits[hit.line] if not other.unit and _compete(context, other, hit)]
    if context.shapes[hit.field] != "number":
        heads = [head for head in heads if head.field != DECOY]
    heads = _merge_overlapping(heads)
    # The header of a line item table: values below it belong to a row, not to the document.
    goods = field.shape == "amount" and sum(other.field == DECOY for other in context.hits[hit.line]) >= 2
    column = list(_candidates_on_next_line(context, hit, field))
    for step in range(1, ROWS_BELOW + 1):
        index = hit.line + step
        if index >= len(context.document.lines) or context.document.lines[index].page != line.page:
            break
        values = _fitting_values(context, index, field)
        fade = (1.0, 0.75, 0.6, 0.5, 0.4)[step - 1]
        for value, score in _row_candidates(context, hit, heads, values):
            # A value with its own label on its line belongs to that label.
            own = any(
                other.end <= value.start and not other.unit and _compete(context, other, hit)
                for other in context.hits.get(index, ())
            )
            worth = (
                hit.weight
                * score
                * fade
                * (_IGNORED_LABEL_FACTOR if _continues_ignored_label(context, hit) else 1.0)
            )
            worth *= (0.4 if own else 1.0) * (0.4 if goods else 1.0)
            column.append(FieldCandidate(value, worth, f"below “{_label_text(context, hit)}”", hit))
        if values and context.document.has_layout is False:
            break
    yield from _prefer_column_sum(column) if field.shape == "amount" else column


def _candidates_on_next_line(
    context: LabelContext, hit: LabelHit, field: FieldSpec
) -> Iterator[FieldCandidate]:
    """Match a label at the end of a line with a value at the beginning of the next."""
    # A label with other labels before it is a column header.
    alone = not any(other.end <= hit.start and not other.unit for other in context.hits[hit.line])
    at_end = not context.document.lines[hit.line].text[hit.end :].strip(" :")
    if alone and at_end and hit.line + 1 < len(context.document.lines):
        for value in _fitting_values(context, hit.line + 1, field)[:1]:
            if value.start == 0 and hit.start > 10:
                yield FieldCandidate(
                    value,
                    0.9 * label_weight(context, hit),
                    f"on the line after “{_label_text(context, hit)}”",
                    hit,
                )


def _prefer_column_sum(column: Sequence[FieldCandidate]) -> Iterator[FieldCandidate]:
    """If the last amount of a column is the sum of the others, prefer it."""
    amounts = [each.value.number for each in column]
    for end in range(len(column), 2, -1):
        if sum(amounts[: end - 1]) == amounts[end - 1] != 0:
            for candidate in column[: end - 1]:
                yield FieldCandidate(candidate.value, candidate.score * 0.5, candidate.why, candidate.hit)
            last = column[end - 1]
            yield FieldCandidate(
                last.value, max(each.score for each in column), f"the sum of the column {last.why}", last.hit
            )
            return
    yield from column


def _merge_overlapping(heads: Sequence[LabelHit]) -> list[LabelHit]:
    """Merge overlapping labels into one column."""
    kept: list[LabelHit] = []
    for head in heads:
        if not kept or head.start >= kept[-1].end:
            kept.append(head)
    return kept


def _row_candidates(
    context: LabelContext, hit: LabelHit, heads: list[LabelHit], values: list[ParsedValue]
) -> Iterator[tuple[ParsedValue, float]]:
    """Yield the likely reading of a row, and the split reading if that fits the columns better."""
    likely = [value for value in values if value.likely]
    yield from _column_scores(context, hit, heads, likely)
    whole = [
        value
        for value in likely
        if any(value.start <= other.start and other.end < value.end for other in values)
    ]
    if whole and len(heads) != len(likely):
        parts = [
            value
            for value in values
            if not any(
                value.start <= each.start and each.end <= value.end
                for each in whole
                if value.likely or (each.start, each.end) == (value.start, value.end)
            )
        ]
        if len(parts) == len(heads):
            yield from _column_scores(context, hit, heads, parts)


def _column_scores(
    context: LabelContext, hit: LabelHit, heads: list[LabelHit], values: list[ParsedValue]
) -> Iterator[tuple[ParsedValue, float]]:
    place = next((number for number, head in enumerate(heads) if head.start <= hit.start < head.end), 0)
    above = context.document.lines[hit.line].box(hit.start, hit.end)
    for number, value in enumerate(values):
        box = context.document.lines[value.line].box(value.start, value.end)
        overlap = min(above.right, box.right) - max(above.left, box.left)
        if context.document.has_layout:
            if overlap > 0 or abs(above.right - box.right) < 0.02 or abs(above.left - box.left) < 0.02:
                yield value, 0.9
            continue
        if len(heads) == len(values):
            score = 0.85 if number == place else 0.25
        else:
            score = 0.5 if number == place or len(values) - number == len(heads) - place else 0.2
        yield value, max(score, 0.55 if overlap > 0 else 0.0)
