"""Microsoft 365 as a `ports.Provider`, and one account's mailbox there."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from postroom.errors import Gone
from postroom.model import (
    Change,
    Channel,
    ContentPolicy,
    Enclosure,
    Fetched,
    Page,
    ProviderName,
    RemoteFolder,
    Unfetched,
)
from postroom.ports import ChannelRequest, TokenSource
from postroom.providers.graph import fetching, reading, wire
from postroom.providers.graph.calls import IMMUTABLE, Calls
from postroom.providers.graph.login import EntraLogin
from postroom.providers.graph.push import GraphPush
from postroom.providers.rate_limit import Paces
from postroom.providers.transport import Answer, Call, Transport


@dataclass(frozen=True)
class Graph:
    login: EntraLogin
    push: GraphPush
    api: Transport
    subscriptions: Transport
    api_url: str
    paces: Paces
    name: ProviderName = ProviderName.OUTLOOK

    def mailbox(self, user_id: str, tokens: TokenSource, folder: str | None = None) -> "GraphMailbox":
        calls = Calls(self.api, f"{self.api_url}/v1.0", user_id, tokens, self.paces.of(user_id))
        return GraphMailbox(calls, self.subscriptions, folder)


@dataclass(frozen=True)
class GraphMailbox:
    calls: Calls
    subscriptions: Transport
    folder: str | None
    pushes_apart_seconds: float = 0.0

    async def check(self) -> None:
        await self.calls.get(self.calls.path("mailFolders", "inbox", select="id"), wire.Folder)

    async def subscribe(self, wanted: ChannelRequest) -> Channel:
        answer = await self._send(
            "POST",
            "subscriptions",
            json={
                "changeType": "created,updated,deleted",
                "notificationUrl": wanted.notification_url,
                # Cannot be added later, so it is there from the start.
                "lifecycleNotificationUrl": wanted.lifecycle_url,
                "resource": self._resource(wanted.folder),
                "expirationDateTime": _text(wanted.expires_at),
                "clientState": wanted.secret.reveal(),
                "latestSupportedTlsVersion": "v1_2",
            },
            repeatable=False,
        )
        return _channel(answer.read(wire.Subscription))

    async def renew(self, channel: Channel, *, expires_at: datetime) -> Channel:
        """PATCH renews and reauthorizes in one, so that the two never come close to each other."""
        answer = await self._send(
            "PATCH",
            f"subscriptions/{channel.provider_subscription_id}",
            json={"expirationDateTime": _text(expires_at)},
        )
        return _channel(answer.read(wire.Subscription))

    async def unsubscribe(self, channel: Channel) -> None:
        try:
            await self._send("DELETE", f"subscriptions/{channel.provider_subscription_id}")
        except Gone:
            return

    async def channels(self) -> Sequence[Channel]:
        found: list[Channel] = []
        path: str | None = "subscriptions"
        while path is not None:
            page = (await self._send("GET", path)).read(wire.Subscriptions)
            found.extend(_channel(each) for each in page.value)
            path = page.next_link and self.calls.relative(page.next_link)
        return found

    def _resource(self, folder: str | None) -> str:
        inside = f"/mailFolders('{folder}')" if folder else ""
        return f"users/{self.calls.user_id}{inside}/messages"

    async def _send(self, method: str, path: str, *, json: object = None, repeatable: bool = True) -> Answer:
        calls = self.calls
        call = Call(
            method, f"{calls.url}/{path}", headers={"Prefer": IMMUTABLE}, json=json, repeatable=repeatable
        )
        return await self.subscriptions.send(call, tokens=calls.tokens, pace=calls.pace)

    async def folders(self) -> Sequence[RemoteFolder]:
        return await reading.folders(self.calls, self.folder)

    async def pin(self, scope: str) -> str | None:
        del scope  # only the end of a listing tells from where changes are to be read

    async def listing(self, scope: str, *, cursor: str | None, since: datetime | None) -> Page:
        del since  # each message tells its own time, and a feed that is limited in time is not complete
        return await reading.listing(self.calls, scope, cursor)

    async def changes(self, scope: str, cursor: str) -> Page:
        del scope  # the cursor is an address
        return await reading.changes(self.calls, cursor)

    def recent(self, since: datetime, *, drafts: bool = False) -> AsyncIterator[Sequence[Change]]:
        return reading.recent(self.calls, since, self.folder, drafts=drafts)

    async def look(self, keys: Sequence[str]) -> Sequence[Change | Unfetched]:
        return await fetching.look(self.calls, keys)

    def fetch(
        self, wanted: Sequence[Change], policy: ContentPolicy
    ) -> AsyncIterator[Sequence[Fetched | Unfetched]]:
        return fetching.fetch(self.calls, wanted, policy)

    def enclosure(self, key: str, enclosure: Enclosure) -> AsyncIterator[bytes]:
        return fetching.enclosure(self.calls, key, enclosure)

    async def raw(self, key: str) -> bytes:
        return await fetching.raw(self.calls, key)

    def quota_used(self) -> float:
        return self.calls.pace.used

    async def passing_ids(self, keys: Sequence[str]) -> Mapping[str, str]:
        return await fetching.passing_ids(self.calls, keys)


def _channel(told: wire.Subscription) -> Channel:
    return Channel(
        told.id, told.resource, told.notification_url, datetime.fromisoformat(told.expiration_date_time)
    )


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f0Z")
