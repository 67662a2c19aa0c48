"""Cursors of pages: opaque to the client, the key of a page's last row to us."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from postroom.api_types import Item, ResultPage
from postroom.web.api.operations import ApiProblem, PageQuery

Key = TypeVar("Key")


def build_page(found: Sequence[Item], asked: PageQuery, key: Callable[[Item], Any]) -> ResultPage[Item]:
    """A page of rows of which one more than the limit was asked for, to know whether there is another."""
    if len(found) <= asked.limit:
        return ResultPage(list(found), None)
    shown = list(found[: asked.limit])
    encoded = urlsafe_b64encode(msgspec.json.encode(key(shown[-1]))).rstrip(b"=").decode()
    return ResultPage(shown, encoded)


def parse_number_cursor(asked: PageQuery) -> int | None:
    """For lists by a number."""
    number = parse_cursor(asked, int)
    if number is not None and not 0 <= number < 2**63:
        raise ApiProblem(400, "bad-cursor", "The cursor is none of this list. Begin without one.")
    return number


def parse_cursor(asked: PageQuery, kind: type[Key]) -> Key | None:
    """Where the page begins, as its type; None for the first one."""
    if asked.cursor is None:
        return None
    try:
        text = urlsafe_b64decode(asked.cursor + "=" * (-len(asked.cursor) % 4))
        return msgspec.json.decode(text, type=kind)
    except (Base64Error, ValueError, msgspec.DecodeError):
        raise ApiProblem(400, "bad-cursor", "The cursor is none of this list. Begin without one.") from None
