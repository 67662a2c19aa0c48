"""The messages and events of a page as rows of the tables. Pure functions; `page_commit` writes the rows."""

from collections.abc import Mapping, Sequence

from postroom.flow.mail.sync.message_state import MessageEvent, MessageState
from postroom.flow.mail.sync.page_fetch import ReadyMessage
from postroom.flow.mail.sync.sync_run import SyncRun
from postroom.store.mail_events import MailEvent
from postroom.store.messages import MessageUpdate, NewMessage, StoredMessage


def get_thread_key(ready: ReadyMessage) -> str:
    """The thread's key. A message without a thread is a thread of its own."""
    return ready.state.thread or ready.key


def _folder_id(sync_run: SyncRun, key: str | None) -> int | None:
    folder = sync_run.folders.get(key) if key else None
    return folder.id if folder else None


def to_new_row(sync_run: SyncRun, ready: ReadyMessage, state: MessageState, thread: int) -> NewMessage:
    return NewMessage(
        ready.key,
        thread,
        state.version,
        _folder_id(sync_run, state.folder),
        state.labels,
        state.categories,
        state.is_read,
        state.is_flagged,
        state.is_draft,
        state.importance,
        state.received_at,
        ready.content,
    )


def to_state_row(sync_run: SyncRun, id_: int, state: MessageState) -> MessageUpdate:
    return MessageUpdate(
        id_,
        state.version,
        _folder_id(sync_run, state.folder),
        state.labels,
        state.categories,
        state.is_read,
        state.is_flagged,
        state.is_draft,
        state.importance,
        state.received_at,
        state.deleted,
        state.left,
    )


def list_mail_events(
    sync_run: SyncRun,
    events_by_key: Mapping[str, Sequence[MessageEvent]],
    ids: Mapping[str, int],
    stored: Mapping[str, StoredMessage],
) -> list[MailEvent]:
    """List the events as rows, numbered from the message's last revision on."""
    return [
        MailEvent(
            ids[key],
            (stored[key].revision if key in stored else 0) + number,
            event.kind,
            event.version,
            _folder_id(sync_run, event.from_folder),
            _folder_id(sync_run, event.to_folder),
            event.labels_added,
            event.labels_removed,
            event.changed,
        )
        for key, events in events_by_key.items()
        for number, event in enumerate(events, start=1)
    ]
