"""From words that lie anywhere on a page to visual lines, read from top to bottom and from left to right."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from postroom.documents.files.transcript import Box, Word

# Words whose boxes are closer than this part of their height are one word that was drawn in pieces.
_TOUCHING = 0.06
# Words whose middles are less than this part of their height apart stand on the same line.
_SAME_LINE = 0.5
_LEVEL = 0.02
# A line that began further up than this many lines ago is not looked at again: a bound, not a layout rule.
_OPEN_LINES = 12


@dataclass(slots=True)
class PlacedWord:
    """A word before it has a line. Places are in units that are equal in both directions."""

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
class _Line:
    """Words from left to right, the middle of the last one added, and how far down the line reaches."""

    pieces: list[PlacedWord]
    lefts: list[float]
    middle: float
    bottom: float

    def distance(self, piece: PlacedWord, middle: float) -> float:
        """How far middles or feet are from those of the nearest word, in heights of the smaller of both.

        Middles, because boxes of recognition are as high as their letters; feet, because large and small
        letters stand on the same baseline.
        """
        place = bisect_left(self.lefts, piece.left)
        near = self.pieces[place - 1 if place else 0]
        if place and place < len(self.pieces):
            after = self.pieces[place]
            near = after if after.left - piece.right < piece.left - near.right else near
        smaller = min(near.bottom - near.top, piece.bottom - piece.top)
        apart = min(abs((near.top + near.bottom) / 2 - middle), abs(near.bottom - piece.bottom))
        return apart / (smaller or 1.0)

    def add(self, piece: PlacedWord, middle: float) -> None:
        if piece.left >= self.lefts[-1]:
            self.pieces.append(piece)
            self.lefts.append(piece.left)
        else:
            place = bisect_left(self.lefts, piece.left)
            self.pieces.insert(place, piece)
            self.lefts.insert(place, piece.left)
        self.middle = middle
        self.bottom = max(self.bottom, piece.bottom)


def arrange_in_lines(
    pieces: Iterable[PlacedWord], *, page: int, width: float, height: float, seen: bool = False
) -> list[Word]:
    """The words of one page in reading order, their boxes as fractions of its width and height.

    Words that were `seen` on a scan are whole, but their boxes are inexact and their lines may be crooked.
    """
    words: list[Word] = []
    for number, line in enumerate(_lines(pieces, level=0.0 if seen else _LEVEL)):
        words += [
            Word(piece.text, page, number, _box(piece, width, height), piece.certainty)
            for piece in _joined(line, touching=0.0 if seen else _TOUCHING)
        ]
    return words


def _lines(pieces: Iterable[PlacedWord], *, level: float) -> list[list[PlacedWord]]:
    """A word belongs to the line whose nearest word has its middle at about the same height.

    The nearest one, because the lines of a crooked scan climb or fall across the page. Where they do not,
    words that are level with the last ones need no search.
    """
    lines: list[_Line] = []
    for middle, _, piece in sorted(((each.top + each.bottom) / 2, n, each) for n, each in enumerate(pieces)):
        if lines and middle - lines[-1].middle < level * (piece.bottom - piece.top):
            lines[-1].add(piece, middle)
            continue
        best: _Line | None = None
        least = _SAME_LINE
        for line in lines[-_OPEN_LINES:]:
            if line.bottom > middle and (distance := line.distance(piece, middle)) < least:
                best, least = line, distance
        if best:
            best.add(piece, middle)
        else:
            lines.append(_Line([piece], [piece.left], middle, piece.bottom))
    return [line.pieces for line in lines]


def _joined(line: Sequence[PlacedWord], *, touching: float) -> list[PlacedWord]:
    """Pieces that touch become one word; a word drawn or seen twice, as bold ones are, is there once."""
    words: list[PlacedWord] = []
    for piece in line:
        last = words[-1] if words else None
        if last and _drawn_again(last, piece):
            continue
        if last and abs(piece.left - last.right) < touching * min(last.height, piece.height):
            words[-1] = replace(
                last,
                text=last.text + piece.text,
                top=min(last.top, piece.top),
                right=max(last.right, piece.right),
                bottom=max(last.bottom, piece.bottom),
                certainty=min(last.certainty, piece.certainty),
            )
        else:
            words.append(piece)
    return words


def _drawn_again(last: PlacedWord, piece: PlacedWord) -> bool:
    slack = 0.25 * last.height
    return (
        piece.text == last.text
        and abs(piece.left - last.left) < slack
        and abs(piece.right - last.right) < slack
        and abs(piece.middle - last.middle) < slack
    )


def _box(piece: PlacedWord, width: float, height: float) -> Box:
    return Box(
        max(piece.left / width, 0.0),
        max(piece.top / height, 0.0),
        min(piece.right / width, 1.0),
        min(piece.bottom / height, 1.0),
    )
