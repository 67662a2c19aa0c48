"""Finds the amounts that lead from the gross amount of a trade to the amount paid, line by line.

This needs no labels: the amounts between the two are added, subtracted or converted, or the result does not
match. Works on the numbers of `amount_solver` and does not choose.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from postroom.documents.fields.value_parsing import ParsedValue

_MAX_LINES_BELOW: Final = 30  # below the line of the gross amount
_MAX_FEE_SHARE: Final = 0.6  # a larger share is neither a fee nor a tax
_CENT_TOLERANCE: Final = 0.011
_MAX_ROWS: Final = 10


@dataclass(frozen=True, slots=True)
class SettlementStep:
    """An amount that was reached, whether a conversion led to it, and an explanation."""

    size: float
    changed: bool
    words: str


@dataclass(frozen=True, slots=True)
class _RunningTotal:
    """A running total, and how it takes lines: signed or absolute, added or subtracted."""

    as_written: bool
    sign: int
    total: float
    steps: int = 0
    changed: bool = False


def find_amounts(values: Sequence[ParsedValue]) -> list[ParsedValue]:
    """Return the amounts of money in reading order."""
    found = [
        value
        for value in values
        if value.likely and not (value.percent or value.rate) and (value.decimals == 2 or value.currency)
    ]
    return sorted(found, key=lambda each: (each.line, each.start))


def find_row_total(gross: ParsedValue, amounts: Sequence[ParsedValue]) -> Iterator[SettlementStep]:
    """Yield the last amount in the line of the gross amount if the amounts between add up to it."""
    row = [
        abs(float(each.number)) for each in amounts if each.line == gross.line and each.start > gross.start
    ]
    if len(row) > 1 and any(
        row[-1] > 0 and abs(abs(float(gross.number)) + sign * sum(row[:-1]) - row[-1]) <= _CENT_TOLERANCE
        for sign in (1, -1)
    ):
        words = " and ".join(f"{each:.2f}" for each in (abs(float(gross.number)), *row[:-1]))
        yield SettlementStep(row[-1], changed=False, words=f"{words} add up to {row[-1]:.2f}")


def find_column_totals(
    gross: float, below: Mapping[int, ParsedValue], rates: Sequence[float]
) -> Iterator[SettlementStep]:
    """Yield sums of the rows above, one of which is the gross amount or its conversion."""
    same = {gross, *(gross * rate for rate in rates), *(gross / rate for rate in rates)}
    rows = [float(below[line].number) for line in sorted(below)]
    stated = [
        any(abs(abs(amount) - each) <= _CENT_TOLERANCE + 0.00003 * each for each in same) for amount in rows
    ]
    for end, last in enumerate(rows):
        wanted, total, is_stated, changed = abs(last), 0.0, False, False
        for place in range(end - 1, max(end - _MAX_ROWS, -1), -1):
            amount = rows[place]
            total += amount
            here = stated[place]
            is_stated, changed = (
                is_stated or here,
                changed or (here and abs(abs(amount) - gross) > _CENT_TOLERANCE),
            )
            if end - place > 1 and is_stated and wanted > 1 and abs(abs(total) - wanted) <= _CENT_TOLERANCE:
                yield SettlementStep(
                    wanted, changed, f"the sum of the {end - place} rows above is {wanted:.2f}"
                )


def find_running_totals(
    gross: ParsedValue,
    below: Mapping[int, ParsedValue],
    rates: Sequence[float],
    interest: frozenset[int],
    *,
    head: float = 0.0,
) -> Iterator[SettlementStep]:
    """Yield every amount below the gross amount that a running total reaches.

    Amounts on the lines of `interest` are always added, and so is `head`, which is above the gross amount.
    """
    start = float(gross.number)
    start += head if start >= 0 else -head
    for as_written, sign in ((True, 1), (True, -1), (False, 1), (False, -1)):
        sum_ = _RunningTotal(as_written, sign, start if as_written else abs(start))
        for line in range(gross.line + 1, gross.line + _MAX_LINES_BELOW):
            if line not in below:
                continue
            amount = float(below[line].number)
            sum_, arrived = _advance(sum_, amount, rates, adds=line in interest)
            if arrived and sum_.steps:
                words = f"the running total from {abs(start):.2f} reaches {abs(amount):.2f}"
                yield SettlementStep(abs(amount), sum_.changed, words)


def _advance(
    sum_: _RunningTotal, amount: float, rates: Sequence[float], *, adds: bool
) -> tuple[_RunningTotal, bool]:
    total = abs(sum_.total)
    if abs(abs(amount) - total) <= _CENT_TOLERANCE:
        return sum_, True
    for rate in rates if total > 1 else ():
        if any(
            abs(each - abs(amount)) <= _CENT_TOLERANCE + 0.00003 * abs(amount)
            for each in (total * rate, total / rate)
        ):
            size = abs(amount) if sum_.total >= 0 else -abs(amount)
            return replace(sum_, total=size, steps=sum_.steps + 1, changed=True), True
    if not 0 < abs(amount) <= _MAX_FEE_SHARE * total:
        return sum_, False
    part = sum_.sign * (amount if sum_.as_written else abs(amount))
    if adds:
        part = abs(amount) if sum_.total >= 0 else -abs(amount)
    return replace(sum_, total=sum_.total + part, steps=sum_.steps + 1), False
