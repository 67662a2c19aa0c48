"""The offline reader: finds fields by labels, arithmetic and check digits, without templates.

Pure: it takes a transcript and a document kind and returns fields with confidence, position and evidence. It
combines the other modules of this package, which search, score and solve.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from postroom.documents.fields import (
    amount_solver,
    balance,
    calibration,
    charges,
    check_digit_selection,
    choice_fields,
    code_selection,
    currency_selection,
    field_selection,
    issuer,
    payment_doubt,
    table_extraction,
)
from postroom.documents.fields.ambiguity import mark_ambiguous
from postroom.documents.fields.document_text import DocumentText, build_document_text
from postroom.documents.fields.extraction_result import (
    ConfidenceSignals,
    FieldCheck,
    FieldExtraction,
    FieldValue,
)
from postroom.documents.fields.field_selection import FieldPick
from postroom.documents.fields.label_matching import (
    FieldCandidate,
    LabelContext,
    build_context,
    find_candidates,
)
from postroom.documents.fields.label_search import find_labels
from postroom.documents.fields.solution import DistinctNumber, Solution
from postroom.documents.fields.text_density import explain_excess
from postroom.documents.fields.value_parsing import ParsedValue, find_values
from postroom.documents.files.file_reading import Transcript
from postroom.documents.kinds.document_kind import DocumentKind, ProductRelation, Relation, SettlementRelation
from postroom.documents.kinds.field_spec import FieldSpec
from postroom.documents.kinds.invoice import InvoiceLine, VatAmount

_CERTAIN_SCORE: Final = 0.9  # a value with this score certainly belongs to the label
_INFERRED_LABEL: Final = 0.5  # for a weak word that the direction of payment confirms
_UNRIVALLED_MARGIN: Final = 0.3  # confirmed rows have no rival, but some rows may be missing
_NUMBERS: Final = frozenset({"amount", "quantity", "price"})


def read_fields(transcript: Transcript, kind: DocumentKind) -> FieldExtraction:
    document = build_document_text(transcript)
    found = find_values(document)
    labels = find_labels(document, kind)
    context = build_context(document, found, labels, kind)
    if excess := explain_excess(context):
        return FieldExtraction({}, (FieldCheck("density", passed=False, words=excess, is_doubt=True),))
    fields = kind.fields
    picks: dict[str, FieldValue] = {}
    sides = {
        name: choice_fields.rank_choices(document, field, [hit for hit in labels if hit.field == name])
        for name, field in fields.items()
        if field.shape == "choice"
    }
    numbers = _number_fields(context, kind, found, sides)
    picks |= balance.refine_totals(context, kind, _add_summed_taxes(context, numbers))
    picks |= {
        name: _choice_field(document, ranked, picks.get(name)) for name, ranked in sides.items() if ranked
    }
    picks |= {
        name: _picked_field(document, each, "date")
        for name, each in field_selection.pick_dates(context, kind).items()
    }
    issuer_name = ""
    for name, field in fields.items():
        value = _other_field(context, name, field, picks, issuer_name)
        if value:
            picks[name] = value
            issuer_name = value.value if field.shape == "party" else issuer_name
    read = mark_ambiguous(kind, {name: picks[name] for name in fields if name in picks}, found, document)
    checks = (
        *payment_doubt.check_payments(kind, read, found, document),
        *balance.check_total(kind, read, found),
        *balance.check_balance(kind, read, found),
        *balance.check_tax(kind, read, found),
        *check_digit_selection.check_unread_accounts(context, kind, read),
        *choice_fields.check_choices(document, sides),
    )
    return FieldExtraction(read, checks)


def _position(document: DocumentText, line: int, start: int, end: int) -> dict[str, Any]:
    at = document.lines[line]
    return {"page": at.page, "box": at.box(start, end)}


def _field_value(value: Any, signals: ConfidenceSignals, evidence: str, **place: Any) -> FieldValue:
    return FieldValue(value, calibration.confidence(signals), evidence, signals=signals, **place)


def _picked_field(document: DocumentText, each: FieldPick, shape: str) -> FieldValue:
    signals = ConfidenceSignals(
        shape, each.label, each.margin, checked=each.checked, is_repeated=each.is_repeated
    )
    position = _position(document, each.line, each.start, each.end)
    return _field_value(each.value, signals, each.why, ambiguity=each.ambiguity, **position)


def _choice_field(
    document: DocumentText, ranked: Sequence[choice_fields.RankedChoice], concluded: FieldValue | None
) -> FieldValue:
    """Choose by the strongest words; the direction of payment confirms or contradicts them."""
    first = ranked[0]
    behind = ranked[1].score if len(ranked) > 1 else 0.0
    said = document.lines[first.line].text[first.start : first.end]
    same = concluded is not None and concluded.value == first.choice
    behind = first.score if concluded and not same else behind
    label = max(first.score / 1.5, _INFERRED_LABEL if same else 0.0)
    signals = ConfidenceSignals(
        "choice", min(label, 1.0), min((first.score - behind) / 1.5, 1.0), agreed=same
    )
    words = f"“{said}”; {concluded.evidence}" if concluded and same else f"“{said}”"
    return _field_value(
        first.choice, signals, words, **_position(document, first.line, first.start, first.end)
    )


def _number_fields(
    context: LabelContext,
    kind: DocumentKind,
    found: Sequence[ParsedValue],
    sides: Mapping[str, Sequence[choice_fields.RankedChoice]],
) -> dict[str, FieldValue]:
    fields = {name: field for name, field in kind.fields.items() if field.shape in _NUMBERS}
    fits = {name: find_candidates(context, name, field) for name, field in fields.items()}
    every = amount_solver.collect_numbers(found, fits)
    rates = [
        float(value.number) for value in found if value.shape == "number" and value.rate and value.number
    ]
    direction = {side.choice: side.score for ranked in sides.values() for side in ranked}
    solved, *others = amount_solver.solve(kind, every, rates, direction)
    named = {name for relation in kind.relations for name in _relation_fields(relation)}
    # In a settlement the sign shows who pays; elsewhere it belongs to the value, as in a credit note.
    unsigned = any(isinstance(relation, SettlementRelation) for relation in kind.relations)
    result = _infer_choices(context.document, kind, solved, converted=bool(rates))
    result |= {
        name: _number_field(
            context.document,
            name,
            number,
            solved,
            every,
            others=others,
            shape=fields[name].shape,
            scale=_unit_scale(kind, name, solved),
            unsigned=unsigned,
        )
        for name, number in solved.chosen.items()
        if number.score(name) > 0 or name in solved.agreed or name in solved.words
    }
    result |= _charge_fields(context.document, kind, fits, solved, every, rates)
    for name, field in fields.items():
        if name not in named and not field.is_summed:
            best = _best_number_field(context.document, name, field, every)
            result |= {name: best} if best else {}
    return result


def _infer_choices(
    document: DocumentText, kind: DocumentKind, solved: Solution, *, converted: bool
) -> dict[str, FieldValue]:
    """Infer the direction without words: from the sign of the payment, or from added or deducted fees."""
    found: dict[str, FieldValue] = {}
    for relation in kind.relations:
        if not isinstance(relation, SettlementRelation):
            continue
        gross, paid = solved.chosen.get(relation.gross), solved.chosen.get(relation.paid)
        if paid is None:
            continue
        # With an exchange rate, payment and gross amount are in different currencies.
        comparable = (
            gross and not converted and relation.paid in solved.agreed and _may_share_currency(gross, paid)
        )
        if (side := _infer_direction(gross if comparable else None, paid)) is None:
            continue
        place = paid.place(relation.paid)
        choice, words = side
        signals = ConfidenceSignals("choice", 0.3, 0.3)
        found[relation.direction] = _field_value(
            choice, signals, words, **_position(document, place.line, place.start, place.end)
        )
    return found


def _may_share_currency(one: DistinctNumber, other: DistinctNumber) -> bool:
    """Check that the numbers are not written in different currencies."""
    first, second = ({place.currency for place in each.places} - {None} for each in (one, other))
    return not first or not second or bool(first & second)


def _infer_direction(gross: DistinctNumber | None, paid: DistinctNumber) -> tuple[str, str] | None:
    if any(place.number < 0 for place in paid.places):
        return "buy", "the payment has a minus sign"
    if gross and paid.size != gross.size and 0.9 <= paid.size / gross.size <= 1.1:
        added = paid.size > gross.size
        return ("buy", "fees were added") if added else ("sell", "fees were deducted")
    return None


def _add_summed_taxes(context: LabelContext, numbers: Mapping[str, FieldValue]) -> dict[str, FieldValue]:
    """Fill in the tax as the sum of the taxes by rate."""
    found = dict(numbers)
    net, gross, vat = (found.get(name) for name in ("net", "gross", "vat"))
    if net is None or gross is None or (vat and net.value + vat.value == gross.value):
        return found
    total = sum((row.vat for row in table_extraction.find_tax_rows(context)), Decimal(0))
    if total and net.value + total == gross.value:
        for name, field in (("net", net), ("gross", gross), ("vat", replace(vat or net, value=total))):
            assert field.signals
            words = f"{field.evidence}; {net.value} + {total} = {gross.value}"
            found[name] = _field_value(
                field.value, replace(field.signals, agreed=True), words, page=field.page, box=field.box
            )
    return found


def _relation_fields(relation: Relation) -> tuple[str, ...]:
    parts = (getattr(relation, name, None) for name in ("left", "right", "result", "gross", "paid"))
    return tuple(part for part in parts if isinstance(part, str))


def _unit_scale(kind: DocumentKind, name: str, solved: Solution) -> float:
    lefts = {relation.left for relation in kind.relations if isinstance(relation, ProductRelation)}
    return solved.scale if name in lefts else 1.0


def _number_field(
    document: DocumentText,
    name: str,
    number: DistinctNumber,
    solved: Solution,
    every: Sequence[DistinctNumber],
    *,
    others: Sequence[Solution] = (),
    shape: str,
    scale: float = 1.0,
    unsigned: bool = False,
) -> FieldValue:
    place = number.place(name)
    label = number.score(name)
    rest = [each for each in every if each not in solved.chosen.values()]
    signals = ConfidenceSignals(
        "number",
        label,
        _lead_over_rivals(name, number, solved, others),
        agreed=name in solved.agreed,
        is_repeated=len(number.places) > 1,
        has_rival_value=shape == "amount"
        and any(_has_same_label(document, name, number, each) for each in rest),
        is_letter_spaced=document.lines[place.line].is_letter_spaced,
    )
    fit = number.fits.get(name)
    words = [fit.why if fit else "", solved.words.get(name, "")]
    amount = abs(place.number) if unsigned else place.number
    if place.decimals > 2 and shape == "amount":
        amount = round(amount, 2)
    if scale != 1.0:
        amount = (amount * Decimal(str(scale))).normalize()
        words.append(f"in units of the price: {place.number} x {scale:g}")
    return _field_value(
        amount,
        signals,
        "; ".join(filter(None, words)),
        **_position(document, place.line, place.start, place.end),
    )


def _lead_over_rivals(
    name: str,
    number: DistinctNumber,
    solved: Solution,
    others: Sequence[Solution],
) -> float:
    """Return the lead over the best solution in which this field is a different number."""
    behind = [
        way.score for way in others if (other := way.chosen.get(name)) is None or other.size != number.size
    ]
    return max(min(solved.score - max(behind, default=0.0), 1.0), 0.0)


def _has_same_label(document: DocumentText, name: str, one: DistinctNumber, other: DistinctNumber) -> bool:
    """Check whether two amounts have the same label on two lines, and the other fits no other field."""
    fits = (one.fits.get(name), other.fits.get(name))
    here = fits[1] and fits[1].value
    if any(
        field != name and fit.score >= _CERTAIN_SCORE and fit.value == here
        for field, fit in other.fits.items()
    ):
        return False
    if one.size == other.size or any(
        fit is None or fit.hit is None or fit.score < _CERTAIN_SCORE or not fit.why.startswith("right")
        for fit in fits
    ):
        return False
    hits = [fit.hit for fit in fits if fit and fit.hit]
    labels = {document.lines[hit.line].folded[hit.start : hit.end] for hit in hits}
    currencies = {fit.value.currency for fit in fits if fit}
    return len(labels) == len(currencies) == 1 and hits[0].line != hits[1].line


def _charge_fields(
    document: DocumentText,
    kind: DocumentKind,
    fits: Mapping[str, Sequence[FieldCandidate]],
    solved: Solution,
    every: Sequence[DistinctNumber],
    rates: Sequence[float],
) -> dict[str, FieldValue]:
    """Read the charges between the gross amount and the payment, as sums."""
    relation = next((each for each in kind.relations if isinstance(each, SettlementRelation)), None)
    summed = {name: fits[name] for name, field in kind.fields.items() if field.is_summed}
    found: dict[str, FieldValue] = {}
    for name, charge in charges.sum_charges(summed, relation, solved, every, rates).items():
        first = charge.amounts[0]
        # The payment proves that these amounts are charges, however far they are from their labels.
        label = 1.0 if charge.agreed else min(candidate.score for candidate in charge.amounts)
        signals = ConfidenceSignals(
            "sum", label, charge.margin, agreed=charge.agreed, is_repeated=len(charge.amounts) > 1
        )
        words = " + ".join(f"{abs(candidate.value.number)}" for candidate in charge.amounts)
        proof = "; it explains the payment" if charge.agreed else ""
        place = _position(document, first.value.line, first.value.start, first.value.end)
        found[name] = _field_value(charge.total, signals, f"{first.why}: {words}{proof}", **place)
    return found


def _best_number_field(
    document: DocumentText, name: str, field: FieldSpec, every: Sequence[DistinctNumber]
) -> FieldValue | None:
    best = max(every, key=lambda each: each.score(name), default=None)
    if best is None or best.score(name) <= 0:
        return None
    if not field.is_explicit:
        return _number_field(document, name, best, Solution(), every, shape=field.shape)
    if best.score(name) < _CERTAIN_SCORE or not best.fits[name].why.startswith("right"):
        return None
    lead = best.score(name) - max((each.score(name) for each in every if each is not best), default=0.0)
    return _number_field(document, name, best, Solution(score=lead), every, shape=field.shape)


def _other_field(
    context: LabelContext, name: str, field: FieldSpec, known: Mapping[str, FieldValue], issuer_name: str
) -> FieldValue | None:
    document = context.document
    match field.shape:
        case "isin" | "iban" | "vat_id":
            found = check_digit_selection.pick_by_check_digits(context, name, field, issuer_name)
        case "code":
            found = code_selection.pick_code(context, name)
        case "symbol":
            found = code_selection.pick_code(context, name, code_selection.SYMBOL)
        case "party":
            found = issuer.find_issuer(context, name)
        case "recipient":
            issuers = [each.value for each in known.values() if isinstance(each.value, str)]
            found = issuer.find_recipient(context, name, issuers)
        case "name":
            found = field_selection.pick_name(context, name)
        case "currency":
            amounts = {abs(each.value) for each in known.values() if isinstance(each.value, Decimal)}
            return _currency_field(context, known.get(field.related_fields), amounts)
        case "rates":
            return _tax_rate_field(context, known)
        case "lines":
            return _line_item_field(context)
        case _:
            return None
    picked = _picked_field(document, found, field.shape) if found else None
    return picked and _doubt_vat_id(context, name, picked, known, issuer_name)


def _doubt_vat_id(
    context: LabelContext,
    name: str,
    picked: FieldValue,
    known: Mapping[str, FieldValue],
    issuer_name: str,
) -> FieldValue:
    """Be no surer of one of several VAT IDs than of the issuer, whose it must be."""
    is_vat_id = context.shapes[name] == "vat_id"
    if not is_vat_id or not check_digit_selection.has_rivals(context, name):
        return picked
    sure = [each.confidence for each in known.values() if issuer_name and each.value == issuer_name]
    return replace(picked, confidence=min([picked.confidence, *sure]))


def _currency_field(
    context: LabelContext, of: FieldValue | None, amounts: AbstractSet[Decimal]
) -> FieldValue | None:
    found = currency_selection.pick_currency(context, of, amounts)
    if found is None:
        return None
    position = _position(context.document, found.at.line, found.at.start, found.at.end)
    return _field_value(found.at.content, found.signals, found.words, **position)


def _tax_rate_field(context: LabelContext, known: Mapping[str, FieldValue]) -> FieldValue | None:
    """Read the taxes by rate; rows that contradict the totals are left out."""
    net, vat, gross = (
        field.value if (field := known.get(name)) else None for name in ("net", "vat", "gross")
    )
    net = gross - vat if net is None and gross is not None and vat is not None else net
    vat = gross - net if vat is None and gross is not None and net is not None else vat
    if net is None or vat is None:
        rows, proven = table_extraction.find_tax_rows(context), False
    else:
        rows, proven = table_extraction.prove_tax_rows(context, net, vat), True
    if not rows:
        return None
    line = context.document.lines[rows[0].line]
    label = 1.0 if all(row.net is not None for row in rows) else 0.5
    signals = ConfidenceSignals("rates", label, 1.0 if proven else _UNRIVALLED_MARGIN, agreed=proven)
    words = "the taxes add up" if proven else "rows with a rate and its tax"
    value = tuple(VatAmount(row.rate, row.net, row.vat) for row in rows)
    return _field_value(value, signals, words, page=line.page, box=line.box(0, len(line.text)))


def _line_item_field(context: LabelContext) -> FieldValue | None:
    rows = table_extraction.find_line_items(context)
    if not rows:
        return None
    line = context.document.lines[rows[0].line]
    value = tuple(InvoiceLine(row.description, row.quantity, row.unit_price, row.amount) for row in rows)
    signals = ConfidenceSignals("lines", 1.0, _UNRIVALLED_MARGIN)
    return _field_value(
        value, signals, "quantity times price is the amount", page=line.page, box=line.box(0, len(line.text))
    )
