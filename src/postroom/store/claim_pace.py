"""When a busy worker claims again: once a batch of its slots is free. No SQL.

A claim costs about as much for one row as for many. While all slots are taken, the next claim waits for slots
to become free, so that its batch has the size of what finished meanwhile. A claimed row still starts at once,
and a worker with free slots never waits.
"""

import time
from collections.abc import Callable
from typing import Final

# The wait is this many times as long as the last claim took: claims take a fifth of the time at most.
WAIT_FACTOR: Final = 4
MAX_WAIT_SECONDS: Final = 0.05
BATCH_FRACTION: Final = 4  # of the slots: once this part is free, the wait ends


class ClaimPace:
    """Counts the slots that became free since the last claim, and decides how long the next claim waits."""

    def __init__(self, slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._batch = slots // BATCH_FRACTION
        self._clock = clock
        self._freed = 0
        self._started_at = self._next_at = clock()

    def start_claim(self) -> None:
        self._freed = 0
        self._started_at = self._clock()

    def end_claim(self, *, is_full: bool) -> None:
        """Plan the next claim. `is_full`: all slots are taken that any organization may use."""
        now = self._clock()
        wait = min(WAIT_FACTOR * (now - self._started_at), MAX_WAIT_SECONDS) if is_full else 0
        self._next_at = now + wait

    def count_freed(self) -> None:
        self._freed += 1

    def seconds_to_wait(self) -> float:
        """How long the next claim waits, unless more slots become free."""
        return 0 if self._freed >= self._batch else max(self._next_at - self._clock(), 0)
