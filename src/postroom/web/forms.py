"""Parse submitted HTML forms, and numbers in URLs, with limits on their size.

The check of a form's origin is in `csrf`.
"""

from typing import Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

MAX_BYTES: Final = 64 * 1024
MAX_FIELDS: Final = 500


async def read(
    request: Request, *, max_bytes: int = MAX_BYTES, max_fields: int = MAX_FIELDS
) -> dict[str, str]:
    """Read the fields of a form. If a name occurs twice, the last value wins."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise HTTPException(413)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=max_fields))
    except ValueError:
        raise HTTPException(400) from None


def parse_number(text: str | None) -> int | None:
    """Parse a whole number that fits a bigint column; anything else is None."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else None
