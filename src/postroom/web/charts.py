"""Charts as SVG geometry: a scale with round ticks, bars or lines, and a text for each interval.

A template draws them; `charts.js` shows the text of the interval under the pointer. No data is read here.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from postroom.web.formats import Formats

WIDTH: Final = 380
HEIGHT: Final = 150
LEFT: Final = 52
RIGHT: Final = 4
TOP: Final = 8
BOTTOM: Final = 20
_FLOOR: Final = HEIGHT - BOTTOM
# If one value is so many times the usual one, the others would not be visible on a linear scale.
_SPIKE: Final = 20
_MIN_BAR: Final = 2

_ROUND_SECONDS: Final = (
    *(factor * power for power in (0.001, 0.01, 0.1, 1) for factor in (1, 2, 5)),
    *(10, 20, 30, 60, 120, 300, 600, 1200, 1800),
    *(3600 * hours for hours in (1, 2, 4, 6, 12, 24, 48, 120, 240, 480, 960, 2400)),
)


@dataclass(frozen=True, slots=True)
class Tick:
    position: float
    label: str


@dataclass(frozen=True, slots=True)
class ChartScale:
    """The vertical axis: from zero, or logarithmic from a lowest value."""

    top: float
    lowest: float | None  # None if linear
    ticks: Sequence[Tick]

    def place(self, value: float) -> float:
        """The y coordinate of a value."""
        if self.lowest is None:
            share = value / self.top
        elif value <= self.lowest:
            share = 0
        else:
            share = math.log(value / self.lowest) / math.log(self.top / self.lowest)
        return round(_FLOOR - min(share, 1) * (_FLOOR - TOP), 1)


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a chart. Intervals without a value interrupt it; a value between two of them is a dot."""

    name: str
    lines: Sequence[str]  # the points of each uninterrupted part
    dots: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, ready to be drawn, with its main figure and a summary."""

    id: str
    title: str
    figure: str
    unit: str
    summary: str
    scale: ChartScale
    slots: Sequence[tuple[float, float, str]]  # x, width and text of each interval
    bars: Sequence[Bar] = ()
    series: Sequence[Series] = ()


def scale_counts(values: Sequence[float], formats: Formats) -> ChartScale:
    """A scale for whole numbers."""
    highest = max(values, default=0)
    if _has_spike(values):
        powers = [10**power for power in range(math.ceil(math.log10(highest)) + 1)]
        return _log_scale(0.5, powers, formats.count)
    top = _round_count(highest)
    middle = [top / 2] if top % 2 == 0 else []
    return _linear_scale([0, *middle, top], formats.count)


def scale_seconds(values: Sequence[float], formats: Formats) -> ChartScale:
    """A scale for durations."""
    highest = max(values, default=0) or 1
    top = next((each for each in _ROUND_SECONDS if each >= highest), highest)
    lowest = min((each for each in values if each > 0), default=top)
    if highest > _SPIKE * lowest:
        bottom = max((each for each in _ROUND_SECONDS if each <= lowest), default=_ROUND_SECONDS[0])
        middle = min(_ROUND_SECONDS, key=lambda each: abs(math.log(each / math.sqrt(bottom * top))))
        return _log_scale(bottom, [bottom, middle, top], formats.seconds)
    return _linear_scale([0, top / 2, top], formats.seconds)


def scale_shares() -> ChartScale:
    """A scale from nothing to all."""
    return _linear_scale([0, 0.5, 1], lambda value: f"{value:.0%}")


def place_slots(texts: Sequence[str]) -> list[tuple[float, float, str]]:
    """The columns of the intervals, as wide as the chart allows."""
    width = (WIDTH - LEFT - RIGHT) / len(texts)
    return [(round(LEFT + width * at, 2), round(width, 2), text) for at, text in enumerate(texts)]


def build_bars(scale: ChartScale, values: Sequence[float]) -> list[Bar]:
    """A bar for each value above zero. It is never too low to be seen."""
    bars: list[Bar] = []
    for value, (x, width, _) in zip(values, place_slots([""] * len(values)), strict=True):
        if value > 0:
            y = min(scale.place(value), _FLOOR - _MIN_BAR)
            bars.append(Bar(round(x + width * 0.1, 2), y, round(width * 0.8, 2), round(_FLOOR - y, 1)))
    return bars


def build_series(name: str, scale: ChartScale, values: Sequence[float | None]) -> Series:
    lines: list[str] = []
    dots: list[tuple[float, float]] = []
    run: list[tuple[float, float]] = []
    slots = place_slots([""] * len(values))
    for value, (x, width, _) in [*zip(values, slots, strict=True), (None, (0, 0, ""))]:
        if value is not None:
            run.append((round(x + width / 2, 1), scale.place(value)))
            continue
        if len(run) == 1:
            dots += run
        elif run:
            lines.append(" ".join(f"{x},{y}" for x, y in run))
        run = []
    return Series(name, lines, dots)


def _has_spike(values: Sequence[float]) -> bool:
    usual = [each for each in values if each > 0]
    return len(usual) > 2 and max(usual) > _SPIKE * median(usual)


def _round_count(highest: float) -> int:
    """The next round number: 1, 2, 4 or 6 times a power of ten, or 10."""
    power = 10 ** max(math.floor(math.log10(highest)), 0) if highest > 0 else 1
    return next(factor * power for factor in (1, 2, 4, 6, 8, 10) if factor * power >= highest)


def _linear_scale(values: Sequence[float], describe: Callable[[float], str]) -> ChartScale:
    scale = ChartScale(values[-1], None, ())
    return ChartScale(scale.top, None, [Tick(scale.place(each), describe(each)) for each in values])


def _log_scale(lowest: float, values: Sequence[float], describe: Callable[[float], str]) -> ChartScale:
    scale = ChartScale(values[-1], lowest, ())
    return ChartScale(scale.top, lowest, [Tick(scale.place(each), describe(each)) for each in values])
