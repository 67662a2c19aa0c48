"""PageDrawing: texts, lines and rectangles on A4 pages, independent of the output format.

`pdf` and `scans` render it. Positions are in points from the upper left corner; text is positioned by its
baseline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

WIDTH, HEIGHT = 595, 842
Align = Literal["left", "right", "centre"]
Family = Literal["sans", "serif", "mono"]
BLACK = 0x000000


class DrawnText(NamedTuple):
    x: float
    y: float
    text: str
    size: float
    bold: bool
    align: Align
    colour: int
    family: Family


class DrawnLine(NamedTuple):
    x: float
    y: float
    to_x: float
    to_y: float
    width: float
    colour: int


class DrawnRectangle(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    colour: int


DrawnElement = DrawnText | DrawnLine | DrawnRectangle


class TableColumn(NamedTuple):
    """A column of a table; `key` names the value it shows."""

    key: str
    x: float
    align: Align = "left"


@dataclass(slots=True)
class PageDrawing:
    """Pages of drawn elements. `family` and `size` are the default font of texts."""

    family: Family = "sans"
    size: float = 9.5
    pages: list[list[DrawnElement]] = field(default_factory=lambda: [[]])

    def new_page(self) -> None:
        self.pages.append([])

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 0,
        bold: bool = False,
        align: Align = "left",
        colour: int = BLACK,
    ) -> None:
        self.pages[-1].append(DrawnText(x, y, text, size or self.size, bold, align, colour, self.family))

    def texts(
        self,
        x: float,
        y: float,
        lines: Sequence[str],
        *,
        step: float = 0,
        size: float = 0,
        colour: int = BLACK,
    ) -> float:
        """Draw lines below each other; return the position of the next line."""
        for line in lines:
            self.text(x, y, line, size=size, colour=colour)
            y += step or self.size * 1.35
        return y

    def rule(
        self, x: float, y: float, to_x: float, to_y: float, *, width: float = 0.6, colour: int = BLACK
    ) -> None:
        self.pages[-1].append(DrawnLine(x, y, to_x, to_y, width, colour))

    def box(self, x: float, y: float, width: float, height: float, colour: int) -> None:
        self.pages[-1].append(DrawnRectangle(x, y, width, height, colour))

    def frame(self, x: float, y: float, width: float, height: float) -> None:
        for a, b, c, d in ((0, 0, 1, 0), (0, 1, 1, 1), (0, 0, 0, 1), (1, 0, 1, 1)):
            self.rule(x + a * width, y + b * height, x + c * width, y + d * height)

    def pairs(
        self,
        x: float,
        y: float,
        pairs: Sequence[tuple[str, str]],
        *,
        gap: float,
        step: float = 14,
        right: bool = False,
    ) -> float:
        """Draw labels, each with its value `gap` points to the right, aligned left or right."""
        for label, value in pairs:
            self.text(x, y, label, colour=0x444444)
            self.text(x + gap, y, value, align="right" if right else "left")
            y += step
        return y
