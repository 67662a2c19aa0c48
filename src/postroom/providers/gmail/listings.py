"""What stands in a Gmail account and what changed there: labels, listings, history. Gmail has one feed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from postroom.errors import CursorExpired, NotFound, UnsupportedByProvider
from postroom.model import ChangePage, FolderRole, MessageChange, ObservedState, Presence, RemoteFolder
from postroom.providers.gmail import message_parsing, wire
from postroom.providers.gmail.api import GmailApi

SCOPE: Final = ""
_PAGES: Final = (100, 500)  # messages that are fetched and committed together, at least and at most
COUNTED_PAGES: Final = 20
_TYPES: Final = ("messageAdded", "messageDeleted", "labelAdded", "labelRemoved")
_ROLES: Final = {
    "INBOX": FolderRole.INBOX,
    "SENT": FolderRole.SENT,
    "DRAFT": FolderRole.DRAFTS,
    "SPAM": FolderRole.SPAM,
    "TRASH": FolderRole.TRASH,
}


class ListingCursor(msgspec.Struct, omit_defaults=True):
    """How far a listing has come. `after` stays what it was when the listing began."""

    page: str
    after: int | None = None
    searches: bool = True


async def list_folders(calls: GmailApi) -> Sequence[RemoteFolder]:
    """Labels. One that is named `Clients/Acme` lies in `Clients`, where there is such a label."""
    found = (await calls.get("labels.list", "labels", wire.GmailLabels)).labels
    keys = {label.name: label.id for label in found}
    return [
        RemoteFolder(label.id, label.name, _parent(label.name, keys), _ROLES.get(label.id), SCOPE)
        for label in sorted(found, key=lambda label: label.name.count("/"))
    ]


def _parent(name: str, keys: dict[str, str]) -> str | None:
    above, slash, _ = name.rpartition("/")
    return keys.get(above) if slash else None


async def current_history_id(calls: GmailApi) -> str:
    return (await calls.get("profile", "profile", wire.GmailProfile)).history_id


async def list_messages(calls: GmailApi, cursor: str | None, since: datetime | None) -> ChangePage:
    if cursor is not None:
        return await _list_page(calls, msgspec.json.decode(cursor, type=ListingCursor), None)
    if since is None:
        total = (await calls.get("profile", "profile", wire.GmailProfile)).messages_total
        return await _list_page(calls, ListingCursor(""), total)
    after = int(since.timestamp())
    try:
        return await _list_page(calls, ListingCursor("", after), await _count_messages(calls, after))
    except UnsupportedByProvider:  # where only metadata may be read, there is no search
        return await _list_page(calls, ListingCursor("", after, searches=False), None)


async def _count_messages(calls: GmailApi, after: int) -> int:
    """How many messages there are since, or that there are at least so many. Gmail's own estimate is none;
    counting costs a two-thousandth of what fetching them will.
    """
    query: dict[str, str | int] = {
        "maxResults": 500,
        "includeSpamTrash": "true",
        "fields": "messages(id),nextPageToken",
        "q": f"after:{after}",
    }
    count = 0
    for _ in range(COUNTED_PAGES):
        told = await calls.get("messages.list", "messages", wire.GmailMessageList, query)
        count += len(told.messages)
        if told.next_page_token is None:
            break
        query["pageToken"] = told.next_page_token
    return count


async def _list_page(calls: GmailApi, place: ListingCursor, expected: int | None) -> ChangePage:
    query: dict[str, str | int] = {
        "maxResults": _page_size(calls),
        "includeSpamTrash": "true",
        "fields": "messages(id,threadId),nextPageToken",
    }
    if place.page:
        query["pageToken"] = place.page
    if place.after is not None and place.searches:
        query["q"] = f"after:{place.after}"
    told = await calls.get("messages.list", "messages", wire.GmailMessageList, query)
    changes = tuple(
        MessageChange(each.id, Presence.PRESENT, state=ObservedState(thread=each.thread_id))
        for each in told.messages
    )
    more = told.next_page_token is not None and not await _is_past_start(calls, place, told)
    following = ListingCursor(told.next_page_token or "", place.after, place.searches)
    cursor = msgspec.json.encode(following).decode() if more else ""
    return ChangePage(changes, cursor, more, estimated_total=expected)


def _page_size(calls: GmailApi) -> int:
    """What the quota gives in twenty seconds: new mail waits for the end of a page."""
    quota = calls.pace.quota
    smallest, largest = _PAGES
    given = quota.units / quota.seconds * 20 / quota.cost("messages.get")
    return int(min(max(given, smallest), largest))


async def _is_past_start(calls: GmailApi, place: ListingCursor, told: wire.GmailMessageList) -> bool:
    """Whether a listing that cannot search has come to mail that is too old. Newest first: the last tells."""
    if place.searches or place.after is None or not told.messages:
        return False
    path = f"messages/{told.messages[-1].id}"
    query = {"format": "minimal", "fields": message_parsing.MINIMAL}
    try:
        last = await calls.get("messages.get", path, wire.GmailMessage, query)
    except NotFound:
        return False
    return int(last.internal_date) < place.after * 1000


async def list_changes(calls: GmailApi, cursor: str) -> ChangePage:
    """The records after the cursor. A page is passed over by the id of its last record; the mailbox's own id
    comes with every page, and is where the next sync begins only after the last one.
    """
    page_token: str | None = None
    while True:
        query: dict[str, object] = {
            "startHistoryId": cursor,
            "maxResults": _page_size(calls),
            "historyTypes": _TYPES,
        }
        if page_token is not None:
            query["pageToken"] = page_token
        try:
            told = await calls.get("history.list", "history", wire.GmailHistory, query)
        except (NotFound, CursorExpired) as error:
            raise CursorExpired("Gmail no longer tells what changed since the last sync") from error
        page_token = told.next_page_token
        if page_token is None:
            return ChangePage(message_parsing.to_changes(told.history), told.history_id, has_more=False)
        if told.history:  # a page may be empty and have a successor, and then only its token leads on
            return ChangePage(message_parsing.to_changes(told.history), told.history[-1].id, has_more=True)
