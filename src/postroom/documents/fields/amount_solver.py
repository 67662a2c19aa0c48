"""Assigns the numbers of a document to its amount fields, by labels and arithmetic.

The arithmetic: products, sums, and settlement (the amount paid, after fees, taxes and conversion). Works on
the candidates of `label_matching`. A matching product or sum is stronger evidence than any label. It returns
ranked solutions; `offline_reader` makes fields of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from postroom.documents.fields.label_matching import FieldCandidate
from postroom.documents.fields.settlement_solver import SettlementAmounts, solve_settlement
from postroom.documents.fields.solution import DistinctNumber, Solution, indexes_near
from postroom.documents.fields.value_parsing import ParsedValue
from postroom.documents.kinds.document_kind import (
    BalanceRelation,
    DocumentKind,
    ProductRelation,
    SettlementRelation,
    SumRelation,
)

_MAX_NUMBERS: Final = 120  # unlabelled numbers beyond these are ignored
_CERTAIN_SCORE: Final = 0.9  # a number with this score certainly belongs to the label
_WEAK_SCORE: Final = 0.5  # the best score of a weak label
_MAX_RATES: Final = 20  # exchange rates beyond these are ignored
_MAX_TAX_ROWS: Final = 8  # more rows with net, tax and gross amount are line items
_MAX_PLACES: Final = 200  # occurrences of one number


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
        for candidate in candidates:
            key = (abs(float(candidate.value.number)), candidate.value.percent)
            if key in best and (name not in best[key] or best[key][name].score < candidate.score):
                best[key][name] = candidate
    found = [
        DistinctNumber(
            size,
            max(each.decimals for each in positions),
            percent,
            tuple(positions[:_MAX_PLACES]),
            best[size, percent],
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
    rates = list(dict.fromkeys(rates))[:_MAX_RATES]
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
                amounts = SettlementAmounts(relation, all_numbers)
                ways = [
                    way.plus(more)
                    for way in ways
                    for more in solve_settlement(amounts, all_numbers, rates, way, direction)
                ]
            case BalanceRelation():
                continue
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
                for place in indexes_near(sizes, wanted, loose):
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
    """Yield products that involve an exchange rate. Only if the labels support them.

    The results are sorted by size.
    """
    sizes = [each.size for each in results]
    for left in (each for each in factors if each.score(names[0]) >= _WEAK_SCORE and not each.percent):
        for right in (each for each in factors if each.score(names[1]) >= _WEAK_SCORE and each is not left):
            for rate in {each for known in rates if known != 1 for each in (known, 1 / known)}:
                factor = 0.01 if right.percent else 1.0
                wanted = left.size * right.size * factor * rate
                for place in indexes_near(sizes, wanted, 0.011 + 0.0001 * wanted):
                    result = results[place]
                    off = abs(result.size - wanted)
                    if result.size > 1:
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
    sums = [
        (left, right, plain[place])
        for left, right in ((a, b) for a in plain for b in plain if a is not b)
        for place in indexes_near(sizes, left.size + right.size, 0.0051)
    ]
    totals = _find_row_totals(sums, rates)
    ways = [
        _choose_by_labels(names, plain),
        *(_untaxed_solution(names, each, nothing) for each in plain if each.score(names[2]) > 0),
    ]
    for left, right, result in sums:
        labels = sum(number.score(name) for name, number in zip(names, (left, right, result), strict=True))
        by_rate = any(abs(left.size * rate / 100 - right.size) <= 0.02 for rate in rates)
        by_rows = (round(left.size, 2), round(right.size, 2)) in totals
        worth = 0.4 + 0.12 * min(left.digits + right.digits, 8) + (0.6 if by_rate or by_rows else 0.0)
        worth += 0.5 if by_rows else 0.0
        parts = left.score(names[0]) + right.score(names[1])
        worth *= 1.0 if by_rate or by_rows or min(parts, labels) >= 0.4 else 0.3
        # Line items add up as well; but if any amount has the total's label, the total does.
        worth *= 0.3 if named and not result.score(names[2]) else 1.0
        words = f"{left.size:.2f} + {right.size:.2f} = {result.size:.2f}"
        agreed = names if by_rate or by_rows or labels > 1.2 else ()
        ways.append(
            Solution(
                dict(zip(names, (left, right, result), strict=True)),
                labels + worth,
                agreed,
                dict.fromkeys(names, words),
            )
        )
    return sorted(ways, key=lambda way: -way.score)[:25]


def _find_row_totals(
    sums: Sequence[tuple[DistinctNumber, DistinctNumber, DistinctNumber]], rates: Sequence[float]
) -> set[tuple[float, float]]:
    """Return the net amounts and taxes that rows of a tax table, each with its rate, add up to."""
    rows = {
        (round(left.size, 2), round(right.size, 2))
        for left, right, _ in sums
        if right.size and any(abs(left.size * rate / 100 - right.size) <= 0.02 for rate in rates)
    }
    if not 1 < len(rows) <= _MAX_TAX_ROWS:
        return set()
    return {
        (round(sum(net for net, _ in chosen), 2), round(sum(tax for _, tax in chosen), 2))
        for count in range(2, len(rows) + 1)
        for chosen in combinations(rows, count)
    }


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
