"""Scales with round ticks, bars that stay visible, lines that are interrupted where there is no value."""

import pytest

from postroom.web import charts
from postroom.web.formats import DEFAULT

FLOOR = charts.HEIGHT - charts.BOTTOM


@pytest.mark.parametrize(
    "values, labels",
    [
        ([0, 0], ["0", "1"]),
        ([0, 1, 2], ["0", "1", "2"]),
        ([3, 5, 4], ["0", "3", "6"]),
        ([412, 300], ["0", "300", "600"]),
        ([9000, 7000], ["0", "5,000", "10,000"]),
        ([1, 2, 1, 900], ["1", "10", "100", "1,000"]),
    ],
)
def test_counts_have_round_ticks(values, labels):
    assert [tick.label for tick in charts.scale_counts(values, DEFAULT).ticks] == labels


@pytest.mark.parametrize(
    "values, labels",
    [
        ([], ["0", "500 ms", "1 s"]),
        ([0.4, 0.3], ["0", "250 ms", "500 ms"]),
        ([70, 90], ["0", "1 min", "2 min"]),
        ([0.1, 11], ["100 ms", "2 s", "20 s"]),
        ([4e8], ["0", "2,315 d", "4,630 d"]),
    ],
)
def test_durations_have_round_ticks(values, labels):
    assert [tick.label for tick in charts.scale_seconds(values, DEFAULT).ticks] == labels


def test_one_spike_does_not_hide_the_rest():
    values = [4, 5, 6, 1000]
    heights = [bar.height for bar in charts.build_bars(charts.scale_counts(values, DEFAULT), values)]
    assert min(heights) > 20


@pytest.mark.parametrize("values", [[1, 100_000], [1, 1, 1, 100_000]])
def test_every_bar_is_visible_and_inside_the_chart(values):
    bars = charts.build_bars(charts.scale_counts(values, DEFAULT), values)
    assert len(bars) == len(values)
    assert all(bar.y >= charts.TOP and bar.height >= 2 and bar.y + bar.height == FLOOR for bar in bars)


def test_zero_has_no_bar():
    assert charts.build_bars(charts.scale_counts([0, 3], DEFAULT), [0, 3])[0].x > charts.WIDTH / 2


def test_a_line_is_interrupted_where_there_is_no_value():
    values = [1, 2, None, 3, None, 4, 5]
    series = charts.build_series("p50", charts.scale_seconds([1, 5], DEFAULT), values)
    assert [line.count(",") for line in series.lines] == [2, 2]
    assert len(series.dots) == 1
