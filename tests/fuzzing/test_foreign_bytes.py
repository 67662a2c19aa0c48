"""A million mutated inputs for the readers of foreign bytes: no crash outside a child, no slow input.

`FUZZ_INPUTS` sets how many inputs each reader gets. `pytest -rP` prints the slowest input of each.
"""

import multiprocessing
import os
import statistics
import time
from multiprocessing.connection import Connection

import pytest

from fuzzing.mutations import mutate
from fuzzing.targets import FuzzTarget, build_targets

TARGETS = ("mime", "addresses", "detection", "push", "token", "identity", "xml", "zip", "pdf", "html")
INPUTS = int(os.environ.get("FUZZ_INPUTS") or 1_000_000 // len(TARGETS) + 1)
SLOWEST = 50  # times the usual CPU time per byte
_SMALLEST = 500  # bytes; below, the time does not depend on the size
_SAMPLE = 500  # inputs that give the median
pytestmark = pytest.mark.soak


def measure(target: FuzzTarget, content: bytes) -> float:
    """The CPU seconds per byte. Raises what the target may not raise."""
    begun = time.process_time()
    try:
        target.run(content)
    except target.allowed:
        pass
    except Exception:
        if not target.in_child:
            raise
    return (time.process_time() - begun) / max(len(content), _SMALLEST)


def feed(name: str, first: int, reports: Connection) -> None:
    """Feed inputs from a number on, in a process of its own, and report each before it is read."""
    target = build_targets()[name]
    contents = [mutate(target.samples, seed) for seed in range(_SAMPLE)]
    # A reader soon gives up most mutated inputs, so a valid one may be far slower than their median.
    usual = max(
        statistics.median(measure(target, content) for content in each) for each in (contents, target.samples)
    )
    slowest = 0.0
    for seed in range(first, INPUTS):
        content = mutate(target.samples, seed)
        if seed % 100 == 0 or target.in_child:
            reports.send(("at", seed, ""))
        try:
            ratio = measure(target, content) / usual
            # Several times, in case another process was to blame.
            if ratio > slowest:
                ratio = min(ratio, *(measure(target, content) / usual for _ in range(5)))
        except Exception as error:  # noqa: BLE001  # reported with its seed
            reports.send(("error", seed, repr(error)))
            continue
        if ratio > slowest:
            slowest = ratio
            reports.send(("slowest", seed, str(ratio)))
        if ratio > SLOWEST:
            reports.send(("slow", seed, f"{len(content)} bytes"))
    reports.send(("end", INPUTS, ""))


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_crashes_or_slows_a_reader(name):
    target, found, first, crashes, slowest = build_targets()[name], [], 0, 0, [(0.0, 0)]
    while first < INPUTS:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=feed, args=(name, first, sender))
        process.start()
        sender.close()
        last = first
        while True:
            try:
                what, last, detail = receiver.recv()
            except EOFError:
                break
            if what == "slowest":
                slowest.append((float(detail), last))
            if what in {"slow", "error"}:
                found.append((what, last, detail))
        process.join()
        if process.exitcode:
            crashes += 1
            assert target.in_child, f"input {last} ended the process ({process.exitcode})"
            assert crashes < 100
        first = last + 1
    ratio, seed = max(slowest)
    print(f"{name}: {INPUTS} inputs, {crashes} crashes; slowest, {seed}: {ratio:.1f} times the usual time")
    assert found == []
