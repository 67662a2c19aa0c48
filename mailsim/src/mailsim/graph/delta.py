"""Delta: what a folder holds, then what changed in it, page by page, along links that hold everything.

A round is a listing (the first) or a walk along the mailbox's log of changes. Every round is a new generation
of its folder's feed, and only the newest three live. Links are sealed: nothing can be added to them.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Any, Literal

import msgspec

from mailsim.generated import stable
from mailsim.graph import filters, folders, kinds, messages, odata
from mailsim.graph.context import Answer, Call, gone
from mailsim.graph.errors import bad_request
from mailsim.state import Change, Folder, State

MOST_FILTERED = 5000
CHANGES: tuple[str, ...] = ("created", "updated", "deleted")
_MAC = 10


class Link(msgspec.Struct, frozen=True, array_like=True):
    """Everything that a delta link remembers."""

    feed: str  # folder key; "" for the folders themselves
    user: str
    generation: int
    phase: Literal["list", "changes", "idle"]
    at: int  # list: the next message number; changes: the last sequence seen
    end: int  # sequence at which the round ends
    select: str | None = None
    changes: str = ""
    since: int = -1  # received at or after, in milliseconds
    newest: bool = False
    size: int = 0
    expand: str | None = None
    served: int = 0
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Entries, and where to go on; `done` ends the round."""

    value: list[dict[str, Any]]
    at: int
    done: bool


def _key(call: Call) -> bytes:
    return stable(call.graph.sim.world.seed, "delta links").to_bytes(8, "big")


def _sealed(call: Call, link: Link) -> str:
    data = msgspec.msgpack.encode(link)
    seal = blake2b(data, key=_key(call), digest_size=_MAC).digest()
    return base64.urlsafe_b64encode(seal + data).decode().rstrip("=")


def _opened(call: Call, text: str) -> Link:
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        seal, data = data[:_MAC], data[_MAC:]
        if blake2b(data, key=_key(call), digest_size=_MAC).digest() != seal:
            raise bad_request("Badly formed token.")
        return msgspec.msgpack.decode(data, type=Link)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request("Badly formed token.") from error


async def messages_delta(call: Call) -> Answer:
    folder = folders.find(call, call.names[0])
    link = _begin(call, folder.key, kinds.MESSAGE)
    names = messages.names_for(call, odata.parse(_shape_options(link), kinds.MESSAGE))
    size = _size(call, link)
    if call.graph.sim.faults.take("delta_empty_page", call.mailbox.address, "messages.delta", "outlook"):
        page = Page([], link.at, done=False)
    elif link.phase == "list":
        page = _listing(call, folder, link, names, size)
    else:
        page = _changes(call, folder, link, names, size)
    value = page.value
    if value and call.graph.sim.faults.take(
        "delta_repeat", call.mailbox.address, "messages.delta", "outlook"
    ):
        value = [*value, *value[: 1 + len(value) // 3]]
    return _answer(
        call, link, page, value, f"mailFolders('{call.ids.folder(folder.key)}')/messages", "message"
    )


async def folders_delta(call: Call) -> Answer:
    link = _begin(call, "", kinds.FOLDER)
    select = odata.parse(_shape_options(link), kinds.FOLDER).select
    page = _folders(call, link, select, _size(call, link))
    return _answer(call, link, page, page.value, "mailFolders", "mailFolder")


# Links


def _begin(call: Call, feed: str, kind: filters.Kind) -> Link:
    """The link that was followed, or the start of a first round; a followed deltaLink starts the next."""
    token = call.raw.get("$deltatoken", call.raw.get("$skiptoken"))
    if not token:
        return _first(call, feed, kind)
    if len(call.raw) > 1:
        raise bad_request("A delta link is complete: other query options cannot be added to it.")
    link = _opened(call, token)
    user = call.user.oid if call.user else ""
    if (link.feed, link.user) != (feed, user):
        raise bad_request("Badly formed token.")
    _check_alive(call, link)
    if link.phase != "idle":
        return link
    generation = _next_generation(call, feed)
    return msgspec.structs.replace(
        link, phase="changes", generation=generation, end=call.mailbox.sequence, served=0
    )


def _first(call: Call, feed: str, kind: filters.Kind) -> Link:
    raw = call.raw
    query = odata.parse(raw, kind)
    if query.search or query.skip or query.count:
        raise bad_request(
            "$search, $skip and $count are not supported for change tracking.", "ErrorInvalidUrlQuery"
        )
    since, newest = _restriction(query) if feed else (-1, False)
    changes = next((text for name, text in raw.items() if name.lower() == "changetype"), "")
    if any(part not in CHANGES for part in changes.lower().split(",") if changes):
        raise bad_request(f"The value '{changes[:50]}' of changeType is not valid.", "ErrorInvalidUrlQuery")
    return Link(
        feed=feed,
        user=call.user.oid if call.user else "",
        generation=_next_generation(call, feed),
        phase="list",
        at=len(call.mailbox) if newest else 0,
        end=call.mailbox.sequence,
        select=raw.get("$select"),
        changes=changes.lower(),
        since=since,
        newest=newest,
        size=query.top or 0,
        expand=raw.get("$expand"),
        hidden=odata.flag(raw, "includeHiddenFolders"),
    )


def _restriction(query: odata.Query) -> tuple[int, bool]:
    """Delta filters by receivedDateTime ge or gt alone, and orders by it, descending, or not at all."""
    since = -1
    if query.where is not None:
        node = query.where
        if not (
            isinstance(node, filters.Compare) and node.path == "receivedDateTime" and node.op in {"ge", "gt"}
        ):
            raise bad_request(
                "Change tracking supports only $filter=receivedDateTime ge or gt.", "ErrorInvalidUrlQuery"
            )
        if node.value is None:
            raise bad_request("The filter needs a date.", "ErrorInvalidUrlQuery")
        since = int(node.value.timestamp() * 1000) + (node.op == "gt")
    if query.orderby and query.orderby != (("receivedDateTime", True),):
        raise bad_request(
            "Change tracking supports only $orderby=receivedDateTime desc.", "ErrorInvalidUrlQuery"
        )
    return since, bool(query.orderby)


def _counter(call: Call, feed: str) -> tuple[str, str, str]:
    """Whose rounds push out whose links: those of one application in one folder."""
    return call.mailbox.address, feed, call.access.application.client_id


def _next_generation(call: Call, feed: str) -> int:
    known = call.graph.generations
    key = _counter(call, feed)
    if key not in known:
        known[key] = 100 + stable(*key) % 400
    known[key] += 1
    return known[key]


def _check_alive(call: Call, link: Link) -> None:
    highest = call.graph.generations[_counter(call, link.feed)]
    most = call.graph.options.generations
    dead = most > 0 and link.generation <= highest - most
    lost = link.phase != "list" and link.at < call.mailbox.oldest_sequence
    endpoint = "messages.delta" if link.feed else "folders.delta"
    if (
        dead
        or lost
        or call.graph.sim.faults.take("cursor_expired", call.mailbox.address, endpoint, "outlook")
    ):
        shown = f"[highest={highest}][{highest}][{highest - 2}][{highest - 1}]"
        text = f"The sync state generation is not found; generation={link.generation};{shown}."
        location = {"location": f"{call.url}?$deltatoken="} if call.graph.options.gone_location else {}
        raise gone(text, location)


def _size(call: Call, link: Link) -> int:
    text = call.preferences.get("odata.maxpagesize", "")
    asked = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    wanted = asked or link.size or call.graph.options.delta_page
    return min(wanted, call.graph.options.delta_largest_page)


def _shape_options(link: Link) -> dict[str, str]:
    pairs = {"$select": link.select, "$expand": link.expand}
    return {name: text for name, text in pairs.items() if text is not None}


def _answer(call: Call, link: Link, page: Page, value: list[dict[str, Any]], tail: str, kind: str) -> Answer:
    assert call.user is not None
    answer: dict[str, Any] = {"@odata.context": call.context(f"Collection({kind})"), "value": value}
    url = f"{call.base_url}/v1.0/users/{call.user.oid}/{tail}/delta"
    if page.done:
        ended = msgspec.structs.replace(link, phase="idle", at=link.end)
        # One example in Microsoft's documents names the token of a deltaLink $skiptoken.
        name = "$skiptoken" if link.generation % 5 == 0 else "$deltatoken"
        answer["@odata.deltaLink"] = f"{url}?{name}={_sealed(call, ended)}"
    else:
        onward = msgspec.structs.replace(link, at=page.at, served=link.served + len(page.value))
        answer["@odata.nextLink"] = f"{url}?$skiptoken={_sealed(call, onward)}"
    headers = call.applied()
    if "odata.maxpagesize" in call.preferences:
        said = f"odata.maxpagesize={call.preferences['odata.maxpagesize']}"
        headers["preference-applied"] = ", ".join(filter(None, (headers.get("preference-applied"), said)))
    return Answer(200, answer, headers=headers)


# The first round


def _listing(call: Call, folder: Folder, link: Link, names: tuple[str, ...], size: int) -> Page:
    """The next messages of the folder, by number, so that what happens meanwhile moves nothing."""
    mailbox = call.mailbox
    first = mailbox.number_at(link.since) if link.since >= 0 else 0
    inside = mailbox.inside(folder.key)
    if link.newest:
        numbers = mailbox.states.newest(inside, below=link.at)
    else:
        numbers = mailbox.states.oldest(inside, max(link.at, first))
    room = min(size, MOST_FILTERED - link.served) if link.since >= 0 else size
    found = list(islice(_from(numbers, first), room + 1))
    shown = found[:room]
    value = _full(call, shown, link, names)
    onward = (shown[-1] if link.newest else shown[-1] + 1) if shown else link.at
    capped = link.since >= 0 and link.served + room >= MOST_FILTERED
    return Page(value, onward, done=capped or len(found) <= room)


def _from(numbers: Iterator[int], first: int) -> Iterator[int]:
    """Up to the first that is older than the filter allows."""
    return takewhile(lambda number: number >= first, numbers)


def _full(call: Call, numbers: list[int], link: Link, names: tuple[str, ...]) -> list[dict[str, Any]]:
    query = odata.parse(_shape_options(link), kinds.MESSAGE)
    found = (call.graph.view(call.mailbox, number, call.prefer) for number in numbers)
    return messages.shapes(call, (view for view in found if view is not None), query, names, typed=True)


# Later rounds


def _changes(call: Call, folder: Folder, link: Link, names: tuple[str, ...], size: int) -> Page:
    """The next changed messages of the folder, each once, as they are after the last change on this page."""
    groups: dict[int, list[Change]] = {}
    at, done = link.at, True
    for change in call.mailbox.changes_after(link.at):
        if change.sequence > link.end:
            break
        if _touches(change, folder.key):
            if change.number not in groups and len(groups) == size:
                done = False
                break
            groups.setdefault(change.number, []).append(change)
        at = change.sequence
    entries = (_entries(call, folder.key, link, names, group) for group in groups.values())
    return Page([entry for several in entries for entry in several], at, done)


def _touches(change: Change, key: str) -> bool:
    return any(state is not None and key in state.places for state in (change.before, change.after))


def _entries(
    call: Call, key: str, link: Link, names: tuple[str, ...], group: list[Change]
) -> list[dict[str, Any]]:
    """What is told of one message: gone, changed, or here; where ids change with a move, both."""
    wanted = set(link.changes.split(",")) if link.changes else set(CHANGES)
    left = [one for one in group if _inside(one.before, key) and not _inside(one.after, key)]
    stays = _inside(group[-1].after, key)
    told: list[dict[str, Any]] = []
    if left and "deleted" in wanted and not (stays and call.prefer.immutable):
        told.append(_removed(call, left[-1]))
    # A message that has left since is told of by a later page.
    if stays and _inside(call.mailbox.state(group[0].number), key):
        came = bool(left) or not _inside(group[0].before, key)
        if ("created" if came else "updated") in wanted:
            told += _present(call, link, names, group, came=came)
    return told


def _removed(call: Call, change: Change) -> dict[str, Any]:
    identifier = call.ids.left(change, immutable=call.prefer.immutable)
    return {"@odata.type": "#microsoft.graph.message", "id": identifier, "@removed": {"reason": "deleted"}}


def _present(
    call: Call, link: Link, names: tuple[str, ...], group: list[Change], *, came: bool
) -> list[dict[str, Any]]:
    """A filter keeps out what comes; changes of what is outside of it are told all the same."""
    number = group[0].number
    if came and link.since >= 0 and call.mailbox.received_ms(number) < link.since:
        return []
    whole = came or any(one.kind == "edited" for one in group)
    if whole or not call.graph.options.partial_updates:
        return _full(call, [number], link, names)
    return [_partial(call, number, group[0].before, call.mailbox.state(number), names)]


def _inside(state: State | None, key: str) -> bool:
    return state is not None and key in state.places


def _partial(
    call: Call, number: int, before: State | None, after: State | None, names: tuple[str, ...]
) -> dict[str, Any]:
    """Only what changed, as Exchange tells of a message being read."""
    view = call.graph.view(call.mailbox, number, call.prefer)
    assert view is not None
    assert before is not None
    assert after is not None
    pairs = {
        "isRead": before.read != after.read,
        "flag": before.flag != after.flag,
        "categories": before.categories != after.categories,
        "importance": before.importance != after.importance,
        "isDraft": before.draft != after.draft,
    }
    changed = [name for name, differs in pairs.items() if differs and name in names]
    shown = {name: view(name) for name in changed}
    etag = f'W/"{view.change_key}"'
    return {"@odata.type": "#microsoft.graph.message", "@odata.etag": etag, "id": view.id, **shown}


# Folders


def _folders(call: Call, link: Link, select: tuple[str, ...] | None, size: int) -> Page:
    """Every folder, nested ones too, then those added, renamed, moved and removed."""
    mailbox = call.mailbox
    if link.phase == "list":
        known = [f for f in mailbox.folders.values() if f.parent and (link.hidden or not f.hidden)]
        shown = known[link.at : link.at + size]
        value = [folders.shape(call, folder, select) for folder in shown]
        return Page(value, link.at + len(shown), done=link.at + size >= len(known))
    latest: dict[str, Change] = {}
    for change in mailbox.changes_after(link.at):
        if change.sequence <= link.end and change.folder is not None:
            latest.pop(change.folder.key, None)
            latest[change.folder.key] = change
    rest = list(latest.values())
    value = [_folder_entry(call, change, select) for change in rest[:size]]
    at = rest[size - 1].sequence if len(rest) > size else link.end
    return Page([one for one in value if one is not None], at, done=len(rest) <= size)


def _folder_entry(call: Call, change: Change, select: tuple[str, ...] | None) -> dict[str, Any] | None:
    folder = change.folder
    assert folder is not None
    if change.kind == "folder_deleted":
        return {"id": call.ids.folder(folder.key), "@removed": {"reason": "deleted"}}
    current = call.mailbox.folders.get(folder.key)
    return folders.shape(call, current, select) if current is not None else None
