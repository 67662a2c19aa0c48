"""How an observation changes what stands of a message, and which events that makes. Pure.

What is not told stays as it is. What was told before, or is older than what stands, changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from postroom.model import Change, Importance, Presence, State
from postroom.store.messages import Stored

Kind = Literal["created", "updated", "moved", "deleted", "labels_changed"]
NOTHING: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one message. Folders are the provider's keys."""

    kind: Kind
    version: str
    from_folder: str | None = None
    to_folder: str | None = None
    labels_added: frozenset[str] = NOTHING
    labels_removed: frozenset[str] = NOTHING
    changed: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class Standing:
    """What of a message may change, as it stands."""

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


def stored(row: Stored) -> Standing:
    return Standing(
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
    )


def born(version: str, state: State) -> Standing:
    """A message that was not stored before."""
    return _told(Standing(version=version), Change("", Presence.HERE, version, state))


def is_news(before: Standing, change: Change) -> bool:
    """Whether a feed's observation may say anything new. A version that is not told may."""
    return not change.version or change.version > before.version


def merged(before: Standing, change: Change) -> tuple[Standing, list[Event]]:
    """What stands after an observation that is known to be no older than what stood before."""
    if change.presence is Presence.DELETED:
        return _deleted(before, change.version)
    after = _told(before, change)
    version = change.version or before.version
    if before.deleted:  # it came back
        return after, [Event("created", version, to_folder=after.folder)]
    return after, events(before, after, version)


def _deleted(before: Standing, version: str) -> tuple[Standing, list[Event]]:
    if before.deleted:
        return before, []
    after = _with(before, version=max(version, before.version), deleted=True)
    return after, [Event("deleted", version or before.version, from_folder=before.folder)]


def _told(before: Standing, change: Change) -> Standing:
    state = change.state
    labels = before.labels if state.labels is None else state.labels
    return Standing(
        version=max(change.version, before.version),
        folder=_or(state.folder, before.folder),
        labels=(labels | change.labels_added) - change.labels_removed,
        categories=before.categories if state.categories is None else state.categories,
        is_read=before.is_read if state.is_read is None else state.is_read,
        is_flagged=before.is_flagged if state.is_flagged is None else state.is_flagged,
        is_draft=before.is_draft if state.is_draft is None else state.is_draft,
        importance=_or(state.importance, before.importance) or Importance.NORMAL,
        received_at=state.received_at or before.received_at,
    )


def events(before: Standing, after: Standing, version: str) -> list[Event]:
    found: list[Event] = []
    if after.folder != before.folder:
        found.append(Event("moved", version, before.folder, after.folder))
    if after.labels != before.labels:
        found.append(
            Event(
                "labels_changed",
                version,
                labels_added=after.labels - before.labels,
                labels_removed=before.labels - after.labels,
            )
        )
    if changed := _changed(before, after):
        found.append(Event("updated", version, changed=changed))
    return found


def _changed(before: Standing, after: Standing) -> dict[str, object]:
    found: dict[str, object] = {
        name: getattr(after, name)
        for name in ("is_read", "is_flagged", "is_draft", "importance")
        if getattr(after, name) != getattr(before, name)
    }
    if after.categories != before.categories:
        found["categories"] = sorted(after.categories)
    return found


def _with(before: Standing, *, version: str, deleted: bool) -> Standing:
    return Standing(
        version,
        before.folder,
        before.labels,
        before.categories,
        before.is_read,
        before.is_flagged,
        before.is_draft,
        before.importance,
        before.received_at,
        deleted,
    )


def _or(told: str | None, before: str | None) -> str | None:
    return before if told is None else told
