"""Data types of a mailbox (MessageState, Folder, MailboxChange) and each provider's standard folders.

One MessageState serves both: Gmail reads it as a set of label IDs (`get_labels`), Graph as folder, isRead,
flag and importance (`get_importance`). `mailbox` changes states.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

ProviderName = Literal["gmail", "outlook"]
Flag = Literal["notFlagged", "flagged", "complete"]
Importance = Literal["low", "normal", "high"]
Classification = Literal["focused", "other"]
FolderKind = Literal["system", "user", "search"]
ChangeKind = Literal[
    "added",  # only `after` is set
    "changed",  # before and after differ: moved, labels, read, flag, categories, importance, sent
    "edited",  # the bytes changed in place (Outlook: draft or attachments); before equals after
    "deleted",  # permanently; only `before` is set
    "folder_added",
    "folder_changed",  # renamed or moved
    "folder_deleted",
]
_PRIORITIES = {"high": "high", "1": "high", "2": "high", "low": "low", "4": "low", "5": "low"}


@dataclass(frozen=True, slots=True)
class MessageState:
    """Everything about a message except its bytes.

    `folder_keys` holds at Gmail the label IDs except UNREAD, STARRED and IMPORTANT, at Outlook exactly one
    folder key.
    """

    folder_keys: frozenset[str]
    read: bool = False
    flag: Flag = "notFlagged"
    draft: bool = False
    importance: Importance = "normal"
    categories: tuple[str, ...] = ()
    classification: Classification | None = None  # set by the user of an Outlook mailbox

    @property
    def folder(self) -> str:
        """Return the only folder key of an Outlook message."""
        (key,) = self.folder_keys
        return key


@lru_cache(maxsize=4096)
def get_labels(state: MessageState) -> frozenset[str]:
    """Return every Gmail label ID of a state, including UNREAD, STARRED and IMPORTANT."""
    extra = {"UNREAD"} if not state.read else set[str]()
    if state.flag == "flagged":
        extra.add("STARRED")
    if state.importance == "high":
        extra.add("IMPORTANT")
    return state.folder_keys | extra


def with_labels(state: MessageState, labels: frozenset[str]) -> MessageState:
    """Return a state with exactly these Gmail labels; what labels cannot express stays the same."""
    return MessageState(
        folder_keys=labels - {"UNREAD", "STARRED", "IMPORTANT"},
        read="UNREAD" not in labels,
        flag="flagged" if "STARRED" in labels else "notFlagged",
        draft="DRAFT" in labels,
        importance="high" if "IMPORTANT" in labels else "normal",
        categories=state.categories,
        classification=state.classification,
    )


@dataclass(frozen=True, slots=True)
class Folder:
    """An Outlook folder or a Gmail label.

    `key` is at Gmail the label ID, at Outlook a well-known name (`inbox`) or `f1`, `f2`, … from which Graph
    IDs are derived. `query` is the filter of a search folder.
    """

    key: str
    name: str
    kind: FolderKind = "system"
    parent: str | None = None
    hidden: bool = False
    query: str = ""


@dataclass(frozen=True, slots=True)
class MailboxChange:
    """One entry of a mailbox's change log.

    `sequence` counts from 1 in each mailbox. Folder changes carry `folder` and have the `number` -1.
    """

    sequence: int
    kind: ChangeKind
    milliseconds: int
    number: int = -1
    before: MessageState | None = None
    after: MessageState | None = None
    folder: Folder | None = None


GMAIL_LABELS = (
    "INBOX", "SPAM", "TRASH", "UNREAD", "STARRED", "IMPORTANT", "SENT", "DRAFT", "CHAT",
    "CATEGORY_PERSONAL", "CATEGORY_SOCIAL", "CATEGORY_PROMOTIONS", "CATEGORY_UPDATES", "CATEGORY_FORUMS",
)  # fmt: skip

OUTLOOK_ROOT = "msgfolderroot"
RECOVERABLE_ITEMS = "recoverableitemsdeletions"  # deleted messages that can be restored
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
    RECOVERABLE_ITEMS: "Deletions",
    "searchfolders": "Search Folders",
    "syncissues": "Sync Issues",
    "clutter": "Clutter",
}


def standard_folders(provider: ProviderName) -> list[Folder]:
    """Return the folders or labels that every mailbox has from the start."""
    if provider == "gmail":
        return [Folder(key, key) for key in GMAIL_LABELS]
    root = Folder(OUTLOOK_ROOT, "Top of Information Store")
    top = [Folder(key, name, parent=OUTLOOK_ROOT) for key, name in _TOP.items()]
    hidden = [Folder(key, name, parent=OUTLOOK_ROOT, hidden=True) for key, name in _HIDDEN.items()]
    return [root, *top, *hidden]


def get_importance(state: MessageState, headers: Mapping[str, str]) -> str:
    """Return the importance that was set last, or else the sender's header, as Microsoft does."""
    if state.importance != "normal":
        return state.importance
    header = (headers.get("importance") or headers.get("x-priority", ""))[:8].strip().lower()
    return _PRIORITIES.get(header, "normal")
