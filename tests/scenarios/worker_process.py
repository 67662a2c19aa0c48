"""A worker process for scenarios: the real worker with steps whose effects a test can count.

Every effect is a row written in the same transaction that finishes the lease, so a row too many or too few
is a lease that did not fence.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable

from postroom import logs, worker
from postroom.engine import WorkHandler
from postroom.errors import OperatorError, PermanentError, TransientError
from postroom.model import StepResult
from postroom.store import work
from postroom.store.connection import TransactionLimits
from postroom.store.database import Database, open_database
from postroom.store.entry_macs import EntryMacs
from postroom.store.work import FinishedWork, Lease


def count_effect(
    database: Database, *, before: float = 0, freezes: bool = False
) -> Callable[[Lease], Awaitable[None]]:
    """Take a while, then count once and finish in one transaction, in which the process may freeze itself."""

    async def count(lease: Lease) -> None:
        print(f"began {lease.subject} {lease.token}", flush=True)
        await asyncio.sleep(before)
        async with work.fenced_transaction(database, lease) as connection:
            await connection.execute(
                "INSERT INTO effects (subject, token) VALUES (%s, %s)", [lease.subject, lease.token]
            )
            if freezes:
                os.kill(os.getpid(), signal.SIGSTOP)
            await work.finish(connection, [FinishedWork(lease)])

    return count


async def transient(_lease: Lease) -> StepResult:
    raise TransientError("the provider is busy", retry_after=0)


async def throttled(_lease: Lease) -> StepResult:
    raise TransientError("the provider limits the rate", retry_after=3600)


async def operator(_lease: Lease) -> StepResult:
    print("tried operator", flush=True)
    raise OperatorError("the secret has expired")


async def permanent(_lease: Lease) -> StepResult:
    raise PermanentError("the provider has no such message")


async def bug(_lease: Lease) -> StepResult:
    raise ZeroDivisionError("secret words of a stranger")


async def deadly(_lease: Lease) -> StepResult:
    os._exit(9)


def steps(database: Database, step_seconds: float, *, freezes: bool) -> dict[str, WorkHandler]:
    async def block(lease: Lease) -> None:
        """Holds up its whole process past the lease, heartbeat included; only the fence is left."""
        print(f"began {lease.subject} {lease.token}", flush=True)
        time.sleep(step_seconds)  # noqa: ASYNC251  # that is the point
        async with work.fenced_transaction(database, lease) as connection:
            await connection.execute(
                "INSERT INTO effects (subject, token) VALUES (%s, %s)", [lease.subject, lease.token]
            )
            await work.finish(connection, [FinishedWork(lease)])

    async def drain(lease: Lease) -> None:
        """Handles the items it can see, then takes a while before it finishes: a window for wake-ups."""
        async with work.fenced_transaction(database, lease) as connection:
            await connection.execute("UPDATE items SET handled = true WHERE NOT handled")
        await asyncio.sleep(step_seconds)
        async with work.fenced_transaction(database, lease) as connection:
            await work.finish(connection, [FinishedWork(lease)])

    async def tick(_lease: Lease) -> StepResult:
        return StepResult(again_after=step_seconds)

    return {
        name: WorkHandler(step, max_attempts=3)
        for name, step in {
            "count": count_effect(database, before=step_seconds),
            "hold": count_effect(database, freezes=freezes),
            "block": block,
            "drain": drain,
            "tick": tick,
            "transient": transient,
            "throttled": throttled,
            "operator": operator,
            "permanent": permanent,
            "bug": bug,
            "deadly": deadly,
        }.items()
    }


async def main() -> None:
    options = json.loads(sys.argv[1])
    limits = worker.WorkerLimits(
        concurrency=options.get("concurrency", 10),
        lease_seconds=options.get("lease_seconds", 30),
        poll_seconds=options.get("poll_seconds", 0.2),
        stop_seconds=options.get("stop_seconds", 10),
        backoff_first_seconds=options.get("backoff_first_seconds", 0.05),
        backoff_max_seconds=options.get("backoff_max_seconds", 0.1),
        wake_by_notify=options.get("wake_by_notify", True),
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    seconds = options.get("idle_seconds", 60)
    key = bytes.fromhex(options["mac_key"])
    session = TransactionLimits(lock_seconds=seconds, idle_seconds=seconds)
    async with open_database(
        options["url"],
        pool_size=10,
        name="postroom scenario",
        limits=session,
        entry_macs=EntryMacs(lambda: key, lambda: [key]),
    ) as database:
        kinds = steps(database, options.get("step_seconds", 0), freezes=options.get("freezes", False))
        print("ready", flush=True)
        await worker.run(database, kinds, limits, stop)


if __name__ == "__main__":
    logs.configure("scenario", level="info", style="json")
    logging.captureWarnings(capture=False)
    asyncio.run(main())
