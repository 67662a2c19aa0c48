"""Gmail as a `ports.Provider`, and the mailbox of one Gmail account as a `ports.RemoteMailbox`.

The watch for pushes is managed here. Everything else is delegated: `login`, `push`, `listings`, `messages`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

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
from postroom.providers.gmail import listings, messages, wire
from postroom.providers.gmail.api import GmailApi
from postroom.providers.gmail.directory import WorkspaceDirectory
from postroom.providers.gmail.login import GoogleLogin
from postroom.providers.gmail.push import GmailPush
from postroom.providers.rate_limit import ProjectRateLimits
from postroom.providers.transport import Transport

# Gmail drops notifications within a second of the previous one of the same account; plus a margin.
PUSH_INTERVAL_SECONDS: Final = 1.1


@dataclass(frozen=True)
class GmailProvider:
    login: GoogleLogin
    push: GmailPush
    transport: Transport
    api_url: str
    topic: str
    rate_limits: ProjectRateLimits
    directory_transport: Transport
    directory_url: str
    directory_limits: ProjectRateLimits
    name: ProviderName = ProviderName.GMAIL

    def directory(self, credential: AppCredential, admin: str | None) -> WorkspaceDirectory:
        address = admin or ""
        return WorkspaceDirectory(
            self.directory_transport,
            self.directory_url,
            self.login,
            credential,
            address,
            self.directory_limits.for_mailbox(address),
        )

    def mailbox(self, user_id: str, tokens: TokenSource, folder: str | None = None) -> "GmailMailbox":
        del folder  # a label is not a place where messages are: the whole account is synced
        return GmailMailbox(
            GmailApi(self.transport, self.api_url, user_id, tokens, self.rate_limits.for_mailbox(user_id)),
            self.topic,
        )


@dataclass(frozen=True)
class GmailMailbox:
    api: GmailApi
    topic: str
    push_interval_seconds: float = PUSH_INTERVAL_SECONDS
    push_names_messages: bool = False

    async def check(self) -> None:
        await listings.current_history_id(self.api)

    async def subscribe(self, wanted: SubscriptionRequest) -> RemoteSubscription:
        del wanted  # Gmail publishes all changes of all accounts to one topic
        return await self._watch()

    async def renew(
        self, subscription: RemoteSubscription, *, expires_at: datetime, notification_url: str | None = None
    ) -> RemoteSubscription:
        # Watching again extends the watch, and Gmail decides for how long. The topic decides about the URL.
        del subscription, expires_at, notification_url
        return await self._watch()

    async def _watch(self) -> RemoteSubscription:
        """Start or extend the watch. Its history id is not used as a cursor: that would skip changes."""
        response = await self.api.post("watch", "watch", {"topicName": self.topic})
        watch = response.read(wire.GmailWatch)
        return RemoteSubscription(
            None, self.topic, None, datetime.fromtimestamp(int(watch.expiration) / 1000, UTC)
        )

    async def unsubscribe(self, subscription: RemoteSubscription) -> None:
        del subscription  # each account has exactly one
        await self.api.post("stop", "stop")

    async def find_subscription(self, subscription: RemoteSubscription) -> RemoteSubscription:
        return subscription

    async def list_subscriptions(self) -> Sequence[RemoteSubscription]:
        return ()

    async def list_folders(self) -> Sequence[RemoteFolder]:
        return await listings.list_folders(self.api)

    async def get_current_cursor(self, scope: str) -> str | None:
        del scope  # Gmail has only one
        return await listings.current_history_id(self.api)

    async def list_messages(self, scope: str, *, cursor: str | None, since: datetime | None) -> ChangePage:
        del scope
        return await listings.list_messages(self.api, cursor, since)

    async def list_changes(self, scope: str, cursor: str) -> ChangePage:
        del scope
        return await listings.list_changes(self.api, cursor)

    async def list_recent(
        self, since: datetime, *, drafts: bool = False
    ) -> AsyncIterator[Sequence[MessageChange]]:
        del since, drafts  # the history already lists recent messages
        yield ()

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
        return {key: key for key in keys}  # a Gmail message's id never changes
