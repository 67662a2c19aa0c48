"""Nothing personal in any log: no address, subject, name, file name or secret."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from postroom_chaos.oracle.evidence import Violation
from postroom_chaos.oracle.sources import Sources

_STORED = """
    SELECT from_name AS word FROM messages
    UNION SELECT from_address FROM messages
    UNION SELECT subject FROM messages
    UNION SELECT unnest(ARRAY[person ->> 'name', person ->> 'address'])
        FROM messages, jsonb_array_elements(to_recipients || cc_recipients || bcc_recipients) AS person
    UNION SELECT file_name FROM attachments
    UNION SELECT sender FROM arrivals
    UNION SELECT file_name FROM arrivals
    UNION SELECT address FROM mailboxes
    UNION SELECT name FROM folders WHERE role IS NULL
"""
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
# A shorter word, or one without a mark of its own, also appears in texts that have nothing to do with mail.
_SHORTEST = 10


async def check_logs(sources: Sources) -> list[Violation]:
    markers = await collect_markers(sources)
    return [violation for log in sources.evidence.logs for violation in search_log(log, markers)]


async def collect_markers(sources: Sources) -> frozenset[str]:
    """Everything personal that Postroom has seen: what is stored now, and what the provider has."""
    words = {row["word"] for row in await sources.rows(_STORED)}
    for mailbox in sources.evidence.mailboxes:
        words.add(mailbox.address)
        if mailbox.state == "mirrored":
            for message in (await sources.remote(mailbox)).messages.values():
                words |= {message.sender, message.subject, *(each.name for each in message.attachments)}
    words |= {person.address for person in sources.evidence.purged_people}
    return sources.evidence.markers | {word.strip() for word in words if word and is_specific(word.strip())}


def is_specific(word: str) -> bool:
    """Whether a word can come from mail only: an address, several words, or one with digits or dots."""
    if _ADDRESS.fullmatch(word):
        return True
    return len(word) >= _SHORTEST and bool(re.search(r"[\s\d.]", word))


def search_log(log: Path, markers: frozenset[str]) -> Iterator[Violation]:
    text = log.read_text(errors="replace")
    lowered = text.lower()
    for marker in sorted(markers):
        for written in {marker.lower(), json.dumps(marker)[1:-1].lower()}:
            place = lowered.find(written)
            if place >= 0 and _is_whole(lowered, place, place + len(written)):
                line = text.count("\n", 0, place) + 1
                shown = text[text.rfind("\n", 0, place) + 1 :].split("\n", 1)[0]
                yield Violation("leftovers.log", f"{log}, line {line}", f"contains {marker!r}: {shown[:300]}")
                break


def _is_whole(text: str, start: int, end: int) -> bool:
    """Not the middle of a longer word, such as an id."""
    before, after = text[start - 1 : start], text[end : end + 1]
    return not (before.isalnum() and text[start].isalnum()) and not (
        after.isalnum() and text[end - 1].isalnum()
    )
