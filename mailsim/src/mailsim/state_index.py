"""MessageStateIndex: the state of every message in four bytes, with counts for cheap totals and pages.

Equal states are stored once. Blocks of 4096 messages count their states, so that listing a rare folder in a
mailbox of a million messages skips the blocks without it. It knows no rule of a provider; `mailbox` does.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator

from mailsim.message_state import MessageState

StatePredicate = Callable[[MessageState], bool]
BLOCK = 4096
_DELETED = 0


class MessageStateIndex:
    """Maps a message number to its state, or None once deleted. Numbers rise and are never reused."""

    def __init__(self, distinct: list[MessageState], first: bytes) -> None:
        """Create the index; `first` holds, for each initial message, its position in `distinct`."""
        self._distinct: list[MessageState | None] = [None, *distinct]
        self._index: dict[MessageState, int] = {state: i for i, state in enumerate(distinct, 1)}
        self._indexes = array("I", iter(first.translate(bytes((*range(1, 256), 0)))))
        self._blocks = [Counter(self._indexes[i : i + BLOCK]) for i in range(0, len(self._indexes), BLOCK)]
        self._totals = sum(self._blocks, Counter[int]())

    def __len__(self) -> int:
        """Return how many numbers were assigned, deleted ones included."""
        return len(self._indexes)

    def get(self, number: int) -> MessageState | None:
        return self._distinct[self._indexes[number]] if 0 <= number < len(self._indexes) else None

    def append(self, state: MessageState) -> int:
        number = len(self._indexes)
        index = self._intern(state)
        self._indexes.append(index)
        if number % BLOCK == 0:
            self._blocks.append(Counter())
        self._blocks[-1][index] += 1
        self._totals[index] += 1
        return number

    def put(self, number: int, state: MessageState | None) -> None:
        """Set the state of a message; None deletes it."""
        old = self._indexes[number]
        new = _DELETED if state is None else self._intern(state)
        block = self._blocks[number // BLOCK]
        for counts in (block, self._totals):
            counts[new] += 1
            counts[old] -= 1
            if not counts[old]:
                del counts[old]
        self._indexes[number] = new

    def count(self, where: StatePredicate | None = None) -> int:
        matching = self._matching_indexes(where)
        return sum(count for index, count in self._totals.items() if index in matching)

    def newest(
        self, where: StatePredicate | None = None, below: int | None = None, skip: int = 0
    ) -> Iterator[int]:
        """Iterate over matching message numbers below `below`, newest first, skipping the first `skip`."""
        matching = self._matching_indexes(where)
        top = len(self._indexes) if below is None else min(below, len(self._indexes))
        for block in range((top - 1) // BLOCK, -1, -1):
            start, end = block * BLOCK, min(top, (block + 1) * BLOCK)
            count = self._count_matching(block, matching)
            if not count or (skip >= count and end == min(len(self._indexes), start + BLOCK)):
                skip -= count
                continue
            indexes = zip(range(end - 1, start - 1, -1), reversed(self._indexes[start:end]), strict=True)
            for number in (number for number, index in indexes if index in matching):
                if skip:
                    skip -= 1
                else:
                    yield number

    def oldest(self, where: StatePredicate | None = None, start: int = 0) -> Iterator[int]:
        """Iterate over matching message numbers from `start` on, oldest first."""
        matching = self._matching_indexes(where)
        for block in range(max(start, 0) // BLOCK, len(self._blocks)):
            if self._count_matching(block, matching):
                begin = max(start, block * BLOCK)
                indexes = enumerate(self._indexes[begin : (block + 1) * BLOCK], begin)
                yield from (number for number, index in indexes if index in matching)

    def _count_matching(self, block: int, matching: set[int]) -> int:
        """Count the matching messages of a block."""
        return sum(count for index, count in self._blocks[block].items() if index in matching)

    def _matching_indexes(self, where: StatePredicate | None) -> set[int]:
        states = enumerate(self._distinct)
        return {i for i, state in states if state is not None and (where is None or where(state))}

    def _intern(self, state: MessageState) -> int:
        index = self._index.get(state)
        if index is None:
            index = self._index[state] = len(self._distinct)
            self._distinct.append(state)
        return index
