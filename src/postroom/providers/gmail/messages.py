"""Fetch messages of a Gmail account: state, content that the policy allows, raw bytes, attachments."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final, TypeVar

from postroom.errors import NotFound, PostroomError, RateLimited
from postroom.model import ContentPolicy, FetchedMessage, FetchFailure, MessageChange, RemoteAttachment
from postroom.providers import batch_requests
from postroom.providers.gmail import message_parsing, wire
from postroom.providers.gmail.api import GmailApi
from postroom.providers.message_parsing import parse_message

_MAX_BATCH_PARTS: Final = (
    45  # parts of a batch: Google recommends at most 50, and other programs may send requests too
)
_PARALLEL: Final = 3
_QUERIES: Final = {
    ContentPolicy.METADATA: {"format": "metadata", "fields": message_parsing.METADATA},
    # One request returns body and attachments; fetching attachments separately would double the cost.
    ContentPolicy.DOCUMENTS: {"format": "raw", "fields": message_parsing.RAW},
    ContentPolicy.FULL: {"format": "raw", "fields": message_parsing.RAW},
}
_MINIMAL: Final = {"format": "minimal", "fields": message_parsing.MINIMAL}

T = TypeVar("T")


async def look_up(api: GmailApi, keys: Sequence[str]) -> Sequence[MessageChange | FetchFailure]:
    def convert(message: wire.GmailMessage) -> MessageChange | FetchFailure:
        return message_parsing.to_change(message)

    request = _batch_request(api, _MINIMAL, convert, batch_requests.to_deletion_or_failure)
    return await batch_requests.collect_results(request, keys)


def fetch(
    api: GmailApi, wanted: Sequence[MessageChange], policy: ContentPolicy
) -> AsyncGenerator[list[FetchedMessage | FetchFailure]]:
    def convert(message: wire.GmailMessage) -> FetchedMessage | FetchFailure:
        return message_parsing.to_fetched(message)

    request = _batch_request(api, _QUERIES[policy], convert, batch_requests.to_failure)
    return batch_requests.stream_results(request, [change.key for change in wanted])


def _batch_request(
    api: GmailApi,
    query: Mapping[str, str],
    convert: Callable[[wire.GmailMessage], T],
    failed: Callable[[str, PostroomError], T],
) -> batch_requests.BatchRequest[T]:
    return batch_requests.BatchRequest(
        send=lambda keys: api.get_messages(keys, query),
        to_error=wire.to_error,
        convert=lambda _, response: convert(response.read(wire.GmailMessage)),
        failed=failed,
        rate_limit=api.rate_limit,
        cost=api.rate_limit.quota.cost("messages.get"),
        max_parts=_MAX_BATCH_PARTS,
        parallel=_PARALLEL,
        is_too_concurrent=_is_too_concurrent,
    )


def _is_too_concurrent(error: RateLimited) -> bool:
    return str(error) == wire.TOO_MANY_CONCURRENT


async def fetch_raw(api: GmailApi, key: str) -> bytes:
    query = _QUERIES[ContentPolicy.FULL]
    return message_parsing.decode_raw(
        await api.get("messages.get", f"messages/{key}", wire.GmailMessage, query)
    )


async def stream_attachment(api: GmailApi, key: str, wanted: RemoteAttachment) -> AsyncGenerator[bytes]:
    """Find the attachment by its part: Gmail's attachment ids change with every response, parts do not."""
    for attachment in parse_message(await fetch_raw(api, key)).attachments:
        if attachment.part == wanted.part and attachment.content is not None:
            yield attachment.content
            return
    raise NotFound("the message no longer has this attachment")
