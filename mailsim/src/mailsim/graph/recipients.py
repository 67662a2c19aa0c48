"""Parser of address headers to Graph's recipients.

Cached, because people recur within a mailbox.
"""

import re
from functools import lru_cache

from mailsim.address_lists import read_addresses
from mailsim.mime import decode_words

_SIMPLE = re.compile(
    r"""\s*(?:([^"(),:;<>@\\]*?)\s*<([^\s"(),:;<>\\]+@[^\s"(),:;<>\\]+)>|([^\s"(),:;<>\\]+@[^\s"(),:;<>\\]+))\s*"""
)
Recipient = dict[str, dict[str, str]]


@lru_cache(maxsize=8192)
def _parse_header(header: str) -> tuple[Recipient, ...]:
    simple = _SIMPLE.fullmatch(header)
    pairs = [(simple[1] or "", simple[2] or simple[3])] if simple else read_addresses([header])
    parsed: list[Recipient] = []
    for name, address in pairs:
        if name or address:
            display_name = " ".join(decode_words(name).split())
            parsed.append({"emailAddress": {"name": display_name or address, "address": address}})
    return tuple(parsed)


def parse_recipients(headers: list[str]) -> list[Recipient]:
    """Return all recipients of these headers; a broken message may repeat a header."""
    return [person for header in headers for person in _parse_header(header)]


def parse_first_recipient(header: str) -> Recipient | None:
    """Return the first mailbox of From or Sender, or None."""
    return next(iter(_parse_header(header)), None)
