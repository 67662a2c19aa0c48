"""Assigns the numbers of a document to its amount fields, by labels and arithmetic.

The arithmetic: products, sums, and settlement (the amount paid, after fees, taxes and conversion). Works on
the candidates of `label_matching`. A matching product or sum is stronger evidence than any label. It returns
ranked solutions; `offline_reader` makes fields of them.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

from postroom.documents.fields import settlement
from postroom.documents.fields.label_matching import FieldCandidate
from postroom.documents.fields.value_parsing import ParsedValue
from postroom.documents.kinds.document_kind import (
    DocumentKind,
    ProductRelation,
    SettlementRelation,
    SumRelation,
)

_MAX_NUMBERS: Final = 120  # unlabelled numbers beyond these are ignored
_LIKELY_SCORE: Final = 0.6  # a number with this score probably belongs to the label
_CERTAIN_SCORE: Final = 0.9  # a number with this score certainly belongs to the label
_WEAK_SCORE: Final = 0.5  # the best score of a weak label
_MAX_FEE_SHARE: Final = 0.5  # fees and taxes are a smaller share of the worth
_MAX_FEES: Final = 7  # every combination of so many fees and taxes is tried


@dataclass(frozen=True, slots=True)
class DistinctNumber:
    """One number with all its positions, and its best candidate for each field."""

    size: float
    decimals: int
    percent: bool
    places: tuple[ParsedValue, ...]
    fits: Mapping[str, FieldCandidate]

    def score(self, name: str) -> float:
        found = self.fits.get(name)
        return found.score if found else 0.0

    def place(self, name: str) -> ParsedValue:
        found = self.fits.get(name)
        return found.value if found else self.places[0]

    @property
    def is_money(self) -> bool:
        sure = any(fit.score >= 0.8 and fit.value.currency for fit in self.fits.values())
        return (
            not self.percent and self.size > 0 and (sure or any(place.decimals <= 2 for place in self.places))
        )

    @property
    def digits(self) -> int:
        return len(f"{self.size:.6f}".rstrip("0").replace(".", "").strip("0")) or 1


@dataclass(frozen=True, slots=True)
class Solution:
    """Numbers assigned to fields, and the fields that arithmetic confirmed."""

    chosen: Mapping[str, DistinctNumber] = field(default_factory=dict[str, DistinctNumber])
    score: float = 0.0
    agreed: tuple[str, ...] = ()  # fields confirmed by arithmetic
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    scale: float = 1.0  # converts the left factor to the unit of the price

    def plus(self, other: "Solution") -> "Solution":
        return Solution(
            {**self.chosen, **other.chosen},
            self.score + other.score,
            tuple(dict.fromkeys((*self.agreed, *other.agreed))),
            {**self.words, **other.words},
            self.scale * other.scale,
        )


def collect_numbers(
    values: Sequence[ParsedValue], fits: Mapping[str, Sequence[FieldCandidate]]
) -> list[DistinctNumber]:
    """Collect the distinct numbers of a document, labelled ones first."""
    places: dict[tuple[float, bool], list[ParsedValue]] = {}
    for value in values:
        if value.shape == "number" and not value.rate:
            places.setdefault((abs(float(value.number)), value.percent), []).append(value)
    best: dict[tuple[float, bool], dict[str, FieldCandidate]] = {key: {} for key in places}
    for name, candidates in fits.items():
        for each in candidates:
            key = (abs(float(each.value.number)), each.value.percent)
            if key in best and (name not in best[key] or best[key][name].score < each.score):
                best[key][name] = each
    found = [
        DistinctNumber(
            size, max(each.decimals for each in positions), percent, tuple(positions), best[size, percent]
        )
        for (size, percent), positions in places.items()
    ]
    found.sort(key=lambda each: -max((fit.score for fit in each.fits.values()), default=0.0))
    return found[:_MAX_NUMBERS]


def solve(
    kind: DocumentKind,
    all_numbers: list[DistinctNumber],
    rates: Sequence[float],
    direction: Mapping[str, float],
) -> list[Solution]:
    """Return solutions for all fields in the kind's relations, the best first."""
    ways: list[Solution] = [Solution()]
    for relation in kind.relations:
        match relation:
            case ProductRelation():
                ways = [
                    way.plus(more) for way in ways for more in _solve_product(relation, all_numbers, rates)
                ]
            case SumRelation():
                ways = [way.plus(more) for way in ways for more in _solve_sum(relation, all_numbers)]
            case SettlementRelation():
                ways = [
                    way.plus(more)
                    for way in ways
                    for more in _solve_settlement(relation, all_numbers, rates, way, direction)
                ]
        ways = sorted(ways, key=lambda way: -way.score)[:40]
    return ways


def _choose_by_labels(names: Sequence[str], all_numbers: list[DistinctNumber]) -> Solution:
    """Choose every field by its labels alone."""
    chosen: dict[str, DistinctNumber] = {}
    ranked = sorted(
        ((each.score(name), place, name) for place, each in enumerate(all_numbers) for name in names),
        reverse=True,
    )
    for score, place, name in ranked:
        if score > 0 and name not in chosen and all_numbers[place] not in chosen.values():
            chosen[name] = all_numbers[place]
    return Solution(chosen, sum(number.score(name) for name, number in chosen.items()))


def _indexes_near(sizes: Sequence[float], wanted: float, within: float) -> Iterator[int]:
    place = bisect_left(sizes, wanted - within)
    while place < len(sizes) and sizes[place] <= wanted + within:
        yield place
        place += 1


def _solve_product(
    relation: ProductRelation, all_numbers: list[DistinctNumber], rates: Sequence[float]
) -> list[Solution]:
    names = (relation.left, relation.right, relation.result)
    results = sorted((each for each in all_numbers if each.is_money), key=lambda each: each.size)
    sizes = [each.size for each in results]
    ways = [_choose_by_labels(names, all_numbers)]
    factors = [each for each in all_numbers if each.size > 0]
    for left in factors:
        for right in factors:
            if not _may_multiply(names, left, right):
                continue
            for factor in (0.01,) if right.percent else (1.0, 0.01, 100.0):
                wanted = left.size * right.size * factor
                rounding = (
                    0.5 * factor * (left.size * 10.0**-right.decimals + right.size * 10.0**-left.decimals)
                )
                loose = min(rounding, 0.02 * wanted) + 0.0051
                if factor != 1 and not right.percent:
                    # Prices in hundredths and lots of a hundred count only if the labels support them.
                    loose = 0.0051 if min(left.score(names[0]), right.score(names[1])) >= 0.4 else -1.0
                for place in _indexes_near(sizes, wanted, loose):
                    result = results[place]
                    if factor != 1 and not result.score(names[2]) and result.digits < 3:
                        continue
                    if result is left or (result is right and (left.size != 1 or len(right.places) < 2)):
                        continue
                    way = _product_solution(names, (left, right, result), abs(result.size - wanted), factor)
                    ways.append(way)
    ways.extend(_converted_products(names, factors, results, rates))
    return sorted(ways, key=lambda way: -way.score)[:25]


def _converted_products(
    names: tuple[str, str, str],
    factors: Sequence[DistinctNumber],
    results: Sequence[DistinctNumber],
    rates: Sequence[float],
) -> Iterator[Solution]:
    """Yield products that involve an exchange rate. Only if the labels support them."""
    for left in (each for each in factors if each.score(names[0]) >= _WEAK_SCORE and not each.percent):
        for right in (each for each in factors if each.score(names[1]) >= _WEAK_SCORE and each is not left):
            for rate in {each for known in rates if known != 1 for each in (known, 1 / known)}:
                factor = 0.01 if right.percent else 1.0
                wanted = left.size * right.size * factor * rate
                for result in results:
                    off = abs(result.size - wanted)
                    if result.size > 1 and off <= 0.011 + 0.0001 * wanted:
                        way = _product_solution(names, (left, right, result), min(off, 0.0051), factor)
                        words = f"{left.size:g} x {right.size:g}, converted, = {result.size:.2f}"
                        yield replace(way, score=way.score - 0.1, words=dict.fromkeys(names, words))


def _may_multiply(names: tuple[str, str, str], left: DistinctNumber, right: DistinctNumber) -> bool:
    unlabelled = left.score(names[0]) + right.score(names[1]) == 0
    if left.percent or right is left or (unlabelled and left.digits + right.digits < 5):
        return False
    # An amount of money is converted at a rate, not bought at a price.
    return bool(left.score(names[0])) or not all(place.currency for place in left.places)


def _product_solution(
    names: tuple[str, str, str],
    parts: tuple[DistinctNumber, DistinctNumber, DistinctNumber],
    off: float,
    factor: float,
) -> Solution:
    left, right, result = parts
    labels = sum(number.score(name) for name, number in zip(names, parts, strict=True))
    tight = off <= 0.0051 or off <= 0.5 * 10.0**-result.decimals + 1e-9
    worth = 0.35 + 0.2 * min(left.digits + right.digits - 2, 2 * result.digits, 8)
    worth *= 1.0 if tight else 0.6 if off < 0.004 * result.size else 0.3
    worth *= 1.0 if labels >= 0.3 else 0.6
    worth *= 1.0 if factor == 1.0 or right.percent else 0.85
    if factor == 1.0 and (left.size == 1 or right.size == 1):
        worth *= 0.3
    words = f"{left.size:g} x {right.size:g} = {result.size:.2f}"
    # A price that was rounded for print is confirmed if the labels agree.
    rounded = (
        off < 0.004 * result.size
        and min(number.score(name) for name, number in zip(names, parts, strict=True)) >= 0.5
    )
    in_pence = factor < 1 and any(
        place.currency in {"GBP", "GBX"} for place in (*right.places, *result.places)
    )
    # A few digits may agree by chance: then both labels must agree too. A few cents are no evidence.
    is_evidence = left.digits + right.digits >= 4 or min(left.score(names[0]), right.score(names[1])) >= 0.5
    is_evidence = is_evidence and result.size > 1
    return Solution(
        dict(zip(names, parts, strict=True)),
        labels + worth,
        names if (tight and is_evidence) or rounded else (),
        dict.fromkeys(names, words),
        1.0 if in_pence else factor,
    )


def _solve_sum(relation: SumRelation, all_numbers: list[DistinctNumber]) -> list[Solution]:
    names = (relation.left, relation.right, relation.result)
    plain = sorted((each for each in all_numbers if _is_money(each)), key=lambda each: each.size)
    rates = [each.size for each in all_numbers if each.percent]
    sizes = [each.size for each in plain]
    named = any(each.score(names[2]) >= _CERTAIN_SCORE for each in plain)
    nothing = next((each for each in all_numbers if each.size == 0 and not each.percent), None)
    ways = [
        _choose_by_labels(names, plain),
        *(_untaxed_solution(names, each, nothing) for each in plain if each.score(names[2]) > 0),
    ]
    for left, right in ((a, b) for a in plain for b in plain if a is not b):
        for place in _indexes_near(sizes, left.size + right.size, 0.0051):
            result = plain[place]
            labels = sum(
                number.score(name) for name, number in zip(names, (left, right, result), strict=True)
            )
            by_rate = any(abs(left.size * rate / 100 - right.size) <= 0.02 for rate in rates)
            worth = 0.4 + 0.12 * min(left.digits + right.digits, 8) + (0.6 if by_rate else 0.0)
            parts = left.score(names[0]) + right.score(names[1])
            worth *= 1.0 if by_rate or min(parts, labels) >= 0.4 else 0.3
            # Line items add up as well; but if any amount has the total's label, the total does.
            worth *= 0.3 if named and not result.score(names[2]) else 1.0
            words = f"{left.size:.2f} + {right.size:.2f} = {result.size:.2f}"
            agreed = names if by_rate or labels > 1.2 else ()
            ways.append(
                Solution(
                    dict(zip(names, (left, right, result), strict=True)),
                    labels + worth,
                    agreed,
                    dict.fromkeys(names, words),
                )
            )
    return sorted(ways, key=lambda way: -way.score)[:25]


def _is_money(number: DistinctNumber) -> bool:
    written = any(place.decimals == 2 or place.currency for place in number.places)
    return number.is_money and (written or bool(number.fits))


def _untaxed_solution(
    names: tuple[str, str, str], number: DistinctNumber, nothing: DistinctNumber | None
) -> Solution:
    """Without tax, gross and net are the same number."""
    score = number.score(names[2]) + number.score(names[0]) + (0.15 if len(number.places) > 1 else -0.1)
    chosen = {names[0]: number, names[2]: number}
    if nothing and nothing.score(names[1]) >= 0.5:
        words = dict.fromkeys(names, f"{number.size:.2f} + 0.00 = {number.size:.2f}")
        return Solution({**chosen, names[1]: nothing}, score + nothing.score(names[1]) + 0.4, names, words)
    return Solution(chosen, score, (), {names[2]: "no tax is added"})


def _solve_settlement(
    relation: SettlementRelation,
    all_numbers: list[DistinctNumber],
    rates: Sequence[float],
    way: Solution,
    direction: Mapping[str, float],
) -> list[Solution]:
    money = [each for each in all_numbers if each.is_money]
    ways = [Solution({}, 0.0)]
    worth = way.chosen.get(relation.worth)
    rates = [rate for rate in rates if rate != 1]
    towards = direction.get("buy", 0.0) - direction.get("sell", 0.0)
    extras = [
        each for each in _fees_and_taxes(relation, money) if worth and each.size < _MAX_FEE_SHARE * worth.size
    ]
    reached = (
        _reachable_amounts(relation, worth, money, [*rates, *_unlabelled_rates(all_numbers, way)], towards)
        if worth
        else {}
    )
    last = max((each.place(relation.paid).line for each in money), default=0) or 1
    factors = [each for name, each in way.chosen.items() if name in way.agreed and each is not worth]
    for paid in (each for each in money if each not in factors):
        label = paid.score(relation.paid)
        best, how = reached.get(paid.size, (0.0, ""))
        best *= min(label / 0.8, 1.0) if paid is worth else 0.5 + min(label, 0.5)
        if label + best > 0:
            proven = best >= 0.85 or (best >= 0.4 and relation.worth in way.agreed)
            if paid is worth:
                # If a fee is charged, the worth is not the amount paid.
                proven = label > _WEAK_SCORE and relation.worth in way.agreed and not extras
            agreed = (relation.paid,) if proven else ()
            score = label + best + 0.1 * paid.place(relation.paid).line / last
            score -= 0.0 if worth is None or _is_plausible_payment(worth, paid, rates) else 0.6
            if label >= _WEAK_SCORE and (
                _is_converted_below(relation, paid, money, rates)
                or _has_stronger_label_below(relation, paid, money)
            ):
                score -= 0.8
            ways.append(Solution({relation.paid: paid}, score, agreed, {relation.paid: how} if how else {}))
    if worth and relation.worth in way.agreed:
        # Without any other candidate, the worth was paid.
        ways.append(
            Solution({relation.paid: worth}, 0.2, (), {relation.paid: "no other amount is labelled as paid"})
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
    changed = [paid.size * rate for rate in rates] + [paid.size / rate for rate in rates]
    return any(
        here.line < place.line <= ends.get(place.currency, -1)
        and any(abs(each.size - size) <= 0.011 + 0.00003 * size for size in changed)
        for each in money
        for place in each.places
    )


def _is_plausible_payment(worth: DistinctNumber, paid: DistinctNumber, rates: Sequence[float]) -> bool:
    """Check that fees and taxes would be a small share of the payment, in any currency."""
    same = [worth.size, *(worth.size * rate for rate in rates), *(worth.size / rate for rate in rates)]
    return any(0.6 * each - 30 <= paid.size <= 1.5 * each + 100 for each in same)


def _fees_and_taxes(relation: SettlementRelation, money: Sequence[DistinctNumber]) -> list[DistinctNumber]:
    def fits(each: DistinctNumber) -> float:
        return max(each.score(name) for name in relation.extras)

    some = [each for each in money if fits(each) >= 0.3 and fits(each) > each.score(relation.paid)]
    return sorted(some, key=lambda each: -fits(each))[:_MAX_FEES]


def _reachable_amounts(
    relation: SettlementRelation,
    worth: DistinctNumber,
    money: Sequence[DistinctNumber],
    rates: Sequence[float],
    towards: float,
) -> dict[float, tuple[float, str]]:
    """Return the amounts that fees, taxes and conversion lead to, each with its weight and explanation."""
    extras = _fees_and_taxes(relation, money)
    found: dict[float, tuple[float, str]] = {worth.size: (0.45, "equal to the gross amount")}
    bases = [worth]
    for _ in range(3):
        nexts: list[DistinctNumber] = []
        for base in bases:
            for each in money:
                if (
                    each.size in found
                    or each in extras
                    or each.place(relation.paid).line < base.place(relation.paid).line
                ):
                    continue
                explanation = _explain_difference(base, each, extras, rates, towards)
                if explanation:
                    found[each.size] = (found[base.size][0] * 0.3 + explanation[0], explanation[1])
                    nexts.append(each)
        bases = nexts
    for step in _settlement_steps(relation, worth, money, rates):
        right_side = step.changed or (step.size - worth.size) * towards >= 0
        explanation = (1.15 if step.changed else 0.95 if right_side else 0.5, step.words)
        found[step.size] = max(found.get(step.size, explanation), explanation)
    return found


def _settlement_steps(
    relation: SettlementRelation,
    worth: DistinctNumber,
    money: Sequence[DistinctNumber],
    rates: Sequence[float],
) -> Iterator[settlement.SettlementStep]:
    amounts = settlement.find_amounts([place for each in money for place in each.places])
    below = {each.line: each for each in amounts}
    yield from settlement.find_column_totals(worth.size, below, rates)
    interest = frozenset(
        each.place("accrued_interest").line for each in money if each.score("accrued_interest") >= 0.5
    )
    starts = {worth.place(relation.worth), *worth.places}
    for start in sorted(starts, key=lambda each: each.line)[:3]:
        before = sum(
            abs(float(below[line].number)) for line in interest if line < start.line and line in below
        )
        yield from settlement.find_row_total(start, amounts)
        for head in dict.fromkeys((0.0, before)):
            yield from settlement.find_running_totals(start, below, rates, interest, head=head)


def _explain_difference(
    base: DistinctNumber,
    each: DistinctNumber,
    extras: Sequence[DistinctNumber],
    rates: Sequence[float],
    towards: float,
) -> tuple[float, str] | None:
    off = each.size - base.size
    trust = 0.9 if off * towards >= 0 else 0.5
    for count in range(1, len(extras) + 1):
        for some in combinations(extras, count):
            if abs(sum(extra.size for extra in some) - abs(off)) <= 0.011:
                return trust, f"{base.size:.2f} {'+' if off > 0 else '-'} {abs(off):.2f} = {each.size:.2f}"
    if base.size > 1:
        for rate in rates:
            for changed in (base.size * rate, base.size / rate):
                if abs(changed - each.size) <= 0.011 + 0.00003 * each.size:
                    return 1.15, f"{base.size:.2f} converted at {rate:g} = {each.size:.2f}"
    return None
