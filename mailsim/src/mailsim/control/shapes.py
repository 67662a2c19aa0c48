"""The JSON that the control takes and gives. The OpenAPI document is generated from these structs."""

from typing import Annotated, Any

import msgspec

from mailsim.state import Flag, FolderKind, Importance, ProviderName


class Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parent of what comes in: an unknown or misspelt property is an error, never ignored."""


class Problem(msgspec.Struct, frozen=True):
    """What was wrong with a request, in one sentence."""

    error: str


class Done(msgspec.Struct, frozen=True):
    """How many things the request touched."""

    count: int


# The simulation


class Summary(msgspec.Struct, frozen=True):
    seed: int
    now: str
    quota: str
    latency_ms: int
    http: str
    https: str
    mailboxes: int
    kinds: list[str]  # of generated mail
    faults: list[str]  # that can be ordered


class Move(Given, frozen=True):
    """Forward by so many seconds, or to a moment (ISO 8601 with zone)."""

    seconds: float | None = None
    to: str | None = None


class Moment(msgspec.Struct, frozen=True):
    now: str
    milliseconds: int
    manual: bool


class NewApplication(Given, frozen=True):
    """A client to register; what is left out is made up. No redirect URIs: any is accepted."""

    provider: ProviderName
    name: str = "application"
    client_id: str = ""
    client_secret: str = ""
    redirect_uris: list[str] = []
    tenant: str = ""
    project: str = ""
    testing: bool = False
    certificate: str = ""


class ApplicationShape(msgspec.Struct, frozen=True):
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


# The largest mail that any provider takes, with room for its encoding.
Size = Annotated[int, msgspec.Meta(ge=0, le=64 << 20)]
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
# Header values must not begin a header of their own.
Line = Annotated[str, msgspec.Meta(pattern=r"^[^\r\n\x00]*$", max_length=4000)]


class NewMailbox(Given, frozen=True):
    """`kinds` empty: the usual mix. `spread` false: all mail lies unread in the inbox. `size`: bytes of
    each body.
    """

    provider: ProviderName
    address: str
    name: str = ""
    messages: int = 0
    days: float = 30
    kinds: list[str] = []
    spread: bool = True
    size: Size | None = None


class MailboxShape(msgspec.Struct, frozen=True):
    provider: ProviderName
    address: str
    name: str
    messages: int
    unread: int
    changes: int  # since it was created


class FolderShape(msgspec.Struct, frozen=True):
    """A folder or label. `key` is what the control calls it, `id` what the provider calls it."""

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
    mailbox: MailboxShape
    threads: int
    folders: list[FolderShape]
    subscriptions: list[dict[str, Any]]


class NewFolder(Given, frozen=True):
    name: str
    parent: str | None = None
    hidden: bool = False
    query: str = ""  # makes it a search folder


class FolderChange(Given, frozen=True):
    name: str | None = None
    parent: str | None = None


# Messages


class NewMail(Given, frozen=True, rename={"sender": "from"}):
    """An order for generated mail. People are `Name <address>` or an address.

    `reply_to` is a message of this mailbox, by number or id, which the new one answers.
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


class Placing(Given, frozen=True):
    """Where a message delivered byte for byte goes: default the inbox, unread."""

    folder: str = ""
    read: bool = False


class MessageName(msgspec.Struct, frozen=True):
    number: int
    id: str
    thread: str


class MessageNames(msgspec.Struct, frozen=True):
    messages: list[MessageName]


class FolderName(Given, frozen=True):
    folder: str


class Marks(Given, frozen=True):
    """What is given is set, the rest stays."""

    read: bool | None = None
    flag: Flag | None = None
    importance: Importance | None = None
    categories: list[str] | None = None


class Labels(Given, frozen=True):
    add: list[str] = []
    remove: list[str] = []


class Page(Given, frozen=True):
    """`start`: the first message number. `digests` false leaves out what needs the bytes, which is quick."""

    start: int = 0
    limit: int = 1000
    digests: bool = True


class AttachmentTruth(msgspec.Struct, frozen=True, omit_defaults=True):
    """`part` is numbered as Gmail does. `nested`: it lies inside an attached message."""

    part: str
    name: str
    content_type: str
    size: int
    sha256: str
    inline: bool = False
    content_id: str = ""
    nested: bool = False


class MessageTruth(msgspec.Struct, frozen=True):
    """`folders` are the provider's ids: the folder, or every label. `received` is in milliseconds since
    1970.
    """

    number: int
    id: str
    thread: str
    folders: list[str]
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


class Truth(msgspec.Struct, frozen=True):
    """`next`: the `start` of the next page; null after the last one."""

    total: int
    messages: list[MessageTruth]
    next: int | None


# What goes wrong, what happened


class NewFault(Given, frozen=True):
    """Patterns may hold `*`. `times` null: until removed. See the list of kinds in the summary."""

    kind: str
    mailbox: str = "*"
    endpoint: str = "*"
    provider: str = "*"
    probability: float = 1.0
    times: int | None = None
    skip: int = 0
    status: int = 0
    retry_after: int = 0
    seconds: float = 0.0
    code: str = ""
    path: str = "*"


class FaultShape(msgspec.Struct, frozen=True):
    number: int
    kind: str
    mailbox: str
    endpoint: str
    provider: str
    probability: float
    times: int | None
    skip: int
    status: int
    retry_after: int
    seconds: float
    code: str
    path: str
    matched: int
    taken: int


class RequestFilter(Given, frozen=True):
    """Newest first. `after`: only requests with a higher number. Patterns may hold `*`."""

    provider: str = "*"
    mailbox: str = "*"
    endpoint: str = "*"
    status: int | None = None
    after: int = 0
    limit: int = 100


class RequestShape(msgspec.Struct, frozen=True, omit_defaults=True):
    """`via`: the batch request that carried it. Headers and bodies only while they are being kept.

    A push has a `subscription`. One with news of several mailboxes names them all, with commas between.
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


class LogSettings(Given, frozen=True):
    """Whether headers and bodies are kept from now on, of requests and pushes. Secrets and mail stand in
    them.
    """

    bodies: bool


class MeterShape(msgspec.Struct, frozen=True):
    mailbox: str  # "" for requests that belong to none
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
