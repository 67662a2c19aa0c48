"""Graph's messages themselves: how they stand, as much of them as a policy allows, their bytes.

A few messages are read one by one. Many that lie close in time, as the pages of a listing do, come by one
listing of that time; what it left out, and attachments, come by batches.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from postroom.errors import AnswerTooLarge, Gone, PostroomError, Throttled, TransientError, Unsupported
from postroom.model import Change, ContentPolicy, Enclosure, Fetched, Presence, Unfetched
from postroom.providers import batching
from postroom.providers.graph import message_parsing, wire
from postroom.providers.graph.calls import FEW, Calls, asking
from postroom.providers.transport import Answer

Results = list[Fetched | Unfetched]

CHUNK: Final = 50  # messages of one listing
PARALLEL: Final = 3
SMALL_BYTES: Final = 3 * 2**20  # attachments of one message that come together with it
CHUNK_BYTES: Final = 16 * 2**20  # attachments that are held at a time
_STREAMED_BYTES: Final = 2**20
MOST_TRANSLATED: Final = 1000  # ids of one call
_EXPANDED: Final = f"attachments($select={message_parsing.ATTACHMENT})"
_LISTED: Final = f"{message_parsing.ATTACHMENT},microsoft.graph.fileAttachment/contentId"


async def look(calls: Calls, keys: Sequence[str]) -> Sequence[Change | Unfetched]:
    def convert(_: str, answer: Answer) -> Change | Unfetched:
        return message_parsing.seen(answer.read(wire.Message))

    def path(key: str) -> str:
        return calls.path("messages", key, select=message_parsing.STATE)

    asked = asking(calls, path, convert, batching.unseen)
    return await batching.all_answers(asked, keys)


async def fetch(
    calls: Calls, wanted: Sequence[Change], policy: ContentPolicy
) -> AsyncGenerator[Sequence[Fetched | Unfetched]]:
    different = list({change.key: change for change in wanted}.values())
    if len(different) <= FEW:
        yield await _one_by_one(calls, different, policy)
        return
    jobs = (_together(calls, chunk, policy) for chunk in _chunks(different))
    async with aclosing(batching.side_by_side(lambda: next(jobs, None), PARALLEL)) as groups:
        async for found in groups:
            yield found


def _chunks(wanted: Sequence[Change]) -> list[Sequence[Change]]:
    """Folder by folder, newest first; those of which either is not known come last."""
    by_folder: dict[str, list[Change]] = {}
    for change in wanted:
        known = change.state.folder if change.state.received_at else None
        by_folder.setdefault(known or "", []).append(change)
    unknown = by_folder.pop("", [])
    for group in by_folder.values():
        group.sort(key=_received, reverse=True)
    groups = [*by_folder.values(), unknown]
    return [group[at : at + CHUNK] for group in groups for at in range(0, len(group), CHUNK)]


def _received(change: Change) -> datetime:
    return change.state.received_at or datetime.min.replace(tzinfo=UTC)


async def _one_by_one(calls: Calls, wanted: Sequence[Change], policy: ContentPolicy) -> Results:
    """With their attachments at once, unless that is too much."""

    def path(key: str) -> str:
        if policy is ContentPolicy.METADATA:
            return calls.path("messages", key, select=message_parsing.METADATA)
        return calls.path("messages", key, select=message_parsing.CONTENT, expand="attachments")

    def convert(_: str, answer: Answer) -> Fetched | Unfetched | AnswerTooLarge:
        message = answer.read(wire.Message)
        return message_parsing.fetched(
            message, [message_parsing.enclosure(each) for each in message.attachments]
        )

    def failed(key: str, error: PostroomError) -> Fetched | Unfetched | AnswerTooLarge:
        if isinstance(error, AnswerTooLarge):
            large.append(key)
            return error
        return batching.unfetched(key, error)

    large: list[str] = []
    asked = asking(calls, path, convert, failed)
    keys = [change.key for change in wanted]
    found = await batching.all_answers(asked, keys)
    results = [each for each in found if not isinstance(each, AnswerTooLarge)]
    if large:
        results += await _together(calls, [Change(key, Presence.HERE) for key in large], policy)
    return results


async def _together(calls: Calls, wanted: Sequence[Change], policy: ContentPolicy) -> Results:
    found = await _by_listing(calls, wanted, policy)
    failed: Results = []
    rest = [change.key for change in wanted if change.key not in found]
    asked = asking(
        calls,
        lambda key: calls.path("messages", key, **_options(policy)),
        lambda _, answer: answer.read(wire.Message),
        batching.unfetched,
    )
    for each in await batching.all_answers(asked, rest):
        if isinstance(each, Unfetched):
            failed.append(each)
        else:
            found[each.id] = each
    attached = await _attachments(calls, [each for each in found.values() if _has_attachments(each)])
    return [*failed, *(_fetched(each, attached.get(each.id, ())) for each in found.values())]


def _options(policy: ContentPolicy) -> dict[str, str]:
    """Of attachments only what they are, so that nobody is surprised by their size."""
    if policy is ContentPolicy.METADATA:
        return {"select": message_parsing.METADATA}
    return {"select": message_parsing.CONTENT, "expand": _EXPANDED}


def _has_attachments(message: wire.Message) -> bool:
    """Where only pictures inside the body are attached, Exchange says that there are none."""
    return bool(message.attachments) or (bool(message.has_attachments) and message.body is not None)


def _fetched(message: wire.Message, attached: Sequence[Enclosure] | Unfetched) -> Fetched | Unfetched:
    return attached if isinstance(attached, Unfetched) else message_parsing.fetched(message, attached)


async def _by_listing(
    calls: Calls, wanted: Sequence[Change], policy: ContentPolicy
) -> dict[str, wire.Message]:
    """What one listing shows of them: all, where nothing else lies between them."""
    folder = wanted[0].state.folder
    if len(wanted) <= FEW or folder is None or wanted[0].state.received_at is None:
        return {}
    first, last = _received(wanted[-1]), _received(wanted[0]) + timedelta(seconds=1)
    path = calls.path(
        "mailFolders",
        folder,
        "messages",
        filter=f"receivedDateTime ge {_text(first)} and receivedDateTime lt {_text(last)}",
        orderby="receivedDateTime desc",
        top=str(len(wanted) + 5),
        **_options(policy),
    )
    try:
        told = await calls.get(path, wire.Messages)
    except Throttled:
        raise
    except (Gone, AnswerTooLarge, TransientError):  # then each for itself
        return {}
    keys = {change.key for change in wanted}
    return {each.id: each for each in told.value if each.id in keys}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _attachments(
    calls: Calls, messages: Sequence[wire.Message]
) -> Mapping[str, Sequence[Enclosure] | Unfetched]:
    """With their bytes where they are small together; else the bytes are streamed later, one by one."""
    large: set[str] = set()
    room = CHUNK_BYTES
    for message in messages:
        size = sum(each.size for each in message.attachments)
        if size > min(SMALL_BYTES, room):
            large.add(message.id)
        else:
            room -= size

    def path(key: str) -> str:
        options = {"select": _LISTED} if key in large else {}
        return calls.path("messages", key, "attachments", **options)

    found: dict[str, Sequence[Enclosure] | Unfetched] = {}
    asked = asking(calls, path, lambda key, answer: (key, answer.read(wire.Attachments)), _failed_attachments)
    for key, told in await batching.all_answers(asked, [message.id for message in messages]):
        found[key] = told if isinstance(told, Unfetched) else await _all_pages(calls, key, told)
    return found


def _failed_attachments(key: str, error: PostroomError) -> tuple[str, wire.Attachments | Unfetched]:
    return key, batching.unfetched(key, error)


async def _all_pages(calls: Calls, key: str, page: wire.Attachments) -> list[Enclosure] | Unfetched:
    """One whose pages end too soon fails alone. That it is gone, only its own address can tell."""
    found = [message_parsing.enclosure(each) for each in page.value]
    try:
        while page.next_link:
            page = await calls.get(calls.relative(page.next_link), wire.Attachments)
            found.extend(message_parsing.enclosure(each) for each in page.value)
    except Throttled:
        raise
    except (Gone, AnswerTooLarge, TransientError) as error:
        return replace(batching.unfetched(key, error), gone=False)
    return found


async def raw(calls: Calls, key: str) -> bytes:
    return await calls.download(calls.path("messages", key, "$value"))


async def passing_ids(calls: Calls, keys: Sequence[str]) -> Mapping[str, str]:
    """The ids that change with every move, as they are now."""
    found: dict[str, str] = {}
    for start in range(0, len(keys), MOST_TRANSLATED):
        told = await calls.post(
            calls.path("translateExchangeIds"),
            {
                "inputIds": list(keys[start : start + MOST_TRANSLATED]),
                "sourceIdType": "restImmutableEntryId",
                "targetIdType": "restId",
            },
            wire.Translations,
        )
        found |= {each.source_id: each.target_id for each in told.value if each.target_id}
    return found


async def enclosure(calls: Calls, key: str, wanted: Enclosure) -> AsyncGenerator[bytes]:
    """The bytes of a file, the MIME of an item. Of a link to a file elsewhere there are none."""
    if wanted.kind == "reference":
        raise Unsupported("what is attached is a link to a file elsewhere")
    path = calls.path("messages", key, "attachments", wanted.part, "$value")
    if wanted.kind == "item" or wanted.size < _STREAMED_BYTES:
        yield await _twice_if_short(calls, path, wanted.size)
        return
    received = 0
    async for piece in calls.stream(path):
        received += len(piece)
        yield piece
    if received < 0.7 * wanted.size:
        raise TransientError("Microsoft's answer is shorter than the attachment")


async def _twice_if_short(calls: Calls, path: str, size: int) -> bytes:
    """The size is what Exchange keeps: more than a file's bytes, and not what MIME makes of a message. So
    where an answer seems short, and is as short a second time, that is all there is.
    """
    content = await calls.download(path)
    if len(content) < 0.9 * size and len(await calls.download(path)) != len(content):
        raise TransientError("Microsoft's answer is shorter than the attachment")
    return content
