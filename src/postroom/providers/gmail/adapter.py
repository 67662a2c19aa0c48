"""Gmail as a `ports.Provider`, and one account's mailbox there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from postroom.model import Channel, ProviderName
from postroom.ports import ChannelRequest, TokenSource
from postroom.providers.gmail import wire
from postroom.providers.gmail.login import GoogleLogin
from postroom.providers.gmail.push import GmailPush
from postroom.providers.transport import Answer, Call, Pace, Transport

# Gmail counts calls under way per user, over all of the user's programs, and publishes no number.
CONCURRENT: Final = 4


@dataclass(frozen=True)
class Gmail:
    login: GoogleLogin
    push: GmailPush
    api: Transport
    api_url: str
    topic: str
    name: ProviderName = ProviderName.GMAIL

    def mailbox(self, user_id: str, tokens: TokenSource) -> "GmailMailbox":
        return GmailMailbox(self.api, f"{self.api_url}/gmail/v1/users/{user_id}", self.topic, tokens)


@dataclass(frozen=True)
class GmailMailbox:
    api: Transport
    url: str
    topic: str
    tokens: TokenSource
    pace: Pace = field(default_factory=lambda: Pace(CONCURRENT))

    async def check(self) -> None:
        await self._send("GET", "profile")

    async def subscribe(self, wanted: ChannelRequest) -> Channel:
        del wanted  # Gmail publishes every change of the account to one topic
        return await self._watch()

    async def renew(self, channel: Channel, *, expires_at: datetime) -> Channel:
        del channel, expires_at  # watching again moves the end, and Gmail decides how far
        return await self._watch()

    async def _watch(self) -> Channel:
        """The history id of the answer is no cursor of ours: taking it would jump over changes."""
        answer = await self._send("POST", "watch", json={"topicName": self.topic})
        told = msgspec.convert(answer.json(), wire.WatchAnswer)
        return Channel(None, self.topic, None, datetime.fromtimestamp(int(told.expiration) / 1000, UTC))

    async def unsubscribe(self, channel: Channel) -> None:
        del channel  # there is one for each account
        await self._send("POST", "stop")

    async def channels(self) -> Sequence[Channel]:
        return ()

    async def _send(self, method: str, path: str, *, json: object = None) -> Answer:
        return await self.api.send(
            Call(method, f"{self.url}/{path}", json=json), tokens=self.tokens, pace=self.pace
        )
