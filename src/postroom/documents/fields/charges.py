"""Adds up fees, taxes and accrued interest, and proves the sums by payment minus gross amount.

Labels alone do not prove charges: documents repeat them in another currency, list them beside their sum, or
name charges that are not part of this payment.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from postroom.documents.fields.label_matching import FieldCandidate
from postroom.documents.fields.solution import DistinctNumber, Solution
from postroom.documents.kinds.document_kind import SettlementRelation

_INTEREST: Final = "accrued_interest"  # always paid to the seller
_LIKELY_SCORE: Final = 0.5  # an amount with this score probably belongs to the label
_MIN_SCORE: Final = 0.25  # an amount with this score counts if the sum is right
_MAX_LINES: Final = 12
_MAX_AMOUNTS: Final = 3  # of one line
_MAX_CHOICES: Final = 1000
_CENT: Final = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class ChargeSum:
    """The amounts that belong to a field, their sum, and whether the payment confirms it."""

    amounts: tuple[FieldCandidate, ...]
    total: Decimal
    agreed: bool
    margin: float = 0.0  # the lead over another choice of amounts that the payment confirms too


@dataclass(frozen=True, slots=True)
class _Choice:
    """Amounts chosen from the lines so far, and how well they fit their labels."""

    score: float = 0.0
    amounts: tuple[tuple[str, FieldCandidate, Decimal], ...] = ()

    def sums(self) -> dict[str, Decimal]:
        found: dict[str, Decimal] = defaultdict(Decimal)
        for name, _, amount in self.amounts:
            found[name] += amount
        return dict(found)


def sum_charges(
    fits: Mapping[str, Sequence[FieldCandidate]],
    relation: SettlementRelation | None,
    solved: Solution,
    all_numbers: Sequence[DistinctNumber],
    rates: Sequence[float],
) -> dict[str, ChargeSum]:
    """Sum the charges of each field, proven by the payment if possible, else by their labels."""
    gross, paid = (
        (solved.chosen.get(relation.gross), solved.chosen.get(relation.paid)) if relation else (None, None)
    )
    if relation and gross and paid:
        payment = paid.place(relation.paid)
        lines = _alternatives(fits, payment.currency)
        starts = (
            [] if _has_foreign_charges(fits, payment.currency) else _conversions(gross, all_numbers, rates)
        )
        for start in [gross, *starts]:
            known = abs(start.place(relation.gross).number)
            if proven := _explain(lines, abs(payment.number) - known):
                return _to_sums(proven)
    return _sum_labelled(fits)


def _has_foreign_charges(fits: Mapping[str, Sequence[FieldCandidate]], currency: str | None) -> bool:
    """Check for charges that may have been part of an amount before it was converted."""
    return any(
        each.score >= _LIKELY_SCORE and each.value.number and each.value.currency not in {None, currency}
        for candidates in fits.values()
        for each in candidates
    )


def _conversions(
    gross: DistinctNumber, all_numbers: Sequence[DistinctNumber], rates: Sequence[float]
) -> list[DistinctNumber]:
    """Return the amounts that are the gross amount at one of the exchange rates."""
    sizes = [size for rate in rates if rate != 1 for size in (gross.size * rate, gross.size / rate)]
    return [
        each
        for each in all_numbers
        if each.is_money
        and each is not gross
        and any(abs(each.size - size) <= 0.011 + 0.00003 * size for size in sizes)
    ]


def _to_sums(proven: Sequence[_Choice]) -> dict[str, ChargeSum]:
    best, *others = sorted(proven, key=lambda each: -each.score)
    sums = best.sums()
    rival = max((each.score for each in others if each.sums() != sums), default=0.0)
    return {
        name: ChargeSum(
            tuple(each for field, each, _ in best.amounts if field == name),
            total.quantize(_CENT),
            agreed=True,
            margin=min(best.score - rival, 1.0),
        )
        for name, total in sums.items()
    }


def _alternatives(
    fits: Mapping[str, Sequence[FieldCandidate]], currency: str | None
) -> list[list[tuple[str, FieldCandidate]]]:
    """Return the amounts of each line that may be a charge, each with the field that it fits best."""
    best: dict[tuple[int, int], tuple[str, FieldCandidate]] = {}
    for name, candidates in fits.items():
        for candidate in candidates:
            place = candidate.value.line, candidate.value.start
            fitting = candidate.score >= _MIN_SCORE and currency in {
                None,
                candidate.value.currency or currency,
            }
            if fitting and (place not in best or best[place][1].score < candidate.score):
                best[place] = name, candidate
    lines: dict[int, list[tuple[str, FieldCandidate]]] = defaultdict(list)
    for name, candidate in sorted(best.values(), key=lambda found: -found[1].score):
        if len(lines[candidate.value.line]) < _MAX_AMOUNTS:
            lines[candidate.value.line].append((name, candidate))
    return list(lines.values())[:_MAX_LINES]


def _explain(lines: Sequence[Sequence[tuple[str, FieldCandidate]]], difference: Decimal) -> list[_Choice]:
    """Return the choices, at most one amount of each line, that lead from the gross amount to the payment."""
    every = [each for here in lines for each in here]
    if not difference:
        none = _Choice(1.0, tuple((name, each, Decimal(0)) for name, each in every))
        return [] if any(each.value.number for _, each in every) else [none]
    for rebate_sign in (0, -1, 1):
        choices = _list_choices(lines, rebate_sign)
        if found := [each for each in choices if _leads_to(each.sums(), difference)]:
            return found
    return []


def _list_choices(lines: Sequence[Sequence[tuple[str, FieldCandidate]]], rebate_sign: int) -> list[_Choice]:
    """List the best choices; an amount with the sign of a rebate is deducted from the charges."""
    choices = [_Choice()]
    for here in lines:
        more = [
            _Choice(
                choice.score + each.score,
                (*choice.amounts, (name, each, -size if each.value.number * rebate_sign > 0 else size)),
            )
            for choice in choices
            for name, each in here
            if (size := abs(each.value.number))
        ]
        choices = sorted([*choices, *more], key=lambda each: -each.score)[:_MAX_CHOICES]
    return choices


def _leads_to(sums: Mapping[str, Decimal], difference: Decimal) -> bool:
    interest = sums.get(_INTEREST, Decimal(0))
    charges = sum(sums.values(), Decimal(0)) - interest
    return charges >= 0 and abs(abs(difference - interest) - charges) <= _CENT


def _sum_labelled(fits: Mapping[str, Sequence[FieldCandidate]]) -> dict[str, ChargeSum]:
    """Add up the amounts right of the labels, one per line."""
    found: dict[str, ChargeSum] = {}
    for name, candidates in fits.items():
        lines: dict[int, FieldCandidate] = {}
        for candidate in candidates:
            if candidate.score < _LIKELY_SCORE or not candidate.why.startswith("right"):
                continue
            if candidate.value.line not in lines or lines[candidate.value.line].score < candidate.score:
                lines[candidate.value.line] = candidate
        if lines:
            total = sum((abs(each.value.number) for each in lines.values()), Decimal(0))
            found[name] = ChargeSum(tuple(lines.values()), total, agreed=False)
    return found
