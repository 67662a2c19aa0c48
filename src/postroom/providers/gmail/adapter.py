"""Gmail as a `ports.Provider`, and one account's mailbox there."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

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
from postroom.providers.gmail import fetching, reading, wire
from postroom.providers.gmail.calls import Calls
from postroom.providers.gmail.login import GoogleLogin
from postroom.providers.gmail.push import GmailPush
from postroom.providers.rate_limit import Paces
from postroom.providers.transport import Transport

# Gmail drops what it would have to tell of an account in the second after it told something; and some.
PUSHES_APART_SECONDS: Final = 1.1


@dataclass(frozen=True)
class Gmail:
    login: GoogleLogin
    push: GmailPush
    api: Transport
    api_url: str
    topic: str
    paces: Paces
    name: ProviderName = ProviderName.GMAIL

    def mailbox(self, user_id: str, tokens: TokenSource, folder: str | None = None) -> "GmailMailbox":
        del folder  # labels are no places: an account is read whole
        return GmailMailbox(
            Calls(self.api, self.api_url, user_id, tokens, self.paces.of(user_id)), self.topic
        )


@dataclass(frozen=True)
class GmailMailbox:
    calls: Calls
    topic: str
    pushes_apart_seconds: float = PUSHES_APART_SECONDS

    async def check(self) -> None:
        await reading.pin(self.calls)

    async def subscribe(self, wanted: ChannelRequest) -> Channel:
        del wanted  # Gmail publishes every change of the account to one topic
        return await self._watch()

    async def renew(self, channel: Channel, *, expires_at: datetime) -> Channel:
        del channel, expires_at  # watching again moves the end, and Gmail decides how far
        return await self._watch()

    async def _watch(self) -> Channel:
        """The history id of the answer is no cursor of ours: taking it would jump over changes."""
        answer = await self.calls.post("watch", "watch", {"topicName": self.topic})
        told = answer.read(wire.WatchAnswer)
        return Channel(None, self.topic, None, datetime.fromtimestamp(int(told.expiration) / 1000, UTC))

    async def unsubscribe(self, channel: Channel) -> None:
        del channel  # there is one for each account
        await self.calls.post("stop", "stop")

    async def channels(self) -> Sequence[Channel]:
        return ()

    async def folders(self) -> Sequence[RemoteFolder]:
        return await reading.folders(self.calls)

    async def pin(self, scope: str) -> str | None:
        del scope  # there is one
        return await reading.pin(self.calls)

    async def listing(self, scope: str, *, cursor: str | None, since: datetime | None) -> Page:
        del scope
        return await reading.listing(self.calls, cursor, since)

    async def changes(self, scope: str, cursor: str) -> Page:
        del scope
        return await reading.changes(self.calls, cursor)

    async def recent(self, since: datetime, *, drafts: bool = False) -> AsyncIterator[Sequence[Change]]:
        del since, drafts  # the history tells it
        yield ()

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
        return {key: key for key in keys}  # a message has one id for all its life
