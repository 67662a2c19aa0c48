"""One seed in a process of its own: start the system, perform the plan, heal, check, write the result.

python -m postroom_chaos.seed_run SEED FOLDER OPTIONS, the last as JSON of `plan.SeedOptions`
"""

import asyncio
import json
import shutil
import signal
import sys
import time
import traceback
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Literal
from uuid import UUID

from postroom_chaos import actions, healing, mailbox_actions, oracle
from postroom_chaos.healing import HealingResult
from postroom_chaos.oracle.evidence import (
    Evidence,
    ObservedFeed,
    ObservedMailbox,
    ObservedProcess,
    ObservedWebhook,
)
from postroom_chaos.plan import MESSAGE_KINDS, Plan, SeedOptions
from postroom_chaos.result import SeedResult, find_commit
from postroom_chaos.run_state import ExpectedMailbox, RunState, new_state
from postroom_chaos.small_disk import SmallDisk
from postroom_chaos.system import ORGANIZATION, System, open_system, write_json
from postroom_chaos.upgrade import unpack_sources, upgrade_after

RECEIVER_SECONDS = 10.0


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up when it is asked to stop
    seed, folder, options = int(sys.argv[1]), Path(sys.argv[2]), SeedOptions(**json.loads(sys.argv[3]))
    folder.mkdir(parents=True, exist_ok=True)
    disk = SmallDisk(folder / "home")
    disk.open()  # before any thread exists
    plan = options.make_plan(seed)
    (folder / "plan.txt").write_text(f"{plan}\n", encoding="utf-8")
    state = new_state(plan)
    result = SeedResult(seed, find_commit(), 0.0)
    try:
        earlier = unpack_sources(options.upgrade_from, folder / "earlier") if options.upgrade_from else None
        asyncio.run(_run(plan, folder, disk, state, result, earlier))
    except Exception:  # noqa: BLE001  # whatever it is belongs into the result
        result.error = traceback.format_exc()
    result.seconds = round(time.monotonic() - state.started, 1)
    (folder / "timeline.txt").write_text("\n".join(state.timeline) + "\n", encoding="utf-8")
    write_json(folder / "result.json", result.to_json())
    sys.exit(0 if result.passed else 1)


async def _run(
    plan: Plan,
    folder: Path,
    disk: SmallDisk,
    state: RunState,
    result: SeedResult,
    earlier_sources: Path | None,
) -> None:
    async with open_system(plan, folder, disk, earlier_sources) as system:
        state.note("the system is ready")
        try:
            for mailbox in plan.mailboxes:
                await system.control.create_mailbox(
                    mailbox.provider,
                    mailbox.address,
                    messages=mailbox.messages,
                    days=mailbox.days,
                    kinds=MESSAGE_KINDS,
                )
            for mailbox in plan.mailboxes:
                if not mailbox.connected_at:
                    await mailbox_actions.connect(system, state, mailbox.address)
            _measure_memory(system, state)
            begun = await system.control.now()
            await asyncio.gather(
                actions.perform_plan(actions.ActionContext(system, state), plan),
                upgrade_after(system, state, plan.seconds / 3),
            )
            healed = await healing.heal(system, state)
            _measure_memory(system, state)
            evidence = await _collect(system, state, healed)
            result.violations = [
                *state.failed,
                *healing.find_violations(healed),
                *await oracle.check(evidence),
            ]
            await _fill(system, state, healed, result, (await system.control.now() - begun))
        finally:
            if result.violations or sys.exc_info()[0]:
                await _keep_evidence(system, state)


def _measure_memory(system: System, state: RunState) -> None:
    samples = [program.measure(state.started) for program in system.programs.values()]
    state.memory += [sample for sample in samples if sample is not None]


async def _collect(system: System, state: RunState, healed: HealingResult) -> Evidence:
    await _wait_for_readers(system)
    webhook = system.webhook["webhook"]
    processes = [each for program in system.programs.values() for each in program.observed()]
    simulator, server = system.simulator.process, system.database.process
    processes.append(ObservedProcess(simulator.pid, "simulator", system.simulator.started_ticks))
    if server is not None:
        processes.append(ObservedProcess(server.pid, "postgres", system.database.started_ticks))
    return Evidence(
        database_url=system.database.url(),
        simulator_url=system.simulator.url,
        home=system.home,
        blobs=system.home / "blobs",
        archive=system.home,
        mailboxes=tuple(_observe_mailboxes(state, healed)),
        purged_people=tuple(state.people),
        webhooks=(
            ObservedWebhook(
                UUID(webhook["id"]), ORGANIZATION, system.webhook["secret"], system.received_webhooks
            ),
        ),
        feeds=(ObservedFeed(ORGANIZATION, system.feed),),
        logs=tuple(path for path in system.logs if path.exists()),
        markers=frozenset(system.secrets),
        processes=tuple(processes),
        temporary_folders=(system.temporary,),
        memory=tuple(state.memory),
    )


async def _wait_for_readers(system: System) -> None:
    """Wait until the feed follower has the last event; what it misses is then its or Postroom's fault."""
    deadline = time.monotonic() + RECEIVER_SECONDS
    while time.monotonic() < deadline:
        rows = await system.database.fetch(b"SELECT coalesce(max(position), 0) FROM events")
        with suppress(OSError):
            if system.feed.read_bytes().count(b"\n") >= rows[0][0]:
                return
        await asyncio.sleep(0.2)


def _observe_mailboxes(state: RunState, healed: HealingResult) -> list[ObservedMailbox]:
    found = [_observe(state, healed, each) for each in state.mailboxes.values() if each.id is not None]
    current = {each.id for each in found}
    for purged, mailbox in state.purged_ids:
        if purged not in current:
            policy, provider = mailbox.policy, _provider(mailbox)
            found.append(
                ObservedMailbox(purged, ORGANIZATION, provider, mailbox.address, policy, state="purged")
            )
    return found


def _observe(state: RunState, healed: HealingResult, mailbox: ExpectedMailbox) -> ObservedMailbox:
    assert mailbox.id is not None
    present, absent = mailbox.present_from, None
    if state.plan.retention:
        kept = timedelta(days=max(state.plan.retention.values()))
        run_at = healed.retained_at + timedelta(seconds=healing.DAY_SECONDS)
        absent = run_at - kept - timedelta(minutes=5)
        oldest = run_at + timedelta(seconds=state.jumped_seconds) - kept
        present = max(present, oldest) if present else oldest
    return ObservedMailbox(
        mailbox.id,
        ORGANIZATION,
        _provider(mailbox),
        mailbox.address,
        mailbox.policy,
        state=mailbox.state,
        was_purged=any(purged == mailbox.id for purged, _ in state.purged_ids),
        present_from=present,
        absent_before=absent,
    )


def _provider(mailbox: ExpectedMailbox) -> Literal["gmail", "outlook"]:
    return "gmail" if mailbox.provider == "gmail" else "outlook"


async def _fill(
    system: System, state: RunState, healed: HealingResult, result: SeedResult, simulated: timedelta
) -> None:
    meters = await system.control.call("GET", "meters")
    result.actions = dict(state.counts)
    result.faults = dict(state.faults)
    result.kills = state.counts["kill"] + state.plan.workers * state.counts["kill_workers"]
    result.freezes = state.counts["freeze"]
    result.database_kills = state.counts["database_kill"]
    result.pushes_sent = sum(meter["pushes_sent"] for meter in meters)
    result.pushes_failed = sum(meter["pushes_failed"] for meter in meters)
    result.pushes_lost = sum(meter["pushes_dropped"] for meter in meters)
    result.requests = sum(meter["requests"] for meter in meters)
    result.messages = (await system.database.fetch(b"SELECT count(*) FROM messages"))[0][0]
    parked = await system.database.fetch(b"SELECT count(*) FROM ledger WHERE event_type = 'MESSAGE_PARKED'")
    result.parked_messages = parked[0][0]
    result.mailboxes = sum(mailbox.id is not None for mailbox in state.mailboxes.values())
    result.simulated_seconds = round(simulated.total_seconds(), 1)
    result.mailbox_days_simulated = round(result.mailboxes * simulated.total_seconds() / 86400, 2)
    result.quiet_seconds = round(healed.quiet_seconds, 1)
    result.recoveries = healed.recoveries
    result.slowest_recovery_seconds = max((each.seconds for each in healed.recoveries), default=0.0)
    result.not_covered = sorted(state.not_covered)
    result.unexpected_exits = {
        program.name: program.unexpected_exits
        for program in system.programs.values()
        if program.unexpected_exits
    }


async def _keep_evidence(system: System, state: RunState) -> None:
    """Keep what a person needs to investigate: the database, the truth, and Postroom's files."""
    with suppress(Exception):
        system.database.dump(system.folder / "database.dump")
    for address in state.mailboxes:
        with suppress(Exception):
            write_json(system.folder / f"truth-{address}.json", await system.control.truth(address))
    with suppress(Exception):
        write_json(system.folder / "pushes.json", await system.control.call("GET", "pushes", limit=10_000))
        write_json(
            system.folder / "requests.json", await system.control.call("GET", "requests", limit=10_000)
        )
    if system.disk.is_separate:  # it vanishes with this process
        shutil.copytree(system.home, system.folder / "home-copy", dirs_exist_ok=True, symlinks=True)


if __name__ == "__main__":
    main()
