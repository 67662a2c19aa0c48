"""Gmail as a `ports.Provider`, and one account's mailbox there."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

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
from postroom.providers.gmail import listings, messages, wire
from postroom.providers.gmail.api import GmailApi
from postroom.providers.gmail.login import GoogleLogin
from postroom.providers.gmail.push import GmailPush
from postroom.providers.rate_limit import ProjectRateLimits
from postroom.providers.transport import Transport

# Gmail drops what it would have to tell of an account in the second after it told something; and some.
PUSHES_APART_SECONDS: Final = 1.1


@dataclass(frozen=True)
class GmailProvider:
    login: GoogleLogin
    push: GmailPush
    api: Transport
    api_url: str
    topic: str
    paces: ProjectRateLimits
    name: ProviderName = ProviderName.GMAIL

    def mailbox(self, user_id: str, tokens: TokenSource, folder: str | None = None) -> "GmailMailbox":
        del folder  # labels are no places: an account is read whole
        return GmailMailbox(
            GmailApi(self.api, self.api_url, user_id, tokens, self.paces.of(user_id)), self.topic
        )


@dataclass(frozen=True)
class GmailMailbox:
    calls: GmailApi
    topic: str
    push_interval_seconds: float = PUSHES_APART_SECONDS

    async def check(self) -> None:
        await listings.current_history_id(self.calls)

    async def subscribe(self, wanted: SubscriptionRequest) -> RemoteSubscription:
        del wanted  # Gmail publishes every change of the account to one topic
        return await self._watch()

    async def renew(self, subscription: RemoteSubscription, *, expires_at: datetime) -> RemoteSubscription:
        del subscription, expires_at  # watching again moves the end, and Gmail decides how far
        return await self._watch()

    async def _watch(self) -> RemoteSubscription:
        """The history id of the answer is no cursor of ours: taking it would jump over changes."""
        answer = await self.calls.post("watch", "watch", {"topicName": self.topic})
        told = answer.read(wire.GmailWatch)
        return RemoteSubscription(
            None, self.topic, None, datetime.fromtimestamp(int(told.expiration) / 1000, UTC)
        )

    async def unsubscribe(self, subscription: RemoteSubscription) -> None:
        del subscription  # there is one for each account
        await self.calls.post("stop", "stop")

    async def list_subscriptions(self) -> Sequence[RemoteSubscription]:
        return ()

    async def list_folders(self) -> Sequence[RemoteFolder]:
        return await listings.list_folders(self.calls)

    async def get_current_cursor(self, scope: str) -> str | None:
        del scope  # there is one
        return await listings.current_history_id(self.calls)

    async def list_messages(self, scope: str, *, cursor: str | None, since: datetime | None) -> ChangePage:
        del scope
        return await listings.list_messages(self.calls, cursor, since)

    async def list_changes(self, scope: str, cursor: str) -> ChangePage:
        del scope
        return await listings.list_changes(self.calls, cursor)

    async def list_recent(
        self, since: datetime, *, drafts: bool = False
    ) -> AsyncIterator[Sequence[MessageChange]]:
        del since, drafts  # the history tells it
        yield ()

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
        return {key: key for key in keys}  # a message has one id for all its life
