"""Whether the events of every message give its state: replayed from the tables alone, after any test."""

from dataclasses import dataclass, field
from itertools import groupby

import psycopg

_MESSAGES = """
    SELECT id, revision, folder_id, labels, is_read, is_flagged, is_draft, importance, categories,
        content_revision, deleted_at IS NOT NULL
    FROM postroom.messages WHERE revision > 0
"""
_EVENTS = """
    SELECT message_id, revision, kind, from_folder_id, to_folder_id, labels_added, labels_removed, changed
    FROM postroom.mail_events WHERE revision IS NOT NULL ORDER BY message_id, id
"""
FLAGS = ("is_read", "is_flagged", "is_draft", "importance", "categories", "content_revision")


@dataclass
class ReplayedMessage:
    """What the events so far say about a message; nothing before its first one."""

    exists: bool = False
    folder: int | None = None
    labels: set[str] = field(default_factory=set)
    flags: dict[str, object] = field(default_factory=dict)

    def apply(self, kind, source, target, added, removed, changed):
        assert self.exists == (kind != "created") or (kind == "updated" and "content_revision" in changed)
        match kind:
            case "created":
                assert set(changed) == set(FLAGS), "a created event has the whole state"
                self.exists, self.folder, self.labels, self.flags = True, target, set(added), dict(changed)
            case "moved":
                assert (source, source != target or source is None) == (self.folder, True)
                self.folder = target
            case "labels_changed":
                assert added or removed
                assert set(removed) <= self.labels
                assert not set(added) & self.labels
                self.labels = (self.labels - set(removed)) | set(added)
            case "updated":
                assert changed, "something was updated"
                assert all(self.flags[name] != value for name, value in changed.items())
                self.flags |= changed
            case "deleted":
                assert source == self.folder
                self.exists = False


def replay_events(events) -> ReplayedMessage:
    message = ReplayedMessage()
    for _, _, *event in events:
        message.apply(*event)
    return message


def check_histories(url: str) -> int:
    """Raise if the events of a message have gaps or do not give its state; how many were replayed."""
    with psycopg.connect(url) as connection:
        if connection.execute("SELECT to_regclass('postroom.mail_events')").fetchone() == (None,):
            return 0
        rows = connection.execute(_MESSAGES).fetchall()
        histories = {
            key: list(events)
            for key, events in groupby(connection.execute(_EVENTS).fetchall(), key=lambda event: event[0])
        }
    for id_, revision, *state in rows:
        events = histories.get(id_, [])
        numbers = [event[1] for event in events]
        if numbers[:1] != [1] and numbers == list(range(revision - len(numbers) + 1, revision + 1)):
            continue  # retention removed the oldest ones
        assert numbers == list(range(1, revision + 1)), (id_, numbers, revision)
        try:
            replayed = replay_events(events)
            assert _read_row(state) == replayed
        except AssertionError as error:
            raise AssertionError(f"message {id_} is {_read_row(state)}, its events are {events}") from error
    return len(rows)


def _read_row(state) -> ReplayedMessage:
    folder, labels, *flags, deleted = state
    values = dict(zip(FLAGS, flags, strict=True))
    return ReplayedMessage(
        not deleted, folder, set(labels), values | {"categories": sorted(values["categories"])}
    )
