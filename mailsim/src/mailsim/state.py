"""What is known about one message besides its bytes, the folders it can lie in, and the changes of both.

Provider-neutral. Gmail reads a state as a set of label ids (`labels_of`), Graph as folder, isRead, flag, and
so on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

ProviderName = Literal["gmail", "outlook"]
Flag = Literal["notFlagged", "flagged", "complete"]
Importance = Literal["low", "normal", "high"]
FolderKind = Literal["system", "user", "search"]
ChangeKind = Literal[
    "added",  # after is set
    "changed",  # before and after differ: moved, labels, read, flag, categories, importance, sent
    "edited",  # the bytes changed in place (Outlook draft); before equals after
    "deleted",  # for good; before is set
    "folder_added",
    "folder_changed",  # renamed or moved
    "folder_deleted",
]
_PRIORITIES = {"high": "high", "1": "high", "2": "high", "low": "low", "4": "low", "5": "low"}


@dataclass(frozen=True, slots=True)
class State:
    """`places`: at Gmail the label ids except UNREAD, STARRED and IMPORTANT; at Outlook exactly one folder
    key.
    """

    places: frozenset[str]
    read: bool = False
    flag: Flag = "notFlagged"
    draft: bool = False
    importance: Importance = "normal"
    categories: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The one folder key of an Outlook message."""
        (key,) = self.places
        return key


@lru_cache(maxsize=4096)
def labels_of(state: State) -> frozenset[str]:
    """Every Gmail label id of a state, the flags included."""
    extra = {"UNREAD"} if not state.read else set[str]()
    if state.flag == "flagged":
        extra.add("STARRED")
    if state.importance == "high":
        extra.add("IMPORTANT")
    return state.places | extra


def with_labels(state: State, labels: frozenset[str]) -> State:
    """The state that has exactly these Gmail labels; what labels cannot say is kept."""
    return State(
        places=labels - {"UNREAD", "STARRED", "IMPORTANT"},
        read="UNREAD" not in labels,
        flag="flagged" if "STARRED" in labels else "notFlagged",
        draft="DRAFT" in labels,
        importance="high" if "IMPORTANT" in labels else "normal",
        categories=state.categories,
    )


@dataclass(frozen=True, slots=True)
class Folder:
    """An Outlook folder, or a Gmail label.

    `key`: at Gmail the label id; at Outlook a well-known name (`inbox`) or `f1`, `f2`, … from which Graph ids
    are made. `query`: what a search folder shows.
    """

    key: str
    name: str
    kind: FolderKind = "system"
    parent: str | None = None
    hidden: bool = False
    query: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """`sequence` counts from 1 in each mailbox. `number` is -1 for folder changes, which carry the folder
    instead.
    """

    sequence: int
    kind: ChangeKind
    milliseconds: int
    number: int = -1
    before: State | None = None
    after: State | None = None
    folder: Folder | None = None


GMAIL_LABELS = (
    "INBOX", "SPAM", "TRASH", "UNREAD", "STARRED", "IMPORTANT", "SENT", "DRAFT", "CHAT",
    "CATEGORY_PERSONAL", "CATEGORY_SOCIAL", "CATEGORY_PROMOTIONS", "CATEGORY_UPDATES", "CATEGORY_FORUMS",
)  # fmt: skip

OUTLOOK_ROOT = "msgfolderroot"
_TOP = {
    "inbox": "Inbox",
    "drafts": "Drafts",
    "sentitems": "Sent Items",
    "deleteditems": "Deleted Items",
    "junkemail": "Junk Email",
    "archive": "Archive",
    "outbox": "Outbox",
    "conversationhistory": "Conversation History",
}
_HIDDEN = {
    "recoverableitemsdeletions": "Deletions",
    "searchfolders": "Search Folders",
    "syncissues": "Sync Issues",
    "clutter": "Clutter",
}


def standard_folders(provider: ProviderName) -> list[Folder]:
    """What every mailbox has from its first day."""
    if provider == "gmail":
        return [Folder(key, key) for key in GMAIL_LABELS]
    root = Folder(OUTLOOK_ROOT, "Top of Information Store")
    top = [Folder(key, name, parent=OUTLOOK_ROOT) for key, name in _TOP.items()]
    hidden = [Folder(key, name, parent=OUTLOOK_ROOT, hidden=True) for key, name in _HIDDEN.items()]
    return [root, *top, *hidden]


def importance_of(state: State, headers: Mapping[str, str]) -> str:
    """What was set last, else what the sender said, as Microsoft has it."""
    if state.importance != "normal":
        return state.importance
    said = (headers.get("importance") or headers.get("x-priority", ""))[:8].strip().lower()
    return _PRIORITIES.get(said, "normal")
