"""The delta routes of messages and folders: the listing, then the changes, page by page.

A round is a listing (the first one) or a walk along the mailbox's change log. Every round is a new generation
of its folder's feed; links of old ones expire (`MicrosoftOptions.generations`). Links are signed and contain
the complete state, so clients cannot add query options to them.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Any, Literal

import msgspec

from mailsim.graph import entity_types, filters, folders, messages, odata
from mailsim.graph.errors import bad_request, sync_state_gone
from mailsim.graph.request import GraphCall, GraphResponse
from mailsim.hashing import stable_hash
from mailsim.message_state import RECOVERABLE_ITEMS, MailboxChange, MessageState

MAX_FILTERED = 5000
CHANGES: tuple[str, ...] = ("created", "updated", "deleted")
_MAC_BYTES = 10
_WHOLE_MAILBOX = "*"  # the feed of all messages


class DeltaLink(msgspec.Struct, frozen=True, array_like=True):
    """The state encoded in a delta link."""

    feed: str  # folder key; "" for the feed of folders, `*` for the messages of the whole mailbox
    user: str
    generation: int
    phase: Literal["list", "changes", "idle"]
    at: int  # list: the next message number; changes: the last sequence returned
    end: int  # sequence at which the round ends
    select: str | None = None
    changes: str = ""
    since: int = -1  # only messages received at or after, in milliseconds; -1: all
    newest: bool = False
    size: int = 0
    expand: str | None = None
    served: int = 0
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class DeltaPage:
    """The entries of a page and where the next one continues; `done` ends the round."""

    value: list[dict[str, Any]]
    at: int
    done: bool


def _key(call: GraphCall) -> bytes:
    return stable_hash(call.graph.sim.registry.seed, "delta links").to_bytes(8, "big")


def _encode_link(call: GraphCall, link: DeltaLink) -> str:
    data = msgspec.msgpack.encode(link)
    mac = blake2b(data, key=_key(call), digest_size=_MAC_BYTES).digest()
    return base64.urlsafe_b64encode(mac + data).decode().rstrip("=")


def _decode_link(call: GraphCall, text: str) -> DeltaLink:
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        mac, data = data[:_MAC_BYTES], data[_MAC_BYTES:]
        if blake2b(data, key=_key(call), digest_size=_MAC_BYTES).digest() != mac:
            raise bad_request("Badly formed token.")
        return msgspec.msgpack.decode(data, type=DeltaLink)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request("Badly formed token.") from error


async def messages_delta(call: GraphCall) -> GraphResponse:
    """Return the changes of a folder or, if the path names none, of the whole mailbox."""
    key = folders.find(call, call.names[0]).key if call.names else _WHOLE_MAILBOX
    link = _start_or_resume(call, key, entity_types.MESSAGE)
    names = messages.select_names(call, odata.parse_query(_shape_options(link), entity_types.MESSAGE))
    size = _page_size(call, link)
    if call.graph.sim.faults.take("delta_empty_page", call.mailbox.address, "messages.delta", "outlook"):
        page = DeltaPage([], link.at, done=False)
    elif link.phase == "list":
        page = _list_page(call, key, link, names, size)
    else:
        page = _changes_page(call, key, link, names, size)
    value = page.value
    if value and call.graph.sim.faults.take(
        "delta_repeat", call.mailbox.address, "messages.delta", "outlook"
    ):
        value = [*value, *value[: 1 + len(value) // 3]]
    tail = f"mailFolders('{call.ids.folder_id(key)}')/messages" if call.names else "messages"
    return _page_response(call, link, page, value, tail, "message")


async def folders_delta(call: GraphCall) -> GraphResponse:
    link = _start_or_resume(call, "", entity_types.FOLDER)
    select = odata.parse_query(_shape_options(link), entity_types.FOLDER).select
    page = _folders_page(call, link, select, _page_size(call, link))
    return _page_response(call, link, page, page.value, "mailFolders", "mailFolder")


# Links


def _start_or_resume(call: GraphCall, feed: str, kind: entity_types.EntityType) -> DeltaLink:
    """Return the state of the followed link or of a new listing. A followed deltaLink starts a new round."""
    token = call.raw.get("$deltatoken", call.raw.get("$skiptoken"))
    if not token:
        return _start_listing(call, feed, kind)
    if len(call.raw) > 1:
        raise bad_request("A delta link is complete: other query options cannot be added to it.")
    link = _decode_link(call, token)
    user = call.user.oid if call.user else ""
    if (link.feed, link.user) != (feed, user):
        raise bad_request("Badly formed token.")
    _check_not_expired(call, link)
    if link.phase != "idle":
        return link
    # Following the same link again repeats its round: it is not another generation.
    generation = link.generation + 1
    generations, key = call.graph.delta_generations, _feed_key(call, feed)
    generations[key] = max(generations[key], generation)
    return msgspec.structs.replace(
        link, phase="changes", generation=generation, end=call.mailbox.sequence, served=0
    )


def _start_listing(call: GraphCall, feed: str, kind: entity_types.EntityType) -> DeltaLink:
    raw = call.raw
    query = odata.parse_query(raw, kind)
    if query.search or query.skip or query.count:
        raise bad_request(
            "$search, $skip and $count are not supported for change tracking.", "ErrorInvalidUrlQuery"
        )
    since, newest = _parse_restriction(query) if feed else (-1, False)
    changes = next((text for name, text in raw.items() if name.lower() == "changetype"), "")
    if any(part not in CHANGES for part in changes.lower().split(",") if changes):
        raise bad_request(f"The value '{changes[:50]}' of changeType is not valid.", "ErrorInvalidUrlQuery")
    return DeltaLink(
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
        hidden=odata.get_flag(raw, "includeHiddenFolders"),
    )


def _parse_restriction(query: odata.ODataQuery) -> tuple[int, bool]:
    """Return the lower bound and whether to order newest first: all that delta supports."""
    since = -1
    if query.where is not None:
        node = query.where
        if not (
            isinstance(node, filters.Comparison)
            and node.path == "receivedDateTime"
            and node.op in {"ge", "gt"}
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


def _feed_key(call: GraphCall, feed: str) -> tuple[str, str, str]:
    """Return the key of a feed: generations count per mailbox, folder and application."""
    return call.mailbox.address, feed, call.access.application.client_id


def _next_generation(call: GraphCall, feed: str) -> int:
    generations = call.graph.delta_generations
    key = _feed_key(call, feed)
    if key not in generations:
        generations[key] = 100 + stable_hash(*key) % 400
    generations[key] += 1
    return generations[key]


def _check_not_expired(call: GraphCall, link: DeltaLink) -> None:
    highest = call.graph.delta_generations[_feed_key(call, link.feed)]
    limit = call.graph.options.generations
    expired = limit > 0 and link.generation <= highest - limit
    changes_dropped = link.phase != "list" and link.at < call.mailbox.oldest_sequence
    endpoint = "messages.delta" if link.feed else "folders.delta"
    if (
        expired
        or changes_dropped
        or call.graph.sim.faults.take("cursor_expired", call.mailbox.address, endpoint, "outlook")
    ):
        generations = f"[highest={highest}][{highest}][{highest - 2}][{highest - 1}]"
        text = f"The sync state generation is not found; generation={link.generation};{generations}."
        location = {"location": f"{call.url}?$deltatoken="} if call.graph.options.gone_location else {}
        raise sync_state_gone(text, location)


def _page_size(call: GraphCall, link: DeltaLink) -> int:
    text = call.preferences.get("odata.maxpagesize", "")
    requested = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    size = requested or link.size or call.graph.options.delta_page
    return min(size, call.graph.options.delta_largest_page)


def _shape_options(link: DeltaLink) -> dict[str, str]:
    pairs = {"$select": link.select, "$expand": link.expand}
    return {name: text for name, text in pairs.items() if text is not None}


def _page_response(
    call: GraphCall, link: DeltaLink, page: DeltaPage, value: list[dict[str, Any]], tail: str, kind: str
) -> GraphResponse:
    assert call.user is not None
    response: dict[str, Any] = {"@odata.context": call.context(f"Collection({kind})"), "value": value}
    url = f"{call.base_url}/{call.version}/users/{call.user.oid}/{tail}/delta"
    if page.done:
        next_link = msgspec.structs.replace(link, phase="idle", at=link.end)
        # In one example of Microsoft's documentation, the token of a deltaLink is named $skiptoken.
        name = "$skiptoken" if link.generation % 5 == 0 else "$deltatoken"
        response["@odata.deltaLink"] = f"{url}?{name}={_encode_link(call, next_link)}"
    else:
        next_link = msgspec.structs.replace(link, at=page.at, served=link.served + len(page.value))
        response["@odata.nextLink"] = f"{url}?$skiptoken={_encode_link(call, next_link)}"
    headers = call.preference_headers()
    if "odata.maxpagesize" in call.preferences:
        applied = f"odata.maxpagesize={call.preferences['odata.maxpagesize']}"
        headers["preference-applied"] = ", ".join(filter(None, (headers.get("preference-applied"), applied)))
    return GraphResponse(200, response, headers=headers)


# The first round


def _list_page(call: GraphCall, key: str, link: DeltaLink, names: tuple[str, ...], size: int) -> DeltaPage:
    """Return the next messages of the folder by number, so that concurrent changes do not shift pages."""
    mailbox = call.mailbox
    first = mailbox.first_number_since(link.since) if link.since >= 0 else 0
    inside = partial(_is_inside, key=key)
    if link.newest:
        numbers = mailbox.states.newest(inside, below=link.at)
    else:
        numbers = mailbox.states.oldest(inside, max(link.at, first))
    limit = min(size, MAX_FILTERED - link.served) if link.since >= 0 else size
    found_numbers = list(islice(_take_while_newer(numbers, first), limit + 1))
    listed = found_numbers[:limit]
    value = _full_entries(call, listed, link, names)
    next_at = (listed[-1] if link.newest else listed[-1] + 1) if listed else link.at
    capped = link.since >= 0 and link.served + limit >= MAX_FILTERED
    return DeltaPage(value, next_at, done=capped or len(found_numbers) <= limit)


def _take_while_newer(numbers: Iterator[int], first: int) -> Iterator[int]:
    """Iterate up to the first number that is older than the filter allows."""
    return takewhile(lambda number: number >= first, numbers)


def _full_entries(
    call: GraphCall, numbers: list[int], link: DeltaLink, names: tuple[str, ...]
) -> list[dict[str, Any]]:
    query = odata.parse_query(_shape_options(link), entity_types.MESSAGE)
    views = (call.graph.make_view(call.mailbox, number, call.prefer) for number in numbers)
    return messages.to_json(call, (view for view in views if view is not None), query, names, typed=True)


# Later rounds


def _changes_page(call: GraphCall, key: str, link: DeltaLink, names: tuple[str, ...], size: int) -> DeltaPage:
    """Return the next changed messages of the folder, each once, in their state after this page."""
    groups: dict[int, list[MailboxChange]] = {}
    at, done = link.at, True
    for change in call.mailbox.changes_after(link.at):
        if change.sequence > link.end:
            break
        if _touches(change, key):
            if change.number not in groups and len(groups) == size:
                done = False
                break
            groups.setdefault(change.number, []).append(change)
        at = change.sequence
    entries = (_change_entries(call, key, link, names, group) for group in groups.values())
    return DeltaPage([entry for message_entries in entries for entry in message_entries], at, done)


def _touches(change: MailboxChange, key: str) -> bool:
    return any(_is_inside(state, key) for state in (change.before, change.after))


def _change_entries(
    call: GraphCall, key: str, link: DeltaLink, names: tuple[str, ...], group: list[MailboxChange]
) -> list[dict[str, Any]]:
    """Return the entries of one message: removed, changed or added; both if a move changed its ID."""
    change_types = set(link.changes.split(",")) if link.changes else set(CHANGES)
    departures = [
        change for change in group if _is_inside(change.before, key) and not _is_inside(change.after, key)
    ]
    stays = _is_inside(group[-1].after, key)
    entries: list[dict[str, Any]] = []
    if departures and "deleted" in change_types and not (stays and call.prefer.immutable):
        entries.append(_removed_entry(call, departures[-1]))
    # If the message has left the folder since, a later page reports it.
    if stays and _is_inside(call.mailbox.state(group[0].number), key):
        arrived = bool(departures) or not _is_inside(group[0].before, key)
        if ("created" if arrived else "updated") in change_types:
            entries += _present_entries(call, link, names, group, arrived=arrived)
    return entries


def _removed_entry(call: GraphCall, change: MailboxChange) -> dict[str, Any]:
    identifier = call.ids.former_message_id(change, immutable=call.prefer.immutable)
    return {"@odata.type": "#microsoft.graph.message", "id": identifier, "@removed": {"reason": "deleted"}}


def _present_entries(
    call: GraphCall, link: DeltaLink, names: tuple[str, ...], group: list[MailboxChange], *, arrived: bool
) -> list[dict[str, Any]]:
    """Return the entry of a message in the folder.

    The filter excludes arrivals only; changes of messages outside of it are reported anyway.
    """
    number = group[0].number
    if arrived and link.since >= 0 and call.mailbox.received_ms(number) < link.since:
        return []
    is_complete = arrived or any(change.kind == "edited" for change in group)
    if is_complete or not call.graph.options.partial_updates:
        return _full_entries(call, [number], link, names)
    return [_partial_entry(call, number, group[0].before, call.mailbox.state(number), names)]


def _is_inside(state: MessageState | None, key: str) -> bool:
    if state is None:
        return False
    if key == _WHOLE_MAILBOX:
        return RECOVERABLE_ITEMS not in state.folder_keys
    return key in state.folder_keys


def _partial_entry(
    call: GraphCall,
    number: int,
    before: MessageState | None,
    after: MessageState | None,
    names: tuple[str, ...],
) -> dict[str, Any]:
    """Return only the changed properties, as Exchange does when a message is read."""
    view = call.graph.make_view(call.mailbox, number, call.prefer)
    assert view is not None
    assert before is not None
    assert after is not None
    pairs = {
        "isRead": before.read != after.read,
        "flag": before.flag != after.flag,
        "categories": before.categories != after.categories,
        "importance": before.importance != after.importance,
        "inferenceClassification": before.classification != after.classification,
        "isDraft": before.draft != after.draft,
    }
    changed = [name for name, differs in pairs.items() if differs and name in names]
    properties = {name: view(name) for name in changed}
    etag = f'W/"{view.change_key}"'
    return {"@odata.type": "#microsoft.graph.message", "@odata.etag": etag, "id": view.id, **properties}


# Folders


def _folders_page(call: GraphCall, link: DeltaLink, select: tuple[str, ...] | None, size: int) -> DeltaPage:
    """Return a page of all folders, nested ones included, or of added, changed and removed folders."""
    mailbox = call.mailbox
    if link.phase == "list":
        visible = [f for f in mailbox.folders.values() if f.parent and (link.hidden or not f.hidden)]
        listed = visible[link.at : link.at + size]
        value = [folders.to_json(call, folder, select) for folder in listed]
        return DeltaPage(value, link.at + len(listed), done=link.at + size >= len(visible))
    latest: dict[str, MailboxChange] = {}
    for change in mailbox.changes_after(link.at):
        if change.sequence <= link.end and change.folder is not None:
            latest.pop(change.folder.key, None)
            latest[change.folder.key] = change
    rest = list(latest.values())
    value = [_folder_entry(call, change, select) for change in rest[:size]]
    at = rest[size - 1].sequence if len(rest) > size else link.end
    return DeltaPage([entry for entry in value if entry is not None], at, done=len(rest) <= size)


def _folder_entry(
    call: GraphCall, change: MailboxChange, select: tuple[str, ...] | None
) -> dict[str, Any] | None:
    folder = change.folder
    assert folder is not None
    if change.kind == "folder_deleted":
        return {"id": call.ids.folder_id(folder.key), "@removed": {"reason": "deleted"}}
    current = call.mailbox.folders.get(folder.key)
    return folders.to_json(call, current, select) if current is not None else None
