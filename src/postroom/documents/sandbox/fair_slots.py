"""FairSlots: slots for tasks in child processes, shared between organizations by the CPU time they use.

A free slot goes to the waiting organization with the fewest running tasks, then to the one that used the
least CPU time. One extra slot is reserved for an organization that runs nothing: its task never waits for
those of a single other organization, however long they take, and the kernel shares the cores.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from postroom.model import OrganizationId

# None: a person at the command line.
SlotOwner = OrganizationId | None


@dataclass(slots=True)
class SlotUse:
    """The CPU time of a task; None if it reported none, for example because it was killed."""

    cpu_seconds: float | None = None


class FairSlots:
    """`count` slots for all organizations, and one for an organization that runs nothing."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.running = Counter[SlotOwner]()
        self.waiting: dict[asyncio.Future[None], SlotOwner] = {}  # in the order of arrival
        self.used = defaultdict[SlotOwner, float](float)  # CPU seconds of the organizations that are active
        self.unrecorded = defaultdict[SlotOwner, float](float)

    @asynccontextmanager
    async def take(self, owner: SlotOwner) -> AsyncGenerator[SlotUse]:
        """Wait for a slot and hold it. A task that reports no CPU time is charged for the time it ran."""
        await self._acquire(owner)
        use, began = SlotUse(), asyncio.get_running_loop().time()
        try:
            yield use
        finally:
            elapsed = asyncio.get_running_loop().time() - began
            seconds = elapsed if use.cpu_seconds is None else use.cpu_seconds
            self.used[owner] += seconds
            self.unrecorded[owner] += seconds
            self._release(owner)

    def take_unrecorded(self) -> Mapping[SlotOwner, float]:
        """The CPU seconds by organization since the last call."""
        unrecorded, self.unrecorded = self.unrecorded, defaultdict[SlotOwner, float](float)
        return unrecorded

    async def _acquire(self, owner: SlotOwner) -> None:
        active = self._list_active()
        if owner not in active:  # idle time earns no credit
            least = min((self.used[each] for each in active), default=0.0)
            self.used[owner] = max(self.used[owner], least)
        turn = asyncio.get_running_loop().create_future()
        self.waiting[turn] = owner
        self._start_waiting()
        try:
            await turn
        except asyncio.CancelledError:
            if self.waiting.pop(turn, False) is False:  # it got a slot meanwhile
                self._release(owner)
            raise

    def _release(self, owner: SlotOwner) -> None:
        self.running[owner] -= 1
        self._start_waiting()
        if not self._list_active():
            self.running.clear()
            self.used.clear()

    def _start_waiting(self) -> None:
        while turns := self._list_startable():
            turn = min(turns, key=lambda turn: (self.running[turns[turn]], self.used[turns[turn]]))
            self.running[self.waiting.pop(turn)] += 1
            turn.set_result(None)

    def _list_startable(self) -> Mapping[asyncio.Future[None], SlotOwner]:
        free = self.count - self.running.total()
        return {
            turn: owner
            for turn, owner in self.waiting.items()
            if not turn.done() and (free > 0 or (free == 0 and not self.running[owner]))
        }

    def _list_active(self) -> set[SlotOwner]:
        return {*self.waiting.values(), *(owner for owner, count in self.running.items() if count)}
