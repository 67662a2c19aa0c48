"""Text that was never a page, as a transcript: every character has the same room, so columns stay columns."""

import re
from typing import Final

from postroom.documents.transcript import Box, Page, Transcript, Word

COLUMNS: Final = 100  # characters that fill a line of A4
LINES: Final = 70  # lines that fill a page
_WORDS: Final = re.compile(r"\S+")
_PAGE: Final = Page(width=595.0, height=842.0)


def transcribe(text: str) -> Transcript:
    """A form feed begins a page, and so does a full page."""
    words: list[Word] = []
    pages = 0
    for sheet in text.replace("\r\n", "\n").split("\f"):
        lines = sheet.split("\n")
        for first in range(0, max(len(lines), 1), LINES):
            words.extend(_page(lines[first : first + LINES], pages))
            pages += 1
    return Transcript(method="plain", pages=(_PAGE,) * pages, words=tuple(words))


def _page(lines: list[str], page: int) -> list[Word]:
    # A line longer than the page makes its characters narrower, for the whole page alike.
    wide = max(COLUMNS, *(len(line.expandtabs()) for line in lines))
    return [
        Word(
            text=found.group(),
            page=page,
            line=number,
            box=Box(
                left=found.start() / wide,
                top=number / LINES,
                right=found.end() / wide,
                bottom=(number + 1) / LINES,
            ),
        )
        for number, line in enumerate(lines)
        for found in _WORDS.finditer(line.expandtabs())
    ]
