"""Picks the values that arithmetic cannot confirm: dates and names.

Codes are in `code_selection`, numbers with check digits in `check_digit_selection`,
amounts in `amount_solver`, the issuer in `issuer`, choices in `choice_fields`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Final

from postroom.documents.fields.document_text import TextLine
from postroom.documents.fields.label_matching import (
    FieldCandidate,
    LabelContext,
    find_candidates,
)
from postroom.documents.fields.label_search import DECOY, LabelHit
from postroom.documents.fields.value_parsing import ParsedValue
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.field_spec import FieldSpec

_LABELLED_SCORE: Final = 0.5  # a date with this score belongs to the label
_LETTERHEAD: Final = re.compile(r"(?:^|\s)[^\W\d_][\w .-]{1,30}, *(?:den |le |the )?$")
_DATED: Final = re.compile(r"[\s.:#°]*(\S*\d\S*(?: \S+){0,3}?)\s+(?:vom|von|du|of|dated|del|van|from)\s*$")
# "Execution of the savings plan on", "Ordre exécuté le": an action and the word before its date.
_EXECUTION_WORDS: Final = re.compile(
    r"(?:ausfuhr|ausgefuhr|execut|esecuz|eseguit|ejecu|uitvoer|uitgevoer|gehandelt|getatigt|traded|negoci"
    r"|gekauft|verkauft|bought|sold|purchas|acquist|compra|venta|achat|vente|kauf|aankoop|verkoop)"
    r".{0,60}\b(?:am|on|le|il|el(?: dia)?|op|den)[ :]*$"
)
_EXECUTION_ENTRY: Final = re.compile(
    r"^[ :|-]*\w{0,12}(?:kauf|buy|sell|bought|sold|purchase|sale|achat|vente|acquisto)\b"
)
_DISCOUNT: Final = re.compile(
    r"skont|discount|escompte|sconto|descuento|pronto pago|dto\.|korting|rabat|desconto|rabais|remise|iskonto"
)
_IN_FULL: Final = re.compile(
    r"\b(?:netto|ohne abzug|net|in full|full amount|sans escompte|sin dto|senza sconto|zonder korting)\b"
)
_CONDITION: Final = re.compile(
    r"\b(?:bei (?:zahlung|begleichung|zahlungseingang|uberweisung)|if (?:you pay|paid|settled|payment)"
    r"|when paid|(?:en cas de|pour|si) (?:le )?(?:paiement|reglement|regle)|pagando|per pagament[oi]"
    r"|(?:por|si se) pag[oa]|bij betaling|ved betaling|vid betalning|przy platnosci)\b"
)
_DISCOUNT_FACTOR: Final = 0.2
_NEARBY: Final = 120  # characters before a date that are searched for such words
_MAX_DOCUMENT_AGE: Final = timedelta(days=10)  # an older date belongs to something else than the settlement


@dataclass(frozen=True, slots=True)
class FieldPick:
    """A chosen value with its position and its evidence."""

    value: Any
    line: int
    start: int
    end: int
    label: float
    margin: float
    why: str
    checked: bool = False
    is_repeated: bool = False
    ambiguity: str = ""


def pick_best(found: Sequence[FieldCandidate], *, count: Counter[Any] | None = None) -> FieldPick | None:
    """Pick the candidate with the highest score, with its lead over the next different value."""
    if not found:
        return None
    first = max(found, key=lambda each: each.score)
    others = [each.score for each in found if each.value.content != first.value.content]
    value = first.value
    return FieldPick(
        value.content,
        value.line,
        value.start,
        value.end,
        first.score,
        first.score - max(others, default=0.0),
        first.why,
        is_repeated=bool(count and count[value.content] > 1),
    )


def find_title_numbers(
    context: LabelContext, name: str = ""
) -> Iterator[tuple[LabelHit, int, int, ParsedValue]]:
    """Yield label, number and date from titles such as "Invoice no. 4711 of 3 May"."""
    for line in context.titles:
        text = context.document.lines[line].text
        for day in context.values.get(line, ()):
            hits = [hit for hit in context.hits.get(line, ()) if hit.end <= day.start and not hit.unit]
            last = max(
                (hit for hit in hits if context.shapes.get(hit.field) != "date"),
                key=lambda h: h.end,
                default=None,
            )
            found = _DATED.match(text[last.end : day.start]) if last and day.shape == "date" else None
            if last and found and last.field != DECOY and name in {"", last.field}:
                yield last, last.end + found.start(1), last.end + found.end(1), day


def pick_dates(context: LabelContext, kind: DocumentKind) -> dict[str, FieldPick]:
    """Pick every date field; those with fallbacks last, because they depend on the others."""
    every = [value for values in context.values.values() for value in values if value.shape == "date"]
    count = Counter(value.content for value in every)
    fields = {name: field for name, field in kind.fields.items() if field.shape == "date"}
    found: dict[str, FieldPick] = {}
    for name, field in sorted(fields.items(), key=lambda each: bool(each[1].related_fields)):
        fitting = [*find_candidates(context, name, field), *_unlabelled_dates(context, every, field)]
        fitting = [_demote_discount_date(context, each) for each in fitting]
        timed = [_promote_with_time(each) if field.has_time else each for each in fitting]
        pick = pick_best(_promote_repeated_dates(_demote_generic_labels(context, timed)), count=count)
        if field.related_fields and (pick is None or pick.label < 0.15):
            pick = (
                _fallback_date(found, [each.strip() for each in field.related_fields.split(",")], every)
                or pick
            )
        pick = pick or (_pick_only_date(context, every) if field.in_letterhead else None)
        if pick:
            found[name] = pick
    return found


def _pick_only_date(context: LabelContext, every: Sequence[ParsedValue]) -> FieldPick | None:
    """Pick the unlabelled date of a receipt: the only one with a time, or the only one at all."""
    free = [
        value
        for value in every
        if not any(hit.end <= value.start and not hit.unit for hit in context.hits.get(value.line, ()))
    ]
    for some in ([value for value in free if value.has_time], free):
        if len({value.content for value in some}) == 1:
            value = some[0]
            return FieldPick(value.content, value.line, value.start, value.end, 0.3, 0.0, "the only date")
    return None


def _demote_discount_date(context: LabelContext, candidate: FieldCandidate) -> FieldCandidate:
    """Until the date of a cash discount, less is due: it is no due date, unless the full amount is meant."""
    value = candidate.value
    line = context.document.lines[value.line].folded
    following = context.document.lines[value.line + 1 : value.line + 2]
    is_condition = _CONDITION.search(line[: value.start]) is not None
    # A condition continues on the next line: "if paid by 3 May, / 2 % discount".
    after = line[value.end :] + (f" {following[0].folded}" if following and is_condition else "")
    others = [each for each in context.values.get(value.line, ()) if each.shape == "date"]
    until = min((each.start for each in others if each.start >= value.end), default=len(after) + value.end)
    since = max((each.end for each in others if each.end <= value.start), default=0)
    mine = f"{line[since : value.start]} {after[: until - value.end] if others else after}"
    is_discount = _DISCOUNT.search(mine) or (is_condition and _DISCOUNT.search(f"{line} {after}"))
    if not is_discount or _IN_FULL.search(mine):
        return candidate
    return replace(candidate, score=candidate.score * _DISCOUNT_FACTOR)


def _demote_generic_labels(context: LabelContext, found: Sequence[FieldCandidate]) -> list[FieldCandidate]:
    """If an "invoice date" is certain, a value labelled just "date" is a different date."""

    def label(hit: LabelHit) -> str:
        return context.document.lines[hit.line].folded[hit.start : hit.end]

    first = max(found, key=lambda each: each.score, default=None)
    if first is None or first.hit is None or first.score < 0.9:
        return list(found)
    name = label(first.hit)
    return [
        replace(each, score=each.score * 0.5)
        if each.hit and label(each.hit) in name and label(each.hit) != name
        else each
        for each in found
    ]


def _promote_repeated_dates(found: Sequence[FieldCandidate]) -> list[FieldCandidate]:
    """Prefer a date that two labels agree on."""
    lines = {
        (each.value.content, each.hit.line) for each in found if each.hit and each.score >= _LABELLED_SCORE
    }
    times = Counter(day for day, _ in lines)
    return [
        replace(each, score=each.score + 0.1) if times[each.value.content] > 1 else each for each in found
    ]


def _promote_with_time(candidate: FieldCandidate) -> FieldCandidate:
    if not candidate.value.has_time or candidate.hit is None:
        return candidate
    return FieldCandidate(
        candidate.value, candidate.score + 0.3, candidate.why + " with a time of day", candidate.hit
    )


def _unlabelled_dates(
    context: LabelContext, every: Sequence[ParsedValue], field: FieldSpec
) -> Iterator[FieldCandidate]:
    if field.in_letterhead:
        for hit, *_, day in find_title_numbers(context):
            if context.shapes.get(hit.field) == "":
                yield FieldCandidate(day, 1.4, "after the number in the title")
    for value in every:
        line = context.document.lines[value.line]
        if field.in_letterhead and _LETTERHEAD.search(line.text[max(value.start - _NEARBY, 0) : value.start]):
            yield FieldCandidate(value, 0.45, "after a place name")
        elif field.in_letterhead and value.line in context.titles:
            yield FieldCandidate(value, 0.55, "in the title line")
        labelled = any(
            hit.end <= value.start and (hit.field == DECOY or context.shapes.get(hit.field) == "date")
            for hit in context.hits.get(value.line, ())
        )
        if field.has_time and _EXECUTION_WORDS.search(
            line.folded[max(value.start - _NEARBY, 0) : value.start]
        ):
            yield FieldCandidate(value, 0.75, "after the action")
        elif field.has_time and value.start == 0 and _EXECUTION_ENTRY.match(line.folded[value.end :]):
            yield FieldCandidate(value, 0.65, "before the action")
        if field.has_time and value.has_time and not labelled:
            # The last of several: an order is placed before it is executed.
            yield FieldCandidate(value, 0.65 + 0.0001 * value.line, "with a time of day")


def _fallback_date(
    found: dict[str, FieldPick], names: Sequence[str], every: Sequence[ParsedValue]
) -> FieldPick | None:
    """Pick a labelled date, else the next fallback, else the first date of the document."""
    first, *rest = (found.get(name) for name in names)
    limit: date | None = next((pick.value for pick in rest if pick), None)

    def fits(pick: FieldPick | None) -> bool:
        return pick is not None and (limit is None or limit - _MAX_DOCUMENT_AGE <= pick.value <= limit)

    if first and first.label >= 0.7 and fits(first):
        return _as_fallback(first)
    for pick in rest:
        if pick:
            return _as_fallback(pick)
    if first:
        return _as_fallback(first)
    long = [value for value in every if value.end - value.start >= 8]
    if not long:
        return None
    value = long[0]
    return FieldPick(
        value.content, value.line, value.start, value.end, 0.1, 0.0, "the first date of the document"
    )


def _as_fallback(pick: FieldPick) -> FieldPick:
    return FieldPick(
        pick.value,
        pick.line,
        pick.start,
        pick.end,
        0.4 * pick.label,
        0.0,
        f"fallback: {pick.why}",
        is_repeated=pick.is_repeated,
    )


_NAME_END: Final = re.compile(r"[|•·●]|\s{3,}")
_NO_NAME: Final = re.compile(r"^[\W\d]*$")


def pick_name(context: LabelContext, name: str) -> FieldPick | None:
    """Pick words right of a label, or below it in its column."""
    found: list[tuple[float, str, TextLine, int, int, str]] = []
    for hits in context.hits.values():
        for hit in hits:
            if hit.field == name:
                found.extend(_names_for_label(context, hit))
    if not found:
        return None
    score, text, line, start, end, why = max(found, key=lambda each: each[0])
    others = [each[0] for each in found if each[1] != text]
    return FieldPick(text, line.index, start, end, score, score - max(others, default=0.0), why)


def _names_for_label(
    context: LabelContext, hit: LabelHit
) -> Iterator[tuple[float, str, TextLine, int, int, str]]:
    line = context.document.lines[hit.line]
    label = line.text[hit.start : hit.end]
    others = [
        other
        for other in context.hits[hit.line]
        if not other.unit and other.start != hit.start and other.weight == 1.0 and other.field != hit.field
    ]
    end = min((other.start for other in others if other.start >= hit.end), default=len(line.text))
    text = _clean_name(line.text[hit.end : end])
    if _is_name(text):
        yield (
            hit.weight * (0.6 if others else 0.9),
            text,
            line,
            *_words_span(line.text, text, hit.end),
            f"right of “{label}”",
        )
    if hit.line + 1 < len(context.document.lines) and not _is_name(text):
        below = context.document.lines[hit.line + 1]
        spoken = [value for value in context.values.get(below.index, ()) if value.shape != "currency"]
        text = _clean_name(_longest_gap(below.text, [(value.start, value.end) for value in spoken]))
        if _is_name(text):
            yield hit.weight * 0.7, text, below, *_words_span(below.text, text, 0), f"below “{label}”"


def _words_span(text: str, cleaned: str, after: int) -> tuple[int, int]:
    """Return the span from the first to the last of these words."""
    words = cleaned.split()
    start = max(text.find(words[0], after), 0)
    return start, max(text.find(words[-1], start) + len(words[-1]), start + 1)


def _longest_gap(text: str, taken: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    place = 0
    for start, end in sorted(taken):
        parts.append(text[place:start])
        place = max(place, end)
    return max([*parts, text[place:]], key=lambda part: sum(map(str.isalpha, part)))


def _clean_name(text: str) -> str:
    text = _NAME_END.split(text.strip(" :.-=\u2013"))[0]
    text = re.sub(
        r"^(?:Stück|Stk\.?|St\.|STK|shares|units|titres|parts|Anteile|Ant\.?)\s+|\s*\((?:[A-Z]{2}[A-Z0-9]{9}\d|[A-Z0-9]{6})?\)?$",
        "",
        text,
    )
    text = re.sub(r"\b[A-Z]{2}[A-Z0-9]{9}\d\b", "", text)
    return " ".join(text.split()).strip(" :,-\u2013/")[:120]


def _is_name(text: str) -> bool:
    return len(text) >= 3 and not _NO_NAME.match(text) and sum(map(str.isalpha, text)) >= 3
