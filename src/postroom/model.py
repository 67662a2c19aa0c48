"""The words of the domain as types: identifiers, enums, frozen values. No I/O."""

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from hmac import compare_digest
from typing import Literal, NewType, NoReturn
from uuid import UUID

OrganizationId = NewType("OrganizationId", UUID)
MailboxId = NewType("MailboxId", UUID)
SubscriptionId = NewType("SubscriptionId", UUID)
MemberId = NewType("MemberId", UUID)


class ProviderName(StrEnum):
    GMAIL = "gmail"
    OUTLOOK = "outlook"


class ContentPolicy(StrEnum):
    """How much of a mailbox is kept."""

    METADATA = "metadata"  # no body and no attachment is ever requested
    DOCUMENTS = "documents"  # metadata, and the attachments that a pipeline accepts
    FULL = "full"  # everything


class WorkKind(StrEnum):
    """The kinds of work. Their values are stored in `work.kind`, and appear in metrics and on pages."""

    SUBSCRIBE = "subscribe"  # create or renew the push subscription of a mailbox
    SYNC = "sync"  # mirror a mailbox from its cursors
    AUDIT = "audit"  # compare a mailbox at its provider with the store
    APPLY_POLICY = "apply_policy"  # remove content that a lowered content policy no longer allows
    APPLY_RETENTION = "apply_retention"  # remove an organization's rows whose retention has passed
    UNPACK = "unpack"  # open a zip file or a forwarded message
    PROCESS_DOCUMENT = "process_document"  # read a document and route it
    ARCHIVE = "archive"  # write a completed document to the archive
    WATCH_FOLDER = "watch_folder"  # take in new files of a watched folder or bucket
    SHARE_STATE = "share_state"  # keep a message's row in the table shared with another scheduler
    SEAL = "seal"  # number an organization's feed and seal its ledger
    DELIVER = "deliver"  # send events to a webhook
    COLLECT_GARBAGE = "collect_garbage"  # remove an organization's unreferenced blobs


class MailboxHealth(StrEnum):
    """How a mailbox is connected."""

    ACTIVE = "active"
    TOKEN_REFRESH_FAILED = "token_refresh_failed"  # noqa: S105  # the grant is lost: reconnect
    SUBSCRIPTION_EXPIRED = "subscription_expired"  # no push arrives: being recreated, sweeps go on
    PROVIDER_ERROR = "provider_error"  # the provider refuses this mailbox


class Role(StrEnum):
    """What a member may do. Each may do what those below may."""

    ADMIN = "admin"  # connect and disconnect mailboxes, members, keys, settings
    REVIEWER = "reviewer"  # decide about documents
    READER = "reader"  # look

    def allows(self, needed: "Role") -> bool:
        order = list(Role)
        return order.index(self) <= order.index(needed)


class Scope(StrEnum):
    """What an API key opens."""

    READ = "read"  # mail, documents, records, events
    LEDGER = "ledger"  # the audit trail
    MAILBOXES = "mailboxes"  # pause, resume, sync, policy; retry failures
    DOCUMENTS = "documents"  # uploads, reviews, orders
    WEBHOOKS = "webhooks"  # outgoing webhooks


class CredentialKind(StrEnum):
    """What a mailbox's grant is."""

    DELEGATED = "delegated"  # the refresh token of a person's login
    APP_SECRET = "app_secret"  # noqa: S105  # an application's own secret
    APP_CERTIFICATE = "app_certificate"  # an application's certificate with its private key


class LifecycleEvent(StrEnum):
    """What a provider says about a subscription itself."""

    REAUTHORIZATION_REQUIRED = "reauthorizationRequired"
    SUBSCRIPTION_REMOVED = "subscriptionRemoved"
    MISSED = "missed"


class Secret:
    """A value that str, repr, format, logs and pickles never show. `reveal` is the only way out."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(********)"

    def __str__(self) -> str:
        return "********"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied to another process")


@dataclass(frozen=True, slots=True)
class SealingKey:
    """A key of the vault, and the id by which sealed values name it."""

    id: str
    value: bytes = field(repr=False)


def parse_sealing_keys(entries: Iterable[str]) -> tuple[SealingKey, ...]:
    """Read entries `id:base64`, each a key of 32 bytes. A fault tells an entry's number, never shows it."""
    keys = tuple(_parse_sealing_key(number, entry.strip()) for number, entry in enumerate(entries, start=1))
    if not keys:
        raise ValueError("has no key")
    if len({key.id for key in keys}) < len(keys):
        raise ValueError("gives two keys the same id")
    return keys


def _parse_sealing_key(number: int, entry: str) -> SealingKey:
    name, _, encoded = entry.partition(":")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,16}", name):
        raise ValueError(f"has a key (number {number}) without an id of 1 to 16 letters, digits, - or _")
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        value = base64.b64decode(padded.translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"has a key (number {number}) that is not base64") from None
    if len(value) != 32:
        raise ValueError(f"has a key (number {number}) of {len(value)} bytes instead of 32")
    return SealingKey(name, value)


def decode_key(encoded: str) -> bytes:
    """The 32 bytes of a key in base64. A fault never shows the value."""
    try:
        value = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not base64") from None
    if len(value) != 32:
        raise ValueError(f"holds {len(value)} bytes instead of 32")
    return value


@dataclass(frozen=True, slots=True)
class StepResult:
    """How a step ends well: it is due again after so many seconds, or nothing more is to be done."""

    again_after: float | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """Who the provider says a mailbox belongs to. `account_id` never changes; the address may."""

    account_id: str  # Google: sub; Microsoft: tid and oid
    provider_user_id: str  # what background calls name instead of `me`
    address: str
    # What stands in for the account's own id where the provider does not tell it; then the two are equal.
    substitute_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """What opens a mailbox for a while, and what renews it (absent where the old one stays good)."""

    access: Secret
    expires_in_seconds: float
    refresh: Secret | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What came of a login. `missing_scopes` are those that were asked for and not granted."""

    account: Account
    tokens: Tokens
    scopes: frozenset[str]
    missing_scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class AppCredential:
    """App-only access to one tenant: a secret, or a certificate with its private key in PEM."""

    tenant_id: str
    client_id: str
    client_secret: Secret | None = None
    certificate: Secret | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """One authorization under way."""

    state: Secret
    verifier: Secret
    redirect_uri: str
    policy: ContentPolicy
    login_hint: str | None = None
    force_consent: bool = False  # show the consent page even where consent was given before


def has_ambiguous_credentials(url: str) -> bool:
    """Whether an unencoded @ or / in the credentials of a URL lets a part of them be taken for the host."""
    authority, _, path = url.partition("?")[0].partition("://")[2].partition("/")
    return authority.count("@") > 1 or "@" in path


@dataclass(frozen=True, slots=True)
class RemoteSubscription:
    """A push channel as the provider knows it. Gmail's has no id: there is one for each account."""

    provider_subscription_id: str | None
    resource: str
    notification_url: str | None
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Notification:
    """One item of a push, as it claims to be; nothing in it is believed before its secret was compared.

    Graph names a subscription and shows its secret; Gmail's push is authenticated whole and names an address.
    """

    provider_subscription_id: str | None = None
    client_state: Secret | None = None
    address: str | None = None
    message_id: str | None = None
    lifecycle: LifecycleEvent | None = None


class FolderRole(StrEnum):
    """What a folder is for, in whatever language it is named."""

    INBOX = "inbox"
    ARCHIVE = "archive"
    SENT = "sent"
    DRAFTS = "drafts"
    SPAM = "spam"
    TRASH = "trash"


class Importance(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """A folder or a label. `scope` is the feed in which changes of its mail are told."""

    key: str
    name: str
    parent: str | None
    role: FolderRole | None
    scope: str | None  # all labels share one; None where the mailbox is limited to another folder


@dataclass(frozen=True, slots=True)
class ObservedState:
    """What of a message may change. None: not told, so it stays as it is stored."""

    thread: str | None = None
    folder: str | None = None  # the one folder, where the provider has folders
    labels: frozenset[str] | None = None  # all of them, where it has labels
    categories: frozenset[str] | None = None
    is_read: bool | None = None
    is_flagged: bool | None = None
    is_draft: bool | None = None
    importance: Importance | None = None
    received_at: datetime | None = None


class Presence(Enum):
    PRESENT = "here"
    LEFT = "left"  # the feed: moved or deleted, only a look at the message tells
    DELETED = "deleted"  # for good


@dataclass(frozen=True, slots=True)
class MessageChange:
    """One observation of one message, in a listing, a feed of changes or by a look.

    `version` grows with every change of the message, compared as text, and is the same when the same change
    is told again; empty where the provider does not tell it here.
    """

    key: str
    presence: Presence
    version: str = ""
    state: ObservedState = ObservedState()
    labels_added: frozenset[str] = frozenset()
    labels_removed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ChangePage:
    """One page of a listing or of changes, and the cursor that passes over it."""

    changes: tuple[MessageChange, ...]
    cursor: (
        str  # opaque: where the next page begins; after the last page of changes, where the next sync does
    )
    has_more: bool
    live_cursor: str | None = (
        None  # with a listing's last page, where it alone tells from where changes are to be read
    )
    estimated_total: int | None = None  # a guess of how many a listing will show


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class RemoteAttachment:
    """An attachment as the message carries it. Without `content` its bytes are to be asked for."""

    part: str  # its place in the message: the key
    kind: Literal["file", "item", "reference"]
    media_type: str
    size: int
    file_name: str | None = None
    is_inline: bool = False
    content_id: str | None = None
    provider_attachment_id: str | None = None
    content: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class MessageContent:
    """What of a message never changes. The policy `metadata` leaves bodies, snippet and enclosures empty."""

    internet_message_id: str | None
    sender: Person | None
    to: tuple[Person, ...]
    cc: tuple[Person, ...]
    bcc: tuple[Person, ...]
    subject: str | None
    sent_at: datetime | None
    size: int | None
    has_attachments: bool
    is_newsletter: bool
    is_automated: bool
    headers: tuple[tuple[str, str], ...] = ()
    snippet: str | None = None
    body_plain: str | None = None
    body_html: str | None = None
    attachments: tuple[RemoteAttachment, ...] = ()
    raw: bytes | None = field(
        default=None, repr=False
    )  # the bytes as they came, where the provider gives them


@dataclass(frozen=True, slots=True)
class FetchedMessage:
    """A message whole: its state and its content, both of `version`."""

    key: str
    version: str
    state: ObservedState
    content: MessageContent


@dataclass(frozen=True, slots=True)
class FetchFailure:
    """A message that could not be fetched: gone at the provider, or failed alone for a reason in words."""

    key: str
    gone: bool
    reason: str
    retry_after: float | None = None


class DocumentState(StrEnum):
    QUEUED = "queued"  # taken in, not begun
    PROCESSING = "processing"  # a worker reads it
    COMPLETED = "completed"  # its record is confirmed, or it is the same as one that was
    SKIPPED = "skipped"  # not what the pipeline is for, or rejected by a person
    NEEDS_REVIEW = "needs_review"  # a person must decide
    FAILED = "failed"  # cannot be read; waits for a person
