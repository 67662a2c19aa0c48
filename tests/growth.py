"""Shows that work grows in proportion to its input: compares CPU times, never with a fixed limit."""

import signal
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TypeVar

STEPS = 16  # how much larger the second input is
MOST = 80  # times the CPU of the first input; linear work needs about 16, quadratic about 256
_MEASURABLE = 0.002  # CPU seconds; less than this is noise
_LARGEST = 1 << 16  # quadratic work would be measurable long before
_REPEATS = 3

Input = TypeVar("Input")


def assert_linear(make: Callable[[int], Input], run: Callable[[Input], object], start: int = 64) -> None:
    """Fail if `run(make(16 * n))` costs much more than sixteen times the CPU of `run(make(n))`.

    `n` grows from `start` until the work is measurable. Exponential work fails on the way.
    """
    size, before = start, 20 * _MEASURABLE
    while (spent := _measure(run, make(size), at_most=MOST * before)) < _MEASURABLE:
        size, before = size * 2, max(spent, _MEASURABLE)
        if size > _LARGEST:
            return
    _measure(run, make(STEPS * size), at_most=MOST * spent)


def _measure(run: Callable[[Input], object], given: Input, *, at_most: float) -> float:
    """The CPU seconds of the fastest of several runs, one of which must need less than `at_most`."""
    spent: list[float] = []
    for _ in range(_REPEATS):
        begun = time.process_time()
        try:
            with _cpu_limit(at_most):
                run(given)
        except _TooSlowError:
            continue
        spent.append(time.process_time() - begun)
        if spent[-1] > 10 * _MEASURABLE:
            break  # long enough to be exact
    assert spent, f"more than {at_most:.3f} CPU seconds: not linear"
    return min(spent)


class _TooSlowError(Exception):
    """The run was interrupted."""


@contextmanager
def _cpu_limit(seconds: float):
    def interrupt(*_: object) -> None:
        raise _TooSlowError

    previous = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
