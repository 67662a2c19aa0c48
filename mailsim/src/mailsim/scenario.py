"""Scenarios: steps in a TOML file, played step by step over the control API of a running mailsim.

`[[step]]` tables are done in order. `do` names the step, the other keys are its fields. `read_scenario`
checks the whole file before anything happens, so that a typo does not stop a scenario halfway.
"""

import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, get_args
from urllib.parse import quote, urlencode

import msgspec

from mailsim.errors import InvalidRequest, SimulatorError
from mailsim.faults import FaultKind
from mailsim.message_state import Flag, ProviderName
from mailsim.provider_actions import LifecycleEvent
from mailsim.samples import list_kinds

if TYPE_CHECKING:  # `testing` plays scenarios
    from mailsim.testing import MailSimulator

MAX_BYTES = 1 << 20
Message = int | str  # number, ID of the provider, name of an earlier `as`, or "newest"
Report = Callable[[str], None]
POLL_SECONDS = 0.05


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


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step. Subclasses are named by `verb`."""

    verb: ClassVar[str] = ""

    def play(self, run: ScenarioRun) -> None:
        raise TypeError(f"{type(self).__name__} cannot be played on {run.sim.url}")

    def to_body(self, *left_out: str) -> dict[str, Any]:
        """Return the fields that the file set, except some."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in values.items() if name not in left_out}


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

    def play(self, run: ScenarioRun) -> None:
        body = self.to_body("mailbox") | {"address": self.mailbox, "provider": self.provider}
        run.call("POST", "mailboxes", body)


class Deliver(Step, frozen=True, rename={"named": "as"}):
    """Deliver a generated message, or a file with the bytes of one."""

    verb = "deliver"
    mailbox: str
    kind: str = ""
    language: str = ""
    subject: str | None = None
    file: str = ""
    named: str = ""

    def play(self, run: ScenarioRun) -> None:
        body: Any = self.to_body("mailbox", "as", "file")
        if self.file:
            if body:
                raise InvalidRequest(f"a message from a file takes no {', '.join(body)}")
            body = read_file(run.folder / self.file)
        answer = run.call("POST", f"mailboxes/{quote(self.mailbox)}/messages", body)
        if self.named:
            run.messages[self.named] = answer["messages"][0]["id"]


class Move(Step, frozen=True):
    """Move a message to a folder; at Gmail to INBOX, SPAM, TRASH or a label."""

    verb = "move"
    mailbox: str
    message: Message
    folder: str

    def play(self, run: ScenarioRun) -> None:
        run.act(self.mailbox, self.message, "move", {"folder": self.folder})


class Label(Step, frozen=True):
    """Add and remove Gmail labels."""

    verb = "label"
    mailbox: str
    message: Message
    add: list[str] = []
    remove: list[str] = []

    def play(self, run: ScenarioRun) -> None:
        run.act(self.mailbox, self.message, "label", {"add": self.add, "remove": self.remove})


class Mark(Step, frozen=True):
    """Mark a message as read or unread, or set its flag."""

    verb = "mark"
    mailbox: str
    message: Message
    read: bool | None = None
    flag: Flag | None = None

    def play(self, run: ScenarioRun) -> None:
        run.act(self.mailbox, self.message, "mark", self.to_body("mailbox", "message"))


class Delete(Step, frozen=True):
    """Delete a message for good, or with `trash` move it to the trash."""

    verb = "delete"
    mailbox: str
    message: Message
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
    days: float = 0
    hours: float = 0
    minutes: float = 0
    seconds: float = 0

    def play(self, run: ScenarioRun) -> None:
        run.sim.advance(days=self.days, hours=self.hours, minutes=self.minutes, seconds=self.seconds)


class Inject(Step, frozen=True, rename={"named": "as"}):
    """Inject a fault, until it happened `times` times or is cleared."""

    verb = "fault"
    kind: FaultKind
    mailbox: str = "*"
    endpoint: str = "*"
    provider: str = "*"
    path: str = "*"
    probability: float = 1.0
    times: int | None = None
    skip: int = 0
    status: int = 0
    retry_after: int = 0
    seconds: float = 0.0
    code: str = ""
    named: str = ""

    def play(self, run: ScenarioRun) -> None:
        number = run.call("POST", "faults", self.to_body("as"))["number"]
        if self.named:
            run.faults[self.named] = number


class Clear(Step, frozen=True):
    """Clear the fault of that name, or all faults."""

    verb = "clear"
    fault: str = ""

    def play(self, run: ScenarioRun) -> None:
        if self.fault and self.fault not in run.faults:
            raise InvalidRequest(f"no earlier step has as = {self.fault!r}")
        run.call("DELETE", f"faults/{run.faults.pop(self.fault)}" if self.fault else "faults")


class Expire(Step, frozen=True):
    """Expire the cursors (history IDs, delta links) or the access tokens of a mailbox."""

    verb = "expire"
    mailbox: str
    what: Literal["cursors", "tokens"]

    def play(self, run: ScenarioRun) -> None:
        run.call("POST", f"mailboxes/{quote(self.mailbox)}/expire-{self.what}", {})


class Revoke(Step, frozen=True):
    """Revoke what the user granted: their consent, or by a changed password."""

    verb = "revoke"
    mailbox: str
    reason: str = "consent"

    def play(self, run: ScenarioRun) -> None:
        run.call("POST", f"mailboxes/{quote(self.mailbox)}/revoke", {"reason": self.reason})


class Lifecycle(Step, frozen=True):
    """Send a lifecycle notification for the subscriptions of a Microsoft 365 mailbox."""

    verb = "lifecycle"
    mailbox: str
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
    times: int = 1
    seconds: float = 60

    def play(self, run: ScenarioRun) -> None:
        wanted = {"endpoint": self.endpoint, "mailbox": self.mailbox, "limit": 10_000}
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


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error


def read_scenario(path: Path) -> list[Step]:
    """Read and check a scenario. Errors name the file, the step and the nearest valid name."""
    try:
        content = tomllib.loads(read_file(path)[:MAX_BYTES].decode())
    except ValueError as error:
        raise InvalidRequest(f"{path} is not TOML: {error}") from error
    _check_names(str(path), content, ("step",), "key")
    tables = content.get("step")
    if not isinstance(tables, list) or not tables:
        raise InvalidRequest(f"{path} has no steps; each begins with [[step]]")
    numbered = enumerate(cast("list[Any]", tables), 1)
    return [_read_step(f"{path}, step {number}", table) for number, table in numbered]


def _read_step(where: str, table: Any) -> Step:
    values = dict(cast("dict[str, Any]", table)) if isinstance(table, dict) else {}
    verb = values.pop("do", None)
    if not isinstance(verb, str):
        raise InvalidRequest(f'{where}: needs do = "…", one of {", ".join(STEPS)}')
    if verb not in STEPS:
        raise InvalidRequest(f"{where}: unknown step {verb!r}{_suggest(verb, STEPS)}")
    kind = STEPS[verb]
    _check_names(f"{where} ({verb})", values, kind.__struct_encode_fields__, "field")
    known = _list_faults() if kind is Inject else list_kinds()
    for name in _list_named_kinds(values):
        if name not in known:
            raise InvalidRequest(f"{where} ({verb}): unknown kind {name!r}{_suggest(name, known)}")
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{where} ({verb}): {error}") from error


def _list_named_kinds(values: dict[str, Any]) -> list[Any]:
    """List the kinds of faults or messages that a step names."""
    several = values.get("kinds")
    kinds = cast("list[Any]", several) if isinstance(several, list) else []
    return [*kinds, values["kind"]] if values.get("kind") else kinds


def _list_faults() -> list[str]:
    return [kind for group in get_args(FaultKind) for kind in get_args(group)]


def _check_names(where: str, values: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in values:
        if name not in known:
            raise InvalidRequest(f"{where}: unknown {what} {name!r}{_suggest(name, known)}")


def _suggest(name: object, known: Any) -> str:
    names = list(known)
    nearest = get_close_matches(str(name), names, 1, 0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else f"; use one of {', '.join(names)}"


def play_scenario(sim: "MailSimulator", path: Path, report: Report = lambda _: None) -> None:
    """Play a scenario; `report` gets one line per step."""
    steps = read_scenario(path)
    run = ScenarioRun(sim, path.parent)
    newest = run.call("GET", "requests?limit=1")
    run.last_request = newest[0]["number"] if newest else 0
    for number, step in enumerate(steps, 1):
        report(f"step {number} of {len(steps)}: {step.verb}")
        try:
            step.play(run)
        except SimulatorError as error:
            raise SimulatorError(f"{path}, step {number} ({step.verb}): {error}") from error
