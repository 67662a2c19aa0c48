"""Gmail's messages themselves: how they stand, as much of them as a policy allows, their bytes."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final, TypeVar

from postroom.errors import Gone, PostroomError, Throttled
from postroom.model import Change, ContentPolicy, Enclosure, Fetched, Unfetched
from postroom.providers import batching
from postroom.providers.gmail import message_parsing, wire
from postroom.providers.gmail.calls import Calls
from postroom.providers.message_parsing import of_mail

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


async def look(calls: Calls, keys: Sequence[str]) -> Sequence[Change | Unfetched]:
    def convert(message: wire.Message) -> Change | Unfetched:
        return message_parsing.seen(message)

    asking = _asking(calls, _MINIMAL, convert, batching.unseen)
    return await batching.all_answers(asking, keys)


def fetch(
    calls: Calls, wanted: Sequence[Change], policy: ContentPolicy
) -> AsyncGenerator[list[Fetched | Unfetched]]:
    def convert(message: wire.Message) -> Fetched | Unfetched:
        return message_parsing.fetched(message)

    asking = _asking(calls, _QUERIES[policy], convert, batching.unfetched)
    return batching.answers(asking, [change.key for change in wanted])


def _asking(
    calls: Calls,
    query: Mapping[str, str],
    convert: Callable[[wire.Message], T],
    failed: Callable[[str, PostroomError], T],
) -> batching.Asking[T]:
    return batching.Asking(
        send=lambda keys: calls.messages(keys, query),
        refusal=wire.refusal,
        convert=lambda _, answer: convert(answer.read(wire.Message)),
        failed=failed,
        pace=calls.pace,
        cost=calls.pace.quota.cost("messages.get"),
        largest=_LARGEST,
        parallel=_PARALLEL,
        crowded=_is_crowded,
    )


def _is_crowded(error: Throttled) -> bool:
    return str(error) == wire.CROWDED


async def raw(calls: Calls, key: str) -> bytes:
    query = _QUERIES[ContentPolicy.FULL]
    return message_parsing.raw(await calls.get("messages.get", f"messages/{key}", wire.Message, query))


async def enclosure(calls: Calls, key: str, wanted: Enclosure) -> AsyncGenerator[bytes]:
    """Attachment ids of Gmail change with every answer; the part's place in the message does not."""
    for each in of_mail(await raw(calls, key)).enclosures:
        if each.part == wanted.part and each.content is not None:
            yield each.content
            return
    raise Gone("the message has no such attachment any more")
