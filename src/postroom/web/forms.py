"""What a form or an address of ours carries: names and values, never more than fits a form."""

from typing import Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

MAX_BYTES: Final = 64 * 1024
MAX_FIELDS: Final = 500


async def read(request: Request, *, largest: int = MAX_BYTES, most: int = MAX_FIELDS) -> dict[str, str]:
    """The fields of a form; of a name that came twice, the last."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > largest:
            raise HTTPException(413)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=most))
    except ValueError:
        raise HTTPException(400) from None


def parse_number(given: str | None) -> int | None:
    """A whole number that a column can hold; what is none is nothing."""
    return int(given) if given and given.isascii() and given.isdecimal() and len(given) < 19 else None
