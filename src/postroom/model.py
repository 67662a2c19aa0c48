"""The domain types that every layer shares: identifiers, enums and frozen values. No I/O.

Also `Secret`, and the parsing of keys, which settings and vault share. Types of the API are in `api_types`,
protocols in `ports`, rows in `store`.
"""

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
DirectoryId = NewType("DirectoryId", UUID)
UPLOADER = "upload@localhost"  # the sender of an uploaded file, if none is given


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
    REMOVE_ORPHANS = "remove_orphans"  # remove subscriptions of applications that no row knows
    SYNC = "sync"  # mirror a mailbox from its cursors
    SYNC_DIRECTORY = "sync_directory"  # list a directory, and let users join and leave
    SYNC_DIRECTORY_USER = "sync_directory_user"  # connect the mailbox of a user who joins, or let it leave
    AUDIT = "audit"  # compare a mailbox at its provider with the store
    APPLY_POLICY = "apply_policy"  # remove content that a lowered content policy no longer allows
    APPLY_RETENTION = "apply_retention"  # remove an organization's rows whose retention has passed
    INDEX_FILE_NAMES = "index_file_names"  # add names of attachments stored before an upgrade to the search
    UNPACK = "unpack"  # open a zip file or a forwarded message
    PROCESS_DOCUMENT = "process_document"  # read a document and route it
    ARCHIVE = "archive"  # write a completed document to the archive
    WATCH_FOLDER = "watch_folder"  # take in new files of a watched folder or bucket
    SHARE_STATE = "share_state"  # keep a message's row in the table shared with another scheduler
    SEAL = "seal"  # number an organization's feed and seal its ledger
    DELIVER = "deliver"  # send events to a webhook
    SEND_NOTICES = "send_notices"  # send due notices to a destination
    COLLECT_GARBAGE = "collect_garbage"  # remove an organization's unreferenced blobs
    RECOVER = "recover"  # after the database may have lost commits: record it, and audit every mailbox


class MailboxHealth(StrEnum):
    """The state of a mailbox's connection to its provider."""

    ACTIVE = "active"
    TOKEN_REFRESH_FAILED = "token_refresh_failed"  # noqa: S105  # the grant is lost: the owner must reconnect
    SUBSCRIPTION_EXPIRED = "subscription_expired"  # no push arrives; it is being recreated
    PROVIDER_ERROR = "provider_error"  # the mailbox cannot be read, or the provider denies it a subscription
    OPERATOR_ERROR = "operator_error"  # the mailbox cannot be read until an operator acts


class HealthCause(StrEnum):
    """Why a mailbox is not healthy. Each cause belongs to one health."""

    CONSENT_LOST = "consent_lost"
    ACCESS_DENIED = "access_denied"
    SERVER_ERROR = "server_error"
    THROTTLED = "throttled"
    UNREACHABLE = "unreachable"
    TOKEN_REJECTED = "token_rejected"  # noqa: S105  # not a secret
    INTERRUPTED = "interrupted"  # a fault here: a crash, the blob store, a listing that cannot end
    SECRET_UNREADABLE = "secret_unreadable"  # noqa: S105  # not a secret
    APPLICATION_REJECTED = "application_rejected"
    QUOTA_EXHAUSTED = "quota_exhausted"
    OPERATOR_REQUIRED = "operator_required"  # any other fault that only an operator can fix
    NO_SUBSCRIPTION = "no_subscription"  # pushes are missing, but sweeps work
    PUSH_SILENT = "push_silent"  # the same, although there is a subscription
    SUBSCRIPTION_DENIED = "subscription_denied"

    @property
    def health(self) -> MailboxHealth:
        match self:
            case HealthCause.CONSENT_LOST:
                return MailboxHealth.TOKEN_REFRESH_FAILED
            case HealthCause.NO_SUBSCRIPTION | HealthCause.PUSH_SILENT:
                return MailboxHealth.SUBSCRIPTION_EXPIRED
            case (
                HealthCause.SECRET_UNREADABLE
                | HealthCause.APPLICATION_REJECTED
                | HealthCause.QUOTA_EXHAUSTED
                | HealthCause.OPERATOR_REQUIRED
            ):
                return MailboxHealth.OPERATOR_ERROR
            case _:
                return MailboxHealth.PROVIDER_ERROR

    @classmethod
    def resolve(cls, health: MailboxHealth, stored: str | None) -> "HealthCause | None":
        """The stored cause if it fits the health. A process of an older version stores the health only."""
        if health is MailboxHealth.ACTIVE:
            return None
        fitting = [cause for cause in cls if cause.health is health]
        return next((cause for cause in fitting if cause == stored), fitting[0])

    @property
    def concerns_push(self) -> bool:
        """Whether only pushes are affected: the mailbox itself can be read."""
        return self in {self.NO_SUBSCRIPTION, self.PUSH_SILENT, self.SUBSCRIPTION_DENIED}


class WebhookFormat(StrEnum):
    """The form of the events that an outgoing webhook receives."""

    STANDARD = "standard"  # as Standard Webhooks recommends
    CLOUDEVENTS = "cloudevents"  # CloudEvents 1.0, structured JSON


class Role(StrEnum):
    """What a member may do. Each role includes the ones below it."""

    ADMIN = "admin"  # connect and disconnect mailboxes, members, keys, settings
    REVIEWER = "reviewer"  # review documents
    READER = "reader"  # read only

    def allows(self, needed: "Role") -> bool:
        order = list(Role)
        return order.index(self) <= order.index(needed)


class Scope(StrEnum):
    """What an API key gives access to."""

    READ = "read"  # mail, documents, records, events
    LEDGER = "ledger"  # the audit trail
    MAILBOXES = "mailboxes"  # pause, resume, sync, policy; directories; retry failures
    DOCUMENTS = "documents"  # uploads, reviews, orders
    WEBHOOKS = "webhooks"  # outgoing webhooks
    ORGANIZATION = "organization"  # names of the organization, destinations of notices


class CredentialKind(StrEnum):
    """The kind of secret that gives access to a mailbox."""

    DELEGATED = "delegated"  # the refresh token of a person's login
    APP_SECRET = "app_secret"  # noqa: S105  # an application's own secret
    APP_CERTIFICATE = "app_certificate"  # an application's certificate or key file, with its private key


class RevocationResult(StrEnum):
    """What is known about the grant at the provider after a disconnect."""

    REVOKED = "revoked"  # the provider confirmed it
    ALREADY_INVALID = "already_invalid"  # the provider no longer knows the grant
    NOT_SUPPORTED = "not_supported"  # the provider cannot revoke one grant; it ends when it is deleted here
    FAILED = "failed"  # the provider did not confirm it
    SHARED = "shared"  # kept, because another organization has the same account connected
    NOT_APPLICABLE = "not_applicable"  # there is no consent to revoke: an application's own credential


class LifecycleEvent(StrEnum):
    """A lifecycle notification about a subscription. The values are Graph's."""

    REAUTHORIZATION_REQUIRED = "reauthorizationRequired"
    SUBSCRIPTION_REMOVED = "subscriptionRemoved"
    MISSED = "missed"


class Secret:
    """A value that never appears in str, repr, format, logs or pickles. Only `reveal` returns it."""

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
    """A key of the vault, and the id that sealed values carry."""

    id: str
    value: bytes = field(repr=False)


def parse_sealing_keys(entries: Iterable[str]) -> tuple[SealingKey, ...]:
    """Parse entries `id:base64`, each a key of 32 bytes. Errors give an entry's number, never its value."""
    keys = tuple(_parse_sealing_key(number, entry.strip()) for number, entry in enumerate(entries, start=1))
    if not keys:
        raise ValueError("has no key")
    if len({key.id for key in keys}) < len(keys):
        raise ValueError("gives two keys the same id")
    return keys


def _parse_sealing_key(number: int, entry: str) -> SealingKey:
    name, _, encoded = entry.partition(":")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,16}", name):
        raise ValueError(
            f"has a key (number {number}) without an id of 1 to 16 characters from A-Z, a-z, 0-9, - and _"
        )
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        value = base64.b64decode(padded.translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"has a key (number {number}) that is not base64") from None
    if len(value) != 32:
        raise ValueError(f"has a key (number {number}) of {len(value)} bytes instead of 32")
    return SealingKey(name, value)


def decode_key(encoded: str) -> bytes:
    """Decode a base64 key of 32 bytes. Errors never show the value."""
    try:
        value = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not base64") from None
    if len(value) != 32:
        raise ValueError(f"holds {len(value)} bytes instead of 32")
    return value


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a successful step: due again after this many seconds, or finished (None)."""

    again_after: float | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The account a mailbox belongs to, according to its provider. The address may change, the id never."""

    account_id: str  # Google: sub; Microsoft: tid and oid
    provider_user_id: str  # used by background calls in place of `me`
    address: str
    # Microsoft: tid and address. It is also the `account_id` if the application may not read users; a later
    # login that returns the oid then finds the mailbox by it.
    substitute_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """An access token, and the new refresh token if the provider rotated it."""

    access: Secret
    expires_in_seconds: float
    refresh: Secret | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """The result of a login. `missing_scopes` were requested but not granted."""

    account: Account
    tokens: Tokens
    scopes: frozenset[str]
    missing_scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class AppCredential:
    """App-only access: a secret, or a certificate with its private key in PEM.

    Google has no tenants here; the JSON key file of a service account takes the place of the certificate.
    """

    tenant_id: str | None
    client_id: str
    client_secret: Secret | None = None
    certificate: Secret | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """One OAuth authorization in progress."""

    state: Secret
    verifier: Secret
    redirect_uri: str
    policy: ContentPolicy
    login_hint: str | None = None
    force_consent: bool = False  # show the consent page even if consent was given before


def has_ambiguous_credentials(url: str) -> bool:
    """Whether an unencoded @ or / in a URL's credentials makes part of them look like the host."""
    authority, _, path = url.partition("?")[0].partition("://")[2].partition("/")
    return authority.count("@") > 1 or "@" in path


@dataclass(frozen=True, slots=True)
class RemoteSubscription:
    """A subscription as the provider reports it. Gmail's has no id: each account has exactly one."""

    provider_subscription_id: str | None
    resource: str
    notification_url: str | None
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Notification:
    """One item of a push, untrusted until its secret was compared.

    Graph names a subscription and includes its secret. Gmail's push is authenticated as a whole and names an
    address.
    """

    provider_subscription_id: str | None = None
    client_state: Secret | None = None
    address: str | None = None
    message_id: str | None = None
    lifecycle: LifecycleEvent | None = None


class FolderRole(StrEnum):
    """The purpose of a folder, independent of its (localized) name."""

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
    """A folder or a label. `scope` is the unit the provider reports its changes for."""

    key: str
    name: str
    parent: str | None
    role: FolderRole | None
    scope: str | None  # all labels share one; None if the mailbox is limited to another folder


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The mutable state of a message as a provider reported it. None: not reported, keep what is stored."""

    thread: str | None = None
    folder: str | None = None  # Graph: a message is in exactly one folder
    labels: frozenset[str] | None = None  # Gmail: the complete set of labels
    categories: frozenset[str] | None = None
    is_read: bool | None = None
    is_flagged: bool | None = None
    is_draft: bool | None = None
    importance: Importance | None = None
    received_at: datetime | None = None


class Presence(Enum):
    """Whether a message is where a change was reported."""

    PRESENT = "present"
    LEFT = "left"  # left this scope: moved or deleted, only a lookup of the message says which
    DELETED = "deleted"  # permanently


@dataclass(frozen=True, slots=True)
class MessageChange:
    """One observation of one message, from a listing, a change feed or a lookup.

    `version` grows with every change of the message (compared as text) and is the same when a change is
    reported again. It is empty where the provider does not return it.
    """

    key: str
    presence: Presence
    version: str = ""
    state: ObservedState = ObservedState()
    labels_added: frozenset[str] = frozenset()
    labels_removed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ChangePage:
    """One page of a listing or a change feed, and the cursor that follows it."""

    changes: tuple[MessageChange, ...]
    # Opaque: where the next page starts. After the last page of changes, where the next sync starts.
    cursor: str
    has_more: bool
    # On the last page of a listing, if only the listing's end says where the change feed starts (Graph).
    live_cursor: str | None = None
    estimated_total: int | None = None  # how many messages a listing will probably return


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class RemoteAttachment:
    """An attachment of a fetched message. Without `content`, its bytes must be fetched separately."""

    part: str  # its position in the message, which is its key
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
    """The immutable content of a message. The policy `metadata` leaves out bodies and attachments."""

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
    # The RFC 5322 bytes, if the provider returned them.
    raw: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FetchedMessage:
    """A complete message: its state and its content, both of `version`."""

    key: str
    version: str
    state: ObservedState
    content: MessageContent


@dataclass(frozen=True, slots=True)
class FetchFailure:
    """A message that could not be fetched: gone at the provider, or failed for a readable reason."""

    key: str
    gone: bool
    reason: str
    retry_after: float | None = None


class DocumentState(StrEnum):
    """The state of a document. `flow.documents` draws the transitions."""

    QUEUED = "queued"  # taken in, not started
    PROCESSING = "processing"  # a worker is reading it
    COMPLETED = "completed"  # its record is confirmed, or it duplicates a confirmed one
    SKIPPED = "skipped"  # not what the pipeline is for, or rejected by a person
    NEEDS_REVIEW = "needs_review"  # a person must decide
    FAILED = "failed"  # unreadable; waits for a person
