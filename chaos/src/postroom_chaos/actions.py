"""Performs the actions of a plan on the running system, each at its time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import aiohttp
import psycopg

from postroom_chaos import mailbox_actions, mailbox_use
from postroom_chaos.operator_client import ActionFailed
from postroom_chaos.plan import Action, Plan
from postroom_chaos.processes import Program
from postroom_chaos.run_state import RunState
from postroom_chaos.simulator import ControlRefused
from postroom_chaos.system import System

Perform = Callable[["ActionContext", Mapping[str, Any]], Awaitable[None]]


class ActionContext:
    """The system and the state that actions work on. `lasting`: faults that end later, by themselves."""

    def __init__(self, system: System, state: RunState) -> None:
        self.system = system
        self.state = state
        self.lasting: set[asyncio.Task[None]] = set()

    def start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self.lasting.add(task)
        task.add_done_callback(self.lasting.discard)


async def perform_plan(context: ActionContext, plan: Plan) -> None:
    """Perform every action at its time. Use of one mailbox keeps its order; everything else overlaps."""
    begin = time.monotonic()
    for mailbox in plan.mailboxes:
        if mailbox.connected_at:
            context.start(_connect_later(context, mailbox.address, mailbox.connected_at))
    for action in plan.actions:
        await asyncio.sleep(max(0.0, begin + action.at - time.monotonic()))
        context.state.counts[action.kind] += 1
        if action.kind in mailbox_use.USES:
            await _perform_use(context, action)
        else:
            context.start(_perform(context, action))
    await asyncio.sleep(max(0.0, begin + plan.seconds - time.monotonic()))
    while context.lasting:
        await asyncio.wait(context.lasting)


async def _connect_later(context: ActionContext, address: str, seconds: float) -> None:
    await asyncio.sleep(seconds)
    try:
        await mailbox_actions.connect(context.system, context.state, address)
    except ActionFailed as error:
        context.state.note_failure(f"connect {address}", error)


async def _perform_use(context: ActionContext, action: Action) -> None:
    try:
        result = await mailbox_use.use(context.system.control, action.kind, action.details)
        context.state.note(f"{action.kind} {action.details['mailbox']} {result}")
    except ControlRefused as error:  # such as a move to a folder that was deleted meanwhile
        context.state.note(f"{action.kind} refused: {error}")


async def _perform(context: ActionContext, action: Action) -> None:
    context.state.note(f"begin {action.kind} {dict(action.details)}")
    try:
        await PERFORM[action.kind](context, action.details)
    except (ActionFailed, ControlRefused, aiohttp.ClientError, psycopg.Error, OSError, TimeoutError) as error:
        context.state.note_failure(f"{action.kind} at {action.at}", error)
    else:
        context.state.note(f"end {action.kind} {dict(action.details)}")


async def _fault(context: ActionContext, details: Mapping[str, Any]) -> None:
    control = context.system.control
    options = {name: value for name, value in details.items() if name not in {"fault", "for"}}
    number = await control.fault(details["fault"], **options)
    await asyncio.sleep(details["for"])
    for fault in await control.call("GET", "faults"):
        if fault["number"] == number:
            context.state.faults[details["fault"]] += fault["taken"]
    await control.call("DELETE", f"faults/{number}")


def _program(context: ActionContext, details: Mapping[str, Any]) -> Program:
    return context.system.programs[details["program"]]


async def _kill(context: ActionContext, details: Mapping[str, Any]) -> None:
    program = _program(context, details)
    if not program.kill():
        return
    await asyncio.sleep(details["down"])
    program.start()


async def _kill_workers(context: ActionContext, details: Mapping[str, Any]) -> None:
    """Kill all workers at once: whatever they did stops in the middle."""
    workers = [program for name, program in context.system.programs.items() if name.startswith("worker")]
    killed = [program for program in workers if program.kill()]
    await asyncio.sleep(details["down"])
    for program in killed:
        program.start()


async def _restart(context: ActionContext, details: Mapping[str, Any]) -> None:
    program = _program(context, details)
    await program.stop()
    await asyncio.sleep(details["down"])
    program.start()


async def _freeze(context: ActionContext, details: Mapping[str, Any]) -> None:
    program = _program(context, details)
    if program.freeze():
        await asyncio.sleep(details["for"])
        program.unfreeze()


async def _database_kill(context: ActionContext, details: Mapping[str, Any]) -> None:
    async with context.state.database_lock:
        context.system.database.kill()
        await asyncio.sleep(details["for"])
        await context.system.database.start()


async def _sessions_end(context: ActionContext, _details: Mapping[str, Any]) -> None:
    async with context.state.database_lock:
        ended = await context.system.database.terminate_sessions()
    context.state.note(f"{ended} sessions ended")


async def _database_freeze(context: ActionContext, details: Mapping[str, Any]) -> None:
    async with context.state.database_lock:
        context.system.database.freeze()
        await asyncio.sleep(details["for"])
        context.system.database.unfreeze()


async def _disk(context: ActionContext, details: Mapping[str, Any], *, fill: bool) -> None:
    disk = context.system.disk
    if not disk.is_separate:
        context.state.not_covered.add("disk")
        return
    async with context.state.disk_lock:
        if fill:
            disk.fill()
        else:
            await disk.make_read_only()
        await asyncio.sleep(details["for"])
        disk.heal()


async def _disk_full(context: ActionContext, details: Mapping[str, Any]) -> None:
    await _disk(context, details, fill=True)


async def _disk_read_only(context: ActionContext, details: Mapping[str, Any]) -> None:
    await _disk(context, details, fill=False)


async def jump_clocks(system: System, state: RunState, seconds: float) -> None:
    """Time passes for the provider and for Postroom alike.

    The provider is first, since moving its clock takes as long as its pushes. A database ahead of it would
    ask for subscriptions that last longer than the provider allows. The workers are suspended meanwhile:
    hours pass in a moment for the provider, and would end a token while it is being fetched.
    """
    workers = [program for name, program in system.programs.items() if name.startswith("worker")]
    async with state.clock_lock:
        suspended = [program for program in workers if not program.frozen and program.freeze()]
        try:
            await system.control.move_clock(seconds)
            await _shift_database_clock(system, seconds)
        finally:
            for program in suspended:
                program.unfreeze()
        state.jumped_seconds += seconds


async def _shift_database_clock(system: System, seconds: float) -> None:
    await retry_database(
        lambda: system.database.fetch(
            b"UPDATE clock_offset SET ahead = ahead + %s * interval '1 second'", seconds
        )
    )


async def retry_database(run: Callable[[], Awaitable[Any]], seconds: float = 60) -> Any:
    """Repeat a statement of our own while the database is down."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await run()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


async def _clock_jump(context: ActionContext, details: Mapping[str, Any]) -> None:
    await jump_clocks(context.system, context.state, details["seconds"])


async def _clock_skew(context: ActionContext, details: Mapping[str, Any]) -> None:
    """The database's clock is wrong for a while, then corrected."""
    async with context.state.clock_lock:
        await _shift_database_clock(context.system, details["seconds"])
        await asyncio.sleep(details["for"])
        await _shift_database_clock(context.system, -details["seconds"])


async def _provider_action(
    context: ActionContext, details: Mapping[str, Any], action: str, body: Any
) -> None:
    await context.system.control.call("POST", f"mailboxes/{details['mailbox']}/{action}", body)


async def _expire_cursors(context: ActionContext, details: Mapping[str, Any]) -> None:
    await _provider_action(context, details, "expire-cursors", {})


async def _expire_tokens(context: ActionContext, details: Mapping[str, Any]) -> None:
    await _provider_action(context, details, "expire-tokens", {})


async def _lifecycle(context: ActionContext, details: Mapping[str, Any]) -> None:
    await _provider_action(context, details, "lifecycle", {"event": details["event"]})


async def _receiver(context: ActionContext, details: Mapping[str, Any]) -> None:
    await context.system.set_receiver(details["mode"])
    await asyncio.sleep(details["for"])
    await context.system.set_receiver("accept")


def _on_mailbox(act: Callable[[System, RunState, Mapping[str, Any]], Awaitable[None]]) -> Perform:
    async def perform(context: ActionContext, details: Mapping[str, Any]) -> None:
        await act(context.system, context.state, details)

    return perform


PERFORM: Final[Mapping[str, Perform]] = {
    "fault": _fault,
    "kill": _kill,
    "kill_workers": _kill_workers,
    "restart": _restart,
    "freeze": _freeze,
    "database_kill": _database_kill,
    "sessions_end": _sessions_end,
    "database_freeze": _database_freeze,
    "disk_full": _disk_full,
    "disk_read_only": _disk_read_only,
    "clock_jump": _clock_jump,
    "clock_skew": _clock_skew,
    "expire_cursors": _expire_cursors,
    "expire_tokens": _expire_tokens,
    "lifecycle": _lifecycle,
    "receiver": _receiver,
    "policy": _on_mailbox(mailbox_actions.change_policy),
    "pause": _on_mailbox(mailbox_actions.pause),
    "disconnect": _on_mailbox(mailbox_actions.disconnect),
    "purge_mailbox": _on_mailbox(mailbox_actions.purge_mailbox),
    "revoke": _on_mailbox(mailbox_actions.revoke),
    "purge_person": _on_mailbox(mailbox_actions.purge_person),
    "sync": _on_mailbox(mailbox_actions.request_sync),
}
