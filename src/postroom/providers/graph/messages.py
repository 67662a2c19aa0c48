"""Fetch messages of a Microsoft 365 mailbox: state, allowed content, raw bytes, attachments.

A few messages are fetched individually. Many that are close in time, as on a page of a listing, are fetched
by listing that period; messages it left out, and attachments, are fetched in batches. Also translates
immutable ids to mutable ones.
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
    TokenRejected,
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
from postroom.providers.graph.api import MAX_UNBATCHED, GraphApi, batch_request
from postroom.providers.transport import HttpResponse

Results = list[FetchedMessage | FetchFailure]

CHUNK: Final = 50  # messages fetched by one listing
PARALLEL: Final = 3
SMALL_BYTES: Final = 3 * 2**20  # attachments of one message up to this size are fetched with it
CHUNK_BYTES: Final = 16 * 2**20  # attachments that are in memory at a time
_STREAMED_BYTES: Final = 2**20
MAX_IDS_PER_TRANSLATION: Final = 1000
_EXPANDED: Final = f"attachments($select={message_parsing.ATTACHMENT}),{message_parsing.SIZE}"
_EXPANDED_WITH_BYTES: Final = f"attachments,{message_parsing.SIZE}"
_LISTED: Final = f"{message_parsing.ATTACHMENT},microsoft.graph.fileAttachment/contentId"


async def look_up(api: GraphApi, keys: Sequence[str]) -> Sequence[MessageChange | FetchFailure]:
    def convert(_: str, response: HttpResponse) -> MessageChange | FetchFailure:
        return message_parsing.to_change(response.read(wire.GraphMessage))

    def path(key: str) -> str:
        return api.path("messages", key, select=message_parsing.STATE)

    request = batch_request(api, path, convert, batch_requests.to_deletion_or_failure)
    return await batch_requests.collect_results(request, keys)


async def fetch(
    api: GraphApi, wanted: Sequence[MessageChange], policy: ContentPolicy
) -> AsyncGenerator[Sequence[FetchedMessage | FetchFailure]]:
    changes = list({change.key: change for change in wanted}.values())
    if len(changes) <= MAX_UNBATCHED:
        yield await _fetch_individually(api, changes, policy)
        return
    requests = (_fetch_chunk(api, chunk, policy) for chunk in _chunks(changes))
    async with aclosing(batch_requests.run_concurrently(lambda: next(requests, None), PARALLEL)) as groups:
        async for group in groups:
            yield group


def _chunks(wanted: Sequence[MessageChange]) -> list[Sequence[MessageChange]]:
    """By folder, newest first. Messages without a known folder or time come last."""
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
    api: GraphApi, wanted: Sequence[MessageChange], policy: ContentPolicy
) -> Results:
    """With all attachments, unless the response would be too large."""

    def path(key: str) -> str:
        if policy is ContentPolicy.METADATA:
            return api.path("messages", key, select=message_parsing.METADATA)
        return api.path("messages", key, select=message_parsing.CONTENT, expand=_EXPANDED_WITH_BYTES)

    def convert(_: str, response: HttpResponse) -> FetchedMessage | FetchFailure | ResponseTooLarge:
        message = response.read(wire.GraphMessage)
        return message_parsing.to_fetched(
            message, [message_parsing.to_attachment(attachment) for attachment in message.attachments]
        )

    def failed(key: str, error: PostroomError) -> FetchedMessage | FetchFailure | ResponseTooLarge:
        if isinstance(error, ResponseTooLarge):
            large.append(key)
            return error
        return batch_requests.to_failure(key, error)

    large: list[str] = []
    request = batch_request(api, path, convert, failed)
    keys = [change.key for change in wanted]
    outcomes = await batch_requests.collect_results(request, keys)
    results = [outcome for outcome in outcomes if not isinstance(outcome, ResponseTooLarge)]
    if large:
        results += await _fetch_chunk(api, [MessageChange(key, Presence.PRESENT) for key in large], policy)
    return results


async def _fetch_chunk(api: GraphApi, wanted: Sequence[MessageChange], policy: ContentPolicy) -> Results:
    messages = await _fetch_by_listing(api, wanted, policy)
    failed: Results = []
    rest = [change.key for change in wanted if change.key not in messages]
    request = batch_request(
        api,
        lambda key: api.path("messages", key, **_select_options(policy)),
        lambda _, response: response.read(wire.GraphMessage),
        batch_requests.to_failure,
    )
    for message in await batch_requests.collect_results(request, rest):
        if isinstance(message, FetchFailure):
            failed.append(message)
        else:
            messages[message.id] = message
    attachments = await _fetch_attachments(
        api, [message for message in messages.values() if _has_attachments(message)]
    )
    return [*failed, *(_to_result(message, attachments.get(message.id, ())) for message in messages.values())]


def _select_options(policy: ContentPolicy) -> dict[str, str]:
    """Only the properties of attachments, not their bytes, which may be large."""
    if policy is ContentPolicy.METADATA:
        return {"select": message_parsing.METADATA}
    return {"select": message_parsing.CONTENT, "expand": _EXPANDED}


def _has_attachments(message: wire.GraphMessage) -> bool:
    """Exchange reports `hasAttachments` as false if all attachments are inline images."""
    return bool(message.attachments) or (bool(message.has_attachments) and message.body is not None)


def _to_result(
    message: wire.GraphMessage, attachments: Sequence[RemoteAttachment] | FetchFailure
) -> FetchedMessage | FetchFailure:
    return (
        attachments
        if isinstance(attachments, FetchFailure)
        else message_parsing.to_fetched(message, attachments)
    )


async def _fetch_by_listing(
    api: GraphApi, wanted: Sequence[MessageChange], policy: ContentPolicy
) -> dict[str, wire.GraphMessage]:
    """Those that one listing of their period returns: all, if no other messages are between them."""
    folder = wanted[0].state.folder
    if len(wanted) <= MAX_UNBATCHED or folder is None or wanted[0].state.received_at is None:
        return {}
    first, last = _received(wanted[-1]), _received(wanted[0]) + timedelta(seconds=1)
    path = api.path(
        "mailFolders",
        folder,
        "messages",
        filter=f"receivedDateTime ge {_to_timestamp(first)} and receivedDateTime lt {_to_timestamp(last)}",
        orderby="receivedDateTime desc",
        top=str(len(wanted) + 5),
        **_select_options(policy),
    )
    try:
        page = await api.get(path, wire.GraphMessages)
    except (RateLimited, TokenRejected):
        raise
    except (NotFound, ResponseTooLarge, TransientError):  # fall back to individual requests
        return {}
    keys = {change.key for change in wanted}
    return {message.id: message for message in page.value if message.id in keys}


def _to_timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _fetch_attachments(
    api: GraphApi, messages: Sequence[wire.GraphMessage]
) -> Mapping[str, Sequence[RemoteAttachment] | FetchFailure]:
    """With their bytes if they are small in total; larger ones are streamed later, one by one."""
    large: set[str] = set()
    room = CHUNK_BYTES
    for message in messages:
        size = sum(attachment.size for attachment in message.attachments)
        if size > min(SMALL_BYTES, room):
            large.add(message.id)
        else:
            room -= size

    def path(key: str) -> str:
        options = {"select": _LISTED} if key in large else {}
        return api.path("messages", key, "attachments", **options)

    attachments: dict[str, Sequence[RemoteAttachment] | FetchFailure] = {}
    request = batch_request(
        api, path, lambda key, response: (key, response.read(wire.GraphAttachments)), _failed_attachments
    )
    for key, page in await batch_requests.collect_results(request, [message.id for message in messages]):
        attachments[key] = page if isinstance(page, FetchFailure) else await _fetch_all_pages(api, key, page)
    return attachments


def _failed_attachments(key: str, error: PostroomError) -> tuple[str, wire.GraphAttachments | FetchFailure]:
    return key, batch_requests.to_failure(key, error)


async def _fetch_all_pages(
    api: GraphApi, key: str, page: wire.GraphAttachments
) -> list[RemoteAttachment] | FetchFailure:
    """If a page fails, only this message fails. A missing page does not mean that the message is deleted."""
    attachments = [message_parsing.to_attachment(attachment) for attachment in page.value]
    try:
        while page.next_link:
            page = await api.get(api.relative(page.next_link), wire.GraphAttachments)
            attachments.extend(message_parsing.to_attachment(attachment) for attachment in page.value)
    except (RateLimited, TokenRejected):
        raise
    except (NotFound, ResponseTooLarge, TransientError) as error:
        return replace(batch_requests.to_failure(key, error), gone=False)
    return attachments


async def fetch_raw(api: GraphApi, key: str) -> bytes:
    return await api.download(api.path("messages", key, "$value"))


async def translate_ids(api: GraphApi, keys: Sequence[str]) -> Mapping[str, str]:
    """The current mutable ids of messages, which change with every move."""
    ids: dict[str, str] = {}
    for start in range(0, len(keys), MAX_IDS_PER_TRANSLATION):
        response = await api.post(
            api.path("translateExchangeIds"),
            {
                "inputIds": list(keys[start : start + MAX_IDS_PER_TRANSLATION]),
                "sourceIdType": "restImmutableEntryId",
                "targetIdType": "restId",
            },
            wire.GraphIdTranslations,
        )
        ids |= {
            translation.source_id: translation.target_id
            for translation in response.value
            if translation.target_id
        }
    return ids


async def stream_attachment(api: GraphApi, key: str, wanted: RemoteAttachment) -> AsyncGenerator[bytes]:
    """The bytes of a file attachment or the MIME of an item attachment. Reference attachments have none."""
    if wanted.kind == "reference":
        raise UnsupportedByProvider("this attachment is a link to a file stored elsewhere")
    path = api.path("messages", key, "attachments", wanted.part, "$value")
    if wanted.kind == "item" or wanted.size < _STREAMED_BYTES:
        yield await _download_verified(api, path, wanted.size)
        return
    received = 0
    async for piece in api.stream(path):
        received += len(piece)
        yield piece
    if received < 0.7 * wanted.size:
        raise TransientError("Microsoft's response is shorter than the attachment")


async def _download_verified(api: GraphApi, path: str, size: int) -> bytes:
    """Download again if the response seems too short, and accept it if it is as short again.

    The size is what Exchange stores: more than the bytes of a file, and unrelated to the MIME of an item.
    """
    content = await api.download(path)
    if len(content) < 0.9 * size and len(await api.download(path)) != len(content):
        raise TransientError("Microsoft's response is shorter than the attachment")
    return content
