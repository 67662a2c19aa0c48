"""Where the next page of a list begins: below the moment and the number of the last row that was shown."""

from datetime import datetime
from urllib.parse import quote

PagePosition = tuple[datetime | None, int]


def format_position(moment: datetime | None, number: int) -> str:
    """For an address."""
    return quote(f"{moment.isoformat() if moment else ''}/{number}", safe="")


def parse_position(given: str | None) -> PagePosition | None:
    """As it came back; what is none is the beginning."""
    moment, separator, number = (given or "").partition("/")
    try:
        return (datetime.fromisoformat(moment) if moment else None, int(number)) if separator else None
    except ValueError:
        return None
