"""One simulated mailbox of either provider: messages by number, folders, threads, drafts, change log.

It applies the rules in which the providers differ (Gmail: several labels, Outlook: one folder), but knows no
HTTP and no JSON: the Gmail and Graph packages derive IDs, history and delta from message numbers and the
change log. The bytes of generated mail are written on first read.
"""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from mailsim import initial_states, mime, samples
from mailsim.clock import Clock
from mailsim.errors import AlreadyExists, InvalidRequest, NotFound
from mailsim.initial_mail import InitialMail
from mailsim.message_cache import MessageCache
from mailsim.message_state import (
    OUTLOOK_ROOT,
    ChangeKind,
    Folder,
    MailboxChange,
    MessageState,
    ProviderName,
    get_labels,
    standard_folders,
    with_labels,
)
from mailsim.state_index import MessageStateIndex
from mailsim.thread_index import ThreadIndex

MAX_FOLDER_DEPTH = 300  # Exchange's limit
_INBOX = frozenset({"inbox", "INBOX"})
Choice = TypeVar("Choice", bound=str)
Listener = Callable[["Mailbox", MailboxChange], None]
ArrivalSorter = Callable[[bytes, MessageState], tuple[MessageState, list[MessageState]]]


@dataclass(frozen=True, slots=True)
class MailboxAccount:
    """The owner of a mailbox.

    `key` is a 64-bit number derived from seed and address; providers derive their IDs from it.
    """

    provider: ProviderName
    address: str
    name: str
    key: int

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


class Mailbox:
    """Messages are numbered in order of arrival, from 0. The number of a deleted message is not reused."""

    def __init__(
        self, account: MailboxAccount, initial_mail: InitialMail, clock: Clock, cache: MessageCache
    ) -> None:
        self.account = account
        self.provider: ProviderName = account.provider
        self.address = account.address
        self.initial_mail = initial_mail
        self.folders = {folder.key: folder for folder in standard_folders(account.provider)}
        self.changes: list[MailboxChange] = []
        self.sequence = 0  # of the newest change; 0: no change yet
        self.oldest_sequence = 0  # changes up to here were dropped: older cursors are expired
        self.listeners: list[Listener] = []
        self.sort_arrival: ArrivalSorter | None = None  # applies the user's rules or filters
        self._clock = clock
        self._cache = cache
        self._first = initial_states.draw_initial_states(
            account.provider, account.key, initial_mail.count, spread=initial_mail.spread
        )
        self._states = MessageStateIndex(*self._first)
        self._received = array("q")  # of messages after the initial mail
        self._contents: dict[int, bytes | samples.MessageSpec] = {}
        self._threads = ThreadIndex(initial_mail)
        self._last_changes: dict[int, MailboxChange] = {}
        self._draft_keys: dict[int, int] = {}
        self._folder_count = 0

    # Reading

    def __len__(self) -> int:
        """Return how many numbers were assigned, deleted messages included."""
        return len(self._states)

    @property
    def total(self) -> int:
        return self._states.count()

    @property
    def delivered_to(self) -> str:
        """Return what the header Delivered-To of received mail contains; only Gmail adds it."""
        return self.address if self.provider == "gmail" else ""

    @property
    def states(self) -> MessageStateIndex:
        """Return the index that counts and lists messages by state."""
        return self._states

    def state(self, number: int) -> MessageState | None:
        """Return a message's state, or None if it does not exist."""
        return self._states.get(number)

    def received_ms(self, number: int) -> int:
        """Return the arrival time in milliseconds since 1970. It rises with the number."""
        initial_count = self.initial_mail.count
        return (
            self.initial_mail.received_ms(number)
            if number < initial_count
            else self._received[number - initial_count]
        )

    def first_number_since(self, milliseconds: int) -> int:
        """Return the first number that arrived at or after this time, or `len(mailbox)` if none did."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.received_ms(middle) < milliseconds:
                low = middle + 1
            else:
                high = middle
        return low

    def raw(self, number: int) -> bytes:
        """Return the RFC 5322 bytes. They are stable until a draft is edited."""
        content = self._contents.get(number)
        if isinstance(content, bytes):
            return content
        key = self.account.key, number
        return self._cache.messages.get(key) or self._cache.messages.put(key, self._write_generated(number))

    def tree(self, number: int) -> mime.MimePart:
        """Return the parsed MIME tree of a message."""
        content = self._contents.get(number)
        if isinstance(content, bytes):  # may be edited: do not cache
            return mime.parse(content)
        key = self.account.key, number
        return self._cache.trees.get(key) or self._cache.trees.put(key, mime.parse(self.raw(number)))

    def thread_root(self, number: int) -> int:
        """Return the number of the message that started the thread, which may be deleted by now."""
        return self._threads.get_root(number)

    def thread_members(self, root: int) -> list[int]:
        """Return the thread's existing messages, oldest first."""
        return [n for n in self._threads.list_members(root) if self._states.get(n) is not None]

    @property
    def thread_total(self) -> int:
        """Return the number of threads with an existing message.

        It is an estimate for more than 20,000 generated messages.
        """
        return self._threads.total

    def last_change(self, number: int) -> MailboxChange | None:
        """Return the newest change of a message, or None if it never changed."""
        return self._last_changes.get(number)

    def find_by_message_id(self, message_id: str) -> int | None:
        """Return the newest message with this Message-ID, deleted ones included."""
        return self._threads.find_by_message_id(message_id)

    def find_all_by_message_id(self, message_id: str) -> list[int]:
        """Return every message with this Message-ID, oldest first, deleted ones included."""
        return self._threads.list_by_message_id(message_id)

    def in_folder(self, key: str) -> Callable[[MessageState], bool]:
        """Return a predicate for `states`: the message is in this folder or has this label."""
        if self.provider == "gmail":
            return lambda state: key in get_labels(state)
        return lambda state: key in state.folder_keys

    def changes_after(self, sequence: int) -> list[MailboxChange]:
        """Return changes with a higher sequence, oldest first. Callers check `oldest_sequence` before."""
        return self.changes[max(0, sequence - self.oldest_sequence) :]

    def initial_change(self, number: int) -> MailboxChange:
        """Return the arrival of an initial message as a change. Its sequence is 0 or negative."""
        distinct, first = self._first
        sequence = number - self.initial_mail.count + 1
        state = distinct[first[number]]
        return MailboxChange(sequence, "added", self.received_ms(number), number, None, state)

    def forget_changes(self) -> None:
        """Expire every cursor that is not at the newest change."""
        self.changes.clear()
        self.oldest_sequence = self.sequence

    # Changing messages

    def deliver(
        self,
        content: bytes | samples.MessageSpec,
        state: MessageState | None = None,
        *,
        root: int | None = None,
    ) -> int:
        """Deliver a message now, as exact bytes or as generated from a spec, and return its number.

        `root` is the thread to add it to; by default its headers decide.
        """
        return self._add(content, state or initial_states.get_arrival_state(self.provider), root)

    def receive(self, content: bytes | samples.MessageSpec, state: MessageState | None = None) -> int:
        """Deliver a message that arrives from outside: the user's rules decide where it goes."""
        state = state or initial_states.get_arrival_state(self.provider)
        copies: list[MessageState] = []
        if self.sort_arrival is not None and state.folder_keys & _INBOX:
            raw = content if isinstance(content, bytes) else samples.write_message(content)
            state, copies = self.sort_arrival(raw, state)
        number = self.deliver(content, state)
        for copy in copies:
            self.deliver(content, copy)
        return number

    def set_state(self, number: int, state: MessageState) -> MailboxChange | None:
        """Set a message's state and return the change, or None if nothing changed."""
        before = self._get_state(number)
        if self.provider == "outlook" and len(state.folder_keys) != 1:
            raise InvalidRequest("an Outlook message is in exactly one folder")
        for key in state.folder_keys:
            self.folder(key)
        if state == before:
            return None
        self._states.put(number, state)
        return self._log("changed", number, before, state)

    def mark(
        self,
        number: int,
        *,
        read: bool | None = None,
        flag: str | None = None,
        importance: str | None = None,
        categories: Iterable[str] | None = None,
        classification: str | None = None,
    ) -> MailboxChange | None:
        """Set the given properties and keep the others."""
        state = self._get_state(number)
        if flag is not None:
            state = replace(state, flag=_check_choice(flag, ("notFlagged", "flagged", "complete")))
        if importance is not None:
            state = replace(state, importance=_check_choice(importance, ("low", "normal", "high")))
        if classification is not None:
            state = replace(state, classification=_check_choice(classification, ("focused", "other")))
        if read is not None:
            state = replace(state, read=read)
        if categories is not None:
            state = replace(state, categories=tuple(categories))
        return self.set_state(number, state)

    def relabel(
        self, number: int, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> MailboxChange | None:
        """Add and remove Gmail label IDs, including UNREAD, STARRED and IMPORTANT."""
        if self.provider != "gmail":
            raise InvalidRequest("an Outlook message has a folder, not labels; use move instead")
        state = self._get_state(number)
        return self.set_state(
            number, with_labels(state, get_labels(state) - frozenset(remove) | frozenset(add))
        )

    def move(self, number: int, key: str) -> MailboxChange | None:
        """Move a message to a folder.

        At Gmail, add INBOX, SPAM, TRASH or a label and remove the others of these three.
        """
        state = self._get_state(number)
        self.folder(key)
        if self.provider == "outlook":
            return self.set_state(number, replace(state, folder_keys=frozenset({key})))
        return self.relabel(number, add={key}, remove={"INBOX", "SPAM", "TRASH"} - {key})

    def trash(self, number: int) -> MailboxChange | None:
        return self.move(number, "TRASH" if self.provider == "gmail" else "deleteditems")

    def delete(self, number: int) -> MailboxChange:
        """Delete a message permanently."""
        before = self._get_state(number)
        self._states.put(number, None)
        self._contents.pop(number, None)
        if not self.thread_members(self.thread_root(number)):
            self._threads.record_end()
        return self._log("deleted", number, before, None)

    # Drafts

    def save_draft(self, raw: bytes, *, root: int | None = None) -> int:
        """Save a new draft, in the thread `root` if it is given, and return its message number."""
        key = "DRAFT" if self.provider == "gmail" else "drafts"
        return self._add(raw, MessageState(frozenset({key}), read=True, draft=True), root)

    def draft_key(self, number: int) -> int:
        """Return the key of a draft, which is stable although Gmail assigns a new message at every save."""
        return self._draft_keys.get(number, number)

    def edit_draft(self, number: int, raw: bytes) -> int:
        """Save a draft again: at Gmail as a new message that replaces the old one, at Outlook in place."""
        state = self._get_draft_state(number)
        if self.provider == "gmail":
            return self._replace(number, raw, state)
        self.edit_content(number, raw)
        return number

    def edit_content(self, number: int, raw: bytes) -> None:
        """Change the bytes of a message in place, as Outlook does when an attachment is added or deleted."""
        state = self._get_state(number)
        self._contents[number] = raw
        self._log("edited", number, state, state)

    def send_draft(self, number: int, raw: bytes | None = None, state: MessageState | None = None) -> int:
        """Turn a draft into sent mail: at Gmail under a new number, at Outlook moved to Sent Items.

        `raw` is the message as it was sent, by default the draft.
        """
        self._get_draft_state(number)
        state = state or initial_states.get_arrival_state(self.provider, sent=True)
        if self.provider == "gmail":
            return self._replace(number, raw or self.raw(number), state)
        if raw is not None and raw != self.raw(number):
            self._contents[number] = raw
        self.set_state(number, state)
        return number

    # Folders and labels

    def folder(self, key: str) -> Folder:
        folder = self.folders.get(key)
        if folder is None:
            raise NotFound(f"{self.address} has no folder or label {key!r}")
        return folder

    def add_folder(
        self, name: str, parent: str | None = None, *, hidden: bool = False, query: str = ""
    ) -> Folder:
        """Add a folder or user label; at Outlook, a query makes it a search folder."""
        if self.provider == "outlook":
            parent = parent or OUTLOOK_ROOT
            self._check_depth(parent)
        self._check_name_unused(name, parent)
        self._folder_count += 1
        key = f"Label_{self._folder_count}" if self.provider == "gmail" else f"f{self._folder_count}"
        folder = Folder(key, name, "search" if query else "user", parent, hidden, query)
        self.folders[key] = folder
        self._log_folder("folder_added", folder)
        return folder

    def change_folder(self, key: str, *, name: str | None = None, parent: str | None = None) -> Folder:
        """Rename a folder, or move it under another one."""
        old = self.folder(key)
        if old.kind == "system":
            raise InvalidRequest(f"{key} is part of every mailbox and cannot be changed")
        if parent is not None and (self.provider == "gmail" or key in self._ancestors(parent)):
            raise InvalidRequest(
                "a folder cannot be moved under itself or its own descendant; labels cannot be nested"
            )
        if parent is not None:
            self._check_depth(parent, self._get_height(key))
        new = replace(old, name=name or old.name, parent=parent or old.parent)
        if (new.name, new.parent) != (old.name, old.parent):
            self._check_name_unused(new.name, new.parent)
            self.folders[key] = new
            self._log_folder("folder_changed", new)
        return new

    def copy_folder(self, key: str, parent: str) -> Folder:
        """Copy an Outlook folder with its messages and its child folders."""
        old = self.folder(key)
        self._check_depth(parent, self._get_height(key))
        children = [other.key for other in self.folders.values() if other.parent == key]
        numbers = list(self._states.oldest(self.in_folder(key), 0))
        new = self.add_folder(old.name, parent, hidden=old.hidden, query=old.query)
        for number in numbers:
            self.deliver(self.raw(number), replace(self._get_state(number), folder_keys=frozenset({new.key})))
        for child in children:
            self.copy_folder(child, new.key)
        return new

    def is_within(self, key: str, ancestor: str) -> bool:
        """Return whether a folder is another one or is somewhere in it."""
        return ancestor in self._ancestors(key)

    def delete_folder(self, key: str) -> None:
        """Delete a folder with its messages (Outlook), or remove a label from its messages (Gmail)."""
        folder = self.folder(key)
        if folder.kind == "system":
            raise InvalidRequest(f"{key} is part of every mailbox and cannot be deleted")
        for child in [other.key for other in self.folders.values() if other.parent == key]:
            self.delete_folder(child)
        for number in list(self._states.newest(self.in_folder(key))):
            if self.provider == "gmail":
                self.relabel(number, remove={key})
            else:
                self.delete(number)
        del self.folders[key]
        self._log_folder("folder_deleted", folder)

    # Helpers

    def _get_state(self, number: int) -> MessageState:
        state = self._states.get(number)
        if state is None:
            raise NotFound(f"{self.address} has no message {number}")
        return state

    def _get_draft_state(self, number: int) -> MessageState:
        state = self._get_state(number)
        if not state.draft:
            raise InvalidRequest(f"message {number} is not a draft")
        return state

    def _write_generated(self, number: int) -> bytes:
        content = self._contents.get(number)
        if isinstance(content, samples.MessageSpec):
            return samples.write_message(content)
        distinct, first = self._first
        return self.initial_mail.generate_message(number, distinct[first[number]], self.delivered_to)

    def _add(self, content: bytes | samples.MessageSpec, state: MessageState, root: int | None = None) -> int:
        for key in state.folder_keys:
            self.folder(key)
        raw = content if isinstance(content, bytes) else samples.write_message(content)
        number = self._states.append(state)
        self._received.append(self._clock.milliseconds())
        self._contents[number] = content
        joined = self._threads.add_message(number, mime.parse_headers(raw), root)
        if joined == number or self.thread_members(joined) == [number]:
            self._threads.record_start()
        self._log("added", number, None, state)
        return number

    def _replace(self, number: int, raw: bytes, state: MessageState) -> int:
        key, root = self.draft_key(number), self.thread_root(number)
        self.delete(number)
        new = self._add(raw, state, root)
        self._draft_keys[new] = key
        return new

    def _check_name_unused(self, name: str, parent: str | None) -> None:
        if not name.strip():
            raise InvalidRequest("a folder or label needs a name")
        same = [f for f in self.folders.values() if f.parent == parent and f.name.lower() == name.lower()]
        if same:
            raise AlreadyExists(f"a folder or label named {name!r} already exists")

    def _check_depth(self, parent: str, height: int = 1) -> None:
        if len(self._ancestors(parent)) + height > MAX_FOLDER_DEPTH:
            raise InvalidRequest(f"folders can be nested at most {MAX_FOLDER_DEPTH} levels deep")

    def _get_height(self, key: str) -> int:
        """Return the number of levels of a folder and what is below it."""
        level, height = [key], 0
        while level:
            height += 1
            level = [folder.key for folder in self.folders.values() if folder.parent in level]
        return height

    def _ancestors(self, key: str | None) -> list[str]:
        """Return a folder key and those of its ancestors."""
        keys: list[str] = []
        while key is not None:
            keys.append(key)
            key = self.folder(key).parent
        return keys

    def _log(
        self, kind: ChangeKind, number: int, before: MessageState | None, after: MessageState | None
    ) -> MailboxChange:
        change = MailboxChange(self.sequence + 1, kind, self._clock.milliseconds(), number, before, after)
        self._last_changes[number] = change
        return self._publish(change)

    def _log_folder(self, kind: ChangeKind, folder: Folder) -> None:
        self._publish(MailboxChange(self.sequence + 1, kind, self._clock.milliseconds(), folder=folder))

    def _publish(self, change: MailboxChange) -> MailboxChange:
        self.sequence = change.sequence
        self.changes.append(change)
        for listener in self.listeners:
            listener(self, change)
        return change


def _check_choice(value: str, choices: tuple[Choice, ...]) -> Choice:
    for choice in choices:
        if value == choice:
            return choice
    raise InvalidRequest(f"{value!r} is not one of {', '.join(choices)}")
