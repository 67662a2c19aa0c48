"""The protocols between flow and the outside, with their values. No implementations.

For mail providers, sign-in, the vault, the blob store, watched folders and the archive. Adapters do not
inherit from them; the type checker verifies them where wiring assigns them.
"""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from postroom.model import (
    Account,
    AppCredential,
    ChangePage,
    ContentPolicy,
    DirectoryId,
    FetchedMessage,
    FetchFailure,
    Grant,
    Login,
    MailboxId,
    MessageChange,
    Notification,
    OrganizationId,
    ProviderName,
    RemoteAttachment,
    RemoteFolder,
    RemoteSubscription,
    RevocationResult,
    Secret,
    Tokens,
)


class TokenSource(Protocol):
    """Supplies the access token of one mailbox, and refreshes it once for all callers."""

    async def get_token(self) -> Secret: ...

    async def replace_rejected(self, rejected: Secret) -> Secret:
        """Return another token after the provider rejected this one.

        Refreshes only if no other caller has done so in the meantime.
        """
        ...

    async def find_newer(self, denied: Secret) -> Secret | None:
        """Return the stored token after the provider denied access with this one; None if it is the same.

        It may belong to a reconnect that allows more. Refreshes nothing: that would not extend the consent.
        """
        ...


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """A subscription to create. Graph returns the secret with every notification; Gmail has none."""

    notification_url: str
    lifecycle_url: str
    secret: Secret
    folder: str | None
    expires_at: datetime


class RemoteMailbox(Protocol):
    """One mailbox at its provider. Calls are rate-limited, retried, and raise Postroom's own errors."""

    @property
    def push_interval_seconds(self) -> float:
        """The shortest time between two pushes. The provider drops pushes that follow sooner; 0: none."""
        ...

    @property
    def push_names_messages(self) -> bool:
        """Whether a push names the changed message, and not just the mailbox."""
        ...

    async def check(self) -> None:
        """Make the cheapest possible read. Raises if the mailbox cannot be read.

        NotFound: the folder to which this mailbox is limited does not exist.
        """
        ...

    async def subscribe(self, wanted: SubscriptionRequest) -> RemoteSubscription:
        """Create a subscription. Raises AlreadyExists, with its provider id, if an equal one exists."""
        ...

    async def renew(
        self, subscription: RemoteSubscription, *, expires_at: datetime, notification_url: str | None = None
    ) -> RemoteSubscription:
        """Extend a subscription, and move it to another URL if one is given.

        Raises NotFound if the provider no longer has it.
        """
        ...

    async def unsubscribe(self, subscription: RemoteSubscription) -> None:
        """Remove a subscription. Does nothing if it is already gone."""
        ...

    async def find_subscription(self, subscription: RemoteSubscription) -> RemoteSubscription | None:
        """A subscription as the provider has it; None if it is gone. At Gmail, it is assumed to exist."""
        ...

    async def list_subscriptions(self) -> Sequence[RemoteSubscription]:
        """List our subscriptions, with an app-only token those of all mailboxes. Empty for Gmail."""
        ...

    async def list_folders(self) -> Sequence[RemoteFolder]:
        """List all folders or labels, parents before their children."""
        ...

    async def get_current_cursor(self, scope: str) -> str | None:
        """Return a cursor for every change from now on.

        None if only a complete listing yields one, as at Graph.
        """
        ...

    async def list_messages(self, scope: str, *, cursor: str | None, since: datetime | None) -> ChangePage:
        """Return a page of everything in the scope, newest first. Raises CursorExpired, NotFound.

        Messages received before `since` may be included or not; pass None for a complete listing.
        """
        ...

    async def list_changes(self, scope: str, cursor: str) -> ChangePage:
        """Return a page of the changes after the cursor.

        Raises CursorExpired, or NotFound if the scope no longer exists.
        """
        ...

    def list_recent(self, since: datetime, *, drafts: bool = False) -> AsyncIterator[Sequence[MessageChange]]:
        """Iterate over the messages of all scopes that were received since a time.

        `drafts` includes all drafts, however old. Empty if `get_current_cursor` returns a
        cursor, because the change feed then covers new mail.
        """
        ...

    async def look_up(self, keys: Sequence[str]) -> Sequence[MessageChange | FetchFailure]:
        """Return the current state of each message, DELETED if the provider no longer has it."""
        ...

    def fetch(
        self, wanted: Sequence[MessageChange], policy: ContentPolicy
    ) -> AsyncIterator[Sequence[FetchedMessage | FetchFailure]]:
        """Fetch messages in groups, with as much content as the policy allows.

        Uses the cheapest requests and answers every key once. Raises only errors that concern the whole
        mailbox: InvalidGrant, TokenRejected, ….
        """
        ...

    def fetch_attachment(self, key: str, attachment: RemoteAttachment) -> AsyncGenerator[bytes]:
        """Stream the bytes of an attachment that came without them. Raises NotFound, PermanentError."""
        ...

    async def fetch_raw(self, key: str) -> bytes:
        """Fetch the message as RFC 5322 bytes. Raises NotFound."""
        ...

    def quota_used(self) -> float:
        """The share of the provider's quota that this process used in the current window, from 0 to 1."""
        ...

    async def get_mutable_ids(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Translate immutable ids to the ids that clients see without asking for immutable ones (Graph).

        Messages that are gone are left out.
        """
        ...


@dataclass(frozen=True, slots=True)
class PushRequest:
    """An HTTP request that claims to be a push."""

    query: Mapping[str, str]
    authorization: str | None
    body: bytes


class PushReader(Protocol):
    """Authenticates and parses the pushes of one provider.

    `read` does no I/O; `refresh_keys` fetches the signing keys beforehand.
    """

    async def refresh_keys(self) -> None: ...

    def read(self, push: PushRequest) -> Sequence[Notification]:
        """Authenticate and parse a push.

        Raises PushRejected if the provider did not send it, PushUnverifiable if that is unknown for now.
        """
        ...


@dataclass(frozen=True, slots=True)
class PulledNotification:
    """A notification that waits in a queue until its receipt is acknowledged; None if it is unreadable."""

    receipt: str
    notification: Notification | None


class NotificationQueue(Protocol):
    """Holds notifications of a provider that does not push them. Any number of processes may pull."""

    async def pull(self) -> Sequence[PulledNotification]:
        """Wait a while for notifications. Those that are not acknowledged in time come again."""
        ...

    async def acknowledge(self, receipts: Sequence[str]) -> None:
        """Remove notifications from the queue. Does nothing about those that are gone."""
        ...


class ProviderLogin(Protocol):
    """The OAuth endpoints of one provider: authorization, token exchange, refresh, revocation."""

    def scopes(self, policy: ContentPolicy) -> frozenset[str]: ...

    def authorization_url(self, login: Login) -> str: ...

    async def exchange(self, login: Login, code: Secret) -> Grant:
        """Exchange a code for a grant. Raises LoginRejected if code, verifier or redirect URI are wrong."""
        ...

    async def refresh(self, refresh: Secret, scopes: frozenset[str]) -> Tokens:
        """Refresh the access token.

        The error class says who must act: InvalidGrant the owner, OperatorError and PermanentError the
        operator; a TransientError passes by itself.
        """
        ...

    def app_scopes(self, policy: ContentPolicy) -> frozenset[str]:
        """The scopes of app-only tokens; empty if the provider fixes them for the whole application."""
        ...

    async def app_tokens(
        self,
        credential: AppCredential,
        user_id: str,
        scopes: frozenset[str],
        *,
        replacing: Secret | None = None,
    ) -> Tokens:
        """Get tokens that open the mailbox of a user, other than the one that they replace."""
        ...

    async def app_account(self, credential: AppCredential, address: str) -> Account:
        """Look up the account of an address with app-only access."""
        ...

    async def revoke(self, token: Secret) -> RevocationResult:
        """Revoke a token; what the provider confirmed."""
        ...


@dataclass(frozen=True, slots=True)
class DirectoryUser:
    """A user of a Workspace or tenant. `inactive_reason`: why the mailbox cannot be used, if it cannot."""

    account: Account
    inactive_reason: str | None = None


class RemoteDirectory(Protocol):
    """The users of a Google Workspace or a Microsoft 365 tenant. Calls are rate-limited."""

    def list_users(self, groups: Sequence[str]) -> AsyncIterator[Sequence[DirectoryUser]]:
        """Iterate over all users, or over the members of these groups and of the groups in them.

        Raises NotFound, with its name in the message, if a group does not exist. A failure in the middle is
        raised: a listing that ends is complete.
        """
        ...


class Provider(Protocol):
    """Everything that differs between providers."""

    @property
    def name(self) -> ProviderName: ...

    @property
    def login(self) -> ProviderLogin: ...

    @property
    def push(self) -> PushReader: ...

    def mailbox(self, user_id: str, tokens: TokenSource, folder: str | None = None) -> RemoteMailbox:
        """Return a client for one mailbox. `folder`, an id or well-known name, limits it to one folder."""
        ...

    def directory(self, credential: AppCredential, admin: str | None) -> RemoteDirectory:
        """Return a client for a directory. `admin`: the administrator on whose behalf it is read (Google)."""
        ...


@dataclass(frozen=True, slots=True)
class OpenIdIdentity:
    """A person's identity at an OpenID provider. The address counts only if the provider verified it."""

    issuer: str
    subject: str
    address: str | None
    address_verified: bool


@dataclass(frozen=True, slots=True)
class IdentityRequest:
    """One sign-in in progress at an OpenID provider."""

    state: Secret
    nonce: Secret
    verifier: Secret
    redirect_uri: str


class IdentityProvider(Protocol):
    """Authenticates people by OpenID Connect."""

    @property
    def name(self) -> str: ...

    async def authorization_url(self, request: IdentityRequest) -> str: ...

    async def identity(self, request: IdentityRequest, code: Secret) -> OpenIdIdentity:
        """Exchange a code for an identity. Raises LoginRejected if code, token or signature are invalid."""
        ...


@dataclass(frozen=True, slots=True)
class PostResult:
    """The result of an HTTP POST to a webhook: a status, or the error that prevented one."""

    status: int | None
    error: str | None = None

    @property
    def failure(self) -> str | None:
        """Why the delivery was not accepted; None if it was."""
        if self.status is None:
            return self.error or "the receiver cannot be reached"
        return None if 200 <= self.status < 300 else f"the receiver returned status {self.status}"


@dataclass(frozen=True, slots=True)
class SecretLocation:
    """The row and field a secret belongs to. A secret sealed for one location does not open at another."""

    organization: OrganizationId
    mailbox: MailboxId | DirectoryId  # or a directory, whose mailboxes share its grant
    field: Literal["grant", "access"]

    @property
    def context(self) -> str:
        return f"credentials/{self.organization}/{self.mailbox}/{self.field}"


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """An encrypted secret, safe to store in the database, and the id of the key that sealed it."""

    key_id: str
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SsmParameter:
    """The name of the AWS SSM parameter that holds a secret."""

    name: str


StoredSecret = SealedSecret | SsmParameter


class Vault(Protocol):
    """Stores the grants of mailboxes. The value that `store` returns goes into the row of that location.

    Storing again replaces the secret. Calls may go over the network: never make them inside a transaction.
    """

    async def store(self, location: SecretLocation, secret: Secret) -> StoredSecret: ...

    async def fetch(self, location: SecretLocation, stored: StoredSecret) -> Secret: ...

    async def delete(self, location: SecretLocation, stored: StoredSecret) -> None: ...


# The content of a blob: bytes, or an iterator of chunks.
Content = bytes | Iterable[bytes] | AsyncIterable[bytes]


@dataclass(frozen=True, slots=True)
class Blob:
    """A durably stored blob. `created`: this put wrote it; it did not exist before."""

    sha256: bytes
    size: int
    created: bool


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """An object in the blob store, with the modification time by the store's clock."""

    sha256: bytes
    size: int
    modified_at: datetime


class BlobStore(Protocol):
    """Stores bytes by their SHA-256, once per content and organization.

    Putting the same content again is harmless. A blob is durable once `put` returns, so a row that refers to
    it may commit. Raises OperatorError if the operator must act (disk full, access denied), else
    TransientError.
    """

    async def check(self) -> str:
        """Connect to the store and return its location. Two processes share blobs only if these are equal."""
        ...

    async def put(self, organization: OrganizationId, content: Content) -> Blob:
        """Store a blob. Pass large content in chunks: only a few are in memory at a time."""
        ...

    def read(
        self, organization: OrganizationId, sha256: bytes, *, start: int = 0, end: int | None = None
    ) -> AsyncGenerator[bytes]:
        """Stream the bytes from `start` up to, not including, `end`. Raises NotFound without such a blob."""
        ...

    async def find(self, organization: OrganizationId, sha256: bytes) -> StoredBlob | None: ...

    async def delete(self, organization: OrganizationId, sha256: bytes) -> None:
        """Delete a blob. Does nothing if it is already gone."""
        ...

    def list_all(self, organization: OrganizationId) -> AsyncGenerator[StoredBlob]:
        """Iterate over all objects of an organization, in no particular order."""
        ...

    async def get_time(self) -> datetime:
        """The current time by the clock that dates the objects."""
        ...


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """One version of a file in a watched folder or bucket. `generation` is set for Google Cloud Storage."""

    name: str
    version: str
    size: int
    generation: str | None = None
    modified_at: datetime | None = None


class WatchedFolder(Protocol):
    """A folder or bucket whose files are taken in as documents."""

    @property
    def may_hold_partial_files(self) -> bool:
        """Whether a listed file may still be being written. True for disks, False for buckets."""
        ...

    async def list_files(self) -> Sequence[WatchedFile]: ...

    async def read(self, file: WatchedFile) -> bytes:
        """Read a file. Raises NotFound if this version no longer exists."""
        ...


class Archive(Protocol):
    """The final storage of completed documents, by path. Nothing in it is ever overwritten."""

    async def put_once(self, path: str, content: bytes, metadata: Mapping[str, str]) -> None:
        """Write a file unless the path exists. The existing file stays; `fetch` it to compare."""
        ...

    async def fetch(self, path: str) -> bytes:
        """Read a file. Raises NotFound if the path does not exist."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file with its metadata, after a purge. A missing file is no error."""
        ...
