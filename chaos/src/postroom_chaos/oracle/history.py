"""The history of each message: its events, replayed, give its state, and nothing is recorded twice.

Needs nothing but the database, so it can follow any test.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from postroom_chaos.oracle.evidence import Violation
from postroom_chaos.oracle.sources import Connection, Row, fetch_rows

# Messages and events from before revisions were counted (revision 0 and NULL) have no complete history.
_MESSAGES: LiteralString = """
    SELECT id, organization_id, mailbox_id, provider_message_id, revision, folder_id, labels, is_read,
        is_flagged, is_draft, importance, categories, content_revision, deleted_at, left_at
    FROM postroom.messages WHERE revision > 0 ORDER BY id
"""
_EVENTS: LiteralString = """
    SELECT message_id, id, revision, kind, from_folder_id, to_folder_id, labels_added, labels_removed, changed
    FROM postroom.mail_events WHERE revision IS NOT NULL ORDER BY message_id, id
"""
_LEDGER: LiteralString = """
    SELECT entity_id, event_type, count(*) AS entries FROM postroom.ledger
    WHERE entity_type = 'message' AND event_type IN (
        'MESSAGE_INGESTED', 'MESSAGE_LEFT_SCOPE', 'MESSAGE_DELETED') GROUP BY 1, 2
"""
_FEED: LiteralString = """
    SELECT entity_id, kind, count(*) AS entries FROM postroom.events
    WHERE entity_type = 'message' AND organization_id NOT IN (
        SELECT organization_id FROM postroom.feeds WHERE pruned_position > 0)
    GROUP BY 1, 2
"""
_PRUNED: LiteralString = "SELECT organization_id FROM postroom.feeds WHERE pruned_position > 0"
_UNRECORDED: LiteralString = """
    SELECT message_id, part, encode(sha256, 'hex') AS sha256 FROM postroom.attachments
    WHERE sha256 IS NOT NULL
        AND EXISTS (SELECT FROM postroom.messages WHERE messages.id = message_id AND revision > 0)
        AND NOT EXISTS (
            SELECT FROM postroom.ledger WHERE ledger.organization_id = attachments.organization_id
                AND event_type = 'ATTACHMENT_SAVED' AND entity_id = message_id || '/' || part
                AND payload ->> 'sha256' = encode(attachments.sha256, 'hex'))
    ORDER BY 1, 2
"""
_HAS_REVISIONS: LiteralString = """
    SELECT FROM pg_attribute WHERE attrelid = to_regclass('postroom.mail_events') AND attname = 'revision'
"""
_FLAGS = ("is_read", "is_flagged", "is_draft", "importance", "categories", "content_revision")
_ANNOUNCEMENTS = {"created": "message.created", "left": "message.left", "deleted": "message.deleted"}


@dataclass(frozen=True)
class RecordedHistory:
    """The rows that the check compares."""

    messages: list[Row]
    events: list[Row]
    ledger: list[Row]
    feed: list[Row]
    pruned: list[Row]
    unrecorded: list[Row]


_QUERIES = (_MESSAGES, _EVENTS, _LEDGER, _FEED, _PRUNED, _UNRECORDED)


async def check_history(connection: Connection) -> list[Violation]:
    return list(compare_history(RecordedHistory(*[await fetch_rows(connection, each) for each in _QUERIES])))


def check_history_of(database_url: str) -> list[Violation]:
    """Check a whole database; one without Postroom's tables, or with older ones, has no history."""
    with psycopg.connect(database_url) as connection, connection.cursor(row_factory=dict_row) as cursor:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        if not cursor.execute(_HAS_REVISIONS).fetchall():
            return []
        return list(compare_history(RecordedHistory(*[cursor.execute(each).fetchall() for each in _QUERIES])))


def compare_history(recorded: RecordedHistory) -> Iterator[Violation]:
    events: dict[int, list[Row]] = defaultdict(list)
    for event in recorded.events:
        events[event["message_id"]].append(event)
    for message in recorded.messages:
        yield from _check_message(message, events[message["id"]])
    yield from _check_records(recorded, events)


def _name(message: Row) -> str:
    return (
        f"message row {message['id']} ({message['provider_message_id']}) of mailbox {message['mailbox_id']}"
    )


def _check_message(message: Row, events: list[Row]) -> Iterator[Violation]:
    numbers = [event["revision"] for event in events]
    if numbers[:1] != [1] and _is_tail(numbers, message["revision"]):
        return  # retention removed the oldest ones
    if numbers != list(range(1, message["revision"] + 1)):
        text = f"its events must be numbered 1 to {message['revision']}, they are {numbers}"
        yield Violation("history.numbers", _name(message), text)
        return
    replayed = _ReplayedMessage()
    for event in events:
        for error in replayed.apply(event):
            text = f"event {event['id']} (revision {event['revision']}, {event['kind']}): {error}"
            yield Violation("history.event", _name(message), text)
    if (state := _read_state(message)) != replayed:
        yield Violation(
            "history.state", _name(message), f"its events lead to {replayed}, the row says {state}"
        )


def _is_tail(numbers: list[int], last: int) -> bool:
    return numbers == list(range(last - len(numbers) + 1, last + 1))


@dataclass
class _ReplayedMessage:
    """What the events so far say about a message; nothing before its first one."""

    exists: bool = False
    folder: int | None = None
    labels: set[str] = field(default_factory=set[str])
    flags: dict[str, Any] = field(default_factory=dict[str, Any])
    left: bool = False  # it is outside the mirrored folders: it may return, or be deleted

    def apply(self, event: Row) -> Iterator[str]:
        """Apply one event; what contradicts the events before it, or repeats one of them."""
        kind, changed = event["kind"], event["changed"]
        is_here = self.exists and not self.left
        may_follow = (kind == "updated" and "content_revision" in changed) or (
            kind == "deleted" and self.left
        )
        if (kind == "created") == is_here and not may_follow:
            yield "the message was there already" if is_here else "there was no message"
        match kind:
            case "created":
                yield from self._create(event)
            case "moved":
                yield from self._move(event)
            case "labels_changed":
                yield from self._relabel(event)
            case "updated":
                repeated = [name for name, value in changed.items() if self.flags.get(name) == value]
                if repeated or not changed:
                    yield f"changes nothing: {repeated} had these values already"
                self.flags |= changed
            case _:
                if event["from_folder_id"] != self.folder:
                    yield f"{kind} from folder {event['from_folder_id']}, it was in {self.folder}"
                self.exists = self.left = kind == "left"
                self.folder = event["to_folder_id"] if self.left else self.folder

    def _create(self, event: Row) -> Iterator[str]:
        if missing := set(_FLAGS) - event["changed"].keys():
            yield f"must carry the whole state, lacks {sorted(missing)}"
        self.exists, self.left, self.folder = True, False, event["to_folder_id"]
        self.labels, self.flags = set(event["labels_added"]), dict(event["changed"])

    def _move(self, event: Row) -> Iterator[str]:
        # Both are empty if the message moved between folders that are not known.
        if event["from_folder_id"] != self.folder or event["to_folder_id"] == self.folder is not None:
            yield f"moves from {event['from_folder_id']} to {event['to_folder_id']}, it was in {self.folder}"
        self.folder = event["to_folder_id"]

    def _relabel(self, event: Row) -> Iterator[str]:
        added, removed = set[str](event["labels_added"]), set[str](event["labels_removed"])
        if added & self.labels or removed - self.labels or not added | removed:
            yield f"adds {sorted(added)} and removes {sorted(removed)}, it had {sorted(self.labels)}"
        self.labels = (self.labels - removed) | added


def _read_state(message: Row) -> _ReplayedMessage:
    flags = {name: message[name] for name in _FLAGS} | {"categories": sorted(message["categories"])}
    return _ReplayedMessage(
        message["deleted_at"] is None,
        message["folder_id"],
        set(message["labels"]),
        flags,
        message["left_at"] is not None,
    )


def _check_records(recorded: RecordedHistory, events: dict[int, list[Row]]) -> Iterator[Violation]:
    """The ledger and the feed have one entry for each event, and no more."""
    ledger = {(row["entity_id"], row["event_type"]): row["entries"] for row in recorded.ledger}
    feed = {(row["entity_id"], row["kind"]): row["entries"] for row in recorded.feed}
    pruned = {row["organization_id"] for row in recorded.pruned}
    for message in recorded.messages:
        own, key = events[message["id"]], str(message["id"])
        if not own or own[0]["revision"] != 1:
            continue
        kinds = Counter(event["kind"] for event in own)
        expected = {
            "MESSAGE_INGESTED": 1,
            "MESSAGE_LEFT_SCOPE": kinds["left"],
            "MESSAGE_DELETED": kinds["deleted"],
        }
        stored = {name: ledger.get((key, name), 0) for name in expected}
        if stored != expected:
            yield Violation(
                "history.ledger", _name(message), f"the ledger must have {expected}, has {stored}"
            )
        announced = Counter(_ANNOUNCEMENTS.get(event["kind"], "message.changed") for event in own)
        in_feed = {kind: feed.get((key, kind), 0) for kind in {*announced, *_ANNOUNCEMENTS.values()}}
        if message["organization_id"] not in pruned and Counter(in_feed) != announced:
            text = f"the feed must have {dict(announced)}, has {in_feed}"
            yield Violation("history.feed", _name(message), text)
    for row in recorded.unrecorded:
        subject = f"attachment {row['part']} of message row {row['message_id']}"
        text = f"is stored with SHA-256 {row['sha256']}, but no ledger entry says so"
        yield Violation("history.ledger", subject, text)
