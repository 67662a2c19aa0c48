"""After the faults: heal everything, wait until nothing is due, and measure how soon new mail is stored.

What stays undone or comes without a push is a violation. All others are found by the oracle.
"""

import asyncio
import os
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import psycopg

from postroom_chaos.actions import jump_clocks, retry_database
from postroom_chaos.oracle.evidence import Violation
from postroom_chaos.run_state import ExpectedMailbox, RunState
from postroom_chaos.system import SWEEP_MINUTES, SWEEP_STRETCH, System

QUIET_SECONDS: Final = 240.0  # a generous limit; quiet is judged by state
CALM_LOOKS: Final = 3
LOOK_SECONDS: Final = 0.4
NOTE_SECONDS: Final = 5.0
DAY_SECONDS: Final = 26 * 3600.0  # past the next retention and every sweep
ROUND_SECONDS: Final = 7 * 3600.0  # past the longest wait between deliveries to a webhook
MAX_ROUNDS: Final = 4
RECOVERY_SECONDS: Final = 30.0
STALE_SECONDS: Final = 2 * 86400.0
# What is still to be done. Work that repeats by itself is due minutes from now.
_UNDONE: Final = b"""
    SELECT 'work ' || kind || ' ' || state || coalesce(': ' || last_error, '') FROM work
    WHERE state = 'leased' OR state = 'parked' OR last_error IS NOT NULL
        OR due_at <= postroom_now() + interval '3 seconds'
    UNION ALL
    SELECT 'listing ' || kind FROM cursors JOIN mailboxes ON mailboxes.id = mailbox_id
    WHERE disconnected_at IS NULL
        AND (kind IN ('resync', 'refill') OR kind = 'backfill' AND completed_at IS NULL)
    UNION ALL
    SELECT 'document ' || state FROM documents WHERE state IN ('queued', 'processing')
    UNION ALL
    SELECT 'document without archive' FROM documents WHERE state = 'completed' AND archive_path IS NULL
    UNION ALL
    SELECT 'delivery' FROM deliveries JOIN webhooks ON webhooks.id = webhook_id
    UNION ALL
    SELECT 'event without position' FROM events WHERE position IS NULL
    UNION ALL
    SELECT 'ledger entry without position' FROM ledger WHERE position IS NULL
    UNION ALL
    SELECT 'notification' FROM notifications JOIN mailboxes ON mailboxes.id = mailbox_id
    WHERE disconnected_at IS NULL AND (message_ids <> '{}' OR missed_from IS NOT NULL)
    UNION ALL
    SELECT 'failure ' || failures.kind || ': ' || failures.last_error FROM failures
    JOIN mailboxes ON mailboxes.id = mailbox_id WHERE resolved_at IS NULL AND disconnected_at IS NULL
"""
_ACTIVE: Final = b"""
    SELECT 1 FROM work WHERE state = 'leased'
        OR state <> 'parked' AND due_at <= postroom_now() + interval '3 seconds'
"""
_STORED: Final = b"""
    SELECT 1 FROM messages WHERE mailbox_id = %s AND provider_message_id = %s AND deleted_at IS NULL
"""


@dataclass(frozen=True)
class Recovery:
    """How soon mail that came after healing was stored. `path`: push, sweep or never."""

    address: str
    provider: str
    seconds: float
    path: str


@dataclass(frozen=True)
class HealingResult:
    """`retained_at`: the simulator's time before the day in which retention ran."""

    quiet_seconds: float
    retained_at: datetime
    undone: list[str]
    recoveries: list[Recovery]


async def heal(system: System, state: RunState) -> HealingResult:
    state.note("healing begins")
    await end_faults(system)
    begin = time.monotonic()
    await _wait_until_idle(system, state)
    retained_at = await system.control.now()
    await jump_clocks(system, state, DAY_SECONDS)
    undone = await settle(system, state)
    quiet = time.monotonic() - begin
    state.note(f"quiet after {quiet:.1f} s" if not undone else f"never quiet: {_summarize(undone)}")
    recoveries = await measure_recovery(system, state)
    undone = await settle(system, state)
    await _let_stale_files_go(system, state)
    return HealingResult(quiet, retained_at, undone, recoveries)


async def _let_stale_files_go(system: System, state: RunState) -> None:
    """Temporary files of killed processes are removed by a process that starts after more than a day."""
    stale = list((system.home / "blobs/new").glob("*"))
    if not stale:
        return
    state.note(f"{len(stale)} temporary files of killed processes; two days pass for them, a worker restarts")
    for path in stale:
        os.utime(path, (time.time() - STALE_SECONDS, time.time() - STALE_SECONDS))
    await system.programs["worker 1"].stop()
    system.programs["worker 1"].start()
    deadline = time.monotonic() + RECOVERY_SECONDS
    while any(map(Path.exists, stale)) and time.monotonic() < deadline:  # noqa: ASYNC110  # another process
        await asyncio.sleep(LOOK_SECONDS)
    await _wait_until_idle(system, state)


async def settle(system: System, state: RunState) -> list[str]:
    """Wait until nothing is to be done, and let time pass for what waits for a later moment."""
    for _ in range(MAX_ROUNDS):
        undone = await _wait_until_idle(system, state)
        if not undone:
            return []
        state.note(f"hours pass for {_summarize(undone)}")
        await jump_clocks(system, state, ROUND_SECONDS)
    return await _wait_until_idle(system, state)


async def end_faults(system: System) -> None:
    await system.control.call("DELETE", "faults")
    system.disk.heal()
    system.database.unfreeze()
    await system.database.start()
    await system.set_receiver("accept")
    for program in system.programs.values():
        program.unfreeze()
        if not program.is_running:
            program.start()


async def _list_undone(system: System) -> list[str]:
    return [row[0] for row in await retry_database(lambda: system.database.fetch(_UNDONE))]


async def _wait_until_idle(system: System, state: RunState) -> list[str]:
    """Wait until nothing is being done or due for a few looks; return what only time or a person changes."""
    deadline = time.monotonic() + QUIET_SECONDS
    calm, undone, noted = 0, list[str](), time.monotonic()
    while calm < CALM_LOOKS and time.monotonic() < deadline:
        await asyncio.sleep(LOOK_SECONDS)
        undone = await _list_undone(system)
        calm = 0 if await _is_active(system) else calm + 1
        if time.monotonic() - noted > NOTE_SECONDS:
            noted = time.monotonic()
            state.note(f"waiting for {_summarize(undone)}")
    return undone


async def _is_active(system: System) -> bool:
    return bool(await retry_database(lambda: system.database.fetch(_ACTIVE)))


def _summarize(undone: list[str]) -> str:
    kinds = sorted(set(undone))
    return "; ".join(f"{undone.count(kind)} of {kind}" for kind in kinds[:12])


async def measure_recovery(system: System, state: RunState) -> list[Recovery]:
    """Deliver a message to every connected mailbox and wait until each is stored."""
    mailboxes = [
        each for each in state.mailboxes.values() if each.id is not None and each.state == "mirrored"
    ]
    probes = [asyncio.create_task(_probe(system, each)) for each in mailboxes]
    recoveries = [await probe for probe in probes]
    late = [each for each in recoveries if each.path == "never"]
    if late:
        state.note(f"not stored after {RECOVERY_SECONDS:.0f} s: {[each.address for each in late]}")
        await jump_clocks(system, state, max(SWEEP_MINUTES.values()) * SWEEP_STRETCH * 60 + 60)
        await _wait_until_idle(system, state)
    for recovery in recoveries:
        state.note(f"recovery {recovery.address}: {recovery.seconds:.2f} s by {recovery.path}")
    return recoveries


async def _probe(system: System, mailbox: ExpectedMailbox) -> Recovery:
    pushes = await system.control.pushes(mailbox.address)
    last = max((push["number"] for push in pushes), default=0)
    begin = time.monotonic()
    message = await system.control.deliver(mailbox.address, kind="plain")
    async with await psycopg.AsyncConnection.connect(system.database.url(), autocommit=True) as connection:
        await connection.execute("SET search_path TO postroom")
        while (seconds := time.monotonic() - begin) < RECOVERY_SECONDS:
            cursor = await connection.execute(_STORED, [mailbox.id, message])
            if await cursor.fetchone():
                path = "push" if await _was_pushed(system, mailbox.address, last) else "sweep"
                return Recovery(mailbox.address, mailbox.provider, round(seconds, 2), path)
            await asyncio.sleep(0.05)
    return Recovery(mailbox.address, mailbox.provider, RECOVERY_SECONDS, "never")


async def _was_pushed(system: System, address: str, after: int) -> bool:
    """Whether a push about this mailbox was accepted since."""
    pushes: list[dict[str, Any]] = await system.control.pushes(address, after=after)
    return any(200 <= push["status"] < 300 for push in pushes)


def find_violations(result: HealingResult) -> list[Violation]:
    found = (
        [Violation("healing.quiet", "system", f"still undone: {_summarize(result.undone)}")]
        if result.undone
        else []
    )
    for recovery in result.recoveries:
        if recovery.path != "push":
            text = f"new mail after healing was not stored through a push: {recovery.path}"
            found.append(Violation("healing.recovery", f"mailbox {recovery.address}", text))
    return found
