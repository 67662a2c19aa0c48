"""List what a Microsoft 365 mailbox contains and what changed: folders, delta feeds, recent mail.

Content is fetched in `messages`.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from postroom.errors import NotFound, PostroomError, TransientError
from postroom.model import ChangePage, FolderRole, MessageChange, RemoteFolder
from postroom.providers import batch_requests
from postroom.providers.graph import message_parsing, wire
from postroom.providers.graph.api import GraphApi, batch_request
from postroom.providers.message_parsing import combine_changes
from postroom.providers.transport import HttpResponse

PAGE: Final = 200  # messages of a delta page, which has only a few properties of each
_FOLDERS_PAGE: Final = "250"
_FOLDER: Final = "id,displayName,parentFolderId"
_ROOT: Final = ""
_ROLES: Final = {
    "inbox": FolderRole.INBOX,
    "archive": FolderRole.ARCHIVE,
    "sentitems": FolderRole.SENT,
    "drafts": FolderRole.DRAFTS,
    "junkemail": FolderRole.SPAM,
    "deleteditems": FolderRole.TRASH,
    "recoverableitemsdeletions": FolderRole.TRASH,
}


async def list_folders(api: GraphApi, chosen: str | None) -> Sequence[RemoteFolder]:
    """The whole folder tree. A listing returns only one level, and does not say which folder is the inbox.

    All folders are asked for their children: their child count may not include hidden ones.
    """
    names = [*_ROLES, *([chosen] if chosen else [])]
    level = await _list_children(api, [_ROOT], names)
    ids = {name: listed[0].id for name, listed in level.items() if name in names and listed}
    if chosen and chosen not in ids:
        raise NotFound(
            "The folder chosen for this mailbox does not exist at Microsoft."
            " Connect the mailbox again with another one."
        )
    roles = {ids[name]: role for name, role in _ROLES.items() if name in ids}
    folders: dict[str, RemoteFolder] = {}
    new_folders = level[_ROOT]
    while new_folders:
        for folder in new_folders:
            scope = folder.id if not chosen or folder.id == ids[chosen] else None
            parent = folder.parent_folder_id if folder.parent_folder_id in folders else None
            folders[folder.id] = RemoteFolder(
                folder.id, folder.display_name, parent, roles.get(folder.id), scope
            )
        children = await _list_children(api, [folder.id for folder in new_folders])
        new_folders = [
            folder for listed in children.values() for folder in listed if folder.id not in folders
        ]
    return list(folders.values())


async def _list_children(
    api: GraphApi, parents: Iterable[str], names: Sequence[str] = ()
) -> Mapping[str, Sequence[wire.GraphFolder]]:
    """The children of these folders, and the folders with these well-known names, if they exist."""

    def path(key: str) -> str:
        if key in names:
            return api.path("mailFolders", key, select=_FOLDER)
        location = ("mailFolders", key, "childFolders") if key else ("mailFolders",)
        return api.path(*location, top=_FOLDERS_PAGE, select=_FOLDER) + "&includeHiddenFolders=true"

    def convert(key: str, response: HttpResponse) -> tuple[str, wire.GraphFolders]:
        if key in names:
            return key, wire.GraphFolders((response.read(wire.GraphFolder),))
        return key, response.read(wire.GraphFolders)

    def failed(key: str, error: PostroomError) -> tuple[str, wire.GraphFolders]:
        if isinstance(error, NotFound):  # deleted meanwhile, or never created
            return key, wire.GraphFolders()
        raise error

    request = batch_request(api, path, convert, failed, looks_twice=False)
    found: dict[str, list[wire.GraphFolder]] = {}
    for key, page in await batch_requests.collect_results(request, [*parents, *names]):
        found[key] = [*page.value]
        link = page.next_link
        while link:
            next_page = await api.get(api.relative(link), wire.GraphFolders)
            found[key].extend(next_page.value)
            link = next_page.next_link
    # A search folder shows messages of other folders.
    return {
        key: [folder for folder in listed if not folder.kind.lower().endswith("searchfolder")]
        for key, listed in found.items()
    }


async def list_messages(api: GraphApi, scope: str, cursor: str | None) -> ChangePage:
    """A page of the first round of a folder's delta feed, whose end yields the cursor for changes.

    It is not limited in time: a filtered delta feed returns at most 5,000 messages.
    """
    if cursor is not None:
        return await _read_delta_page(api, cursor)
    expected = (
        await api.get(api.path("mailFolders", scope, select="totalItemCount"), wire.GraphFolder)
    ).total_item_count
    feed = api.path(
        "mailFolders",
        scope,
        "messages",
        "delta",
        select=message_parsing.STATE,
        orderby="receivedDateTime desc",
    )
    return await _read_delta_page(api, feed, expected)


async def list_changes(api: GraphApi, cursor: str) -> ChangePage:
    page = await _read_delta_page(api, cursor)
    return ChangePage(page.changes, page.live_cursor or page.cursor, page.has_more)


async def _read_delta_page(api: GraphApi, path: str, expected: int | None = None) -> ChangePage:
    """One page of a delta feed. Links are followed exactly as received."""
    page = await api.get(path, wire.GraphMessages, page=PAGE)
    changes = combine_changes(message_parsing.to_change(message) for message in page.value)
    if page.delta_link is not None:
        return ChangePage(
            changes, "", has_more=False, live_cursor=api.relative(page.delta_link), estimated_total=expected
        )
    if page.next_link is None:
        raise TransientError("Microsoft's response has no link to the next page")
    return ChangePage(changes, api.relative(page.next_link), has_more=True, estimated_total=expected)


async def list_recent(
    api: GraphApi, since: datetime, chosen: str | None, *, drafts: bool = False
) -> AsyncIterator[Sequence[MessageChange]]:
    """Messages received since. `drafts`: also all drafts, however old, if no folder is chosen."""
    moment = since.astimezone(UTC).replace(microsecond=0)
    location = ("mailFolders", chosen, "messages") if chosen else ("messages",)
    received = f"receivedDateTime ge {moment:%Y-%m-%dT%H:%M:%SZ}"
    async for page in _list_pages(api, *location, filter=received, orderby="receivedDateTime desc"):
        yield page
    if drafts and not chosen:
        async for page in _list_pages(api, "mailFolders", "drafts", "messages"):
            # A draft has the time at which it was created. Newer ones were listed already.
            yield [
                change for change in page if not change.state.received_at or change.state.received_at < moment
            ]


async def _list_pages(api: GraphApi, *location: str, **chosen: str) -> AsyncIterator[Sequence[MessageChange]]:
    """New mail shifts older messages to the next page: those of the previous page are not repeated."""
    path: str | None = api.path(*location, **chosen, top=str(PAGE), select=message_parsing.STATE)
    previous: set[str] = set()
    while path is not None:
        response = await api.get(path, wire.GraphMessages)
        page = combine_changes(message_parsing.to_change(change) for change in response.value)
        yield [change for change in page if change.key not in previous]
        previous = {change.key for change in page}
        path = api.relative(response.next_link) if response.next_link else None
