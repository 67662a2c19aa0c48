"""The steps of a scenario: what each one needs, how it is checked, and how it is played.

`scenario` reads them from a file. `check` finds a mistake before anything happens; `play` calls the control
API.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import quote, urlencode

import msgspec

from mailsim import samples
from mailsim.errors import AlreadyExists, InvalidRequest, NotFound, SimulatorError, check_name, suggest
from mailsim.faults import Fault, check_fault, check_fault_names
from mailsim.message_state import Flag, ProviderName
from mailsim.provider_actions import LifecycleEvent, ProviderNames
from mailsim.registry import check_new_mailbox

if TYPE_CHECKING:  # `testing` plays scenarios
    from mailsim.testing import MailSimulator

Message = int | str  # number, ID of the provider, name of an earlier `as`, or "newest"
Amount = Annotated[float, msgspec.Meta(ge=0)]
MAX_WAITED = 10_000  # requests that the control API lists at once
POLL_SECONDS = 0.05
_MESSAGE_ID = re.compile(r"[0-9]{1,11}|[0-9a-f]{16}|[\w-]{60,}=*", re.ASCII)


@dataclass(slots=True)
class KnownNames:
    """What a step may refer to: names of earlier steps, and what a running simulator has.

    Without one, `mailboxes` and `providers` are None: every other mailbox, endpoint and code may exist.
    """

    folder: Path
    mailboxes: Mapping[str, ProviderName] | None = None  # by address in lower case
    providers: Mapping[ProviderName, ProviderNames] | None = None
    created: dict[str, ProviderName] = field(default_factory=dict[str, ProviderName])
    messages: dict[str, str] = field(default_factory=dict[str, str])  # by `as`, with their mailbox
    faults: set[str] = field(default_factory=set[str])

    def find_provider(self, mailbox: str) -> ProviderName | None:
        """Return the provider of a mailbox, None if only a running simulator knows it."""
        found = self.created.get(mailbox.lower()) or (self.mailboxes or {}).get(mailbox.lower())
        if found is None and self.mailboxes is not None:
            raise NotFound(f"no mailbox {mailbox}; create it in an earlier step")
        return found

    def check_message(self, mailbox: str, message: Message) -> None:
        name = str(message)
        owner = self.messages.get(name)
        if owner is not None and owner != mailbox.lower():
            raise InvalidRequest(f"the message {name!r} is in the mailbox {owner}")
        if owner is None and name != "newest" and not _MESSAGE_ID.fullmatch(name):
            raise InvalidRequest(
                f"no earlier step has as = {name!r}{suggest(name, (*self.messages, 'newest'))}"
            )


@dataclass(slots=True)
class ScenarioRun:
    """A scenario being played: the simulator, the names given with `as`, the requests already waited for."""

    sim: "MailSimulator"
    folder: Path
    messages: dict[str, str] = field(default_factory=dict[str, str])
    faults: dict[str, int] = field(default_factory=dict[str, int])
    last_request: int = 0

    def call(self, method: str, path: str, body: object = None) -> Any:
        return self.sim.control(method, path, body)

    def act(self, mailbox: str, message: Message, action: str, body: dict[str, Any]) -> None:
        path = f"mailboxes/{quote(mailbox)}/messages/{self.find(mailbox, message)}"
        self.call("POST", f"{path}/{action}", body)

    def find(self, mailbox: str, message: Message) -> str:
        if message == "newest":
            listed = self.sim.messages(mailbox)
            if not listed:
                raise InvalidRequest(f"{mailbox} has no messages")
            return str(listed[-1].number)
        return quote(self.messages.get(str(message), str(message)))


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step. Subclasses are named by `verb`."""

    verb: ClassVar[str] = ""

    def check(self, known: KnownNames) -> None:
        """Raise SimulatorError if the step cannot be played, and add the names that it gives."""

    def play(self, run: ScenarioRun) -> None:
        raise TypeError(f"{type(self).__name__} cannot be played on {run.sim.url}")

    def to_body(self, *left_out: str) -> dict[str, Any]:
        """Return the fields that the file set, except some."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in values.items() if name not in left_out}


class MailboxStep(Step, frozen=True):
    """A step in a mailbox that exists; `only` is the provider that has such a step."""

    only: ClassVar[ProviderName | None] = None
    mailbox: str

    def check(self, known: KnownNames) -> None:
        provider = known.find_provider(self.mailbox)
        if self.only is not None and provider not in {self.only, None}:
            raise InvalidRequest(f"{self.mailbox} is a mailbox of {provider}; only {self.only} has this step")


class MessageStep(MailboxStep, frozen=True):
    """A step that changes one message."""

    message: Message

    def check(self, known: KnownNames) -> None:
        super().check(known)
        known.check_message(self.mailbox, self.message)


class Create(Step, frozen=True):
    """Create a mailbox with generated mail."""

    verb = "create"
    mailbox: str
    provider: ProviderName
    name: str = ""
    messages: int = 0
    days: float = 30
    kinds: list[str] = []
    spread: bool = True

    def check(self, known: KnownNames) -> None:
        check_new_mailbox(self.mailbox, self.messages, self.days, self.kinds)
        address = self.mailbox.lower()
        if address in known.created or address in (known.mailboxes or {}):
            raise AlreadyExists(f"mailbox {self.mailbox} already exists")
        known.created[address] = self.provider

    def play(self, run: ScenarioRun) -> None:
        body = self.to_body("mailbox") | {"address": self.mailbox, "provider": self.provider}
        run.call("POST", "mailboxes", body)


class Deliver(MailboxStep, frozen=True, rename={"named": "as"}):
    """Deliver a generated message, or a file with the bytes of one."""

    verb = "deliver"
    kind: str = ""
    language: str = ""
    subject: str | None = None
    file: str = ""
    named: str = ""

    def check(self, known: KnownNames) -> None:
        super().check(known)
        if self.kind:
            check_name("kind", self.kind, samples.list_kinds())
        if self.language:
            check_name("language", self.language, samples.LANGUAGES)
        if self.file:
            if others := self.to_body("mailbox", "as", "file"):
                raise InvalidRequest(f"a message from a file takes no {', '.join(others)}")
            read_file(known.folder / self.file)
        if self.named:
            known.messages[self.named] = self.mailbox.lower()

    def play(self, run: ScenarioRun) -> None:
        body: Any = self.to_body("mailbox", "as")
        if self.file:
            body = read_file(run.folder / self.file)
        response = run.call("POST", f"mailboxes/{quote(self.mailbox)}/messages", body)
        if self.named:
            run.messages[self.named] = response["messages"][0]["id"]


class Move(MessageStep, frozen=True):
    """Move a message to a folder; at Gmail to INBOX, SPAM, TRASH or a label."""

    verb = "move"
    folder: str

    def play(self, run: ScenarioRun) -> None:
        run.act(self.mailbox, self.message, "move", {"folder": self.folder})


class Label(MessageStep, frozen=True):
    """Add and remove Gmail labels."""

    verb = "label"
    only = "gmail"
    add: list[str] = []
    remove: list[str] = []

    def play(self, run: ScenarioRun) -> None:
        run.act(self.mailbox, self.message, "label", {"add": self.add, "remove": self.remove})


class Mark(MessageStep, frozen=True):
    """Mark a message as read or unread, or set its flag."""

    verb = "mark"
    read: bool | None = None
    flag: Flag | None = None

    def play(self, run: ScenarioRun) -> None:
        run.act(self.mailbox, self.message, "mark", self.to_body("mailbox", "message"))


class Delete(MessageStep, frozen=True):
    """Delete a message for good, or with `trash` move it to the trash."""

    verb = "delete"
    trash: bool = False

    def play(self, run: ScenarioRun) -> None:
        if self.trash:
            run.act(self.mailbox, self.message, "trash", {})
        else:
            message = run.find(self.mailbox, self.message)
            run.call("DELETE", f"mailboxes/{quote(self.mailbox)}/messages/{message}")


class Advance(Step, frozen=True):
    """Move the clock forward; pushes and expiries that become due happen."""

    verb = "advance"
    days: Amount = 0
    hours: Amount = 0
    minutes: Amount = 0
    seconds: Amount = 0

    def play(self, run: ScenarioRun) -> None:
        run.sim.advance(days=self.days, hours=self.hours, minutes=self.minutes, seconds=self.seconds)


class Inject(Step, Fault, frozen=True, rename={"named": "as"}):
    """Inject a fault, until it happened `times` times or is cleared."""

    verb = "fault"
    named: str = ""

    def check(self, known: KnownNames) -> None:
        check_fault(self)
        if known.providers is not None:
            check_fault_names(self, known.providers)
        if self.named:
            known.faults.add(self.named)

    def play(self, run: ScenarioRun) -> None:
        number = run.call("POST", "faults", self.to_body("as"))["number"]
        if self.named:
            run.faults[self.named] = number


class Clear(Step, frozen=True):
    """Clear the fault of that name, or all faults."""

    verb = "clear"
    fault: str = ""

    def check(self, known: KnownNames) -> None:
        if self.fault and self.fault not in known.faults:
            hint = suggest(self.fault, sorted(known.faults))
            raise InvalidRequest(f"no earlier step has as = {self.fault!r}{hint}")
        known.faults -= {self.fault} if self.fault else known.faults

    def play(self, run: ScenarioRun) -> None:
        run.call("DELETE", f"faults/{run.faults.pop(self.fault)}" if self.fault else "faults")


class Expire(MailboxStep, frozen=True):
    """Expire the cursors (history IDs, delta links) or the access tokens of a mailbox."""

    verb = "expire"
    what: Literal["cursors", "tokens"]

    def play(self, run: ScenarioRun) -> None:
        run.call("POST", f"mailboxes/{quote(self.mailbox)}/expire-{self.what}", {})


class Revoke(MailboxStep, frozen=True):
    """Revoke what the user granted: their consent, or by a changed password."""

    verb = "revoke"
    reason: str = "consent"

    def check(self, known: KnownNames) -> None:
        super().check(known)
        provider = known.find_provider(self.mailbox)
        if provider is not None and known.providers is not None:
            check_name("reason", self.reason, known.providers[provider].revocation_reasons)

    def play(self, run: ScenarioRun) -> None:
        run.call("POST", f"mailboxes/{quote(self.mailbox)}/revoke", {"reason": self.reason})


class Lifecycle(MailboxStep, frozen=True):
    """Send a lifecycle notification for the subscriptions of a Microsoft 365 mailbox."""

    verb = "lifecycle"
    only = "outlook"
    event: LifecycleEvent

    def play(self, run: ScenarioRun) -> None:
        run.call("POST", f"mailboxes/{quote(self.mailbox)}/lifecycle", {"event": self.event})


class Settle(Step, frozen=True):
    """Wait until every pending push was answered or waits for its next attempt."""

    verb = "settle"

    def play(self, run: ScenarioRun) -> None:
        run.call("POST", "settle")


class Wait(Step, frozen=True):
    """Wait until the client made `times` such requests since the last `wait`, for at most `seconds`."""

    verb = "wait"
    endpoint: str = "*"
    mailbox: str = "*"
    status: int | None = None
    times: Annotated[int, msgspec.Meta(ge=1, le=MAX_WAITED)] = 1
    seconds: Amount = 60

    def check(self, known: KnownNames) -> None:
        if known.providers is not None:
            endpoints = {name for names in known.providers.values() for name in names.endpoints}
            check_name("endpoint", self.endpoint, sorted(endpoints), pattern=True)

    def play(self, run: ScenarioRun) -> None:
        wanted = {"endpoint": self.endpoint, "mailbox": self.mailbox, "limit": MAX_WAITED}
        wanted |= {} if self.status is None else {"status": self.status}
        deadline = time.monotonic() + self.seconds
        while True:
            query = urlencode({**wanted, "after": run.last_request})
            found = [one for one in run.call("GET", f"requests?{query}") if one["status"]]
            if len(found) >= self.times:
                run.last_request = found[-self.times]["number"]
                return
            if time.monotonic() > deadline:
                raise SimulatorError(
                    f"{len(found)} of {self.times} requests to {self.endpoint} of {self.mailbox} came within "
                    f"{self.seconds:g} seconds"
                )
            time.sleep(POLL_SECONDS)


STEPS: dict[str, type[Step]] = {
    step.verb: step
    for step in (
        Create, Deliver, Move, Label, Mark, Delete, Advance, Inject, Clear, Expire, Revoke, Lifecycle,
        Settle, Wait,
    )
}  # fmt: skip
