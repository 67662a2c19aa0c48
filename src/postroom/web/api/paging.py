"""Page cursors of the API: opaque to clients, the key of the page's last row to the server."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from postroom.api_types import Item, ResultPage
from postroom.web.api.operations import ApiProblem, PageQuery

Key = TypeVar("Key")


def build_page(rows: Sequence[Item], query: PageQuery, key: Callable[[Item], Any]) -> ResultPage[Item]:
    """Build a page from rows read with `limit + 1`: the extra row shows that another page follows."""
    if len(rows) <= query.limit:
        return ResultPage(list(rows), None)
    shown = list(rows[: query.limit])
    encoded = urlsafe_b64encode(msgspec.json.encode(key(shown[-1]))).rstrip(b"=").decode()
    return ResultPage(shown, encoded)


def parse_number_cursor(query: PageQuery) -> int | None:
    """Decode the cursor of a list that is ordered by a number."""
    number = parse_cursor(query, int)
    if number is not None and not 0 <= number < 2**63:
        raise ApiProblem(400, "bad-cursor", "Invalid cursor. Use `next` of the same list, or omit it.")
    return number


def parse_cursor(query: PageQuery, kind: type[Key]) -> Key | None:
    """Decode the cursor to the key's type; None for the first page."""
    if query.cursor is None:
        return None
    try:
        text = urlsafe_b64decode(query.cursor + "=" * (-len(query.cursor) % 4))
        return msgspec.json.decode(text, type=kind)
    except (Base64Error, ValueError, msgspec.DecodeError):
        raise ApiProblem(
            400, "bad-cursor", "Invalid cursor. Use `next` of the same list, or omit it."
        ) from None
