"""The states of a mailbox's messages in four bytes each, with counts that make totals and pages cheap.

Equal states share one index. Blocks of 4096 messages count their states, so that a page of a rare folder in a
mailbox of a million messages skips the blocks without it. Knows nothing about mail.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator

from mailsim.state import State

Where = Callable[[State], bool]
BLOCK = 4096
_GONE = 0


class States:
    """Message number -> State, or None once deleted. Numbers are given in rising order and never again."""

    def __init__(self, distinct: list[State], first: bytes) -> None:
        """`first` holds for each initial message the index of its state in `distinct`."""
        self._known: list[State | None] = [None, *distinct]
        self._index: dict[State, int] = {state: i for i, state in enumerate(distinct, 1)}
        self._of = array("I", iter(first.translate(bytes((*range(1, 256), 0)))))
        self._blocks = [Counter(self._of[i : i + BLOCK]) for i in range(0, len(self._of), BLOCK)]
        self._totals = sum(self._blocks, Counter[int]())

    def __len__(self) -> int:
        """Numbers given so far, deleted ones included."""
        return len(self._of)

    def get(self, number: int) -> State | None:
        return self._known[self._of[number]] if 0 <= number < len(self._of) else None

    def append(self, state: State) -> int:
        number = len(self._of)
        index = self._intern(state)
        self._of.append(index)
        if number % BLOCK == 0:
            self._blocks.append(Counter())
        self._blocks[-1][index] += 1
        self._totals[index] += 1
        return number

    def put(self, number: int, state: State | None) -> None:
        """Set the state of a message; None deletes it."""
        old = self._of[number]
        new = _GONE if state is None else self._intern(state)
        block = self._blocks[number // BLOCK]
        for counts in (block, self._totals):
            counts[new] += 1
            counts[old] -= 1
            if not counts[old]:
                del counts[old]
        self._of[number] = new

    def count(self, where: Where | None = None) -> int:
        wanted = self._wanted(where)
        return sum(count for index, count in self._totals.items() if index in wanted)

    def newest(self, where: Where | None = None, below: int | None = None, skip: int = 0) -> Iterator[int]:
        """Numbers of matching messages, newest first, under `below`, without the first `skip` of them."""
        wanted = self._wanted(where)
        top = len(self._of) if below is None else min(below, len(self._of))
        for block in range((top - 1) // BLOCK, -1, -1):
            start, end = block * BLOCK, min(top, (block + 1) * BLOCK)
            inside = self._inside(block, wanted)
            if not inside or (skip >= inside and end == min(len(self._of), start + BLOCK)):
                skip -= inside
                continue
            indexes = zip(range(end - 1, start - 1, -1), reversed(self._of[start:end]), strict=True)
            for number in (number for number, index in indexes if index in wanted):
                if skip:
                    skip -= 1
                else:
                    yield number

    def oldest(self, where: Where | None = None, start: int = 0) -> Iterator[int]:
        """Numbers of matching messages from `start` on, oldest first."""
        wanted = self._wanted(where)
        for block in range(max(start, 0) // BLOCK, len(self._blocks)):
            if self._inside(block, wanted):
                begin = max(start, block * BLOCK)
                indexes = enumerate(self._of[begin : (block + 1) * BLOCK], begin)
                yield from (number for number, index in indexes if index in wanted)

    def _inside(self, block: int, wanted: set[int]) -> int:
        """How many matching messages a block holds."""
        return sum(count for index, count in self._blocks[block].items() if index in wanted)

    def _wanted(self, where: Where | None) -> set[int]:
        known = enumerate(self._known)
        return {i for i, state in known if state is not None and (where is None or where(state))}

    def _intern(self, state: State) -> int:
        index = self._index.get(state)
        if index is None:
            index = self._index[state] = len(self._known)
            self._known.append(state)
        return index
