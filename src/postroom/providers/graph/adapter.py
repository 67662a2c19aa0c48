"""Microsoft 365 as a `ports.Provider`, and one account's mailbox there."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from postroom.errors import NotFound
from postroom.model import (
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
from postroom.providers.graph.login import EntraLogin
from postroom.providers.graph.push import GraphPush
from postroom.providers.rate_limit import ProjectRateLimits
from postroom.providers.transport import HttpAnswer, HttpCall, Transport


@dataclass(frozen=True)
class GraphProvider:
    login: EntraLogin
    push: GraphPush
    api: Transport
    subscriptions: Transport
    api_url: str
    paces: ProjectRateLimits
    name: ProviderName = ProviderName.OUTLOOK

    def mailbox(self, user_id: str, tokens: TokenSource, folder: str | None = None) -> "GraphMailbox":
        calls = GraphApi(self.api, f"{self.api_url}/v1.0", user_id, tokens, self.paces.of(user_id))
        return GraphMailbox(calls, self.subscriptions, folder)


@dataclass(frozen=True)
class GraphMailbox:
    calls: GraphApi
    subscriptions: Transport
    folder: str | None
    push_interval_seconds: float = 0.0

    async def check(self) -> None:
        await self.calls.get(self.calls.path("mailFolders", "inbox", select="id"), wire.GraphFolder)

    async def subscribe(self, wanted: SubscriptionRequest) -> RemoteSubscription:
        answer = await self._send(
            "POST",
            "subscriptions",
            json={
                "changeType": "created,updated,deleted",
                "notificationUrl": wanted.notification_url,
                # Cannot be added later, so it is there from the start.
                "lifecycleNotificationUrl": wanted.lifecycle_url,
                "resource": self._resource(wanted.folder),
                "expirationDateTime": _to_timestamp(wanted.expires_at),
                "clientState": wanted.secret.reveal(),
                "latestSupportedTlsVersion": "v1_2",
            },
            repeatable=False,
        )
        return _to_subscription(answer.read(wire.GraphSubscription))

    async def renew(self, subscription: RemoteSubscription, *, expires_at: datetime) -> RemoteSubscription:
        """PATCH renews and reauthorizes in one, so that the two never come close to each other."""
        answer = await self._send(
            "PATCH",
            f"subscriptions/{subscription.provider_subscription_id}",
            json={"expirationDateTime": _to_timestamp(expires_at)},
        )
        return _to_subscription(answer.read(wire.GraphSubscription))

    async def unsubscribe(self, subscription: RemoteSubscription) -> None:
        try:
            await self._send("DELETE", f"subscriptions/{subscription.provider_subscription_id}")
        except NotFound:
            return

    async def list_subscriptions(self) -> Sequence[RemoteSubscription]:
        found: list[RemoteSubscription] = []
        path: str | None = "subscriptions"
        while path is not None:
            page = (await self._send("GET", path)).read(wire.GraphSubscriptions)
            found.extend(_to_subscription(each) for each in page.value)
            path = page.next_link and self.calls.relative(page.next_link)
        return found

    def _resource(self, folder: str | None) -> str:
        inside = f"/mailFolders('{folder}')" if folder else ""
        return f"users/{self.calls.user_id}{inside}/messages"

    async def _send(
        self, method: str, path: str, *, json: object = None, repeatable: bool = True
    ) -> HttpAnswer:
        calls = self.calls
        call = HttpCall(
            method, f"{calls.url}/{path}", headers={"Prefer": IMMUTABLE}, json=json, repeatable=repeatable
        )
        return await self.subscriptions.send(call, tokens=calls.tokens, pace=calls.pace)

    async def list_folders(self) -> Sequence[RemoteFolder]:
        return await listings.list_folders(self.calls, self.folder)

    async def get_current_cursor(self, scope: str) -> str | None:
        del scope  # only the end of a listing tells from where changes are to be read

    async def list_messages(self, scope: str, *, cursor: str | None, since: datetime | None) -> ChangePage:
        del since  # each message tells its own time, and a feed that is limited in time is not complete
        return await listings.list_messages(self.calls, scope, cursor)

    async def list_changes(self, scope: str, cursor: str) -> ChangePage:
        del scope  # the cursor is an address
        return await listings.list_changes(self.calls, cursor)

    def list_recent(self, since: datetime, *, drafts: bool = False) -> AsyncIterator[Sequence[MessageChange]]:
        return listings.list_recent(self.calls, since, self.folder, drafts=drafts)

    async def look_up(self, keys: Sequence[str]) -> Sequence[MessageChange | FetchFailure]:
        return await messages.look_up(self.calls, keys)

    def fetch(
        self, wanted: Sequence[MessageChange], policy: ContentPolicy
    ) -> AsyncIterator[Sequence[FetchedMessage | FetchFailure]]:
        return messages.fetch(self.calls, wanted, policy)

    def fetch_attachment(self, key: str, attachment: RemoteAttachment) -> AsyncIterator[bytes]:
        return messages.stream_attachment(self.calls, key, attachment)

    async def fetch_raw(self, key: str) -> bytes:
        return await messages.fetch_raw(self.calls, key)

    def quota_used(self) -> float:
        return self.calls.pace.used

    async def get_mutable_ids(self, keys: Sequence[str]) -> Mapping[str, str]:
        return await messages.translate_ids(self.calls, keys)


def _to_subscription(told: wire.GraphSubscription) -> RemoteSubscription:
    return RemoteSubscription(
        told.id, told.resource, told.notification_url, datetime.fromisoformat(told.expiration_date_time)
    )


def _to_timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f0Z")
