"""From words that lie anywhere on a page to visual lines, read from top to bottom and from left to right."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from postroom.documents.transcript import Box, Word

# Words whose boxes are closer than this part of their height are one word that was drawn in pieces.
_TOUCHING = 0.06
# Words whose middles are less than this part of their height apart stand on the same line.
_SAME_LINE = 0.5
# A line that began further up than this many lines ago is not looked at again: a bound, not a layout rule.
_OPEN_LINES = 12


@dataclass(slots=True)
class Piece:
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
    """Words from left to right, and how far down the middle of the lowest of them lies."""

    pieces: list[Piece]
    lefts: list[float]
    lowest: float

    def distance(self, piece: Piece, middle: float) -> float:
        """How far the middle is from that of the nearest word, in heights of the smaller of both."""
        place = bisect_left(self.lefts, piece.left)
        near = self.pieces[place - 1 if place else 0]
        if place and place < len(self.pieces):
            after = self.pieces[place]
            near = after if after.left - piece.right < piece.left - near.right else near
        smaller = min(near.bottom - near.top, piece.bottom - piece.top)
        return abs((near.top + near.bottom) / 2 - middle) / (smaller or 1.0)

    def add(self, piece: Piece, middle: float) -> None:
        place = bisect_left(self.lefts, piece.left)
        self.pieces.insert(place, piece)
        self.lefts.insert(place, piece.left)
        self.lowest = max(self.lowest, middle)


def in_lines(pieces: Iterable[Piece], *, page: int, width: float, height: float) -> list[Word]:
    """The words of one page in reading order, their boxes as fractions of its width and height."""
    words: list[Word] = []
    for number, line in enumerate(_lines(pieces)):
        words += [
            Word(piece.text, page, number, _box(piece, width, height), piece.certainty)
            for piece in _joined(line)
        ]
    return words


def _lines(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """A word belongs to the line whose nearest word has its middle at about the same height.

    The nearest one, because the lines of a crooked scan climb or fall across the page.
    """
    lines: list[_Line] = []
    for middle, _, piece in sorted(((each.top + each.bottom) / 2, n, each) for n, each in enumerate(pieces)):
        best: _Line | None = None
        least = _SAME_LINE
        too_far = middle - _SAME_LINE * (piece.bottom - piece.top)
        for line in lines[-_OPEN_LINES:]:
            if line.lowest > too_far and (distance := line.distance(piece, middle)) < least:
                best, least = line, distance
        if best:
            best.add(piece, middle)
        else:
            lines.append(_Line([piece], [piece.left], middle))
    return [line.pieces for line in lines]


def _joined(line: Sequence[Piece]) -> list[Piece]:
    """Pieces that touch become one word; a word drawn twice, which makes it bold, is there once."""
    words: list[Piece] = []
    for piece in line:
        last = words[-1] if words else None
        if last and _drawn_again(last, piece):
            continue
        if last and abs(piece.left - last.right) < _TOUCHING * min(last.height, piece.height):
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


def _drawn_again(last: Piece, piece: Piece) -> bool:
    slack = 0.25 * last.height
    return (
        piece.text == last.text
        and abs(piece.left - last.left) < slack
        and abs(piece.right - last.right) < slack
        and abs(piece.middle - last.middle) < slack
    )


def _box(piece: Piece, width: float, height: float) -> Box:
    return Box(
        round(max(piece.left / width, 0.0), 5),
        round(max(piece.top / height, 0.0), 5),
        round(min(piece.right / width, 1.0), 5),
        round(min(piece.bottom / height, 1.0), 5),
    )
