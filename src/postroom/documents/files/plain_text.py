"""Turns the text of a plain text file into a transcript with pages and positions.

Every character gets the same width, so columns stay aligned.
"""

import re
from typing import Final

from postroom.documents.files.file_reading import Box, Transcript, TranscriptPage, Word

COLUMNS_PER_LINE: Final = 100  # fill a line of A4
LINES_PER_PAGE: Final = 70  # fill a page of A4
_WORDS: Final = re.compile(r"\S+")
_PAGE: Final = TranscriptPage(width=595.0, height=842.0)


def to_transcript(text: str) -> Transcript:
    """Convert text to a transcript.

    A form feed starts a new page, and so does a full page.
    """
    words: list[Word] = []
    pages = 0
    for page_text in text.replace("\r\n", "\n").split("\f"):
        lines = page_text.split("\n")
        for first in range(0, max(len(lines), 1), LINES_PER_PAGE):
            words.extend(_page_words(lines[first : first + LINES_PER_PAGE], pages))
            pages += 1
    return Transcript(method="plain", pages=(_PAGE,) * pages, words=tuple(words))


def _page_words(lines: list[str], page: int) -> list[Word]:
    # A line longer than the page makes all characters of the page narrower.
    columns = max(COLUMNS_PER_LINE, *(len(line.expandtabs()) for line in lines))
    return [
        Word(
            text=match.group(),
            page=page,
            line=number,
            box=Box(
                left=match.start() / columns,
                top=number / LINES_PER_PAGE,
                right=match.end() / columns,
                bottom=(number + 1) / LINES_PER_PAGE,
            ),
        )
        for number, line in enumerate(lines)
        for match in _WORDS.finditer(line.expandtabs())
    ]
