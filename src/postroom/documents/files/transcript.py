"""What stands on the pages of a document: words with their places. Made by reading."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

Method = Literal["text_layer", "ocr", "plain"]
Rotation = Literal[0, 90, 180, 270]


_TURNS: tuple[Rotation, ...] = (0, 90, 180, 270)


def to_rotation(degrees: int) -> Rotation:
    """The quarter turn that is meant."""
    return _TURNS[degrees % 360 // 90]


# Documents have thousands of boxes and words, and tuples are made ten times as fast as other frozen things.


class Box(NamedTuple):
    """A place on a page, as fractions of its width and height from the top left corner."""

    left: float
    top: float
    right: float
    bottom: float


class Word(NamedTuple):
    """Some characters without a space, where they stand, and which visual line of the page they belong to.

    `certainty` is what the recognition of a scan says of itself; a text layer is certain.
    """

    text: str
    page: int
    line: int
    box: Box
    certainty: float = 1.0


@dataclass(frozen=True, slots=True)
class TranscriptPage:
    """A page's size in points as it is read (already turned upright).

    `turned` says by how many degrees, clockwise, it was turned beyond what the file itself asks for:
    whoever shows the page turns it as far, and the boxes fit.
    """

    width: float
    height: float
    turned: Rotation = 0


@dataclass(frozen=True, slots=True)
class Transcript:
    """The words of a document in reading order: by page, line, and from left to right."""

    method: Method
    pages: tuple[TranscriptPage, ...]
    words: tuple[Word, ...]

    def lines(self) -> Iterator[tuple[Word, ...]]:
        for _, words in groupby(self.words, key=lambda word: (word.page, word.line)):
            yield tuple(words)

    @property
    def text(self) -> str:
        return "\n".join(" ".join(word.text for word in line) for line in self.lines())


@dataclass(frozen=True, slots=True)
class EmbeddedFile:
    """A file inside a PDF, such as the XML of an e-invoice."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class FileReading:
    """All that was read from one file."""

    transcript: Transcript
    embedded: tuple[EmbeddedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class OcrPage:
    """What recognition found on one page, and by how much it had to be turned for that."""

    turned: Rotation
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class PartialReading:
    """A reading before recognition: these pages have no text layer that can be used."""

    reading: FileReading
    blind: tuple[int, ...] = ()
