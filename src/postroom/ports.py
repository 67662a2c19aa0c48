"""The protocols that have two real implementations each. Adapters do not inherit; wiring assigns them."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from postroom.model import (
    Account,
    AppCredential,
    ChangePage,
    ContentPolicy,
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
    Secret,
    Tokens,
)


class TokenSource(Protocol):
    """Where calls get the access token of one mailbox. Refreshing is its business, once for all callers."""

    async def get_token(self) -> Secret: ...

    async def replace_rejected(self, refused: Secret) -> Secret:
        """Another token, because the provider refused this one; refreshed only if nobody did so meanwhile."""
        ...


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """A push channel to be made. The secret comes back with every notification, where the provider can."""

    notification_url: str
    lifecycle_url: str
    secret: Secret
    folder: str | None
    expires_at: datetime


class RemoteMailbox(Protocol):
    """One account at its provider. Every call is paced, retried and translated to our errors."""

    @property
    def push_interval_seconds(self) -> float:
        """A change that follows a pushed one sooner than this is not pushed; 0 where every one is."""
        ...

    async def check(self) -> None:
        """Read the least there is to read: raises where the mailbox cannot be read."""
        ...

    async def subscribe(self, wanted: SubscriptionRequest) -> RemoteSubscription:
        """Raises AlreadyExists, with the provider's id, where an equal channel stands."""
        ...

    async def renew(self, subscription: RemoteSubscription, *, expires_at: datetime) -> RemoteSubscription:
        """Raises Gone where the provider no longer knows the channel."""
        ...

    async def unsubscribe(self, subscription: RemoteSubscription) -> None:
        """A channel that is gone already is no error."""
        ...

    async def list_subscriptions(self) -> Sequence[RemoteSubscription]:
        """Those that the provider lists for us; empty where it lists none."""
        ...

    async def list_folders(self) -> Sequence[RemoteFolder]:
        """All folders or labels there are, parents before their children."""
        ...

    async def get_current_cursor(self, scope: str) -> str | None:
        """The cursor that tells every change after this moment; None where only a whole listing gives it."""
        ...

    async def list_messages(self, scope: str, *, cursor: str | None, since: datetime | None) -> ChangePage:
        """A page of everything that stands in the scope, newest first. Raises CursorExpired, Gone.

        What was received before `since` may be there or not; a listing that shall be complete asks for None.
        """
        ...

    async def list_changes(self, scope: str, cursor: str) -> ChangePage:
        """A page of what changed after the cursor. Raises CursorExpired, and Gone where the scope is gone."""
        ...

    def list_recent(self, since: datetime, *, drafts: bool = False) -> AsyncIterator[Sequence[MessageChange]]:
        """What was received since, in all scopes, page by page; empty where `pin` gives a cursor that tells
        it.

        `drafts`: those too, which nobody received.
        """
        ...

    async def look_up(self, keys: Sequence[str]) -> Sequence[MessageChange | FetchFailure]:
        """How messages stand now, DELETED where the provider no longer has one. Each is answered once."""
        ...

    def fetch(
        self, wanted: Sequence[MessageChange], policy: ContentPolicy
    ) -> AsyncIterator[Sequence[FetchedMessage | FetchFailure]]:
        """Messages with as much as the policy allows to be asked for, by the cheapest way, in groups.

        Every key is answered once. Raises what concerns the whole mailbox: GrantLost, TransientError, ….
        """
        ...

    def fetch_attachment(self, key: str, attachment: RemoteAttachment) -> AsyncIterator[bytes]:
        """The bytes of an enclosure that came without them, piece by piece. Raises Gone, PermanentError."""
        ...

    async def fetch_raw(self, key: str) -> bytes:
        """The message as RFC 5322 bytes. Raises Gone."""
        ...

    def quota_used(self) -> float:
        """How much of what the provider allows in its window this process used in it: 1 is all."""
        ...

    async def get_mutable_ids(self, keys: Sequence[str]) -> Mapping[str, str]:
        """By which ids those know messages now who do not ask for ids that last; what is gone is left out."""
        ...


@dataclass(frozen=True, slots=True)
class PushRequest:
    """A request that claims to be a push."""

    query: Mapping[str, str]
    authorization: str | None
    body: bytes


class PushReader(Protocol):
    """Reads pushes of one provider. Pure but for the signing keys, which `refresh_keys` fetches before."""

    async def refresh_keys(self) -> None: ...

    def read(self, push: PushRequest) -> Sequence[Notification]:
        """Raises PushRefused where the whole push is not the provider's, PushUnclear where none can tell."""
        ...


class ProviderLogin(Protocol):
    """How one provider lets us in, and lets us go on."""

    def scopes(self, policy: ContentPolicy) -> frozenset[str]: ...

    def authorization_url(self, login: Login) -> str: ...

    async def exchange(self, login: Login, code: Secret) -> Grant:
        """Raises LoginRefused where the code, its verifier or its address is not accepted."""
        ...

    async def refresh(self, refresh: Secret, scopes: frozenset[str]) -> Tokens:
        """Raises GrantLost, OperatorError, PermanentError or TransientError: the class says who must act."""
        ...

    async def app_tokens(self, credential: AppCredential) -> Tokens: ...

    async def app_account(self, credential: AppCredential, address: str) -> Account:
        """Whose mailbox an address is, asked with app-only access."""
        ...

    async def revoke(self, token: Secret) -> None:
        """A token that is revoked already is no error."""
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
        """`folder`: its id or well-known name, where only that one shall be read."""
        ...


@dataclass(frozen=True, slots=True)
class OpenIdIdentity:
    """Who an OpenID provider says somebody is. The address counts only where the provider verified it."""

    issuer: str
    subject: str
    address: str | None
    address_verified: bool


@dataclass(frozen=True, slots=True)
class IdentityRequest:
    """One sign-in under way at an OpenID provider."""

    state: Secret
    nonce: Secret
    verifier: Secret
    redirect_uri: str


class IdentityProvider(Protocol):
    """Says who somebody is (OpenID Connect)."""

    @property
    def name(self) -> str: ...

    async def authorization_url(self, asked: IdentityRequest) -> str: ...

    async def identity(self, asked: IdentityRequest, code: Secret) -> OpenIdIdentity:
        """Raises LoginRefused where the code, the token or its signature is not good."""
        ...


@dataclass(frozen=True, slots=True)
class PostResult:
    """What came of posting to an address of somebody's: a status, or why there is none."""

    status: int | None
    error: str | None = None

    @property
    def failure(self) -> str | None:
        """Why it does not count as accepted, in words; None where it does."""
        if self.status is None:
            return self.error or "cannot be reached"
        return None if 200 <= self.status < 300 else f"answered {self.status}"


@dataclass(frozen=True, slots=True)
class SecretLocation:
    """Where a secret belongs. What is kept for one place opens at no other."""

    organization: OrganizationId
    mailbox: MailboxId
    field: Literal["grant", "access"]

    @property
    def context(self) -> str:
        return f"credentials/{self.organization}/{self.mailbox}/{self.field}"


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A secret as the database may hold it, and the id of the key that sealed it."""

    key_id: str
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SsmParameter:
    """A secret kept in AWS SSM, by the parameter's name."""

    name: str


StoredSecret = SealedSecret | SsmParameter


class Vault(Protocol):
    """Keeps the grants of mailboxes. What `keep` returns goes into the row of that place.

    Keeping again replaces. Calls may take a network's time: never inside a transaction.
    """

    async def store(self, location: SecretLocation, secret: Secret) -> StoredSecret: ...

    async def fetch(self, location: SecretLocation, stored: StoredSecret) -> Secret: ...

    async def delete(self, location: SecretLocation, stored: StoredSecret) -> None: ...


# What can be stored: bytes, or pieces of them, made as they are asked for.
Content = bytes | Iterable[bytes] | AsyncIterable[bytes]


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes that are safe in the store. `created`: they were not there before, and this put wrote them."""

    sha256: bytes
    size: int
    created: bool


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """An object as the store lists it. Its time is the store's own."""

    sha256: bytes
    size: int
    modified_at: datetime


class BlobStore(Protocol):
    """Bytes by their SHA-256, once per content and organization. Calls take a disk's or a network's time.

    Putting the same content again is harmless. A put is safe when it returns: the row that refers to it may
    commit. Raises OperatorError where somebody must act (a full disk, refused keys), else TransientError.
    """

    async def check(self) -> str:
        """Reach the store and say where it is: processes that are told different places share no blobs."""
        ...

    async def put(self, organization: OrganizationId, content: Content) -> Blob:
        """Large contents come as pieces: no more than a few of them are in memory at a time."""
        ...

    def read(
        self, organization: OrganizationId, sha256: bytes, *, start: int = 0, end: int | None = None
    ) -> AsyncGenerator[bytes]:
        """The bytes from `start` up to, not including, `end`, in pieces. Raises Gone where there are none."""
        ...

    async def find(self, organization: OrganizationId, sha256: bytes) -> StoredBlob | None: ...

    async def delete(self, organization: OrganizationId, sha256: bytes) -> None:
        """One that is gone already is no error."""
        ...

    def list_all(self, organization: OrganizationId) -> AsyncGenerator[StoredBlob]:
        """All objects of an organization, in no order."""
        ...


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """A file in a watched folder; another version is another file. A generation is a bucket's word for it."""

    name: str
    version: str
    size: int
    generation: str | None = None
    modified_at: datetime | None = None


class WatchedFolder(Protocol):
    """A folder or a bucket whose files are taken in."""

    @property
    def may_hold_partial_files(self) -> bool:
        """Whether a file may be there half-written."""
        ...

    async def list_files(self) -> Sequence[WatchedFile]: ...

    async def read(self, file: WatchedFile) -> bytes:
        """Raises Gone where this version is no longer there."""
        ...


class Archive(Protocol):
    """Where documents are put for good, by path. Nothing there is ever written over."""

    async def put_once(self, path: str, content: bytes, metadata: Mapping[str, str]) -> None:
        """Where the path is taken already, what stands there stays as it is: fetch it to learn what it is."""
        ...

    async def fetch(self, path: str) -> bytes:
        """Raises Gone where nothing stands there."""
        ...
