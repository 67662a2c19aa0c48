"""Ranges of pages, as people write them: `1-2,3`. Pages count from 1."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from postroom.errors import PermanentError

CHECK_NAME: Final = "one invoice"  # of the check that a file holds one; `part_detection` makes it
_RANGE: Final = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?", re.ASCII)


class PageRange(NamedTuple):
    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def format_ranges(ranges: Sequence[PageRange]) -> str:
    return ",".join(map(str, ranges))


def parse_ranges(text: str) -> tuple[PageRange, ...]:
    """Parse the parts of a file. They must be at least two, and name each page from the first on once."""
    found: list[PageRange] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise PermanentError(f"“{text[:40]}” is not a list of pages. Write the parts like this: 1-2,3.")
        found.append(PageRange(int(match[1]), int(match[2] or match[1])))
    starts = [1, *(each.last + 1 for each in found[:-1])]
    if len(found) < 2 or any(
        each.first != start or each.last < start for each, start in zip(found, starts, strict=True)
    ):
        raise PermanentError(
            "Give at least two parts that cover every page once and in order, such as 1-2,3."
        )
    return tuple(found)
