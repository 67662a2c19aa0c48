"""Address headers as Graph's recipients. Pure, and remembered: a mailbox sees the same people often."""

import re
from email.utils import getaddresses
from functools import lru_cache
from typing import Any

from mailsim.mime import decode_words

_SIMPLE = re.compile(
    r"""\s*(?:([^"(),:;<>@\\]*?)\s*<([^\s"(),:;<>\\]+@[^\s"(),:;<>\\]+)>|([^\s"(),:;<>\\]+@[^\s"(),:;<>\\]+))\s*"""
)
Recipient = dict[str, dict[str, str]]


@lru_cache(maxsize=8192)
def _recipients(header: str) -> tuple[Recipient, ...]:
    simple = _SIMPLE.fullmatch(header)
    pairs = [(simple[1] or "", simple[2] or simple[3])] if simple else getaddresses([header])
    found: list[Recipient] = []
    for name, address in pairs:
        if name or address:
            shown = " ".join(decode_words(name).split())
            found.append({"emailAddress": {"name": shown or address, "address": address}})
    return tuple(found)


def recipients(headers: list[str]) -> list[Recipient]:
    """Everybody in these headers (of one name, which a broken message may repeat)."""
    return [person for header in headers for person in _recipients(header)]


def first(header: str) -> Any:
    """The first mailbox of From or Sender, None where there is none."""
    return next(iter(_recipients(header)), None)
