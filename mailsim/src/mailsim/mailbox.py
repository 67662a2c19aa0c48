"""One mailbox: its messages by number, folders or labels, threads, drafts, and the log of every change.

Provider-neutral and lazy: bytes of generated mail are written when somebody reads them. It makes no provider
ids and answers no requests; the Gmail and Graph modules derive ids, history and delta from the numbers and
the log.
"""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from mailsim import generated, letters, mime
from mailsim.cache import Cache
from mailsim.clock import Clock
from mailsim.errors import Invalid, Taken, Unknown
from mailsim.state import (
    OUTLOOK_ROOT,
    Change,
    ChangeKind,
    Folder,
    ProviderName,
    State,
    labels_of,
    standard_folders,
    with_labels,
)
from mailsim.states import States
from mailsim.stock import Stock
from mailsim.threads import Threads

Word = TypeVar("Word", bound=str)
Listener = Callable[["Mailbox", Change], None]


@dataclass(frozen=True, slots=True)
class Account:
    """Who a mailbox belongs to. `key` is a 64-bit number from seed and address, from which providers make
    their ids.
    """

    provider: ProviderName
    address: str
    name: str
    key: int

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


class Mailbox:
    """Message numbers rise with arrival: 0 is the oldest. A number is never used twice; a deleted one stays
    empty.
    """

    def __init__(self, account: Account, stock: Stock, clock: Clock, cache: Cache) -> None:
        self.account = account
        self.provider: ProviderName = account.provider
        self.address = account.address
        self.stock = stock
        self.folders = {folder.key: folder for folder in standard_folders(account.provider)}
        self.changes: list[Change] = []
        self.sequence = 0  # of the newest change; 0 before the first
        self.oldest_sequence = 0  # changes up to here are forgotten: a cursor below is expired
        self.listeners: list[Listener] = []
        self._clock = clock
        self._cache = cache
        self._first = generated.first_states(account.provider, account.key, stock.count, spread=stock.spread)
        self._states = States(*self._first)
        self._received = array("q")  # of the messages after the stock
        self._contents: dict[int, bytes | letters.Order] = {}
        self._threads = Threads(stock)
        self._touched: dict[int, Change] = {}
        self._draft_keys: dict[int, int] = {}
        self._folder_count = 0

    # Reading

    def __len__(self) -> int:
        """Numbers given so far, deleted messages included."""
        return len(self._states)

    @property
    def total(self) -> int:
        return self._states.count()

    @property
    def states(self) -> States:
        """Counts and pages by state: `count(where)`, `newest(where, below, skip)`, `oldest(where, start)`."""
        return self._states

    def state(self, number: int) -> State | None:
        """None when there is no such message, or no longer."""
        return self._states.get(number)

    def received_ms(self, number: int) -> int:
        """When it arrived, in milliseconds since 1970. Rises with the number."""
        stocked = self.stock.count
        return self.stock.received_ms(number) if number < stocked else self._received[number - stocked]

    def number_at(self, milliseconds: int) -> int:
        """The first number that arrived at or after that moment; `len(mailbox)` when none did."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.received_ms(middle) < milliseconds:
                low = middle + 1
            else:
                high = middle
        return low

    def raw(self, number: int) -> bytes:
        """The RFC 5322 bytes, the same each time (until a draft is edited)."""
        content = self._contents.get(number)
        if isinstance(content, bytes):
            return content
        key = self.account.key, number
        return self._cache.letters.get(key) or self._cache.letters.put(key, self._written(number))

    def tree(self, number: int) -> mime.Part:
        """The parts of the message."""
        content = self._contents.get(number)
        if isinstance(content, bytes):  # may be edited: not worth remembering
            return mime.read(content)
        key = self.account.key, number
        return self._cache.trees.get(key) or self._cache.trees.put(key, mime.read(self.raw(number)))

    def thread(self, number: int) -> int:
        """The number of the message that began the thread (which may be deleted by now)."""
        return self._threads.root(number)

    def thread_members(self, root: int) -> list[int]:
        """The thread's messages that still exist, oldest first."""
        return [n for n in self._threads.members(root) if self._states.get(n) is not None]

    @property
    def thread_total(self) -> int:
        """Threads with a message that exists. Of more than 20,000 generated messages: an estimate."""
        return self._threads.total

    def last_change(self, number: int) -> Change | None:
        """The newest change of a message; None while it is as it was created with the mailbox."""
        return self._touched.get(number)

    def by_message_id(self, message_id: str) -> int | None:
        """The newest message with that Message-ID, deleted ones included."""
        return self._threads.by_message_id(message_id)

    def all_by_message_id(self, message_id: str) -> list[int]:
        """Every message with that Message-ID, oldest first, deleted ones included."""
        return self._threads.all_by_message_id(message_id)

    def inside(self, key: str) -> Callable[[State], bool]:
        """A condition for `states`: the message lies in this folder, or bears this label."""
        if self.provider == "gmail":
            return lambda state: key in labels_of(state)
        return lambda state: key in state.places

    def changes_after(self, sequence: int) -> list[Change]:
        """Changes with a higher sequence, oldest first. Check `oldest_sequence` first."""
        return self.changes[max(0, sequence - self.oldest_sequence) :]

    def forget_changes(self) -> None:
        """Expire every cursor that is not at the newest change."""
        self.changes.clear()
        self.oldest_sequence = self.sequence

    # Mail comes, changes and goes

    def deliver(self, content: bytes | letters.Order, state: State | None = None) -> int:
        """A message arrives now: these very bytes, or what the order asks for. Returns its number."""
        return self._add(content, state or generated.arrival(self.provider))

    def put(self, number: int, state: State) -> Change | None:
        """Give a message another state. Returns the change, None when nothing changed."""
        before = self._existing(number)
        if self.provider == "outlook" and len(state.places) != 1:
            raise Invalid("an Outlook message lies in exactly one folder")
        for key in state.places:
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
    ) -> Change | None:
        """Set what is given, keep the rest."""
        state = self._existing(number)
        if flag is not None:
            state = replace(state, flag=_one_of(flag, ("notFlagged", "flagged", "complete")))
        if importance is not None:
            state = replace(state, importance=_one_of(importance, ("low", "normal", "high")))
        if read is not None:
            state = replace(state, read=read)
        if categories is not None:
            state = replace(state, categories=tuple(categories))
        return self.put(number, state)

    def relabel(self, number: int, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Change | None:
        """Gmail: add and remove label ids, UNREAD, STARRED and IMPORTANT among them."""
        if self.provider != "gmail":
            raise Invalid("an Outlook message has a folder, not labels: move it")
        state = self._existing(number)
        return self.put(number, with_labels(state, labels_of(state) - frozenset(remove) | frozenset(add)))

    def move(self, number: int, key: str) -> Change | None:
        """Into a folder; at Gmail: to INBOX, SPAM, TRASH or a label, out of these three."""
        state = self._existing(number)
        self.folder(key)
        if self.provider == "outlook":
            return self.put(number, replace(state, places=frozenset({key})))
        return self.relabel(number, add={key}, remove={"INBOX", "SPAM", "TRASH"} - {key})

    def trash(self, number: int) -> Change | None:
        return self.move(number, "TRASH" if self.provider == "gmail" else "deleteditems")

    def delete(self, number: int) -> Change:
        """For good. The number stays empty."""
        before = self._existing(number)
        self._states.put(number, None)
        self._contents.pop(number, None)
        if not self.thread_members(self.thread(number)):
            self._threads.ended()
        return self._log("deleted", number, before, None)

    # Drafts

    def draft(self, raw: bytes) -> int:
        """Save a new draft. Returns its message number."""
        key = "DRAFT" if self.provider == "gmail" else "drafts"
        return self._add(raw, State(frozenset({key}), read=True, draft=True))

    def draft_key(self, number: int) -> int:
        """What stays the same while Gmail gives a draft's message a new number at every save."""
        return self._draft_keys.get(number, number)

    def edit_draft(self, number: int, raw: bytes) -> int:
        """Save a draft again. Gmail: the old message is deleted and a new one added; Outlook: edited in
        place.
        """
        state = self._existing_draft(number)
        if self.provider == "gmail":
            return self._replace(number, raw, state)
        self._contents[number] = raw
        self._log("edited", number, state, state)
        return number

    def send_draft(self, number: int) -> int:
        """The draft becomes sent mail: at Gmail under a new number, at Outlook moved to Sent Items."""
        self._existing_draft(number)
        if self.provider == "gmail":
            return self._replace(number, self.raw(number), generated.arrival(self.provider, sent=True))
        self.put(number, generated.arrival(self.provider, sent=True))
        return number

    # Folders and labels

    def folder(self, key: str) -> Folder:
        found = self.folders.get(key)
        if found is None:
            raise Unknown(f"no folder or label {key!r} in {self.address}")
        return found

    def add_folder(
        self, name: str, parent: str | None = None, *, hidden: bool = False, query: str = ""
    ) -> Folder:
        """A new folder (Outlook; with a query: a search folder) or user label (Gmail)."""
        if self.provider == "outlook":
            parent = parent or OUTLOOK_ROOT
            self.folder(parent)
        self._unused_name(name, parent)
        self._folder_count += 1
        key = f"Label_{self._folder_count}" if self.provider == "gmail" else f"f{self._folder_count}"
        folder = Folder(key, name, "search" if query else "user", parent, hidden, query)
        self.folders[key] = folder
        self._log_folder("folder_added", folder)
        return folder

    def change_folder(self, key: str, *, name: str | None = None, parent: str | None = None) -> Folder:
        """Rename it, or move it under another one."""
        old = self.folder(key)
        if old.kind == "system":
            raise Invalid(f"{key} is part of every mailbox and cannot be changed")
        if parent is not None and (self.provider == "gmail" or key in self._line(parent)):
            raise Invalid(
                "a folder moves under another one that is not its own descendant; labels do not nest"
            )
        new = replace(old, name=name or old.name, parent=parent or old.parent)
        if (new.name, new.parent) != (old.name, old.parent):
            self._unused_name(new.name, new.parent)
            self.folders[key] = new
            self._log_folder("folder_changed", new)
        return new

    def delete_folder(self, key: str) -> None:
        """Outlook: with everything in it. Gmail: the label is taken off its messages."""
        folder = self.folder(key)
        if folder.kind == "system":
            raise Invalid(f"{key} is part of every mailbox and cannot be deleted")
        for child in [other.key for other in self.folders.values() if other.parent == key]:
            self.delete_folder(child)
        for number in list(self._states.newest(self.inside(key))):
            if self.provider == "gmail":
                self.relabel(number, remove={key})
            else:
                self.delete(number)
        del self.folders[key]
        self._log_folder("folder_deleted", folder)

    # Parts of the above

    def _existing(self, number: int) -> State:
        state = self._states.get(number)
        if state is None:
            raise Unknown(f"no message {number} in {self.address}")
        return state

    def _existing_draft(self, number: int) -> State:
        state = self._existing(number)
        if not state.draft:
            raise Invalid(f"message {number} is not a draft")
        return state

    def _written(self, number: int) -> bytes:
        content = self._contents.get(number)
        if isinstance(content, letters.Order):
            return letters.write(content)
        distinct, first = self._first
        return self.stock.write(number, distinct[first[number]])

    def _add(self, content: bytes | letters.Order, state: State, root: int | None = None) -> int:
        for key in state.places:
            self.folder(key)
        raw = content if isinstance(content, bytes) else letters.write(content)
        number = self._states.append(state)
        self._received.append(self._clock.milliseconds())
        self._contents[number] = content
        joined = self._threads.join(number, mime.read_headers(raw), root)
        if joined == number or self.thread_members(joined) == [number]:
            self._threads.began()
        self._log("added", number, None, state)
        return number

    def _replace(self, number: int, raw: bytes, state: State) -> int:
        key, root = self.draft_key(number), self.thread(number)
        self.delete(number)
        new = self._add(raw, state, root)
        self._draft_keys[new] = key
        return new

    def _unused_name(self, name: str, parent: str | None) -> None:
        if not name.strip():
            raise Invalid("a folder or label needs a name")
        same = [f for f in self.folders.values() if f.parent == parent and f.name.lower() == name.lower()]
        if same:
            raise Taken(f"there is a folder or label named {name!r} already")

    def _line(self, key: str | None) -> list[str]:
        """A folder and its ancestors."""
        line: list[str] = []
        while key is not None:
            line.append(key)
            key = self.folder(key).parent
        return line

    def _log(self, kind: ChangeKind, number: int, before: State | None, after: State | None) -> Change:
        change = Change(self.sequence + 1, kind, self._clock.milliseconds(), number, before, after)
        self._touched[number] = change
        return self._publish(change)

    def _log_folder(self, kind: ChangeKind, folder: Folder) -> None:
        self._publish(Change(self.sequence + 1, kind, self._clock.milliseconds(), folder=folder))

    def _publish(self, change: Change) -> Change:
        self.sequence = change.sequence
        self.changes.append(change)
        for listener in self.listeners:
            listener(self, change)
        return change


def _one_of(word: str, words: tuple[Word, ...]) -> Word:
    for known in words:
        if word == known:
            return known
    raise Invalid(f"{word!r} is not one of {', '.join(words)}")
