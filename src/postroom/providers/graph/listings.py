"""What stands in a Microsoft 365 mailbox and what changed there: folders, and the feed of each of them."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from postroom.errors import NotFound, PostroomError, TransientError
from postroom.model import ChangePage, FolderRole, MessageChange, RemoteFolder
from postroom.providers import batch_requests
from postroom.providers.graph import message_parsing, wire
from postroom.providers.graph.api import GraphApi, batch_request
from postroom.providers.message_parsing import combine_changes
from postroom.providers.transport import HttpAnswer

PAGE: Final = 200  # of a feed, which tells little of each message
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


async def list_folders(calls: GraphApi, chosen: str | None) -> Sequence[RemoteFolder]:
    """The whole tree, level by level: a listing shows one level only, and not which folder is the inbox.

    Every folder is asked for its children: how many it says it has may leave out hidden ones.
    """
    names = [*_ROLES, *([chosen] if chosen else [])]
    level = await _list_children(calls, [_ROOT], names)
    ids = {name: listed[0].id for name, listed in level.items() if name in names and listed}
    if chosen and chosen not in ids:
        raise NotFound("Microsoft has no such folder as the one that was chosen for this mailbox.")
    roles = {ids[name]: role for name, role in _ROLES.items() if name in ids}
    found: dict[str, RemoteFolder] = {}
    fresh = level[_ROOT]
    while fresh:
        for each in fresh:
            scope = each.id if not chosen or each.id == ids[chosen] else None
            parent = each.parent_folder_id if each.parent_folder_id in found else None
            found[each.id] = RemoteFolder(each.id, each.display_name, parent, roles.get(each.id), scope)
        below = await _list_children(calls, [each.id for each in fresh])
        fresh = [each for listed in below.values() for each in listed if each.id not in found]
    return list(found.values())


async def _list_children(
    calls: GraphApi, parents: Iterable[str], names: Sequence[str] = ()
) -> Mapping[str, Sequence[wire.GraphFolder]]:
    """What lies in these folders, and folders by their well-known names, where there are such."""

    def path(key: str) -> str:
        if key in names:
            return calls.path("mailFolders", key, select=_FOLDER)
        place = ("mailFolders", key, "childFolders") if key else ("mailFolders",)
        return calls.path(*place, top=_FOLDERS_PAGE, select=_FOLDER) + "&includeHiddenFolders=true"

    def convert(key: str, answer: HttpAnswer) -> tuple[str, wire.GraphFolders]:
        if key in names:
            return key, wire.GraphFolders((answer.read(wire.GraphFolder),))
        return key, answer.read(wire.GraphFolders)

    def failed(key: str, error: PostroomError) -> tuple[str, wire.GraphFolders]:
        if isinstance(error, NotFound):  # deleted meanwhile, or never made
            return key, wire.GraphFolders()
        raise error

    asked = batch_request(calls, path, convert, failed, patient=False)
    found: dict[str, list[wire.GraphFolder]] = {}
    for key, page in await batch_requests.collect_results(asked, [*parents, *names]):
        found[key] = [*page.value]
        link = page.next_link
        while link:
            following = await calls.get(calls.relative(link), wire.GraphFolders)
            found[key].extend(following.value)
            link = following.next_link
    # A search folder shows mail that lies elsewhere.
    return {
        key: [each for each in listed if not each.kind.lower().endswith("searchfolder")]
        for key, listed in found.items()
    }


async def list_messages(calls: GraphApi, scope: str, cursor: str | None) -> ChangePage:
    """The first round of a folder's feed, whose end is where changes are to be read from.

    It is not limited in time: a limited feed shows 5,000 messages and no more.
    """
    if cursor is not None:
        return await _read_delta_page(calls, cursor)
    expected = (
        await calls.get(calls.path("mailFolders", scope, select="totalItemCount"), wire.GraphFolder)
    ).total_item_count
    feed = calls.path(
        "mailFolders",
        scope,
        "messages",
        "delta",
        select=message_parsing.STATE,
        orderby="receivedDateTime desc",
    )
    return await _read_delta_page(calls, feed, expected)


async def list_changes(calls: GraphApi, cursor: str) -> ChangePage:
    page = await _read_delta_page(calls, cursor)
    return ChangePage(page.changes, page.live_cursor or page.cursor, page.has_more)


async def _read_delta_page(calls: GraphApi, path: str, expected: int | None = None) -> ChangePage:
    """One page of a feed. Links are followed as they came, without the part that all links have."""
    told = await calls.get(path, wire.GraphMessages, page=PAGE)
    found = combine_changes(message_parsing.to_change(each) for each in told.value)
    if told.delta_link is not None:
        return ChangePage(
            found, "", has_more=False, live_cursor=calls.relative(told.delta_link), estimated_total=expected
        )
    if told.next_link is None:
        raise TransientError("Microsoft's answer does not say where the feed goes on")
    return ChangePage(found, calls.relative(told.next_link), has_more=True, estimated_total=expected)


async def list_recent(
    calls: GraphApi, since: datetime, chosen: str | None, *, drafts: bool = False
) -> AsyncIterator[Sequence[MessageChange]]:
    """`drafts`: all that are written on, unless one other folder was chosen. Nobody received them."""
    moment = since.astimezone(UTC).replace(microsecond=0)
    place = ("mailFolders", chosen, "messages") if chosen else ("messages",)
    received = f"receivedDateTime ge {moment:%Y-%m-%dT%H:%M:%SZ}"
    async for page in _list_pages(calls, *place, filter=received, orderby="receivedDateTime desc"):
        yield page
    if drafts and not chosen:
        async for page in _list_pages(calls, "mailFolders", "drafts", "messages"):
            # Some were received all the same, and stand among what was.
            yield [each for each in page if not each.state.received_at or each.state.received_at < moment]


async def _list_pages(calls: GraphApi, *place: str, **chosen: str) -> AsyncIterator[Sequence[MessageChange]]:
    """New mail pushes what is older to the next page: what was on the page before is not shown again."""
    path: str | None = calls.path(*place, **chosen, top=str(PAGE), select=message_parsing.STATE)
    before: set[str] = set()
    while path is not None:
        told = await calls.get(path, wire.GraphMessages)
        page = combine_changes(message_parsing.to_change(each) for each in told.value)
        yield [each for each in page if each.key not in before]
        before = {each.key for each in page}
        path = calls.relative(told.next_link) if told.next_link else None
