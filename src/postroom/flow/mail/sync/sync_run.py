"""The state of one sync run: its dependencies (`SyncContext`), mailbox, folders, cursors, counts.

Also the dates from which mail is mirrored. No I/O: the other modules read and write.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from postroom.flow.mail.sync import content_filter
from postroom.flow.storage.sender_quota import SenderQuota
from postroom.flow.storage.storage_limit import StorageUse
from postroom.model import (
    ContentPolicy,
    FetchedMessage,
    FolderRole,
    MailboxId,
    MessageContent,
    OrganizationId,
    ProviderName,
    RemoteAttachment,
)
from postroom.ports import BlobStore, RemoteMailbox
from postroom.store.connection import Connection
from postroom.store.cursors import Cursor, CursorAdvance, CursorKind
from postroom.store.database import Database
from postroom.store.folders import Folder
from postroom.store.mailboxes import Mailbox
from postroom.store.notifications import NO_HINTS, SyncHints
from postroom.store.work import Lease

# Whether a pipeline accepts mail in the mailbox with this address from this sender.
CoverageFunction = Callable[[str, str], bool]
# Turns stored messages into documents, in the transaction that stores them.
IntakeFunction = Callable[[Connection, OrganizationId, Sequence[int]], Awaitable[None]]


@dataclass(frozen=True)
class SyncContext:
    """The dependencies and settings of a sync run."""

    database: Database
    remote: Callable[[Mailbox], RemoteMailbox]
    blobs: BlobStore
    sweep_seconds: Mapping[ProviderName, float]
    sweep_stretch: Mapping[ProviderName, float]  # by how much the interval may grow while pushes are proven
    backfill_days: float
    slice_seconds: float
    covers_sender: CoverageFunction
    intake: IntakeFunction | None = None
    kept_days: Mapping[ContentPolicy, float | None] = field(default_factory=dict[ContentPolicy, float | None])
    sender_quota: SenderQuota | None = None

    def filter_attachments(self, mailbox: Mailbox, content: MessageContent) -> list[RemoteAttachment]:
        """The attachments that the policy stores, or may store once their first bytes are known."""
        sender = content.sender.address if content.sender else ""
        is_covered = self.covers_sender(mailbox.address, sender)
        return content_filter.filter_attachments(content, mailbox.policy, is_covered=is_covered)

    async def measure_sender(
        self, mailbox: Mailbox, fetched: FetchedMessage, attachment: RemoteAttachment
    ) -> StorageUse:
        """The bytes that the sender's attachments use. Raises SenderQuotaReached if its quota is used up."""
        if self.sender_quota is None:
            return StorageUse()
        sender = fetched.content.sender.address if fetched.content.sender else ""
        return await self.sender_quota.check(mailbox, sender, fetched.key, attachment.part)

    def oldest_kept(self, policy: ContentPolicy, now: datetime) -> datetime | None:
        """The start of the retention period: older mail is not fetched. None: keep everything."""
        days = self.kept_days.get(policy)
        return None if days is None else days_before(now, days)


def days_before(now: datetime, days: float) -> datetime:
    """The start of a window, in whole seconds, because providers may not return fractions."""
    return (now - timedelta(days=days)).replace(microsecond=0)


def get_latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((each for each in (one, other) if each is not None), default=None)


@dataclass(slots=True)
class SyncCounts:
    """What a sync run has written."""

    threads: int = 0
    messages: int = 0
    attachments: int = 0
    events: int = 0
    deleted: int = 0
    errors: int = 0
    pages: int = 0

    @property
    def has_changes(self) -> bool:
        return self.events + self.errors + self.messages + self.attachments > 0


@dataclass
class SyncRun:
    """One run for one mailbox. Everything here is as of the last commit."""

    context: SyncContext
    lease: Lease
    mailbox: Mailbox
    remote: RemoteMailbox
    now: datetime
    folders: dict[str, Folder] = field(default_factory=dict[str, Folder])
    cursors: dict[tuple[CursorKind, str], Cursor] = field(
        default_factory=dict[tuple[CursorKind, str], Cursor]
    )
    counts: SyncCounts = field(default_factory=SyncCounts)
    hints: SyncHints = NO_HINTS  # of the pushes that this run follows
    has_open_failures: bool = True
    # The new cursors of feeds without changes: written with the next page, or with the finish.
    unwritten: list[CursorAdvance] = field(default_factory=list[CursorAdvance])
    new_messages: dict[str, datetime | None] = field(
        default_factory=dict[str, datetime | None]
    )  # by key: when they were received; without those of listings
    generation: int = 0  # of the work row, as the last commit saw it
    handled_generation: int = 0  # the generation whose hints were read
    second_look_at: float | None = None  # by `time.monotonic`, if a push may have been dropped
    start_recorded: bool = False
    restarted_scopes: set[str] = field(default_factory=set[str])  # scopes whose listing expired in this run
    unreadable: set[str] = field(
        default_factory=set[str]
    )  # scopes that exist but could not be read in this run
    suspects: set[str] = field(default_factory=set[str])  # keys: a worker may have crashed over them
    parked: set[str] = field(default_factory=set[str])  # keys: not fetched until a person retries them
    unlisted_labels: set[str] = field(default_factory=set[str])  # named by messages, but not in the tree

    @property
    def id(self) -> MailboxId:
        return self.mailbox.id

    @property
    def organization(self) -> OrganizationId:
        return self.mailbox.organization

    @property
    def has_new_hints(self) -> bool:
        """Whether there may be new changes since the hints were read."""
        overdue = self.second_look_at is not None and self.second_look_at <= time.monotonic()
        return overdue or self.generation > self.handled_generation

    def cursor(self, kind: CursorKind, scope: str) -> Cursor | None:
        return self.cursors.get((kind, scope))

    def of_kind(self, kind: CursorKind) -> list[Cursor]:
        return [cursor for (each, _), cursor in self.cursors.items() if each is kind]

    def scopes(self) -> list[str]:
        """The scopes of this mailbox, the inbox's first."""
        there = [folder for folder in self.folders.values() if not folder.deleted]
        inbox = [folder.scope for folder in there if folder.role is FolderRole.INBOX]
        found = {folder.scope for folder in there if folder.scope is not None}
        return sorted(found, key=lambda scope: (scope not in inbox, scope))

    def mirrors(self, folder: str | None) -> bool:
        """Whether mail in this folder is mirrored. Without folders (Gmail), all mail is."""
        if folder is None:
            return True
        known = self.folders.get(folder)
        return known is not None and not known.deleted and known.scope is not None

    def leaves_scope(self, folder: str | None) -> bool:
        """Whether a message in this folder exists outside the scopes. One in the trash counts as deleted."""
        known = self.folders.get(folder) if folder else None
        if known is None or known.deleted or known.scope is not None:
            return False
        return known.role is not FolderRole.TRASH

    def find_scope(self, folder: str | None) -> str | None:
        """The scope that reports the messages of this folder. Without folders (Gmail), there is only one."""
        if folder is None:
            return next((known.scope for known in self.folders.values() if known.scope == ""), None)
        known = self.folders.get(folder)
        return known.scope if known is not None and not known.deleted else None

    def folder_ids(self, scope: str) -> list[int] | None:
        """The folders that a scope covers, or covered before it was dropped; None: all mail."""
        if not scope:
            return None
        return [folder.id for folder in self.folders.values() if scope in {folder.scope, folder.key}]

    @property
    def has_one_feed(self) -> bool:
        """Whether one feed covers all mail, whatever folders or labels there are."""
        return self.scopes() == [""]

    def since(self, scope: str) -> datetime | None:
        """The time from which mail of a scope is mirrored."""
        backfill = self.cursor(CursorKind.BACKFILL, scope)
        return get_latest(backfill.since if backfill else None, self._oldest_kept())

    def earliest(self) -> datetime | None:
        """The earliest time from which any mail is mirrored."""
        return get_latest(get_earliest_since(self.of_kind(CursorKind.BACKFILL)), self._oldest_kept())

    def _oldest_kept(self) -> datetime | None:
        return self.context.oldest_kept(self.mailbox.policy, self.now)

    def listings(self) -> Collection[Cursor]:
        """The unfinished listings that can be read."""
        return [
            cursor
            for cursor in self.cursors.values()
            if cursor.scope not in self.unreadable
            and (
                cursor.kind in {CursorKind.RESYNC, CursorKind.REFILL}
                or (cursor.kind is CursorKind.BACKFILL and cursor.completed_at is None)
            )
        ]


def get_earliest_since(backfills: Iterable[Cursor]) -> datetime | None:
    """The start of the longest of these windows."""
    return min((cursor.since for cursor in backfills if cursor.since), default=None)
