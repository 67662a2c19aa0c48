"""Actions of an operator and a mailbox's owner: connect, policy, pause, sync, disconnect, purge, consent."""

import asyncio
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from postroom_chaos.operator_client import ActionFailed
from postroom_chaos.oracle.evidence import PurgedPerson
from postroom_chaos.run_state import ExpectedMailbox, RunState
from postroom_chaos.system import ORGANIZATION, System

COMMAND_ATTEMPTS = 30


async def connect(system: System, state: RunState, address: str) -> None:
    mailbox = state.mailboxes[address]
    async with mailbox.lock:
        await _connect(system, state, mailbox)


async def _connect(system: System, state: RunState, mailbox: ExpectedMailbox) -> None:
    known = mailbox.id is not None and mailbox.state != "purged"
    query = {"policy": mailbox.policy, "address": mailbox.address}
    await system.operator.connect(mailbox.provider, query)
    mailbox.id = await _find_id(system, mailbox.address)
    mailbox.state = "mirrored"
    # The days to fetch count back from the last connection before the first sync.
    if not known or mailbox.present_from is None or mailbox.may_wait_for_first_sync:
        mailbox.connected_at = time.monotonic()
        reach = timedelta(days=state.plan.backfill_days) - timedelta(minutes=5)
        mailbox.present_from = await system.control.now() - reach
    state.note(f"connected {mailbox.address} as {mailbox.id}")


async def _reconnect_later(
    system: System, state: RunState, mailbox: ExpectedMailbox, details: Mapping[str, Any]
) -> None:
    if "for" in details:
        await asyncio.sleep(details["for"])
        await _connect(system, state, mailbox)


async def _find_id(system: System, address: str) -> UUID:
    page = await system.operator.api("GET", "mailboxes")
    for mailbox in page["data"]:
        if mailbox["address"] == address:
            return UUID(mailbox["id"])
    raise ActionFailed(f"{address} is not listed after it was connected")


async def change_policy(system: System, state: RunState, details: Mapping[str, Any]) -> None:
    """Change the policy; to keep more than the owner allowed, ask the owner again."""
    mailbox = state.mailboxes[details["mailbox"]]
    async with mailbox.lock:
        if mailbox.id is None or mailbox.state != "mirrored":
            return
        policy = details["policy"]
        try:
            await system.operator.api("PATCH", f"mailboxes/{mailbox.id}", {"content_policy": policy})
        except ActionFailed as error:
            state.note(f"the policy needs consent: {error}")
            await system.operator.connect(
                mailbox.provider, {"policy": policy, "address": mailbox.address, "again": "1"}
            )
        mailbox.policy = policy


async def pause(system: System, state: RunState, details: Mapping[str, Any]) -> None:
    mailbox = state.mailboxes[details["mailbox"]]
    async with mailbox.lock:
        if mailbox.id is None or mailbox.state != "mirrored":
            return
        await system.operator.api("PATCH", f"mailboxes/{mailbox.id}", {"paused": True})
        await asyncio.sleep(details["for"])
        await system.operator.api("PATCH", f"mailboxes/{mailbox.id}", {"paused": False})


async def disconnect(system: System, state: RunState, details: Mapping[str, Any]) -> None:
    """Disconnect a mailbox, for a while or for good."""
    mailbox = state.mailboxes[details["mailbox"]]
    async with mailbox.lock:
        if mailbox.id is None or mailbox.state != "mirrored":
            return
        await system.operator.act_on_mailbox(mailbox.id, "disconnect")
        mailbox.state = "disconnected"
        await _reconnect_later(system, state, mailbox, details)


async def purge_mailbox(system: System, state: RunState, details: Mapping[str, Any]) -> None:
    """Disconnect a mailbox and remove its mail; some are connected again, as new mailboxes."""
    mailbox = state.mailboxes[details["mailbox"]]
    async with mailbox.lock:
        if mailbox.id is None or mailbox.state == "purged":
            return
        await system.operator.act_on_mailbox(mailbox.id, "purge")
        state.purged_ids.append((mailbox.id, mailbox))
        mailbox.state = "purged"
        await _reconnect_later(system, state, mailbox, details)


async def revoke(system: System, state: RunState, details: Mapping[str, Any]) -> None:
    """The owner withdraws consent, and gives it again later."""
    mailbox = state.mailboxes[details["mailbox"]]
    async with mailbox.lock:
        if mailbox.id is None or mailbox.state != "mirrored":
            return
        await system.control.call("POST", f"mailboxes/{mailbox.address}/revoke", {"reason": "consent"})
        await asyncio.sleep(details["for"])
        query = {"mailbox": str(mailbox.id)}  # it keeps its policy
        await system.operator.connect(mailbox.provider, query)


async def purge_person(system: System, state: RunState, details: Mapping[str, Any]) -> None:
    """Purge a person, while no clock is wrong: what came before and after is decided by the clock."""
    async with state.clock_lock:
        started = await system.control.now()
        await _purge_person(system, state, details["address"])
        ended = await system.control.now()
    state.people.append(PurgedPerson(ORGANIZATION, details["address"], started, ended))


async def _purge_person(system: System, state: RunState, address: str) -> None:
    for attempt in range(1, COMMAND_ATTEMPTS + 1):
        try:
            await system.run_command("purge", "person", address, "--yes")
        except ActionFailed as error:
            state.note(f"purge failed, attempt {attempt}: {error}")
            if attempt == COMMAND_ATTEMPTS:
                raise
            await asyncio.sleep(1)
        else:
            return


async def request_sync(system: System, state: RunState, details: Mapping[str, Any]) -> None:
    mailbox = state.mailboxes[details["mailbox"]]
    async with mailbox.lock:
        if mailbox.id is not None and mailbox.state == "mirrored":
            await system.operator.api("POST", f"mailboxes/{mailbox.id}/sync", {"full": details["full"]})
