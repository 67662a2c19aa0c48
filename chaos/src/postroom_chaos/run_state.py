"""What a run has done so far: the expected state of each mailbox, the timeline, and counts."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from postroom_chaos.oracle.evidence import MailboxState, MemorySample, Policy, PurgedPerson, Violation
from postroom_chaos.plan import Plan

FIRST_SYNC_SECONDS: Final = 30.0  # how long the first sync may take to begin


@dataclass
class ExpectedMailbox:
    """A mailbox as the operator left it. Actions on one mailbox wait for each other (`lock`)."""

    address: str
    provider: str
    policy: Policy
    id: UUID | None = None  # once it is connected
    state: MailboxState = "mirrored"
    present_from: datetime | None = None
    connected_at: float = 0.0  # by the monotonic clock
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def may_wait_for_first_sync(self) -> bool:
        return time.monotonic() - self.connected_at < FIRST_SYNC_SECONDS


@dataclass
class RunState:
    """`jumped_seconds`: how far the clocks were moved."""

    plan: Plan
    mailboxes: dict[str, ExpectedMailbox]
    started: float = field(default_factory=time.monotonic)
    timeline: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    not_covered: set[str] = field(default_factory=set[str])
    purged_ids: list[tuple[UUID, ExpectedMailbox]] = field(default_factory=list[tuple[UUID, ExpectedMailbox]])
    people: list[PurgedPerson] = field(default_factory=list[PurgedPerson])
    memory: list[MemorySample] = field(default_factory=list[MemorySample])
    failed: list[Violation] = field(default_factory=list[Violation])  # actions that never succeeded
    jumped_seconds: float = 0.0
    clock_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    disk_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    database_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def note_failure(self, action: str, error: Exception) -> None:
        self.note(f"FAILED {action}: {type(error).__name__}: {error}")
        self.failed.append(Violation("actions.failed", action, f"{type(error).__name__}: {error}"))

    def note(self, text: str) -> None:
        self.timeline.append(f"{time.monotonic() - self.started:7.2f}  {text}")


def new_state(plan: Plan) -> RunState:
    mailboxes = {
        each.address: ExpectedMailbox(each.address, each.provider, _to_policy(each.policy))
        for each in plan.mailboxes
    }
    return RunState(plan, mailboxes)


def _to_policy(name: str) -> Policy:
    match name:
        case "full" | "documents" | "metadata":
            return name
        case _:
            raise ValueError(name)
