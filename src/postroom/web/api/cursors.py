"""Cursors of pages: opaque to the client, the key of a page's last row to us."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from postroom.shapes import Item, Page
from postroom.web.api.operations import Paged, Problem

Key = TypeVar("Key")


def page(found: Sequence[Item], asked: Paged, key: Callable[[Item], Any]) -> Page[Item]:
    """A page of rows of which one more than the limit was asked for, to know whether there is another."""
    if len(found) <= asked.limit:
        return Page(list(found), None)
    shown = list(found[: asked.limit])
    encoded = urlsafe_b64encode(msgspec.json.encode(key(shown[-1]))).rstrip(b"=").decode()
    return Page(shown, encoded)


def number_of(asked: Paged) -> int | None:
    """For lists by a number."""
    number = key_of(asked, int)
    if number is not None and not 0 <= number < 2**63:
        raise Problem(400, "bad-cursor", "The cursor is none of this list. Begin without one.")
    return number


def key_of(asked: Paged, kind: type[Key]) -> Key | None:
    """Where the page begins, as its type; None for the first one."""
    if asked.cursor is None:
        return None
    try:
        text = urlsafe_b64decode(asked.cursor + "=" * (-len(asked.cursor) % 4))
        return msgspec.json.decode(text, type=kind)
    except (Base64Error, ValueError, msgspec.DecodeError):
        raise Problem(400, "bad-cursor", "The cursor is none of this list. Begin without one.") from None
