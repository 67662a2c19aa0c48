"""The worker loop: claims due work, runs its step, extends its lease, and writes the outcome.

Imports no step and no provider: it gets a handler for each work kind. Work arrives by polling, by
notifications of the database, or by an SQS queue.
OUTCOMES is the one table from error class to outcome. The statements are in `store.work`.
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
from postroom.engine import WorkHandler
from postroom.errors import (
    DatabaseUnavailable,
    LeaseLost,
    OperatorError,
    PermanentError,
    PostroomError,
    SchemaError,
    TransientError,
    describe_error,
)
from postroom.flow.documents import sqs_dispatch
from postroom.logs import Log
from postroom.model import WorkKind
from postroom.sqs import SqsQueue
from postroom.store import work
from postroom.store.claim_pace import ClaimPace
from postroom.store.database import Database
from postroom.store.group_commit import GroupCommit
from postroom.store.notifier import WORK_CHANNEL
from postroom.store.resource_uses import ResourceMeter
from postroom.store.work import FinishedWork, Lease

log = Log()

# By work kind.
Handlers = Mapping[str, WorkHandler] | Mapping[WorkKind, WorkHandler]


class WorkOutcome(Enum):
    """What happens to work after an error."""

    RETRY = "retry"  # after a backoff; parked once the attempts of its kind are used up
    WAIT = "wait"  # retry at the longest backoff without limit: it resumes once an operator has acted
    PARK = "park"  # at once: another attempt would fail the same way
    DROP = "drop"  # do nothing: another worker owns the row


# The most specific class decides. Any other exception is a bug: the work is retried, then parked.
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
EXTEND_ATTEMPTS = 50  # for a locked row, within a sixth of its lease
RESERVED_FRACTION = 4  # of the slots: only for organizations that run nothing in this worker


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
    return next(OUTCOMES[ancestor] for ancestor in type(error).__mro__ if ancestor in OUTCOMES)


def backoff_seconds(attempts: int, limits: WorkerLimits) -> float:
    """Double with each attempt up to the limit. Jitter spreads work that failed at the same time."""
    longest = min(limits.backoff_max_seconds, limits.backoff_first_seconds * 2 ** min(attempts - 1, 30))
    return longest * random.uniform(0.5, 1)


async def run(
    database: Database,
    handlers: Handlers,
    limits: WorkerLimits,
    stop: asyncio.Event,
    queue: SqsQueue | None = None,
    meter: ResourceMeter | None = None,
) -> None:
    """Work until `stop` is set; then finish the running steps, or give their leases back after a time-out.

    A failed helper task ends the worker: without heartbeats, for example, all leases would expire unnoticed.
    """
    meter = meter or ResourceMeter()
    worker = _Worker(database, handlers, limits, stop, meter)
    helpers = [asyncio.create_task(loop) for loop in (worker.extend_leases(), meter.record_forever(database))]
    if queue is not None:
        worker.claimed.remove(WorkKind.PROCESS_DOCUMENT)
        loops = worker.announce_due(queue), worker.receive(queue), worker.extend_messages(queue)
        helpers += [asyncio.create_task(loop) for loop in loops]
    if limits.wake_by_notify:
        helpers.append(asyncio.create_task(worker.listen()))
    log.info("worker.started", concurrency=limits.concurrency)
    working = asyncio.create_task(worker.work())
    try:
        await _wait_until_ended(working, helpers)
    finally:
        await cancel_all([working, *helpers, *worker.running.values()])
        with suppress(PostroomError):
            await meter.record(database)
    log.info("worker.stopped")


async def _wait_until_ended(working: asyncio.Task[None], helpers: Sequence[asyncio.Task[None]]) -> None:
    waiting = {working, *helpers}
    while working in waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def cancel_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: in Python 3.11 a cancellation can get lost."""
    while waiting := [task for task in tasks if not task.done()]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=1)


class _Worker:
    def __init__(
        self,
        database: Database,
        handlers: Handlers,
        limits: WorkerLimits,
        stop: asyncio.Event,
        meter: ResourceMeter,
    ) -> None:
        self.database = database
        self.meter = meter
        self.handlers = {str(kind): handler for kind, handler in handlers.items()}
        self.limits = limits
        self.reserved = limits.concurrency // RESERVED_FRACTION
        self.stop = stop
        self.claimed = list(self.handlers)  # kinds claimed from the database; a queue dispatches the others
        self.running: dict[Lease, asyncio.Task[None]] = {}
        self.set_aside: dict[tuple[str, str], None] = {}  # kind and subject of work to run alone, in order
        self.receipts: set[str] = set()
        self.announcement_due = asyncio.Event()
        self.freed = asyncio.Event()
        self.woken = asyncio.Event()
        self.pace = ClaimPace(limits.concurrency)
        self.finishes = GroupCommit(self._finish)

    async def work(self) -> None:
        await self.resume_waiting()
        await self.claim_until_stopped()
        await self.wind_down()

    async def resume_waiting(self) -> None:
        """Retry work that waits for the operator: this worker may have the setting that was missing."""
        with suppress(DatabaseUnavailable, TransientError):
            async with self.database.engine() as connection:
                await work.resume_waiting_for_operator(connection)

    async def claim_until_stopped(self) -> None:
        while not self.stop.is_set():
            await self._wait_for_batch()
            self.freed.clear()
            self.woken.clear()  # before the claim, so that a wake-up during the claim causes another one
            free = self._count_free()
            if free <= 0:  # negative if the queue loop claimed a few too many
                await self._wait_for(self.freed)
            elif self.set_aside:
                await self._claim_set_aside()
            elif idle_seconds := await self._claim(free):
                # A step that ends may be due again sooner. Without notifications, only the interval counts,
                # unless the free slots were reserved.
                ended = [self.freed] if self.limits.wake_by_notify or free <= self.reserved else []
                await self._wait_for(self.woken, *ended, timeout=idle_seconds)

    async def _wait_for_batch(self) -> None:
        """Wait until the next claim fills several slots, if all were taken."""
        while not self.stop.is_set() and (seconds := self.pace.seconds_to_wait()):
            self.freed.clear()
            await self._wait_for(self.freed, timeout=seconds)

    async def _claim(self, free: int) -> float:
        """Claim and start due work. Returns how long to wait before the next claim, 0 if work was found."""
        self.pace.start_claim()
        try:
            async with self.database.engine() as connection:
                claim = await work.claim(
                    connection,
                    self.claimed,
                    batch=free,
                    lease_seconds=self.limits.lease_seconds,
                    reserved=self.reserved,
                    busy={lease.organization for lease in self.running},
                )
        except (DatabaseUnavailable, TransientError) as error:
            log.warning("worker.claim_failed", error=error)
            return self.limits.poll_seconds
        await self._start(claim.leases)
        self.pace.end_claim(is_full=self._count_free() <= self.reserved)
        if claim.leases:
            return 0
        if claim.next_in is None or not self.limits.wake_by_notify:
            return self.limits.poll_seconds
        # Never shorter than a minimum, to avoid a busy loop.
        return min(self.limits.poll_seconds, max(claim.next_in, SHORTEST_WAIT_SECONDS))

    def _count_free(self) -> int:
        """How many steps may start. While a suspect runs, or waits for the others to end: none."""
        if self.running and (self.set_aside or self._runs_suspect()):
            return 0
        return self.limits.concurrency - len(self.running)

    def _runs_suspect(self) -> bool:
        return any(lease.is_suspect for lease in self.running)

    def _admit(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """The leases whose steps may start now: a suspect only alone."""
        if self._runs_suspect():
            return []
        if self.running or any(not lease.is_suspect for lease in leases):
            return [lease for lease in leases if not lease.is_suspect]
        return leases[:1]

    async def _start(self, leases: Sequence[Lease]) -> None:
        """Start the steps that may run now, and give the other leases back."""
        admitted = self._admit(leases)
        for lease in admitted:
            self.running[lease] = asyncio.create_task(self._perform(lease))
        await self._give_back([lease for lease in leases if lease not in admitted])

    async def _give_back(self, leases: Sequence[Lease]) -> None:
        """Release leases at once, so that a suspect never loses one because of its neighbours.

        This worker claims the suspects again when nothing else runs, unless another worker was faster.
        """
        if not leases:
            return
        self.set_aside |= {(lease.kind, lease.subject): None for lease in leases if lease.is_suspect}
        try:
            async with self.database.engine() as connection:
                await work.release(connection, leases)
        except (DatabaseUnavailable, TransientError) as error:  # they expire instead
            log.warning("worker.release_failed", error=error)

    async def _claim_set_aside(self) -> None:
        """Claim and start one work item that was set aside. Nothing else runs."""
        kind, subject = next(iter(self.set_aside))
        del self.set_aside[kind, subject]
        try:
            async with self.database.engine() as connection:
                lease = await work.claim_one(
                    connection, kind, subject, lease_seconds=self.limits.lease_seconds
                )
        except (DatabaseUnavailable, TransientError) as error:  # it is due, like any other work
            log.warning("worker.claim_failed", error=error)
        else:
            await self._start([lease] if lease else [])
        self.freed.set()  # the loop of the queue waits for it

    async def _wait_for(self, *events: asyncio.Event, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait for one of the events, for the stop, or for the time-out."""
        waits = [asyncio.create_task(event.wait()) for event in (*events, self.stop)]
        try:
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    async def _perform(self, lease: Lease) -> None:
        """Run one step and write its outcome. Cancelled if the lease is lost or the worker must stop."""
        try:
            handler = self.handlers[lease.kind]
            if handler.max_attempts is not None and lease.is_deadly:
                await self._park(lease, "every worker that ran it crashed or stalled")
                return
            if lease.is_suspect:
                log.warning("work.isolated", kind=lease.kind, work=lease.id)
            attributes = {"postroom.work": lease.id, "postroom.attempts": lease.attempts}
            span = traces.span(lease.kind, attributes, kind="CONSUMER", parent=lease.trace)
            with span, self.meter.measure(lease.organization, lease.queue_seconds):
                result = await handler.step(lease)
            if result is not None:
                await self.finishes.write(FinishedWork(lease, result.again_after))
        except Exception as error:  # noqa: BLE001  # OUTCOMES decides about each
            await self._write_outcome(lease, error)
        finally:
            self.running.pop(lease, None)
            self.pace.count_freed()
            self.freed.set()

    async def _finish(self, finishes: Sequence[FinishedWork]) -> Sequence[None]:
        async with self.database.engine() as connection:
            held = await work.finish(connection, finishes)
        for finish in finishes:
            if finish.lease.id not in held:
                log.warning("work.lease_lost", kind=finish.lease.kind, work=finish.lease.id)
        return [None] * len(finishes)

    async def _write_outcome(self, lease: Lease, error: Exception) -> None:
        """Write what happens to the work, then log it: once, with the outcome that took effect."""
        outcome = self._decide_outcome(lease, error)
        try:
            if outcome is not WorkOutcome.DROP and not await self._apply(outcome, lease, error):
                outcome = WorkOutcome.DROP  # the lease was lost meanwhile
        except (DatabaseUnavailable, SchemaError, TransientError) as write_error:
            # The lease will expire, which makes the row due again.
            log.warning("work.outcome_not_written", kind=lease.kind, work=lease.id, error=write_error)
        log_failure = log.warning if isinstance(error, PostroomError) else log.error
        log_failure(
            "work.failed",
            error=error,
            kind=lease.kind,
            work=lease.id,
            attempts=lease.attempts,
            outcome=outcome,
        )

    def _decide_outcome(self, lease: Lease, error: Exception) -> WorkOutcome:
        outcome, max_attempts = find_outcome(error), self.handlers[lease.kind].max_attempts
        if outcome is WorkOutcome.RETRY and max_attempts is not None and lease.attempts >= max_attempts:
            return WorkOutcome.PARK
        return outcome

    async def _apply(self, outcome: WorkOutcome, lease: Lease, error: Exception) -> bool:
        """Write an outcome. False if the lease was lost, and nothing was written."""
        match outcome:
            case WorkOutcome.RETRY:
                requested = error.retry_after if isinstance(error, TransientError) else None
                delay = max(requested or 0, backoff_seconds(lease.attempts, self.limits))
                return await self._schedule_retry(lease, delay, error)
            case WorkOutcome.WAIT:
                return await self._schedule_retry(lease, self.limits.backoff_max_seconds, error, counts=False)
            case WorkOutcome.PARK:
                return await self._park(lease, describe_error(error))
            case WorkOutcome.DROP:
                return False
            case _:
                assert_never(outcome)

    async def _schedule_retry(
        self, lease: Lease, delay: float, error: Exception, *, counts: bool = True
    ) -> bool:
        async with self.database.engine() as connection:
            return await work.retry(
                connection, lease, delay=delay, error=describe_error(error), counts=counts
            )

    async def _park(self, lease: Lease, error: str) -> bool:
        async with self.database.engine() as connection:
            is_parked = await work.park(connection, lease, error=error)
        if is_parked:
            log.error("work.parked", kind=lease.kind, work=lease.id, attempts=lease.attempts)
        return is_parked

    async def extend_leases(self) -> None:
        """Extend the leases of running steps, and cancel steps whose lease is lost: they could not commit.

        A row that is missing once may just have been finished by its step; missing twice, the lease is lost.
        """
        missing: set[Lease] = set()
        while True:
            await asyncio.sleep(self.limits.lease_seconds / 3)
            leases = list(self.running)
            try:
                held = await self._extend(leases) if leases else set[int]()
            except (DatabaseUnavailable, TransientError) as error:
                log.warning("worker.heartbeat_failed", error=error)
                continue
            gone = {lease for lease in leases if lease.id not in held}
            for lease in gone & missing:
                if task := self.running.get(lease):
                    log.warning("work.lease_lost", kind=lease.kind, work=lease.id)
                    task.cancel()
            missing = gone

    async def _extend(self, leases: Sequence[Lease]) -> set[int]:
        """Ids of the leases that are still held. A row locked by its committing step is tried again."""
        seconds, held = self.limits.lease_seconds, set[int]()
        for _ in range(EXTEND_ATTEMPTS):
            async with self.database.engine() as connection:
                extended = await work.extend(connection, leases, lease_seconds=seconds)
            held |= extended.extended | extended.locked
            leases = [lease for lease in leases if lease.id in extended.locked]
            if not leases:
                break
            await asyncio.sleep(seconds / 6 / EXTEND_ATTEMPTS)
        return held

    async def listen(self) -> None:
        """Wake up on notifications of the database. While it is unavailable, polling takes over."""
        async for _ in self.database.listen(WORK_CHANNEL, every_seconds=3600):
            self.woken.set()
            self.announcement_due.set()

    async def announce_due(self, queue: SqsQueue) -> None:
        """Send due work to the queue. While the queue is unavailable, the rows wait."""
        while True:
            self.announcement_due.clear()
            try:
                while await sqs_dispatch.send_due(self.database, queue):
                    pass
            except (DatabaseUnavailable, TransientError, OperatorError) as error:
                log.warning("queue.send_failed", error=error)
            await self._wait_for(self.announcement_due, timeout=self.limits.poll_seconds)

    async def receive(self, queue: SqsQueue) -> None:
        """Claim and run what the queue dispatches. Both loops together may briefly exceed the concurrency."""
        while not self.stop.is_set():
            self.freed.clear()
            free = 0 if self.set_aside else self._count_free()
            if free <= 0:
                await self._wait_for(self.freed)
                continue
            seconds = self.limits.lease_seconds
            try:
                messages = await queue.receive(free, invisible_seconds=seconds)
                received = await sqs_dispatch.claim_received(
                    self.database, queue, messages, lease_seconds=seconds
                )
            except (DatabaseUnavailable, TransientError, OperatorError) as error:
                log.warning("queue.receive_failed", error=error)
                await asyncio.sleep(self.limits.poll_seconds)
                continue
            admitted = self._admit([lease for lease, _ in received])
            for lease, receipt in received:
                if lease in admitted:
                    self.receipts.add(receipt)
                    self.running[lease] = asyncio.create_task(self._perform_message(queue, lease, receipt))
            # Their messages are delivered again, and deleted if the work is done by then.
            await self._give_back([lease for lease, _ in received if lease not in admitted])

    async def _perform_message(self, queue: SqsQueue, lease: Lease, receipt: str) -> None:
        """Delete the message after the outcome is written; after a crash the queue delivers it again."""
        try:
            await self._perform(lease)
            await queue.delete(receipt)
        except (TransientError, OperatorError) as error:
            log.warning("queue.delete_failed", error=error)
        finally:
            self.receipts.discard(receipt)

    async def extend_messages(self, queue: SqsQueue) -> None:
        """Keep the messages of running steps invisible to other workers."""
        while True:
            await asyncio.sleep(self.limits.lease_seconds / 3)
            try:
                seconds = self.limits.lease_seconds
                await queue.extend(sorted(self.receipts), invisible_seconds=seconds)
            except (TransientError, OperatorError) as error:
                log.warning("queue.extend_failed", error=error)

    async def wind_down(self) -> None:
        """Let running steps end within the time limit; give back the leases of the others."""
        tasks = dict(self.running)
        if tasks:
            await asyncio.wait(tasks.values(), timeout=self.limits.stop_seconds)
        late = [lease for lease, task in tasks.items() if not task.done()]
        for lease in late:
            tasks[lease].cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        if late:
            log.info("worker.leases_returned", count=len(late))
            with suppress(DatabaseUnavailable, TransientError):
                async with self.database.engine() as connection:
                    await work.release(connection, late)
