"""Gmail's messages themselves: how they stand, as much of them as a policy allows, their bytes."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final, TypeVar

from postroom.errors import NotFound, PostroomError, RateLimited
from postroom.model import ContentPolicy, FetchedMessage, FetchFailure, MessageChange, RemoteAttachment
from postroom.providers import batch_requests
from postroom.providers.gmail import message_parsing, wire
from postroom.providers.gmail.api import GmailApi
from postroom.providers.message_parsing import parse_message

_LARGEST: Final = 45  # parts of a batch: Google advises against more than 50, and others may ask too
_PARALLEL: Final = 3
_QUERIES: Final = {
    ContentPolicy.METADATA: {"format": "metadata", "fields": message_parsing.METADATA},
    # One call brings bodies and attachments; asking for each alone would cost as much again.
    ContentPolicy.DOCUMENTS: {"format": "raw", "fields": message_parsing.RAW},
    ContentPolicy.FULL: {"format": "raw", "fields": message_parsing.RAW},
}
_MINIMAL: Final = {"format": "minimal", "fields": message_parsing.MINIMAL}

T = TypeVar("T")


async def look_up(calls: GmailApi, keys: Sequence[str]) -> Sequence[MessageChange | FetchFailure]:
    def convert(message: wire.GmailMessage) -> MessageChange | FetchFailure:
        return message_parsing.to_change(message)

    asking = _batch_request(calls, _MINIMAL, convert, batch_requests.deleted_or_unfetched)
    return await batch_requests.collect_results(asking, keys)


def fetch(
    calls: GmailApi, wanted: Sequence[MessageChange], policy: ContentPolicy
) -> AsyncGenerator[list[FetchedMessage | FetchFailure]]:
    def convert(message: wire.GmailMessage) -> FetchedMessage | FetchFailure:
        return message_parsing.to_fetched(message)

    asking = _batch_request(calls, _QUERIES[policy], convert, batch_requests.unfetched)
    return batch_requests.stream_results(asking, [change.key for change in wanted])


def _batch_request(
    calls: GmailApi,
    query: Mapping[str, str],
    convert: Callable[[wire.GmailMessage], T],
    failed: Callable[[str, PostroomError], T],
) -> batch_requests.BatchRequest[T]:
    return batch_requests.BatchRequest(
        send=lambda keys: calls.messages(keys, query),
        refusal=wire.to_error,
        convert=lambda _, answer: convert(answer.read(wire.GmailMessage)),
        failed=failed,
        pace=calls.pace,
        cost=calls.pace.quota.cost("messages.get"),
        largest=_LARGEST,
        parallel=_PARALLEL,
        crowded=_is_crowded,
    )


def _is_crowded(error: RateLimited) -> bool:
    return str(error) == wire.TOO_MANY_CONCURRENT


async def fetch_raw(calls: GmailApi, key: str) -> bytes:
    query = _QUERIES[ContentPolicy.FULL]
    return message_parsing.decode_raw(
        await calls.get("messages.get", f"messages/{key}", wire.GmailMessage, query)
    )


async def stream_attachment(calls: GmailApi, key: str, wanted: RemoteAttachment) -> AsyncGenerator[bytes]:
    """Attachment ids of Gmail change with every answer; the part's place in the message does not."""
    for each in parse_message(await fetch_raw(calls, key)).attachments:
        if each.part == wanted.part and each.content is not None:
            yield each.content
            return
    raise NotFound("the message has no such attachment any more")
