"""What a run leaves behind for the oracle, and what the oracle finds wrong in it.

The evidence names where things are: the database, the simulator, files. The oracle reads them itself. What
is expected of them is stated here by the driver, which knows what it did; nothing is taken from Postroom.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal
from uuid import UUID

Policy = Literal["metadata", "documents", "full"]
MailboxState = Literal["mirrored", "disconnected", "purged"]


@dataclass(frozen=True, slots=True)
class ObservedMailbox:
    """A mailbox, and what must be stored of it in the end.

    `mirrored`: connected and synced to the end, so the store equals the simulator. `disconnected`: stored
    mail stays as it was. `purged`: disconnected and removed. `was_purged`: and connected again, with its id.

    Mail received before `absent_before` must be gone (retention), mail received at or after `present_from`
    must be there; what lies between may be there or not, but if it is, it is right. None: no such limit.
    """

    id: UUID
    organization: UUID
    provider: Literal["gmail", "outlook"]
    address: str
    policy: Policy
    state: MailboxState = "mirrored"
    was_purged: bool = False
    folder: str | None = None  # the provider's id of the only folder that is mirrored
    present_from: datetime | None = None
    absent_before: datetime | None = None
    unreadable: frozenset[str] = (
        frozenset()
    )  # provider ids of messages that fail alone, and are open failures


@dataclass(frozen=True, slots=True)
class PurgedPerson:
    """A person whose mail was purged between two moments of the simulator's clock.

    Mail they sent that was received before `started_at` is gone for good; later mail is mirrored. Mail
    received between the two may be there or not.
    """

    organization: UUID
    address: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class ObservedWebhook:
    """A webhook and what its receiver recorded.

    `received` has one JSON object per line, in the order in which requests came:
    `{"headers": {…}, "body": "…", "status": 200, "time": 1763270000.1}`. `status` is what the receiver
    answered, null if it gave no answer; `body` is the text of the body exactly as received; `time` is the
    receiver's Unix time.
    """

    id: UUID
    organization: UUID
    secret: str  # whsec_…
    received: Path
    kinds: tuple[str, ...] = ()  # such as `document.*`; none: all
    after: int = 0  # events up to this position of the feed were before its time


@dataclass(frozen=True, slots=True)
class ObservedFeed:
    """What a client that followed `GET /api/v1/events` recorded: one event per line, as the API returned it.

    A reconnect continues after the last recorded position, so every position is expected once and in order.
    """

    organization: UUID
    events: Path
    after: int = 0  # where the client started


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """The newest seal of an organization at some time during the run. It must stay in the ledger."""

    organization: UUID
    number: int
    sha256: str  # in hex


@dataclass(frozen=True, slots=True)
class ObservedProcess:
    """A process that the driver started. `running`: it is still meant to run while the oracle looks."""

    pid: int
    name: str  # such as `worker 1`
    started_ticks: int  # field 22 of /proc/PID/stat when it was started, since pids are used again
    running: bool = True


@dataclass(frozen=True, slots=True)
class MemorySample:
    """The resident memory of one process at rest: after its start, between actions, after healing."""

    process: str  # the name of the ObservedProcess, the same after a restart
    pid: int
    seconds: float  # since the start of the run
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that one run left behind. The system is healed, quiet, and still running."""

    database_url: str  # of the owner, who sees every row
    simulator_url: str  # http://HOST:PORT; the control API is below /_sim/
    home: Path  # POSTROOM_HOME: ledger.public is here
    blobs: Path  # the folder of the blob store
    archive: Path  # the folder that archive paths are relative to
    mailboxes: tuple[ObservedMailbox, ...]
    pipelines: tuple[str, ...] = ("invoices", "contract-notes")  # those that archive completed documents
    purged_people: tuple[PurgedPerson, ...] = ()
    expects_subscriptions: bool = True  # workers ran that subscribe mailboxes
    webhooks: tuple[ObservedWebhook, ...] = ()
    feeds: tuple[ObservedFeed, ...] = ()
    ledger_heads: tuple[LedgerHead, ...] = ()
    logs: tuple[Path, ...] = ()  # every output of every process of Postroom and its database server
    markers: frozenset[str] = (
        frozenset()
    )  # secrets and names of the seed beyond those the oracle reads itself
    processes: tuple[ObservedProcess, ...] = ()
    temporary_folders: tuple[Path, ...] = ()  # TMPDIR of the processes: nothing may be left there
    memory: tuple[MemorySample, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One thing that is not as it must be, so described that a person can look at it."""

    check: str  # such as `mail.labels`
    subject: str  # such as `mailbox ann@example.com message 18c2… (row 41)`
    text: str  # what was expected and what is there

    def __str__(self) -> str:
        return f"{self.check}: {self.subject}: {self.text}"
