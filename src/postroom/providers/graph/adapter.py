"""Microsoft 365 as a `ports.Provider`, and one account's mailbox there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from postroom.errors import Gone
from postroom.model import Channel, ProviderName
from postroom.ports import ChannelRequest, TokenSource
from postroom.providers.graph import wire
from postroom.providers.graph.login import EntraLogin
from postroom.providers.graph.push import GraphPush
from postroom.providers.transport import Answer, Call, Pace, Transport

# Graph lets an application make four calls at a time to one mailbox; one is left for other processes.
CONCURRENT: Final = 3
# Ids that survive a move; every call that reads or uses ids must ask for them.
IMMUTABLE: Final = {"Prefer": 'IdType="ImmutableId"'}


@dataclass(frozen=True)
class Graph:
    login: EntraLogin
    push: GraphPush
    api: Transport
    subscriptions: Transport
    api_url: str
    name: ProviderName = ProviderName.OUTLOOK

    def mailbox(self, user_id: str, tokens: TokenSource) -> "GraphMailbox":
        return GraphMailbox(self.api, self.subscriptions, f"{self.api_url}/v1.0", user_id, tokens)


@dataclass(frozen=True)
class GraphMailbox:
    api: Transport
    subscriptions: Transport
    url: str
    user_id: str
    tokens: TokenSource
    pace: Pace = field(default_factory=lambda: Pace(CONCURRENT))

    async def check(self) -> None:
        await self._send("GET", f"users/{self.user_id}/mailFolders/inbox?$select=id")

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
        return _channel(msgspec.convert(answer.json(), wire.Subscription))

    async def renew(self, channel: Channel, *, expires_at: datetime) -> Channel:
        """PATCH renews and reauthorizes in one, so that the two never come close to each other."""
        answer = await self._send(
            "PATCH",
            f"subscriptions/{channel.provider_subscription_id}",
            json={"expirationDateTime": _text(expires_at)},
        )
        return _channel(msgspec.convert(answer.json(), wire.Subscription))

    async def unsubscribe(self, channel: Channel) -> None:
        try:
            await self._send("DELETE", f"subscriptions/{channel.provider_subscription_id}")
        except Gone:
            return

    async def channels(self) -> Sequence[Channel]:
        found: list[Channel] = []
        path: str | None = "subscriptions"
        while path is not None:
            page = msgspec.convert((await self._send("GET", path)).json(), wire.Subscriptions)
            found.extend(_channel(each) for each in page.value)
            path = page.next_link and page.next_link.removeprefix(f"{self.url}/")
        return found

    def _resource(self, folder: str | None) -> str:
        inside = f"/mailFolders('{folder}')" if folder else ""
        return f"users/{self.user_id}{inside}/messages"

    async def _send(self, method: str, path: str, *, json: object = None, repeatable: bool = True) -> Answer:
        call = Call(method, f"{self.url}/{path}", headers=IMMUTABLE, json=json, repeatable=repeatable)
        transport = self.subscriptions if path.startswith("subscriptions") else self.api
        return await transport.send(call, tokens=self.tokens, pace=self.pace)


def _channel(told: wire.Subscription) -> Channel:
    return Channel(
        told.id, told.resource, told.notification_url, datetime.fromisoformat(told.expiration_date_time)
    )


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f0Z")
