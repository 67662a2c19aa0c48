"""A mailbox at a provider that a test can bend: one feed with labels, or a feed for each folder.

It keeps the port's word and nothing more: repeats, gaps, expiry and poison come when a test orders them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count

from postroom.errors import CursorExpired, NotFound, TransientError
from postroom.model import (
    ChangePage,
    ContentPolicy,
    FetchedMessage,
    FetchFailure,
    FolderRole,
    MessageChange,
    MessageContent,
    ObservedState,
    Person,
    Presence,
    RemoteAttachment,
    RemoteFolder,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


class WorkerKilled(BaseException):
    """The process ends here: nothing that handles errors runs."""


@dataclass
class FakeMessage:
    key: str
    version: int
    state: ObservedState
    subject: str
    body: str
    attachments: tuple[RemoteAttachment, ...]


@dataclass
class FakeMailbox:
    """`folders` empty: labels and one feed, with a cursor that can be pinned."""

    tree: list[RemoteFolder]
    labelled: bool
    page: int = 3
    push_interval_seconds: float = 0.0
    push_names_messages: bool = True
    items: dict[str, FakeMessage] = field(default_factory=dict)
    log: list[tuple[str, MessageChange]] = field(default_factory=list)
    floor: int = 0  # cursors from before are expired
    poison: set[str] = field(default_factory=set)
    deadly: set[str] = field(default_factory=set)  # fetching them kills the worker
    hidden: set[str] = field(default_factory=set)  # no look at them succeeds
    late: set[str] = field(default_factory=set)  # listed and in the feed, but every request for them is a 404
    only_listed: set[str] = field(default_factory=set)  # lookups are a 404; fetched as part of a listing
    unreadable: set[str] = field(default_factory=set)  # parts whose bytes never come
    streams: dict[str, bytes] = field(default_factory=dict)  # by part: bytes that are fetched separately
    senders: dict[str, str] = field(default_factory=dict)  # where it is not Ann
    sizes: dict[str, int] = field(default_factory=dict)  # as recorded, where it is not 100
    refused: list[Exception] = field(default_factory=list)
    calls: Counter = field(default_factory=Counter)
    before: Callable[[str], None] = lambda _: None
    numbers: count = field(default_factory=lambda: count(1))

    def quota_used(self):
        return 0.25

    # What its owner does

    def deliver(
        self,
        folder="inbox",
        *,
        age=DAY,
        labels=("INBOX", "UNREAD"),
        thread=None,
        files=(),
        streamed=False,
        **state,
    ):
        number = next(self.numbers)
        key = f"m{number:04d}"
        where = {"labels": frozenset(labels)} if self.labelled else {"folder": folder}
        recorded = ObservedState(
            thread=thread or f"t-{key}",
            categories=frozenset(),
            is_read=False,
            is_flagged=False,
            is_draft=state.get("is_draft", False),
            received_at=NOW - age,
            **where,
        )
        attachments = tuple(
            RemoteAttachment(str(part), "file", media, len(data), name, content=None if streamed else data)
            for part, (name, media, data) in enumerate(files, start=1)
        )
        self.streams |= {str(part): data for part, (_, _, data) in enumerate(files, start=1)}
        self.items[key] = FakeMessage(key, 0, recorded, f"Subject {key}", f"Body of {key}", attachments)
        self._changed(key, added=True)
        return key

    def change(self, key, **state):
        self.items[key].state = replace(self.items[key].state, **state)
        self._changed(key, reported=ObservedState(**state))

    def label(self, key, add=(), remove=()):
        item = self.items[key]
        item.state = replace(item.state, labels=(item.state.labels | set(add)) - set(remove))
        item.version = next(self.numbers)
        self.log.append(
            (
                "",
                MessageChange(
                    key,
                    Presence.PRESENT,
                    f"{item.version:08d}",
                    labels_added=frozenset(add),
                    labels_removed=frozenset(remove),
                ),
            )
        )

    def move(self, key, folder):
        before = self.items[key].state.folder
        self.items[key].state = replace(self.items[key].state, folder=folder)
        self.log.append((before, MessageChange(key, Presence.LEFT)))
        self._changed(key)

    def write(self, key, body):
        self.items[key].body = body
        self._changed(key)

    def delete(self, key):
        item = self.items.pop(key)
        if self.labelled:
            self.log.append(("", MessageChange(key, Presence.DELETED, f"{next(self.numbers):08d}")))
        else:
            self.log.append((item.state.folder, MessageChange(key, Presence.LEFT)))

    def choose(self, key):
        """Only this folder is read."""
        self.tree = [replace(folder, scope=key if folder.key == key else None) for folder in self.tree]

    def remove_folder(self, key):
        self.tree = [folder for folder in self.tree if folder.key != key]
        for item in [each for each in self.items.values() if each.state.folder == key]:
            del self.items[item.key]

    def expire(self):
        self.floor = len(self.log)

    def _changed(self, key, *, added=False, reported=None):
        item = self.items[key]
        item.version = next(self.numbers)
        scope = "" if self.labelled else item.state.folder
        state = reported or (ObservedState(thread=item.state.thread) if self.labelled else item.state)
        if self.labelled and not added and reported is None:
            state = item.state
        self.log.append((scope, MessageChange(key, Presence.PRESENT, f"{item.version:08d}", state)))

    # The port

    def _call(self, name):
        self.calls[name] += 1
        self.before(name)
        if self.refused:
            raise self.refused.pop(0)

    async def list_folders(self):
        self._call("folders")
        return list(self.tree)

    async def get_current_cursor(self, scope):
        if not self.labelled:
            return None
        self._call("pin")
        return str(len(self.log))

    async def list_messages(self, scope, *, cursor, since):
        self._call("listing")
        if not self.labelled and scope not in {folder.key for folder in self.tree}:
            raise NotFound("no such folder")
        start, pinned = (int(part) for part in (cursor or f"0:{len(self.log)}").split(":"))
        if pinned < self.floor and cursor is not None:
            raise CursorExpired("the listing is too old")
        there = sorted(
            (each for each in self.items.values() if self.labelled or each.state.folder == scope),
            key=lambda each: (each.state.received_at, each.key),
            reverse=True,
        )
        if since is not None and self.labelled:
            there = [each for each in there if each.state.received_at >= since]
        shown = there[start : start + self.page]
        more = start + self.page < len(there)
        changes = tuple(
            MessageChange(each.key, Presence.PRESENT, state=ObservedState(thread=each.state.thread))
            if self.labelled
            else self._seen(each)
            for each in shown
        )
        live = None if more or self.labelled else str(pinned)
        return ChangePage(changes, f"{start + self.page}:{pinned}", more, live, len(there))

    async def list_changes(self, scope, cursor):
        self._call("changes")
        if not self.labelled and scope not in {folder.key for folder in self.tree}:
            raise NotFound("no such folder")
        if int(cursor) < self.floor:
            raise CursorExpired("too old")
        found = [
            (n, change) for n, (where, change) in enumerate(self.log) if where == scope and n >= int(cursor)
        ]
        shown = found[: self.page]
        more = len(found) > self.page
        return ChangePage(
            tuple(change for _, change in shown), str(shown[-1][0] + 1 if more else len(self.log)), more
        )

    async def list_recent(self, since, *, drafts=False):
        if self.labelled:
            return
        self._call("recent")
        read = {folder.key for folder in self.tree if folder.scope is not None}
        there = [each for each in self.items.values() if each.state.folder in read]
        found = [self._seen(each) for each in there if each.state.received_at >= since]
        for start in range(0, len(found), self.page):
            yield found[start : start + self.page]

    async def look_up(self, keys: Sequence[str]):
        self._call("look")
        return [self._looked(key) for key in keys]

    def _looked(self, key):
        if key in self.hidden:
            return FetchFailure(key, gone=False, reason="It cannot be looked at.")
        there = key in self.items and key not in self.late | self.only_listed
        return self._seen(self.items[key]) if there else MessageChange(key, Presence.DELETED)

    def _seen(self, item):
        return MessageChange(item.key, Presence.PRESENT, f"{item.version:08d}", item.state)

    async def fetch(self, wanted, policy):
        self._call("fetch")
        keys = [change.key for change in wanted]
        for start in range(0, len(keys), 2):
            yield [self._fetched(key, policy) for key in keys[start : start + 2]]

    def _fetched(self, key, policy):
        if key not in self.items or key in self.late:
            return FetchFailure(key, gone=True, reason="gone")
        if key in self.deadly:
            raise WorkerKilled
        if key in self.poison:
            return FetchFailure(key, gone=False, reason="It cannot be read.")
        item = self.items[key]
        bare = policy is ContentPolicy.METADATA
        content = MessageContent(
            f"<{key}@example.org>",
            Person("Ann", self.senders.get(key, "Ann@Example.org")),
            (Person("Bob, B.", "bob@example.com"),),
            (),
            (),
            item.subject,
            item.state.received_at,
            self.sizes.get(key, 100),
            bool(item.attachments),
            is_newsletter=False,
            is_automated=False,
            headers=(("Subject", item.subject),),
            snippet=None if bare else item.body[:20],
            body_plain=None if bare else item.body,
            attachments=() if bare else item.attachments,
        )
        return FetchedMessage(key, f"{item.version:08d}", item.state, content)

    async def fetch_attachment(self, key, attachment):
        self._call("attachment")
        if attachment.part in self.unreadable:
            raise TransientError("It was cut.")
        yield self.streams.get(attachment.part, b"")


def with_labels(**more) -> FakeMailbox:
    tree = [
        RemoteFolder("INBOX", "INBOX", None, FolderRole.INBOX, ""),
        RemoteFolder("UNREAD", "UNREAD", None, None, ""),
        RemoteFolder("TRASH", "TRASH", None, FolderRole.TRASH, ""),
    ]
    return FakeMailbox(tree, labelled=True, **more)


def with_folders(**more) -> FakeMailbox:
    tree = [
        RemoteFolder("inbox", "Inbox", None, FolderRole.INBOX, "inbox"),
        RemoteFolder("archive", "Archive", None, FolderRole.ARCHIVE, "archive"),
        RemoteFolder("trash", "Deleted Items", None, FolderRole.TRASH, "trash"),
    ]
    return FakeMailbox(tree, labelled=False, **more)
