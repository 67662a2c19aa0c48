"""Text that was never a page, as a transcript: every character has the same room, so columns stay columns."""

import re
from typing import Final

from postroom.documents.files.transcript import Box, Transcript, TranscriptPage, Word

COLUMNS_PER_LINE: Final = 100  # characters that fill a line of A4
LINES_PER_PAGE: Final = 70  # lines that fill a page
_WORDS: Final = re.compile(r"\S+")
_PAGE: Final = TranscriptPage(width=595.0, height=842.0)


def to_transcript(text: str) -> Transcript:
    """A form feed begins a page, and so does a full page."""
    words: list[Word] = []
    pages = 0
    for sheet in text.replace("\r\n", "\n").split("\f"):
        lines = sheet.split("\n")
        for first in range(0, max(len(lines), 1), LINES_PER_PAGE):
            words.extend(_page(lines[first : first + LINES_PER_PAGE], pages))
            pages += 1
    return Transcript(method="plain", pages=(_PAGE,) * pages, words=tuple(words))


def _page(lines: list[str], page: int) -> list[Word]:
    # A line longer than the page makes its characters narrower, for the whole page alike.
    wide = max(COLUMNS_PER_LINE, *(len(line.expandtabs()) for line in lines))
    return [
        Word(
            text=found.group(),
            page=page,
            line=number,
            box=Box(
                left=found.start() / wide,
                top=number / LINES_PER_PAGE,
                right=found.end() / wide,
                bottom=(number + 1) / LINES_PER_PAGE,
            ),
        )
        for number, line in enumerate(lines)
        for found in _WORDS.finditer(line.expandtabs())
    ]
