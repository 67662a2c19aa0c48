"""The mutable state of a message: how an observation changes it, and which events follow. Pure.

Values that were not reported stay as they are. Repeated or older observations change nothing. Applying the
events of a message in order gives its state: `created` replaces it, and the others change parts of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal

from postroom.model import Importance, MessageChange, ObservedState, Presence
from postroom.store.messages import StoredMessage

MessageEventKind = Literal["created", "updated", "moved", "left", "deleted", "labels_changed"]
NOTHING: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """One change of one message. Folders are the provider's keys.

    `changed` holds new values of flags and the content revision; in `created`, all of them.
    """

    kind: MessageEventKind
    version: str
    from_folder: str | None = None
    to_folder: str | None = None
    labels_added: frozenset[str] = NOTHING
    labels_removed: frozenset[str] = NOTHING
    changed: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class MessageState:
    """The mutable state of a stored message."""

    version: str = ""
    folder: str | None = None
    labels: frozenset[str] = NOTHING
    categories: frozenset[str] = NOTHING
    is_read: bool = False
    is_flagged: bool = False
    is_draft: bool = False
    importance: str = Importance.NORMAL
    received_at: datetime | None = None
    deleted: bool = False
    content_revision: int = 1
    left: bool = False  # it exists, but in a folder that is not mirrored

    @property
    def is_mirrored(self) -> bool:
        return not (self.deleted or self.left)


def from_row(row: StoredMessage) -> MessageState:
    return MessageState(
        row.version,
        row.folder,
        row.labels,
        row.categories,
        row.is_read,
        row.is_flagged,
        row.is_draft,
        row.importance,
        row.received_at,
        row.deleted,
        row.content_revision,
        row.left,
    )


def create_state(version: str, state: ObservedState) -> MessageState:
    """Create the state of a message that was not stored before."""
    return _apply_change(MessageState(version=version), MessageChange("", Presence.PRESENT, version, state))


def is_newer(before: MessageState, change: MessageChange) -> bool:
    """Whether an observation may be new. One without a version always may."""
    return not change.version or change.version > before.version


def merge_change(before: MessageState, change: MessageChange) -> tuple[MessageState, list[MessageEvent]]:
    """Apply an observation that is no older than the state; the new state and its events."""
    if change.presence is Presence.DELETED:
        return _mark_deleted(before, change.version)
    if change.presence is Presence.LEFT:
        return _mark_left(before, change)
    after = _apply_change(before, change)
    version = change.version or before.version
    if not before.is_mirrored:  # restored, or back in a mirrored folder
        return after, [build_created_event(after, version)]
    return after, diff_states(before, after, version)


def build_created_event(state: MessageState, version: str) -> MessageEvent:
    """Build the event of a new or restored message, with its whole state."""
    changed = _read_flags(state) | {"content_revision": state.content_revision}
    return MessageEvent(
        "created", version, to_folder=state.folder, labels_added=state.labels, changed=changed
    )


def add_content_revision(
    events: Sequence[MessageEvent], version: str, content_revision: int
) -> list[MessageEvent]:
    """Record a new content revision in the events of one message, or in an event of its own."""
    changed: dict[str, object] = {"content_revision": content_revision}
    for at in reversed(range(len(events))):  # the last one, because a restored message brings its own
        if events[at].kind in {"created", "updated"}:
            event = replace(events[at], changed={**events[at].changed, **changed})
            return [*events[:at], event, *events[at + 1 :]]
    return [*events, MessageEvent("updated", version, changed=changed)]


def _mark_deleted(before: MessageState, version: str) -> tuple[MessageState, list[MessageEvent]]:
    if before.deleted:
        return before, []
    after = replace(before, version=max(version, before.version), deleted=True, left=False)
    return after, [MessageEvent("deleted", version or before.version, from_folder=before.folder)]


def _mark_left(before: MessageState, change: MessageChange) -> tuple[MessageState, list[MessageEvent]]:
    """Mark a message that exists in a folder that is not mirrored. From then on it stays as it is."""
    if not before.is_mirrored:
        return before, []
    after = replace(_apply_change(before, change), left=True)
    version = change.version or before.version
    others = [event for event in diff_states(before, after, version) if event.kind != "moved"]
    return after, [*others, MessageEvent("left", version, before.folder, after.folder)]


def _apply_change(before: MessageState, change: MessageChange) -> MessageState:
    state = change.state
    labels = before.labels if state.labels is None else state.labels
    return MessageState(
        version=max(change.version, before.version),
        folder=_value_or(state.folder, before.folder),
        labels=(labels | change.labels_added) - change.labels_removed,
        categories=before.categories if state.categories is None else state.categories,
        is_read=before.is_read if state.is_read is None else state.is_read,
        is_flagged=before.is_flagged if state.is_flagged is None else state.is_flagged,
        is_draft=before.is_draft if state.is_draft is None else state.is_draft,
        importance=_value_or(state.importance, before.importance) or Importance.NORMAL,
        received_at=state.received_at or before.received_at,
        content_revision=before.content_revision,
    )


def diff_states(before: MessageState, after: MessageState, version: str) -> list[MessageEvent]:
    found: list[MessageEvent] = []
    if after.folder != before.folder:
        found.append(MessageEvent("moved", version, before.folder, after.folder))
    if after.labels != before.labels:
        found.append(
            MessageEvent(
                "labels_changed",
                version,
                labels_added=after.labels - before.labels,
                labels_removed=before.labels - after.labels,
            )
        )
    if changed := _diff_flags(before, after):
        found.append(MessageEvent("updated", version, changed=changed))
    return found


def _diff_flags(before: MessageState, after: MessageState) -> dict[str, object]:
    old = _read_flags(before)
    return {name: value for name, value in _read_flags(after).items() if value != old[name]}


def _read_flags(state: MessageState) -> dict[str, object]:
    return {
        "is_read": state.is_read,
        "is_flagged": state.is_flagged,
        "is_draft": state.is_draft,
        "importance": state.importance,
        "categories": sorted(state.categories),
    }


def _value_or(reported: str | None, before: str | None) -> str | None:
    return before if reported is None else reported
