"""List what a Gmail account contains and what changed: labels, messages, history.

Messages are listed by id; their content is fetched in `messages`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from postroom.errors import CursorExpired, NotFound, UnsupportedByProvider
from postroom.model import ChangePage, FolderRole, MessageChange, ObservedState, Presence, RemoteFolder
from postroom.providers.gmail import message_parsing, wire
from postroom.providers.gmail.api import GmailApi

SCOPE: Final = ""  # the only one: history covers the whole account
_PAGES: Final = (100, 500)  # minimum and maximum of messages that are fetched and committed together
MAX_COUNTED_PAGES: Final = 20
_TYPES: Final = ("messageAdded", "messageDeleted", "labelAdded", "labelRemoved")
_ROLES: Final = {
    "INBOX": FolderRole.INBOX,
    "SENT": FolderRole.SENT,
    "DRAFT": FolderRole.DRAFTS,
    "SPAM": FolderRole.SPAM,
    "TRASH": FolderRole.TRASH,
}


class ListingCursor(msgspec.Struct, omit_defaults=True):
    """The position of a listing. `after` stays as it was when the listing began."""

    page: str
    after: int | None = None
    searches: bool = True


async def list_folders(api: GmailApi) -> Sequence[RemoteFolder]:
    """The labels. `Clients/Acme` becomes a child of `Clients` if that label exists."""
    labels = (await api.get("labels.list", "labels", wire.GmailLabels)).labels
    keys = {label.name: label.id for label in labels}
    return [
        RemoteFolder(label.id, label.name, _parent(label.name, keys), _ROLES.get(label.id), SCOPE)
        for label in sorted(labels, key=lambda label: label.name.count("/"))
    ]


def _parent(name: str, keys: dict[str, str]) -> str | None:
    above, slash, _ = name.rpartition("/")
    return keys.get(above) if slash else None


async def current_history_id(api: GmailApi) -> str:
    return (await api.get("profile", "profile", wire.GmailProfile)).history_id


async def list_messages(api: GmailApi, cursor: str | None, since: datetime | None) -> ChangePage:
    if cursor is not None:
        return await _list_page(api, msgspec.json.decode(cursor, type=ListingCursor), None)
    if since is None:
        total = (await api.get("profile", "profile", wire.GmailProfile)).messages_total
        return await _list_page(api, ListingCursor(""), total)
    after = int(since.timestamp())
    try:
        return await _list_page(api, ListingCursor("", after), await _count_messages(api, after))
    except UnsupportedByProvider:  # with the metadata scope Gmail does not search
        return await _list_page(api, ListingCursor("", after, searches=False), None)


async def _count_messages(api: GmailApi, after: int) -> int:
    """Count the messages since, up to a limit.

    Gmail's own estimate is useless; counting costs a two-thousandth of fetching them.
    """
    query: dict[str, str | int] = {
        "maxResults": 500,
        "includeSpamTrash": "true",
        "fields": "messages(id),nextPageToken",
        "q": f"after:{after}",
    }
    count = 0
    for _ in range(MAX_COUNTED_PAGES):
        page = await api.get("messages.list", "messages", wire.GmailMessageList, query)
        count += len(page.messages)
        if page.next_page_token is None:
            break
        query["pageToken"] = page.next_page_token
    return count


async def _list_page(api: GmailApi, position: ListingCursor, expected: int | None) -> ChangePage:
    query: dict[str, str | int] = {
        "maxResults": _page_size(api),
        "includeSpamTrash": "true",
        "fields": "messages(id,threadId),nextPageToken",
    }
    if position.page:
        query["pageToken"] = position.page
    if position.after is not None and position.searches:
        query["q"] = f"after:{position.after}"
    page = await api.get("messages.list", "messages", wire.GmailMessageList, query)
    changes = tuple(
        MessageChange(message.id, Presence.PRESENT, state=ObservedState(thread=message.thread_id))
        for message in page.messages
    )
    more = page.next_page_token is not None and not await _is_past_start(api, position, page)
    next_cursor = ListingCursor(page.next_page_token or "", position.after, position.searches)
    cursor = msgspec.json.encode(next_cursor).decode() if more else ""
    return ChangePage(changes, cursor, more, estimated_total=expected)


def _page_size(api: GmailApi) -> int:
    """As many messages as the quota allows in 20 seconds: new mail waits until a page is committed."""
    quota = api.rate_limit.quota
    smallest, largest = _PAGES
    affordable = quota.units / quota.seconds * 20 / quota.cost("messages.get")
    return int(min(max(affordable, smallest), largest))


async def _is_past_start(api: GmailApi, position: ListingCursor, page: wire.GmailMessageList) -> bool:
    """Whether a listing that cannot search has reached mail that is too old. It lists newest first."""
    if position.searches or position.after is None or not page.messages:
        return False
    path = f"messages/{page.messages[-1].id}"
    query = {"format": "minimal", "fields": message_parsing.MINIMAL}
    try:
        last = await api.get("messages.get", path, wire.GmailMessage, query)
    except NotFound:
        return False
    return int(last.internal_date) < position.after * 1000


async def list_changes(api: GmailApi, cursor: str) -> ChangePage:
    """A page of history records after the cursor.

    The next cursor is the id of the page's last record. Every page also carries the current history id of the
    mailbox, but only after the last page may the next sync start from it.
    """
    page_token: str | None = None
    while True:
        query: dict[str, object] = {
            "startHistoryId": cursor,
            "maxResults": _page_size(api),
            "historyTypes": _TYPES,
        }
        if page_token is not None:
            query["pageToken"] = page_token
        try:
            page = await api.get("history.list", "history", wire.GmailHistory, query)
        except (NotFound, CursorExpired) as error:
            raise CursorExpired("Gmail no longer has the history since the last sync") from error
        page_token = page.next_page_token
        if page_token is None:
            return ChangePage(message_parsing.to_changes(page.history), page.history_id, has_more=False)
        if page.history:  # an empty page may have a next page, which only its token reaches
            return ChangePage(message_parsing.to_changes(page.history), page.history[-1].id, has_more=True)
