"""Claims what is due, runs its step, and writes how it ended. Knows no step and no provider.

What to do about each class of error is one table, OUTCOMES; every error class of ours stands in it.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from postroom import traces
from postroom.config import Settings, WakeMode
from postroom.errors import (
    DatabaseUnavailable,
    LeaseLost,
    OperatorError,
    PermanentError,
    PostroomError,
    TransientError,
)
from postroom.flow.documents import sqs_dispatch
from postroom.logs import Log
from postroom.model import WorkKind
from postroom.sqs import SqsQueue
from postroom.store import work
from postroom.store.database import Database
from postroom.store.group_commit import GroupCommit
from postroom.store.work import Finish, Lease
from postroom.wiring import Kind

log = Log()


class WorkOutcome(Enum):
    """What follows from an error."""

    RETRY = "retry"  # after a backoff, and parked when the kind's attempts are used up
    WAIT = "wait"  # after the longest backoff, for ever: somebody must act, and then it goes on by itself
    PARK = "park"  # at once: the same attempt cannot succeed
    DROP = "drop"  # nothing: another worker owns the row


# The most specific class decides. An error of nobody's making is a bug: it is retried, then parked.
OUTCOMES: Mapping[type[Exception], WorkOutcome] = {
    Exception: WorkOutcome.RETRY,
    PostroomError: WorkOutcome.RETRY,
    TransientError: WorkOutcome.RETRY,
    DatabaseUnavailable: WorkOutcome.RETRY,
    OperatorError: WorkOutcome.WAIT,
    PermanentError: WorkOutcome.PARK,
    LeaseLost: WorkOutcome.DROP,
}


SHORTEST_WAIT_SECONDS = 0.01
EXTEND_ATTEMPTS = 50  # at a row that is locked, within a sixth of its lease


@dataclass(frozen=True)
class WorkerLimits:
    concurrency: int
    lease_seconds: float
    poll_seconds: float
    stop_seconds: float
    backoff_first_seconds: float
    backoff_max_seconds: float
    wake_by_notify: bool


def worker_limits(settings: Settings) -> WorkerLimits:
    return WorkerLimits(
        concurrency=settings.concurrency,
        lease_seconds=settings.lease_seconds,
        poll_seconds=settings.poll_seconds,
        stop_seconds=settings.stop_seconds,
        backoff_first_seconds=settings.backoff_first_seconds,
        backoff_max_seconds=settings.backoff_max_seconds,
        wake_by_notify=settings.wake is WakeMode.NOTIFY,
    )


def find_outcome(error: Exception) -> WorkOutcome:
    return next(OUTCOMES[each] for each in type(error).__mro__ if each in OUTCOMES)


def backoff_seconds(attempts: int, limits: WorkerLimits) -> float:
    """Doubles with each attempt up to the limit; the jitter keeps those that failed together apart."""
    longest = min(limits.backoff_max_seconds, limits.backoff_first_seconds * 2 ** min(attempts - 1, 30))
    return longest * random.uniform(0.5, 1)


async def run(
    database: Database,
    kinds: Mapping[str, Kind],
    limits: WorkerLimits,
    stop: asyncio.Event,
    queue: SqsQueue | None = None,
) -> None:
    """Work until `stop` is set; then finish what is under way, or give it back when that takes too long.

    A helper that fails ends it all: without heartbeats, say, every lease would be lost unnoticed.
    """
    worker = _Worker(database, kinds, limits, stop)
    helpers = [asyncio.create_task(worker.keep_leases())]
    if queue is not None:
        worker.claimed.remove(WorkKind.PROCESS_DOCUMENT)
        carrying = worker.announce(queue), worker.receive(queue), worker.keep_messages(queue)
        helpers += [asyncio.create_task(each) for each in carrying]
    if limits.wake_by_notify:
        helpers.append(asyncio.create_task(worker.listen()))
    log.info("worker.started", concurrency=limits.concurrency)
    working = asyncio.create_task(worker.work())
    try:
        await _wait_until_ended(working, helpers)
    finally:
        await cancel_all([working, *helpers, *worker.running.values()])
    log.info("worker.stopped")


async def _wait_until_ended(working: asyncio.Task[None], helpers: Sequence[asyncio.Task[None]]) -> None:
    waiting = {working, *helpers}
    while working in waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def cancel_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: in Python 3.11 a cancellation can be lost on its way."""
    while waiting := [task for task in tasks if not task.done()]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=1)


class _Worker:
    def __init__(
        self, database: Database, kinds: Mapping[str, Kind], limits: WorkerLimits, stop: asyncio.Event
    ) -> None:
        self.database = database
        self.kinds = kinds
        self.limits = limits
        self.stop = stop
        self.claimed = list(kinds)  # of the rows that are due; the others are told by a queue
        self.running: dict[Lease, asyncio.Task[None]] = {}
        self.receipts: set[str] = set()
        self.untold = asyncio.Event()
        self.freed = asyncio.Event()
        self.woken = asyncio.Event()
        self.finishes = GroupCommit(self._finish)

    async def work(self) -> None:
        await self.resume_waiting()
        await self.claim_until_stopped()
        await self.wind_down()

    async def resume_waiting(self) -> None:
        """A worker that starts may have the setting that was missing."""
        with suppress(DatabaseUnavailable, TransientError):
            async with self.database.engine() as connection:
                await work.resume_waiting(connection)

    async def claim_until_stopped(self) -> None:
        while not self.stop.is_set():
            self.freed.clear()
            self.woken.clear()  # before the claim, so that a wake-up during it leads to another
            free = self.limits.concurrency - len(self.running)
            if free <= 0:  # what a queue told may be a few too many
                await self._either(self.freed)
            elif idle_seconds := await self._claim(free):
                # What ends meanwhile may be due again before that, unless the interval shall be the brake.
                ended = [self.freed] if self.limits.wake_by_notify else []
                await self._either(self.woken, *ended, timeout=idle_seconds)

    async def _claim(self, free: int) -> float:
        """Start what was claimed. Where that is nothing, how long to wait for the next claim."""
        try:
            async with self.database.engine() as connection:
                claim = await work.claim(
                    connection, self.claimed, batch=free, lease_seconds=self.limits.lease_seconds
                )
        except (DatabaseUnavailable, TransientError) as error:
            log.warning("worker.claim_failed", error=error)
            return self.limits.poll_seconds
        for lease in claim.leases:
            self.running[lease] = asyncio.create_task(self._perform(lease))
        if claim.leases:
            return 0
        if claim.next_in is None or not self.limits.wake_by_notify:
            return self.limits.poll_seconds
        # Not before the row is due, lest the wait become a loop.
        return min(self.limits.poll_seconds, max(claim.next_in, SHORTEST_WAIT_SECONDS))

    async def _either(self, *events: asyncio.Event, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait for one of the events or the stop, or not longer than the time-out."""
        waits = [asyncio.create_task(event.wait()) for event in (*events, self.stop)]
        try:
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    async def _perform(self, lease: Lease) -> None:
        """Run one step and write its end. Cancelled when the lease was lost or the worker must stop."""
        try:
            kind = self.kinds[lease.kind]
            if kind.max_attempts is not None and lease.lost >= kind.max_attempts:
                # Claimed again and again and never answered: the work ends its worker.
                await self._park(lease, "its worker ended at every attempt")
                return
            about = {"postroom.work": lease.id, "postroom.attempts": lease.attempts}
            with traces.span(lease.kind, about, kind="CONSUMER", parent=lease.trace):
                done = await kind.step(lease)
            if done is not None:
                await self.finishes.write(Finish(lease, done.again_after))
        except Exception as error:  # noqa: BLE001  # the table below says what follows from each
            await self._settle(lease, error)
        finally:
            self.running.pop(lease, None)
            self.freed.set()

    async def _finish(self, finishes: Sequence[Finish]) -> Sequence[None]:
        async with self.database.engine() as connection:
            held = await work.finish(connection, finishes)
        for each in finishes:
            if each.lease.id not in held:
                log.warning("work.lease_lost", kind=each.lease.kind, work=each.lease.id)
        return [None] * len(finishes)

    async def _settle(self, lease: Lease, error: Exception) -> None:
        outcome = find_outcome(error)
        write = log.warning if isinstance(error, PostroomError) else log.error
        write(
            "work.failed",
            error=error,
            kind=lease.kind,
            work=lease.id,
            attempts=lease.attempts,
            outcome=outcome,
        )
        try:
            match outcome:
                case WorkOutcome.RETRY:
                    await self._retry(lease, error)
                case WorkOutcome.WAIT:
                    await self._again(
                        lease, self.limits.backoff_max_seconds, describe_error(error), counts=False
                    )
                case WorkOutcome.PARK:
                    await self._park(lease, describe_error(error))
                case WorkOutcome.DROP:
                    pass
                case _:
                    assert_never(outcome)
        except (DatabaseUnavailable, TransientError) as away:
            # The lease ends by itself, and the row is due again.
            log.warning("work.outcome_not_written", kind=lease.kind, work=lease.id, error=away)

    async def _retry(self, lease: Lease, error: Exception) -> None:
        allowed = self.kinds[lease.kind].max_attempts
        if allowed is not None and lease.attempts >= allowed:
            await self._park(lease, describe_error(error))
            return
        asked = error.retry_after if isinstance(error, TransientError) else None
        await self._again(
            lease, max(asked or 0, backoff_seconds(lease.attempts, self.limits)), describe_error(error)
        )

    async def _again(self, lease: Lease, delay: float, error: str, *, counts: bool = True) -> None:
        async with self.database.engine() as connection:
            await work.retry(connection, lease, delay=delay, error=error, counts=counts)

    async def _park(self, lease: Lease, error: str) -> None:
        log.error("work.parked", kind=lease.kind, work=lease.id, attempts=lease.attempts)
        async with self.database.engine() as connection:
            await work.park(connection, lease, error=error)

    async def keep_leases(self) -> None:
        """Prolong the leases of what is under way, and stop what was lost: it could commit nothing.

        Missing once, a row may have been finished by its step a moment ago; missing twice, it is lost.
        """
        missing: set[Lease] = set()
        while True:
            await asyncio.sleep(self.limits.lease_seconds / 3)
            held = list(self.running)
            try:
                kept = await self._extend(held) if held else set[int]()
            except (DatabaseUnavailable, TransientError) as error:
                log.warning("worker.heartbeat_failed", error=error)
                continue
            gone = {lease for lease in held if lease.id not in kept}
            for lease in gone & missing:
                if task := self.running.get(lease):
                    log.warning("work.lease_lost", kind=lease.kind, work=lease.id)
                    task.cancel()
            missing = gone

    async def _extend(self, leases: Sequence[Lease]) -> set[int]:
        """Those that are held. A step locks its row while it commits, so such a row is looked at again."""
        seconds, held = self.limits.lease_seconds, set[int]()
        for _ in range(EXTEND_ATTEMPTS):
            async with self.database.engine() as connection:
                extended = await work.extend(connection, leases, lease_seconds=seconds)
            held |= extended.prolonged | extended.locked
            leases = [each for each in leases if each.id in extended.locked]
            if not leases:
                break
            await asyncio.sleep(seconds / 6 / EXTEND_ATTEMPTS)
        return held

    async def listen(self) -> None:
        """Be woken by the database. While it is away, the poll is the net."""
        async for _ in self.database.heard("postroom_work", every_seconds=3600):
            self.woken.set()
            self.untold.set()

    async def announce(self, queue: SqsQueue) -> None:
        """Tell the queue of what is due. While it is away, the rows wait."""
        while True:
            self.untold.clear()
            try:
                while await sqs_dispatch.tell(self.database, queue):
                    pass
            except (DatabaseUnavailable, TransientError, OperatorError) as error:
                log.warning("queue.not_told", error=error)
            await self._either(self.untold, timeout=self.limits.poll_seconds)

    async def receive(self, queue: SqsQueue) -> None:
        """Claim and do what the queue tells. What the other loop claims meanwhile may be a few too many."""
        while not self.stop.is_set():
            self.freed.clear()
            free = self.limits.concurrency - len(self.running)
            if free <= 0:
                await self._either(self.freed)
                continue
            seconds = self.limits.lease_seconds
            try:
                messages = await queue.receive(free, invisible_seconds=seconds)
                found = await sqs_dispatch.claimed(self.database, queue, messages, lease_seconds=seconds)
            except (DatabaseUnavailable, TransientError, OperatorError) as error:
                log.warning("queue.not_heard", error=error)
                await asyncio.sleep(self.limits.poll_seconds)
                continue
            for lease, receipt in found:
                self.receipts.add(receipt)
                self.running[lease] = asyncio.create_task(self._perform_told(queue, lease, receipt))

    async def _perform_told(self, queue: SqsQueue, lease: Lease, receipt: str) -> None:
        """Its end is in the row before the message goes; without an end the message comes again."""
        try:
            await self._perform(lease)
            await queue.delete(receipt)
        except (TransientError, OperatorError) as error:
            log.warning("queue.not_deleted", error=error)
        finally:
            self.receipts.discard(receipt)

    async def keep_messages(self, queue: SqsQueue) -> None:
        """Nobody else shall see the messages of what is under way."""
        while True:
            await asyncio.sleep(self.limits.lease_seconds / 3)
            try:
                seconds = self.limits.lease_seconds
                await queue.extend(sorted(self.receipts), invisible_seconds=seconds)
            except (TransientError, OperatorError) as error:
                log.warning("queue.not_extended", error=error)

    async def wind_down(self) -> None:
        """Let what is under way end within the limit; give back the rest."""
        tasks = dict(self.running)
        if tasks:
            await asyncio.wait(tasks.values(), timeout=self.limits.stop_seconds)
        late = [lease for lease, task in tasks.items() if not task.done()]
        for lease in late:
            tasks[lease].cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        if late:
            log.info("worker.gave_back", count=len(late))
            with suppress(DatabaseUnavailable, TransientError):
                async with self.database.engine() as connection:
                    await work.give_back(connection, late)


def describe_error(error: Exception) -> str:
    """What may be kept of an error: our own words, or only the class of a stranger's."""
    return str(error) if isinstance(error, PostroomError) else type(error).__name__
