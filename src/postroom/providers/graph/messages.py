"""Graph's messages themselves: how they stand, as much of them as a policy allows, their bytes.

A few messages are read one by one. Many that lie close in time, as the pages of a listing do, come by one
listing of that time; what it left out, and attachments, come by batches.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from postroom.errors import (
    NotFound,
    PostroomError,
    RateLimited,
    ResponseTooLarge,
    TransientError,
    UnsupportedByProvider,
)
from postroom.model import (
    ContentPolicy,
    FetchedMessage,
    FetchFailure,
    MessageChange,
    Presence,
    RemoteAttachment,
)
from postroom.providers import batch_requests
from postroom.providers.graph import message_parsing, wire
from postroom.providers.graph.api import LARGEST_UNBATCHED, GraphApi, batch_request
from postroom.providers.transport import HttpAnswer

Results = list[FetchedMessage | FetchFailure]

CHUNK: Final = 50  # messages of one listing
PARALLEL: Final = 3
SMALL_BYTES: Final = 3 * 2**20  # attachments of one message that come together with it
CHUNK_BYTES: Final = 16 * 2**20  # attachments that are held at a time
_STREAMED_BYTES: Final = 2**20
MOST_TRANSLATED: Final = 1000  # ids of one call
_EXPANDED: Final = f"attachments($select={message_parsing.ATTACHMENT})"
_LISTED: Final = f"{message_parsing.ATTACHMENT},microsoft.graph.fileAttachment/contentId"


async def look_up(calls: GraphApi, keys: Sequence[str]) -> Sequence[MessageChange | FetchFailure]:
    def convert(_: str, answer: HttpAnswer) -> MessageChange | FetchFailure:
        return message_parsing.to_change(answer.read(wire.GraphMessage))

    def path(key: str) -> str:
        return calls.path("messages", key, select=message_parsing.STATE)

    asked = batch_request(calls, path, convert, batch_requests.deleted_or_unfetched)
    return await batch_requests.collect_results(asked, keys)


async def fetch(
    calls: GraphApi, wanted: Sequence[MessageChange], policy: ContentPolicy
) -> AsyncGenerator[Sequence[FetchedMessage | FetchFailure]]:
    different = list({change.key: change for change in wanted}.values())
    if len(different) <= LARGEST_UNBATCHED:
        yield await _fetch_individually(calls, different, policy)
        return
    jobs = (_fetch_chunk(calls, chunk, policy) for chunk in _chunks(different))
    async with aclosing(batch_requests.run_concurrently(lambda: next(jobs, None), PARALLEL)) as groups:
        async for found in groups:
            yield found


def _chunks(wanted: Sequence[MessageChange]) -> list[Sequence[MessageChange]]:
    """Folder by folder, newest first; those of which either is not known come last."""
    by_folder: dict[str, list[MessageChange]] = {}
    for change in wanted:
        known = change.state.folder if change.state.received_at else None
        by_folder.setdefault(known or "", []).append(change)
    unknown = by_folder.pop("", [])
    for group in by_folder.values():
        group.sort(key=_received, reverse=True)
    groups = [*by_folder.values(), unknown]
    return [group[at : at + CHUNK] for group in groups for at in range(0, len(group), CHUNK)]


def _received(change: MessageChange) -> datetime:
    return change.state.received_at or datetime.min.replace(tzinfo=UTC)


async def _fetch_individually(
    calls: GraphApi, wanted: Sequence[MessageChange], policy: ContentPolicy
) -> Results:
    """With their attachments at once, unless that is too much."""

    def path(key: str) -> str:
        if policy is ContentPolicy.METADATA:
            return calls.path("messages", key, select=message_parsing.METADATA)
        return calls.path("messages", key, select=message_parsing.CONTENT, expand="attachments")

    def convert(_: str, answer: HttpAnswer) -> FetchedMessage | FetchFailure | ResponseTooLarge:
        message = answer.read(wire.GraphMessage)
        return message_parsing.to_fetched(
            message, [message_parsing.to_attachment(each) for each in message.attachments]
        )

    def failed(key: str, error: PostroomError) -> FetchedMessage | FetchFailure | ResponseTooLarge:
        if isinstance(error, ResponseTooLarge):
            large.append(key)
            return error
        return batch_requests.unfetched(key, error)

    large: list[str] = []
    asked = batch_request(calls, path, convert, failed)
    keys = [change.key for change in wanted]
    found = await batch_requests.collect_results(asked, keys)
    results = [each for each in found if not isinstance(each, ResponseTooLarge)]
    if large:
        results += await _fetch_chunk(calls, [MessageChange(key, Presence.PRESENT) for key in large], policy)
    return results


async def _fetch_chunk(calls: GraphApi, wanted: Sequence[MessageChange], policy: ContentPolicy) -> Results:
    found = await _fetch_by_listing(calls, wanted, policy)
    failed: Results = []
    rest = [change.key for change in wanted if change.key not in found]
    asked = batch_request(
        calls,
        lambda key: calls.path("messages", key, **_select_options(policy)),
        lambda _, answer: answer.read(wire.GraphMessage),
        batch_requests.unfetched,
    )
    for each in await batch_requests.collect_results(asked, rest):
        if isinstance(each, FetchFailure):
            failed.append(each)
        else:
            found[each.id] = each
    attached = await _fetch_attachments(calls, [each for each in found.values() if _has_attachments(each)])
    return [*failed, *(_to_result(each, attached.get(each.id, ())) for each in found.values())]


def _select_options(policy: ContentPolicy) -> dict[str, str]:
    """Of attachments only what they are, so that nobody is surprised by their size."""
    if policy is ContentPolicy.METADATA:
        return {"select": message_parsing.METADATA}
    return {"select": message_parsing.CONTENT, "expand": _EXPANDED}


def _has_attachments(message: wire.GraphMessage) -> bool:
    """Where only pictures inside the body are attached, Exchange says that there are none."""
    return bool(message.attachments) or (bool(message.has_attachments) and message.body is not None)


def _to_result(
    message: wire.GraphMessage, attached: Sequence[RemoteAttachment] | FetchFailure
) -> FetchedMessage | FetchFailure:
    return attached if isinstance(attached, FetchFailure) else message_parsing.to_fetched(message, attached)


async def _fetch_by_listing(
    calls: GraphApi, wanted: Sequence[MessageChange], policy: ContentPolicy
) -> dict[str, wire.GraphMessage]:
    """What one listing shows of them: all, where nothing else lies between them."""
    folder = wanted[0].state.folder
    if len(wanted) <= LARGEST_UNBATCHED or folder is None or wanted[0].state.received_at is None:
        return {}
    first, last = _received(wanted[-1]), _received(wanted[0]) + timedelta(seconds=1)
    path = calls.path(
        "mailFolders",
        folder,
        "messages",
        filter=f"receivedDateTime ge {_to_timestamp(first)} and receivedDateTime lt {_to_timestamp(last)}",
        orderby="receivedDateTime desc",
        top=str(len(wanted) + 5),
        **_select_options(policy),
    )
    try:
        told = await calls.get(path, wire.GraphMessages)
    except RateLimited:
        raise
    except (NotFound, ResponseTooLarge, TransientError):  # then each for itself
        return {}
    keys = {change.key for change in wanted}
    return {each.id: each for each in told.value if each.id in keys}


def _to_timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _fetch_attachments(
    calls: GraphApi, messages: Sequence[wire.GraphMessage]
) -> Mapping[str, Sequence[RemoteAttachment] | FetchFailure]:
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

    found: dict[str, Sequence[RemoteAttachment] | FetchFailure] = {}
    asked = batch_request(
        calls, path, lambda key, answer: (key, answer.read(wire.GraphAttachments)), _failed_attachments
    )
    for key, told in await batch_requests.collect_results(asked, [message.id for message in messages]):
        found[key] = told if isinstance(told, FetchFailure) else await _fetch_all_pages(calls, key, told)
    return found


def _failed_attachments(key: str, error: PostroomError) -> tuple[str, wire.GraphAttachments | FetchFailure]:
    return key, batch_requests.unfetched(key, error)


async def _fetch_all_pages(
    calls: GraphApi, key: str, page: wire.GraphAttachments
) -> list[RemoteAttachment] | FetchFailure:
    """One whose pages end too soon fails alone. That it is gone, only its own address can tell."""
    found = [message_parsing.to_attachment(each) for each in page.value]
    try:
        while page.next_link:
            page = await calls.get(calls.relative(page.next_link), wire.GraphAttachments)
            found.extend(message_parsing.to_attachment(each) for each in page.value)
    except RateLimited:
        raise
    except (NotFound, ResponseTooLarge, TransientError) as error:
        return replace(batch_requests.unfetched(key, error), gone=False)
    return found


async def fetch_raw(calls: GraphApi, key: str) -> bytes:
    return await calls.download(calls.path("messages", key, "$value"))


async def translate_ids(calls: GraphApi, keys: Sequence[str]) -> Mapping[str, str]:
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
            wire.GraphIdTranslations,
        )
        found |= {each.source_id: each.target_id for each in told.value if each.target_id}
    return found


async def stream_attachment(calls: GraphApi, key: str, wanted: RemoteAttachment) -> AsyncGenerator[bytes]:
    """The bytes of a file, the MIME of an item. Of a link to a file elsewhere there are none."""
    if wanted.kind == "reference":
        raise UnsupportedByProvider("what is attached is a link to a file elsewhere")
    path = calls.path("messages", key, "attachments", wanted.part, "$value")
    if wanted.kind == "item" or wanted.size < _STREAMED_BYTES:
        yield await _download_verified(calls, path, wanted.size)
        return
    received = 0
    async for piece in calls.stream(path):
        received += len(piece)
        yield piece
    if received < 0.7 * wanted.size:
        raise TransientError("Microsoft's answer is shorter than the attachment")


async def _download_verified(calls: GraphApi, path: str, size: int) -> bytes:
    """The size is what Exchange keeps: more than a file's bytes, and not what MIME makes of a message. So
    where an answer seems short, and is as short a second time, that is all there is.
    """
    content = await calls.download(path)
    if len(content) < 0.9 * size and len(await calls.download(path)) != len(content):
        raise TransientError("Microsoft's answer is shorter than the attachment")
    return content
