"""Assigns the amount paid: which amount the gross amount, fees, taxes and exchange rates lead to.

`settlement` follows the lines of the document; `amount_solver` combines the result with the other amounts.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from postroom.documents.fields import settlement
from postroom.documents.fields.solution import DistinctNumber, Solution, indexes_near
from postroom.documents.kinds.document_kind import SettlementRelation

_LIKELY_SCORE: Final = 0.6  # a number with this score probably belongs to the label
_CERTAIN_SCORE: Final = 0.9  # a number with this score certainly belongs to the label
_WEAK_SCORE: Final = 0.5  # the best score of a weak label
_MAX_FEE_SHARE: Final = 0.5  # fees and taxes are a smaller share of the gross amount
_MAX_FEES: Final = 7  # every combination of this many fees and taxes is tried


class SettlementAmounts:
    """The amounts of money of a document, its fees and taxes, and the sums of any of these."""

    def __init__(self, relation: SettlementRelation, all_numbers: Sequence[DistinctNumber]) -> None:
        self.relation = relation
        self.money = [each for each in all_numbers if each.is_money]
        self.extras = _fees_and_taxes(relation, self.money)
        self.extra_sums = sorted(
            sum(extra.size for extra in some)
            for count in range(1, len(self.extras) + 1)
            for some in combinations(self.extras, count)
        )
        self.in_order = settlement.find_amounts([place for each in self.money for place in each.places])
        self.by_line = {each.line: each for each in self.in_order}


def solve_settlement(
    amounts: SettlementAmounts,
    all_numbers: list[DistinctNumber],
    rates: Sequence[float],
    way: Solution,
    direction: Mapping[str, float],
) -> list[Solution]:
    relation, money = amounts.relation, amounts.money
    ways = [Solution({}, 0.0)]
    gross = way.chosen.get(relation.gross)
    rates = [rate for rate in rates if rate != 1]
    towards = direction.get("buy", 0.0) - direction.get("sell", 0.0)
    extras = [each for each in amounts.extras if gross and each.size < _MAX_FEE_SHARE * gross.size]
    reached = (
        _reachable_amounts(amounts, gross, [*rates, *_unlabelled_rates(all_numbers, way)], towards)
        if gross
        else {}
    )
    last = max((each.place(relation.paid).line for each in money), default=0) or 1
    factors = [each for name, each in way.chosen.items() if name in way.agreed and each is not gross]
    for paid in (each for each in money if each not in factors):
        label = paid.score(relation.paid)
        best, how = reached.get(paid.size, (0.0, ""))
        best *= min(label / 0.8, 1.0) if paid is gross else 0.5 + min(label, 0.5)
        if label + best > 0:
            proven = best >= 0.85 or (best >= 0.4 and relation.gross in way.agreed)
            if paid is gross:
                # If a fee is charged, the gross amount is not the amount paid.
                is_stated = label > _WEAK_SCORE or (label == _WEAK_SCORE and len(paid.places) > 1)
                proven = is_stated and relation.gross in way.agreed and not extras
            agreed = (relation.paid,) if proven else ()
            score = label + best + 0.1 * paid.place(relation.paid).line / last
            score -= 0.0 if gross is None or _is_plausible_payment(gross, paid, rates) else 0.6
            if label >= _WEAK_SCORE and (
                _is_converted_below(relation, paid, money, rates)
                or _has_stronger_label_below(relation, paid, money)
            ):
                score -= 0.8
            ways.append(Solution({relation.paid: paid}, score, agreed, {relation.paid: how} if how else {}))
    if gross and relation.gross in way.agreed:
        # Without any other candidate, the gross amount was paid.
        ways.append(
            Solution({relation.paid: gross}, 0.2, (), {relation.paid: "no other amount is labelled as paid"})
        )
    return sorted(ways, key=lambda each: -each.score)[:6]


def _unlabelled_rates(numbers: list[DistinctNumber], solution: Solution) -> list[float]:
    """Numbers that may be exchange rates: many decimals, and no field that wants them."""
    return [
        number.size
        for number in numbers
        if number.decimals >= 4
        and number not in solution.chosen.values()
        and 0.01 < number.size < 200
        and max((fit.score for fit in number.fits.values()), default=0.0) < _LIKELY_SCORE
    ]


def _has_stronger_label_below(
    relation: SettlementRelation, paid: DistinctNumber, money: Sequence[DistinctNumber]
) -> bool:
    """Check whether the amount has a weak label (as before taxes) and one below it a strong one."""
    here = paid.place(relation.paid)
    return paid.score(relation.paid) <= _WEAK_SCORE and any(
        each.score(relation.paid) >= _CERTAIN_SCORE
        and (place := each.place(relation.paid)).line > here.line
        and place.currency == here.currency
        and _is_plausible_payment(paid, each, ())
        for each in money
    )


def _is_converted_below(
    relation: SettlementRelation,
    paid: DistinctNumber,
    money: Sequence[DistinctNumber],
    rates: Sequence[float],
) -> bool:
    """Check whether the amount is converted below, and an amount in that currency is labelled as paid."""
    here = paid.place(relation.paid)
    ends = {
        place.currency: place.line
        for each in money
        if each.score(relation.paid) >= 0.3
        for place in (each.place(relation.paid),)
        if place.line > here.line and place.currency not in {None, here.currency}
    }
    if not ends:
        return False
    converted = _Conversions(paid.size, rates)
    return any(
        here.line < place.line <= ends.get(place.currency, -1)
        for each in money
        if converted.find_rate(each.size) is not None
        for place in each.places
    )


class _Conversions:
    """An amount at each of the exchange rates, in both directions."""

    def __init__(self, size: float, rates: Sequence[float]) -> None:
        self._places = sorted(
            (changed, place) for place, rate in enumerate(rates) for changed in (size * rate, size / rate)
        )
        self._sizes = [changed for changed, _ in self._places]
        self._rates = rates

    def find_rate(self, size: float) -> float | None:
        """Return the first rate that leads to this amount."""
        near = indexes_near(self._sizes, size, 0.011 + 0.00003 * size)
        place = min((self._places[each][1] for each in near), default=None)
        return None if place is None else self._rates[place]


def _is_plausible_payment(gross: DistinctNumber, paid: DistinctNumber, rates: Sequence[float]) -> bool:
    """Check that fees and taxes would be a small share of the payment, in any currency."""
    same = [gross.size, *(gross.size * rate for rate in rates), *(gross.size / rate for rate in rates)]
    return any(0.6 * each - 30 <= paid.size <= 1.5 * each + 100 for each in same)


def _fees_and_taxes(relation: SettlementRelation, money: Sequence[DistinctNumber]) -> list[DistinctNumber]:
    def fits(each: DistinctNumber) -> float:
        return max(each.score(name) for name in relation.extras)

    some = [each for each in money if fits(each) >= 0.3 and fits(each) > each.score(relation.paid)]
    return sorted(some, key=lambda each: -fits(each))[:_MAX_FEES]


def _reachable_amounts(
    amounts: SettlementAmounts,
    gross: DistinctNumber,
    rates: Sequence[float],
    towards: float,
) -> dict[float, tuple[float, str]]:
    """Return the amounts that fees, taxes and conversion lead to, each with its weight and explanation."""
    paid = amounts.relation.paid
    found: dict[float, tuple[float, str]] = {gross.size: (0.45, "equal to the gross amount")}
    bases = [gross]
    for _ in range(3):
        nexts: list[DistinctNumber] = []
        for base in bases:
            conversions = _Conversions(base.size, rates if base.size > 1 else ())
            for amount in amounts.money:
                if (
                    amount.size in found
                    or amount in amounts.extras
                    or amount.place(paid).line < base.place(paid).line
                ):
                    continue
                explanation = _explain_difference(base, amount, amounts.extra_sums, conversions, towards)
                if explanation:
                    found[amount.size] = (found[base.size][0] * 0.3 + explanation[0], explanation[1])
                    nexts.append(amount)
        bases = nexts
    for step in _settlement_steps(amounts, gross, rates):
        right_side = step.changed or (step.size - gross.size) * towards >= 0
        explanation = (1.15 if step.changed else 0.95 if right_side else 0.5, step.words)
        found[step.size] = max(found.get(step.size, explanation), explanation)
    return found


def _settlement_steps(
    amounts: SettlementAmounts, gross: DistinctNumber, rates: Sequence[float]
) -> Iterator[settlement.SettlementStep]:
    below = amounts.by_line
    yield from settlement.find_column_totals(gross.size, below, rates)
    interest = frozenset(
        each.place("accrued_interest").line for each in amounts.money if each.score("accrued_interest") >= 0.5
    )
    starts = {gross.place(amounts.relation.gross), *gross.places}
    for start in sorted(starts, key=lambda each: each.line)[:3]:
        before = sum(
            abs(float(below[line].number)) for line in interest if line < start.line and line in below
        )
        yield from settlement.find_row_total(start, amounts.in_order)
        for head in dict.fromkeys((0.0, before)):
            yield from settlement.find_running_totals(start, below, rates, interest, head=head)


def _explain_difference(
    base: DistinctNumber,
    each: DistinctNumber,
    extra_sums: Sequence[float],
    conversions: _Conversions,
    towards: float,
) -> tuple[float, str] | None:
    off = each.size - base.size
    if any(True for _ in indexes_near(extra_sums, abs(off), 0.011)):
        trust = 0.9 if off * towards >= 0 else 0.5
        return trust, f"{base.size:.2f} {'+' if off > 0 else '-'} {abs(off):.2f} = {each.size:.2f}"
    rate = conversions.find_rate(each.size)
    return (1.15, f"{base.size:.2f} converted at {rate:g} = {each.size:.2f}") if rate else None
