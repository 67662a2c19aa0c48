"""DocumentText: a transcript as visual lines of text, in which every character has a position.

Also `fold_text`, which removes case and accents for searches. It searches nothing itself.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from postroom.documents.files.file_reading import Box, Transcript, Word

UNREADABLE: Final = "\ufffd"
# In letter-spaced text, numbers and words run together: "St.0,572EUR" is three words.
_SEAMS: Final = re.compile(
    r"(?<=[^\W\d_]\.)(?=\d)|(?<=:)(?=\S)|(?<=\d\d\.\d{4})(?=[^\W\d])|(?<=,\d\d)(?=[^\W\d])"
)


# More than this is no invoice and no contract note. The work of a search grows with the square of a line, so
# longer ones are wrapped.
MAX_CHARACTERS: Final = 100_000
MAX_LINES: Final = 5_000
MAX_LINE_CHARACTERS: Final = 1_000
# Characters that Unicode does not take apart, and that many documents print without their stroke or dot.
_UNDECOMPOSED: Final = {"\u0142": "l", "\u00f8": "o", "\u0111": "d", "\u0131": "i"}
_DASHES: Final = frozenset("-\u2013\u2014")
_LEADER: Final = re.compile(r"[._…=]{4,}|-{6,}")


@dataclass(frozen=True, slots=True)
class TextLine:
    """One visual line.

    `folded` is `text` in lowercase without accents, with the same length.
    """

    index: int
    page: int
    text: str
    folded: str
    words: tuple[Word, ...]
    starts: tuple[int, ...]
    is_letter_spaced: bool  # set with letter spacing; its words may have run together

    def box(self, start: int, end: int) -> Box:
        """Return the box of these characters; parts of a word get their share of its width."""
        left, right = self._at(start), self._at(max(end - 1, start))
        boxes = [word.box for word in self.words[left : right + 1]]
        return Box(
            left=self._edge(left, start),
            top=min(box.top for box in boxes),
            right=self._edge(right, end),
            bottom=max(box.bottom for box in boxes),
        )

    def _at(self, place: int) -> int:
        return max(bisect_right(self.starts, place) - 1, 0)

    def _edge(self, number: int, place: int) -> float:
        word = self.words[number]
        share = min(max((place - self.starts[number]) / max(len(word.text), 1), 0.0), 1.0)
        return word.box.left + share * (word.box.right - word.box.left)


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The lines of a document; `has_layout` is false where positions were not measured (plain text).

    `excess` says what was left out of a text beyond the limits; such a document needs review.
    """

    lines: tuple[TextLine, ...]
    has_layout: bool
    excess: str = ""

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)

    @property
    def folded(self) -> str:
        return "\n".join(line.folded for line in self.lines)


@lru_cache(maxsize=4096)
def _fold_character(sign: str) -> str:
    plain = unicodedata.normalize("NFKD", sign.casefold())
    kept = [part for part in plain if not unicodedata.combining(part)]
    if len(kept) == 1:
        return _UNDECOMPOSED.get(kept[0], kept[0])
    return sign.lower() if len(sign.lower()) == 1 else sign


def fold_text(text: str) -> str:
    """Convert to lowercase without accents, character by character."""
    return text.lower() if text.isascii() else "".join(map(_fold_character, text))


def build_document_text(transcript: Transcript) -> DocumentText:
    lines: list[TextLine] = []
    room, excess = MAX_CHARACTERS, ""
    for words in (wrapped for each in transcript.lines() for wrapped in _wrap(_remove_leaders(each))):
        if room <= 0 or len(lines) == MAX_LINES:
            excess = f"only the first {len(lines):,} lines of the text were read: it is too long"
            break
        kept = [word for word in words if len(word.text) <= MAX_LINE_CHARACTERS]
        if len(kept) < len(words):
            excess = f"words of more than {MAX_LINE_CHARACTERS:,} characters were left out"
        if kept:
            lines.append(_build_line(kept, len(lines)))
            room -= len(lines[-1].text)
    return DocumentText(tuple(lines), has_layout=transcript.method != "plain", excess=excess)


def _wrap(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Split a line that is longer than the limit, between words."""
    line: list[Word] = []
    length = 0
    for word in words:
        if line and length + len(word.text) > MAX_LINE_CHARACTERS:
            yield line
            line, length = [], 0
        line.append(word)
        length += len(word.text) + 1
    if line:
        yield line


def _remove_leaders(words: Sequence[Word]) -> list[Word]:
    """Remove the dots that lead from a label to its value; they belong to neither."""
    kept: list[Word] = []
    for word in words:
        if not _LEADER.search(word.text):
            kept.append(word)
            continue
        each = (word.box.right - word.box.left) / len(word.text)
        place = 0
        for part in _LEADER.split(word.text):
            start = word.text.index(part, place)
            place = start + len(part)
            box = Box(
                word.box.left + each * start, word.box.top, word.box.left + each * place, word.box.bottom
            )
            kept.extend([Word(part, word.page, word.line, box)] if part else [])
    return kept


def _build_line(words: Sequence[Word], index: int) -> TextLine:
    spaced = _is_letter_spaced(words)
    kept = tuple(_join_single_characters(words)) if spaced else tuple(words)
    starts, place = [0] * len(kept), 0
    for number, word in enumerate(kept):
        starts[number] = place
        place += len(word.text) + 1
    text = " ".join(word.text for word in kept)
    return TextLine(index, words[0].page, text, fold_text(text), kept, tuple(starts), spaced)


def _is_letter_spaced(words: Sequence[Word]) -> bool:
    # Dashes fill the empty columns of a table.
    single = sum(len(word.text) == 1 and word.text not in _DASHES for word in words)
    return len(words) >= 6 and single > 0.6 * len(words)


def _join_single_characters(words: Sequence[Word]) -> Iterator[Word]:
    """Join consecutive single characters into words."""
    run: list[Word] = []
    for word in words:
        if len(word.text) > 1:
            yield from _split_at_seams(run)
            run = []
            yield word
        else:
            run.append(word)
    yield from _split_at_seams(run)


def _split_at_seams(run: list[Word]) -> Iterator[Word]:
    place = 0
    for part in _SEAMS.split("".join(word.text for word in run)):
        characters = run[place : place + len(part)]
        place += len(part)
        if characters:
            first, last = characters[0].box, characters[-1].box
            yield Word(
                part,
                characters[0].page,
                characters[0].line,
                Box(first.left, first.top, last.right, last.bottom),
            )
