"""Microsoft 365 as a `ports.Provider`, and the mailbox of one user as a `ports.RemoteMailbox`.

Subscriptions are managed here. Everything else is delegated: `login`, `push`, `listings`, `messages`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from postroom.errors import NotFound
from postroom.model import (
    AppCredential,
    ChangePage,
    ContentPolicy,
    FetchedMessage,
    FetchFailure,
    MessageChange,
    ProviderName,
    RemoteAttachment,
    RemoteFolder,
    RemoteSubscription,
)
from postroom.ports import SubscriptionRequest, TokenSource
from postroom.providers.graph import listings, messages, wire
from postroom.providers.graph.api import IMMUTABLE, GraphApi
from postroom.providers.graph.directory import TenantDirectory
from postroom.providers.graph.login import EntraLogin
from postroom.providers.graph.push import GraphPush
from postroom.providers.rate_limit import MailboxRateLimit, ProjectRateLimits
from postroom.providers.transport import HttpRequest, HttpResponse, Transport


@dataclass(frozen=True)
class GraphProvider:
    login: EntraLogin
    push: GraphPush
    transport: Transport
    subscriptions: Transport
    api_url: str
    rate_limits: ProjectRateLimits
    listing_limits: ProjectRateLimits
    directory_transport: Transport
    directory_limits: ProjectRateLimits
    name: ProviderName = ProviderName.OUTLOOK

    def directory(self, credential: AppCredential, admin: str | None) -> TenantDirectory:
        del admin  # the application reads the directory with its own permissions
        limit = self.directory_limits.for_mailbox(f"{credential.tenant_id} {credential.client_id}")
        return TenantDirectory(
            self.directory_transport, f"{self.api_url}/v1.0", self.login, credential, limit
        )

    def mailbox(self, user_id: str, tokens: TokenSource, folder: str | None = None) -> "GraphMailbox":
        api = GraphApi(
            self.transport, f"{self.api_url}/v1.0", user_id, tokens, self.rate_limits.for_mailbox(user_id)
        )
        # One limit for all mailboxes: Graph counts the listings of an application.
        return GraphMailbox(api, self.subscriptions, self.listing_limits.for_mailbox(""), folder)


@dataclass(frozen=True)
class GraphMailbox:
    api: GraphApi
    subscriptions: Transport
    listing_limit: MailboxRateLimit
    folder: str | None
    push_interval_seconds: float = 0.0
    push_names_messages: bool = True

    async def check(self) -> None:
        path = self.api.path("mailFolders", self.folder or "inbox", select="id")
        await self.api.get(path, wire.GraphFolder)

    async def subscribe(self, wanted: SubscriptionRequest) -> RemoteSubscription:
        response = await self._send(
            "POST",
            "subscriptions",
            json={
                "changeType": "created,updated,deleted",
                "notificationUrl": wanted.notification_url,
                # Graph does not allow adding it later.
                "lifecycleNotificationUrl": wanted.lifecycle_url,
                "resource": self._resource(wanted.folder),
                "expirationDateTime": _to_timestamp(wanted.expires_at),
                "clientState": wanted.secret.reveal(),
                "latestSupportedTlsVersion": "v1_2",
            },
            repeatable=False,
        )
        return _to_subscription(response.read(wire.GraphSubscription))

    async def renew(
        self, subscription: RemoteSubscription, *, expires_at: datetime, notification_url: str | None = None
    ) -> RemoteSubscription:
        """Renew and reauthorize with one PATCH, so that the two never follow each other closely.

        Graph validates another URL before it changes anything.
        """
        changed = {"notificationUrl": notification_url} if notification_url else {}
        response = await self._send(
            "PATCH",
            f"subscriptions/{subscription.provider_subscription_id}",
            json={"expirationDateTime": _to_timestamp(expires_at)} | changed,
        )
        return _to_subscription(response.read(wire.GraphSubscription))

    async def unsubscribe(self, subscription: RemoteSubscription) -> None:
        try:
            await self._send("DELETE", f"subscriptions/{subscription.provider_subscription_id}")
        except NotFound:
            return

    async def find_subscription(self, subscription: RemoteSubscription) -> RemoteSubscription | None:
        try:
            response = await self._send("GET", f"subscriptions/{subscription.provider_subscription_id}")
        except NotFound:
            return None
        return _to_subscription(response.read(wire.GraphSubscription))

    async def list_subscriptions(self) -> Sequence[RemoteSubscription]:
        subscriptions: list[RemoteSubscription] = []
        path: str | None = "subscriptions"
        while path is not None:
            response = await self._send("GET", path, rate_limit=self.listing_limit)
            page = response.read(wire.GraphSubscriptions)
            subscriptions.extend(_to_subscription(subscription) for subscription in page.value)
            path = page.next_link and self.api.relative(page.next_link)
        return subscriptions

    def _resource(self, folder: str | None) -> str:
        inside = f"/mailFolders('{folder}')" if folder else ""
        return f"users/{self.api.user_id}{inside}/messages"

    async def _send(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        repeatable: bool = True,
        rate_limit: MailboxRateLimit | None = None,
    ) -> HttpResponse:
        api = self.api
        request = HttpRequest(
            method, f"{api.url}/{path}", headers={"Prefer": IMMUTABLE}, json=json, repeatable=repeatable
        )
        limit = rate_limit or api.rate_limit
        return await self.subscriptions.send(request, tokens=api.tokens, rate_limit=limit)

    async def list_folders(self) -> Sequence[RemoteFolder]:
        return await listings.list_folders(self.api, self.folder)

    async def get_current_cursor(self, scope: str) -> str | None:
        del scope  # only the end of a complete listing yields a delta link

    async def list_messages(self, scope: str, *, cursor: str | None, since: datetime | None) -> ChangePage:
        del since  # a delta feed that is limited in time is not complete
        return await listings.list_messages(self.api, scope, cursor)

    async def list_changes(self, scope: str, cursor: str) -> ChangePage:
        del scope  # the cursor is a URL, which contains it
        return await listings.list_changes(self.api, cursor)

    def list_recent(self, since: datetime, *, drafts: bool = False) -> AsyncIterator[Sequence[MessageChange]]:
        return listings.list_recent(self.api, since, self.folder, drafts=drafts)

    async def look_up(self, keys: Sequence[str]) -> Sequence[MessageChange | FetchFailure]:
        return await messages.look_up(self.api, keys)

    def fetch(
        self, wanted: Sequence[MessageChange], policy: ContentPolicy
    ) -> AsyncIterator[Sequence[FetchedMessage | FetchFailure]]:
        return messages.fetch(self.api, wanted, policy)

    def fetch_attachment(self, key: str, attachment: RemoteAttachment) -> AsyncGenerator[bytes]:
        return messages.stream_attachment(self.api, key, attachment)

    async def fetch_raw(self, key: str) -> bytes:
        return await messages.fetch_raw(self.api, key)

    def quota_used(self) -> float:
        return self.api.rate_limit.used

    async def get_mutable_ids(self, keys: Sequence[str]) -> Mapping[str, str]:
        return await messages.translate_ids(self.api, keys)


def _to_subscription(subscription: wire.GraphSubscription) -> RemoteSubscription:
    return RemoteSubscription(
        subscription.id,
        subscription.resource,
        subscription.notification_url,
        datetime.fromisoformat(subscription.expiration_date_time),
    )


def _to_timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f0Z")
