"""What every Graph route shares: the state of the simulated service, and one request with what is known."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from random import Random
from typing import Any, cast
from uuid import UUID

import msgspec

from mailsim.entra.directory import User
from mailsim.entra.grants import Access
from mailsim.entra.token import Entra
from mailsim.graph import odata
from mailsim.graph.errors import GraphError, bad_request
from mailsim.graph.filters import Kind
from mailsim.graph.ids import Ids
from mailsim.graph.options import MicrosoftOptions
from mailsim.graph.outbox import Health, Outbox
from mailsim.graph.subscribed import Register
from mailsim.graph.throttle import Throttle
from mailsim.graph.wire import Preferences, View
from mailsim.log import Exchange
from mailsim.mailbox import Mailbox
from mailsim.simulator import Simulator

JSON = "application/json;odata.metadata=minimal;odata.streaming=true;IEEE754Compatible=false;charset=utf-8"
UNREADABLE = (
    "Unable to read JSON request payload. Please ensure Content-Type header is set and payload is of valid "
    "JSON format."
)
_PREFERENCE = re.compile(r'([\w.-]+)\s*(?:=\s*("[^"]*"|[^,;\s]+))?')
_FINE = re.compile(r"(\.\d{6})\d+")  # more digits than Python reads
_SURROGATES = re.compile(r"[\ud800-\udfff]")


@dataclass(slots=True)
class Graph:
    """The state of the service besides mailboxes and tokens."""

    sim: Simulator
    entra: Entra
    throttle: Throttle = field(default_factory=Throttle)
    generations: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    hidden: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    without_mailbox: set[str] = field(default_factory=set[str])  # addresses whose mailbox lies elsewhere
    random: Random = field(default_factory=Random)
    subscriptions: Register = field(default_factory=Register)
    outboxes: dict[str, Outbox] = field(default_factory=dict[str, Outbox])
    health: dict[str, Health] = field(default_factory=dict[str, Health])
    missing: set[str] = field(default_factory=set[str])  # subscriptions that will be told of missed pushes
    told: int = 0  # notifications made so far
    handshakes: int = 0
    vouched: int = 0  # validation tokens made so far
    _ids: dict[str, Ids] = field(default_factory=dict[str, Ids])

    @property
    def options(self) -> MicrosoftOptions:
        return self.entra.options

    def ids(self, mailbox: Mailbox) -> Ids:
        """Made with the mailbox, so that no move goes unseen."""
        oid = self.entra.directory.user(mailbox).oid
        found = self._ids.get(oid)
        if found is None:
            found = self._ids[oid] = Ids(mailbox, oid)
        return found

    def guid(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def forget(self, mailbox: Mailbox) -> None:
        self._ids.pop(self.entra.directory.user(mailbox).oid, None)

    def view(self, mailbox: Mailbox, number: int, prefer: Preferences) -> View | None:
        state = mailbox.state(number)
        if state is None:
            return None
        return View(mailbox, number, state, self.ids(mailbox), prefer, self.options.drafts_received)

    def readable(self, mailbox: Mailbox, number: int) -> bool:
        """False for a message whose push came before the message itself."""
        until = self.hidden.get((mailbox.address, number))
        if until is None:
            return True
        if until > self.sim.clock.time():
            return False
        del self.hidden[mailbox.address, number]
        return True


@dataclass(frozen=True, slots=True)
class Answer:
    """`body`: JSON to be, or bytes of `content_type`; None for an empty answer."""

    status: int = 200
    body: Any = None
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request before it is understood."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes | None  # None: longer than Graph takes
    base_url: str
    part: bool = False  # of a batch
    width: int = 1  # requests of the same application and mailbox under way when this one came


@dataclass(frozen=True, slots=True)
class Call:
    """One request after authentication, or one part of a batch."""

    graph: Graph
    exchange: Exchange
    method: str
    path: str  # as it was written, after /v1.0
    names: tuple[str, ...]  # what stands in the variable places of the path
    raw: Mapping[str, str]  # query options
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    base_url: str
    access: Access
    user: User | None = None  # whose mailbox it is about
    basic: bool = False  # only Mail.ReadBasic: nothing of the body

    @property
    def mailbox(self) -> Mailbox:
        assert self.user is not None
        return self.user.mailbox

    @property
    def ids(self) -> Ids:
        return self.graph.ids(self.mailbox)

    @property
    def url(self) -> str:
        return f"{self.base_url}/v1.0{self.path}"

    @property
    def prefer(self) -> Preferences:
        return _preferred(self.headers.get("prefer", ""))

    @property
    def preferences(self) -> Mapping[str, str]:
        return _preferences(self.headers.get("prefer", ""))

    def applied(self) -> dict[str, str]:
        """The header that says which preferences were obeyed."""
        asked = self.preferences
        said = [
            f'{name}="{asked[name]}"'
            for name in ("outlook.body-content-type",)
            if asked.get(name, "").lower() in {"text", "html"}
        ]
        if "outlook.allow-unsafe-html" in asked:
            said.append("outlook.allow-unsafe-html")
        return {"preference-applied": ", ".join(said)} if said else {}

    def query(self, kind: Kind) -> odata.Query:
        return odata.parse(self.raw, kind)

    def context(self, tail: str) -> str:
        return f"{self.base_url}/v1.0/$metadata#{tail}"

    def json(self) -> dict[str, Any]:
        """The body, which must be a JSON object."""
        try:
            decoded = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(UNREADABLE) from error
        if not isinstance(decoded, dict):
            raise bad_request(UNREADABLE)
        return cast("dict[str, Any]", decoded)


@lru_cache(maxsize=64)
def _preferences(header: str) -> Mapping[str, str]:
    return {name.lower(): value.strip('"') for name, value in _PREFERENCE.findall(header)}


@lru_cache(maxsize=64)
def _preferred(header: str) -> Preferences:
    asked = _preferences(header)
    return Preferences(
        immutable=asked.get("idtype", "").lower() == "immutableid",
        text=asked.get("outlook.body-content-type", "").lower() == "text",
        unsafe="outlook.allow-unsafe-html" in asked,
    )


def encode(value: Any) -> bytes:
    """JSON; halves of surrogate pairs, which broken mail can hold, become question marks."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(value))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATES.sub("?", value)
    if isinstance(value, dict):
        return {name: _clean(inner) for name, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def argument(body: Mapping[str, Any], name: str) -> Any:
    """A parameter of an action: clients write its first letter in either case."""
    return body.get(name, body.get(name[:1].upper() + name[1:]))


def text_of(body: Mapping[str, Any], name: str) -> str:
    """A property that must be a text; empty when it is absent or null."""
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise bad_request(f"Cannot convert the property '{name}' to the expected type 'Edm.String'.")
    return value


def moment_of(body: Mapping[str, Any], name: str) -> float:
    """A property that must be a point in time, in seconds."""
    text = text_of(body, name)
    try:
        moment = datetime.fromisoformat(_FINE.sub(r"\1", text))
        if moment.tzinfo is not None:
            return moment.timestamp()
    except (ValueError, OverflowError):
        pass
    raise bad_request(f"Cannot convert the literal '{text[:50]}' to the expected type 'Edm.DateTimeOffset'.")


def gone(message: str, headers: dict[str, str]) -> GraphError:
    return GraphError(410, "SyncStateNotFound", message, headers=headers)
