"""The JSON bodies and query parameters of the control API, as msgspec structs.

The OpenAPI document is generated from them. Those of one provider are in `google.control` and
`graph.control`, those of actions in `provider_actions`.
"""

from typing import Annotated, Any, Literal

import msgspec

from mailsim.faults import Fault
from mailsim.message_state import Flag, FolderKind, Importance, ProviderName
from mailsim.provider_actions import ProviderNames


class ControlInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all request structs. Unknown properties are rejected."""


class Problem(msgspec.Struct, frozen=True):
    """An error response with one sentence about what was wrong."""

    error: str


class AffectedCount(msgspec.Struct, frozen=True):
    """The number of objects that a request affected."""

    count: int


# The simulation


class SimulationSummary(msgspec.Struct, frozen=True):
    seed: int
    now: str
    quota: str
    latency_ms: int
    http: str
    https: str
    mailboxes: int
    kinds: list[str]  # of generated messages
    faults: list[str]  # kinds that can be scheduled
    providers: dict[ProviderName, ProviderNames]


class ClockMove(ControlInput, frozen=True):
    """Move the clock forward by `seconds`, or to a time (ISO 8601 with zone)."""

    seconds: float | None = None
    to: str | None = None


class ClockReading(msgspec.Struct, frozen=True):
    now: str
    milliseconds: int
    manual: bool


class NewApplication(ControlInput, frozen=True):
    """A client to register. Missing values are generated; without redirect URIs, any is accepted."""

    provider: ProviderName
    name: str = "application"
    client_id: str = ""
    client_secret: str = ""
    redirect_uris: list[str] = []
    tenant: str = ""
    project: str = ""
    testing: bool = False
    certificate: str = ""


class ApplicationInfo(msgspec.Struct, frozen=True):
    provider: ProviderName
    name: str
    client_id: str
    client_secret: str
    redirect_uris: list[str]
    tenant: str
    project: str
    testing: bool
    certificate: str


# Mailboxes


# The largest message that any provider accepts, with room for its encoding.
Size = Annotated[int, msgspec.Meta(ge=0, le=64 << 20)]
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
# A line break in a header value would start another header.
Line = Annotated[str, msgspec.Meta(pattern=r"^[^\r\n\x00]*$", max_length=4000)]


class DeviceSignInInfo(msgspec.Struct, frozen=True):
    """A sign-in of a device. `address` is the account that approved it, empty before."""

    provider: ProviderName
    user_code: str
    client_id: str
    scopes: list[str]
    expires: str
    address: str
    declined: bool


class DeviceDecision(ControlInput, frozen=True):
    """Approve a device's sign-in with the account `address`, or decline it."""

    address: str = ""
    decision: Literal["allow", "deny"] = "allow"


class NewMailbox(ControlInput, frozen=True):
    """A mailbox to create.

    Empty `kinds` means the usual mix. Without `spread`, all mail is unread in the inbox. `size` is the size
    of each body in bytes.
    """

    provider: ProviderName
    address: str
    name: str = ""
    messages: int = 0
    days: float = 30
    kinds: list[str] = []
    spread: bool = True
    size: Size | None = None


class MailboxInfo(msgspec.Struct, frozen=True):
    provider: ProviderName
    address: str
    name: str
    messages: int
    unread: int
    changes: int  # since its creation


class FolderInfo(msgspec.Struct, frozen=True):
    """A folder or label. `key` is its name in the control API, `id` the provider's ID."""

    key: str
    id: str
    name: str
    kind: FolderKind
    parent: str | None
    hidden: bool
    query: str
    messages: int
    unread: int


class MailboxDetails(msgspec.Struct, frozen=True):
    mailbox: MailboxInfo
    threads: int
    folders: list[FolderInfo]
    subscriptions: list[dict[str, Any]]


class NewFolder(ControlInput, frozen=True):
    name: str
    parent: str | None = None
    hidden: bool = False
    query: str = ""  # makes it a search folder


class FolderChange(ControlInput, frozen=True):
    name: str | None = None
    parent: str | None = None


# Messages


class NewMessages(ControlInput, frozen=True, rename={"sender": "from"}):
    """Messages to generate. People are given as an address or as `Name <address>`.

    `reply_to` is the number or ID of a message in this mailbox to reply to.
    """

    kind: str = ""
    variant: str = ""
    language: str = ""
    sender: Line = ""
    to: list[Line] = []
    cc: list[Line] = []
    subject: Line | None = None
    size: Size | None = None
    reply_to: str = ""
    seed: Seed | None = None
    count: int = 1
    folder: str = ""
    read: bool = False


class DeliveryQuery(ControlInput, frozen=True):
    """Where to put a message that is delivered byte for byte. Default: unread in the inbox."""

    folder: str = ""
    read: bool = False


class MessageRef(msgspec.Struct, frozen=True):
    number: int
    id: str
    thread: str


class MessageRefs(msgspec.Struct, frozen=True):
    messages: list[MessageRef]


class MoveDestination(ControlInput, frozen=True):
    folder: str


class MessageStateChange(ControlInput, frozen=True):
    """Properties to set; missing ones stay the same."""

    read: bool | None = None
    flag: Flag | None = None
    importance: Importance | None = None
    categories: list[str] | None = None


class LabelChange(ControlInput, frozen=True):
    add: list[str] = []
    remove: list[str] = []


class TruthQuery(ControlInput, frozen=True):
    """`start` is the first message number. Without `digests`, everything that needs the bytes is left out."""

    start: int = 0
    limit: int = 1000
    digests: bool = True


class AttachmentTruth(msgspec.Struct, frozen=True, omit_defaults=True):
    """`part` is numbered as in Gmail. `nested` means inside an attached message."""

    part: str
    name: str
    content_type: str
    size: int
    sha256: str
    inline: bool = False
    content_id: str = ""
    nested: bool = False


class MessageTruth(msgspec.Struct, frozen=True):
    """`folders` are the provider's IDs: the folder, or every label. `folder_names` has their names.

    `received` is in Unix milliseconds.
    """

    number: int
    id: str
    thread: str
    folders: list[str]
    folder_names: list[str]
    keys: list[str]
    read: bool
    flag: Flag
    importance: Importance
    categories: list[str]
    draft: bool
    received: int
    message_id: str = ""
    subject: str = ""
    size: int = 0
    sha256: str = ""
    attachments: list[AttachmentTruth] = []


class TruthPage(msgspec.Struct, frozen=True):
    """`next` is the `start` of the next page, null after the last one."""

    total: int
    messages: list[MessageTruth]
    next: int | None


# Faults, logs and meters


class FaultInfo(Fault, frozen=True, kw_only=True):
    """A scheduled fault, and how often it matched a request and happened."""

    number: int
    matched: int
    taken: int


class RequestFilter(ControlInput, frozen=True):
    """`after` selects requests with a higher number. Patterns may contain `*`."""

    provider: str = "*"
    mailbox: str = "*"
    endpoint: str = "*"
    status: int | None = None
    after: int = 0
    limit: int = 100


class RequestInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """`via` is the batch request that carried it. Headers and bodies are set only while they are logged.

    A push has a `subscription`; a push about several mailboxes lists them separated by commas.
    """

    number: int
    time: str
    method: str
    path: str
    query: str
    provider: str
    endpoint: str
    mailbox: str
    status: int
    units: int
    duration_ms: float
    subscription: str = ""
    fault: str = ""
    via: int = 0
    request_headers: list[tuple[str, str]] = []
    request_body: str = ""
    response_headers: list[tuple[str, str]] = []
    response_body: str = ""


class LogSettings(ControlInput, frozen=True):
    """Whether to log headers and bodies of requests and pushes from now on. They contain secrets and mail."""

    bodies: bool


class MeterInfo(msgspec.Struct, frozen=True):
    mailbox: str  # "" for requests without a mailbox
    units: int
    requests: int
    in_flight: int
    peak: int
    rejections: int
    faults: int
    pushes_sent: int
    pushes_acknowledged: int
    pushes_failed: int
    pushes_dropped: int
    calls: dict[str, int]
    statuses: dict[str, int]
