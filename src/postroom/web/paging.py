"""Positions in the lists of the pages: the time and number of the last row shown, as URL text.

The cursors of the API are in `api.paging`.
"""

from datetime import datetime
from urllib.parse import quote

PagePosition = tuple[datetime | None, int]


def format_position(moment: datetime | None, number: int) -> str:
    """Encode a position for a URL."""
    return quote(f"{moment.isoformat() if moment else ''}/{number}", safe="")


def parse_position(text: str | None) -> PagePosition | None:
    """Decode a position from a URL; an invalid one starts the list from the beginning."""
    moment, separator, number = (text or "").partition("/")
    try:
        return (datetime.fromisoformat(moment) if moment else None, int(number)) if separator else None
    except ValueError:
        return None
