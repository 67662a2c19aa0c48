"""What stands in a Microsoft 365 mailbox and what changed there: folders, and the feed of each of them."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from postroom.errors import Gone, PostroomError, TransientError
from postroom.model import Change, FolderRole, Page, RemoteFolder
from postroom.providers import batching
from postroom.providers.graph import message_parsing, wire
from postroom.providers.graph.calls import Calls, asking
from postroom.providers.message_parsing import combined
from postroom.providers.transport import Answer

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


async def folders(calls: Calls, chosen: str | None) -> Sequence[RemoteFolder]:
    """The whole tree, level by level: a listing shows one level only, and not which folder is the inbox.

    Every folder is asked for its children: how many it says it has may leave out hidden ones.
    """
    names = [*_ROLES, *([chosen] if chosen else [])]
    level = await _below(calls, [_ROOT], names)
    ids = {name: listed[0].id for name, listed in level.items() if name in names and listed}
    if chosen and chosen not in ids:
        raise Gone("Microsoft has no such folder as the one that was chosen for this mailbox.")
    roles = {ids[name]: role for name, role in _ROLES.items() if name in ids}
    found: dict[str, RemoteFolder] = {}
    fresh = level[_ROOT]
    while fresh:
        for each in fresh:
            scope = each.id if not chosen or each.id == ids[chosen] else None
            parent = each.parent_folder_id if each.parent_folder_id in found else None
            found[each.id] = RemoteFolder(each.id, each.display_name, parent, roles.get(each.id), scope)
        below = await _below(calls, [each.id for each in fresh])
        fresh = [each for listed in below.values() for each in listed if each.id not in found]
    return list(found.values())


async def _below(
    calls: Calls, parents: Iterable[str], names: Sequence[str] = ()
) -> Mapping[str, Sequence[wire.Folder]]:
    """What lies in these folders, and folders by their well-known names, where there are such."""

    def path(key: str) -> str:
        if key in names:
            return calls.path("mailFolders", key, select=_FOLDER)
        place = ("mailFolders", key, "childFolders") if key else ("mailFolders",)
        return calls.path(*place, top=_FOLDERS_PAGE, select=_FOLDER) + "&includeHiddenFolders=true"

    def convert(key: str, answer: Answer) -> tuple[str, wire.Folders]:
        if key in names:
            return key, wire.Folders((answer.read(wire.Folder),))
        return key, answer.read(wire.Folders)

    def failed(key: str, error: PostroomError) -> tuple[str, wire.Folders]:
        if isinstance(error, Gone):  # deleted meanwhile, or never made
            return key, wire.Folders()
        raise error

    asked = asking(calls, path, convert, failed, patient=False)
    found: dict[str, list[wire.Folder]] = {}
    for key, page in await batching.all_answers(asked, [*parents, *names]):
        found[key] = [*page.value]
        link = page.next_link
        while link:
            following = await calls.get(calls.relative(link), wire.Folders)
            found[key].extend(following.value)
            link = following.next_link
    # A search folder shows mail that lies elsewhere.
    return {
        key: [each for each in listed if not each.kind.lower().endswith("searchfolder")]
        for key, listed in found.items()
    }


async def listing(calls: Calls, scope: str, cursor: str | None) -> Page:
    """The first round of a folder's feed, whose end is where changes are to be read from.

    It is not limited in time: a limited feed shows 5,000 messages and no more.
    """
    if cursor is not None:
        return await _round(calls, cursor)
    expected = (
        await calls.get(calls.path("mailFolders", scope, select="totalItemCount"), wire.Folder)
    ).total_item_count
    feed = calls.path(
        "mailFolders",
        scope,
        "messages",
        "delta",
        select=message_parsing.STATE,
        orderby="receivedDateTime desc",
    )
    return await _round(calls, feed, expected)


async def changes(calls: Calls, cursor: str) -> Page:
    page = await _round(calls, cursor)
    return Page(page.changes, page.live or page.cursor, page.more)


async def _round(calls: Calls, path: str, expected: int | None = None) -> Page:
    """One page of a feed. Links are followed as they came, without the part that all links have."""
    told = await calls.get(path, wire.Messages, page=PAGE)
    found = combined(message_parsing.seen(each) for each in told.value)
    if told.delta_link is not None:
        return Page(found, "", more=False, live=calls.relative(told.delta_link), expected=expected)
    if told.next_link is None:
        raise TransientError("Microsoft's answer does not say where the feed goes on")
    return Page(found, calls.relative(told.next_link), more=True, expected=expected)


async def recent(
    calls: Calls, since: datetime, chosen: str | None, *, drafts: bool = False
) -> AsyncIterator[Sequence[Change]]:
    """`drafts`: all that are written on, unless one other folder was chosen. Nobody received them."""
    moment = since.astimezone(UTC).replace(microsecond=0)
    place = ("mailFolders", chosen, "messages") if chosen else ("messages",)
    received = f"receivedDateTime ge {moment:%Y-%m-%dT%H:%M:%SZ}"
    async for page in _pages(calls, *place, filter=received, orderby="receivedDateTime desc"):
        yield page
    if drafts and not chosen:
        async for page in _pages(calls, "mailFolders", "drafts", "messages"):
            # Some were received all the same, and stand among what was.
            yield [each for each in page if not each.state.received_at or each.state.received_at < moment]


async def _pages(calls: Calls, *place: str, **chosen: str) -> AsyncIterator[Sequence[Change]]:
    """New mail pushes what is older to the next page: what was on the page before is not shown again."""
    path: str | None = calls.path(*place, **chosen, top=str(PAGE), select=message_parsing.STATE)
    before: set[str] = set()
    while path is not None:
        told = await calls.get(path, wire.Messages)
        page = combined(message_parsing.seen(each) for each in told.value)
        yield [each for each in page if each.key not in before]
        before = {each.key for each in page}
        path = calls.relative(told.next_link) if told.next_link else None
