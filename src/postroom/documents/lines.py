"""From words that lie anywhere on a page to visual lines, read from top to bottom and from left to right."""

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from postroom.documents.transcript import Box, Word

# Words whose boxes are closer than this part of their height are one word that was drawn in pieces.
_TOUCHING = 0.06
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
    pieces: list[Piece] = field(default_factory=list[Piece])

    def nearest(self, piece: Piece) -> Piece:
        return min(self.pieces, key=lambda each: max(each.left - piece.right, piece.left - each.right, 0.0))


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
    for piece in sorted(pieces, key=lambda each: each.middle):
        best: _Line | None = None
        distance = 0.5
        for line in lines[-_OPEN_LINES:]:
            near = line.nearest(piece)
            away = abs(near.middle - piece.middle) / (min(near.height, piece.height) or 1.0)
            if away < distance:
                best, distance = line, away
        if best is None:
            best = _Line()
            lines.append(best)
        insort(best.pieces, piece, key=lambda each: each.left)
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
        _fraction(piece.left, width),
        _fraction(piece.top, height),
        _fraction(piece.right, width),
        _fraction(piece.bottom, height),
    )


def _fraction(place: float, whole: float) -> float:
    return round(min(max(place / whole, 0.0), 1.0), 5)
