"""Arranges the words of a page into visual lines, from top to bottom and from left to right.

Also joins words that touch and drops those drawn twice. Pure; the words come from `pdf` and `ocr`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from postroom.documents.files.file_reading import Box, Word

# Words whose boxes are closer than this share of their height are one word that was drawn in pieces.
_TOUCHING_GAP = 0.06
# Words whose middles are less than this share of their height apart are on the same line.
_SAME_LINE_DISTANCE = 0.5
_LEVEL_DISTANCE = 0.02
# Only this many of the last lines are searched: a bound on the work, not a layout rule.
_OPEN_LINES = 12


@dataclass(slots=True)
class PlacedWord:
    """A word before it is assigned to a line.

    Coordinates use the same unit in both directions.
    """

    text: str
    left: float
    top: float
    right: float
    bottom: float
    certainty: float = 1.0

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    @property
    def height(self) -> float:
        return self.bottom - self.top


@dataclass(slots=True)
class _WordLine:
    """Words from left to right, the middle of the last one added, and the bottom of the line."""

    words: list[PlacedWord]
    lefts: list[float]
    middle: float
    bottom: float

    def distance(self, word: PlacedWord, middle: float) -> float:
        """Return the vertical distance to the nearest word, in heights of the smaller one.

        Between middles, because OCR boxes are as high as their characters; or between baselines, because
        large and small characters share one.
        """
        index = bisect_left(self.lefts, word.left)
        near = self.words[index - 1 if index else 0]
        if index and index < len(self.words):
            after = self.words[index]
            near = after if after.left - word.right < word.left - near.right else near
        smaller = min(near.bottom - near.top, word.bottom - word.top)
        apart = min(abs((near.top + near.bottom) / 2 - middle), abs(near.bottom - word.bottom))
        return apart / (smaller or 1.0)

    def add(self, word: PlacedWord, middle: float) -> None:
        if word.left >= self.lefts[-1]:
            self.words.append(word)
            self.lefts.append(word.left)
        else:
            index = bisect_left(self.lefts, word.left)
            self.words.insert(index, word)
            self.lefts.insert(index, word.left)
        self.middle = middle
        self.bottom = max(self.bottom, word.bottom)


def arrange_in_lines(
    words: Iterable[PlacedWord], *, page: int, width: float, height: float, is_ocr: bool = False
) -> list[Word]:
    """Return the words of one page in reading order, their boxes as fractions of its width and height.

    Words from OCR are complete, but their boxes are inexact and their lines may be skewed.
    """
    arranged: list[Word] = []
    for number, line in enumerate(_group_by_line(words, level=0.0 if is_ocr else _LEVEL_DISTANCE)):
        arranged += [
            Word(word.text, page, number, _relative_box(word, width, height), word.certainty)
            for word in _merge_touching(line, touching=0.0 if is_ocr else _TOUCHING_GAP)
        ]
    return arranged


def _group_by_line(words: Iterable[PlacedWord], *, level: float) -> list[list[PlacedWord]]:
    """Assign each word to the line whose nearest word has its middle at about the same height.

    The nearest one, because the lines of a skewed scan rise or fall across the page. Where they do not, words
    that are level with the last ones need no search.
    """
    lines: list[_WordLine] = []
    for middle, _, word in sorted((word.middle, order, word) for order, word in enumerate(words)):
        if lines and middle - lines[-1].middle < level * (word.bottom - word.top):
            lines[-1].add(word, middle)
            continue
        best: _WordLine | None = None
        least = _SAME_LINE_DISTANCE
        for line in lines[-_OPEN_LINES:]:
            if line.bottom > middle and (distance := line.distance(word, middle)) < least:
                best, least = line, distance
        if best:
            best.add(word, middle)
        else:
            lines.append(_WordLine([word], [word.left], middle, word.bottom))
    return [line.words for line in lines]


def _merge_touching(line: Sequence[PlacedWord], *, touching: float) -> list[PlacedWord]:
    """Join words that touch, and drop duplicates: bold words are sometimes drawn twice."""
    merged: list[PlacedWord] = []
    for word in line:
        last = merged[-1] if merged else None
        if last and _is_duplicate(last, word):
            continue
        if last and abs(word.left - last.right) < touching * min(last.height, word.height):
            merged[-1] = replace(
                last,
                text=last.text + word.text,
                top=min(last.top, word.top),
                right=max(last.right, word.right),
                bottom=max(last.bottom, word.bottom),
                certainty=min(last.certainty, word.certainty),
            )
        else:
            merged.append(word)
    return merged


def _is_duplicate(last: PlacedWord, word: PlacedWord) -> bool:
    slack = 0.25 * last.height
    return (
        word.text == last.text
        and abs(word.left - last.left) < slack
        and abs(word.right - last.right) < slack
        and abs(word.middle - last.middle) < slack
    )


def _relative_box(word: PlacedWord, width: float, height: float) -> Box:
    return Box(
        max(word.left / width, 0.0),
        max(word.top / height, 0.0),
        min(word.right / width, 1.0),
        min(word.bottom / height, 1.0),
    )
