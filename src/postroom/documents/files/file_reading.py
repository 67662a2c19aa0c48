"""Types of what was read from a file: transcript, words with positions, embedded files, OCR results.

Types only; `pdf`, `images`, `plain_text` and `ocr` do the reading.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

Method = Literal["text_layer", "ocr", "plain"]
Rotation = Literal[0, 90, 180, 270]


_ROTATIONS: tuple[Rotation, ...] = (0, 90, 180, 270)


def to_rotation(degrees: int) -> Rotation:
    """Return the quarter turn for any multiple of 90 degrees."""
    return _ROTATIONS[degrees % 360 // 90]


# Documents have thousands of boxes and words, and tuples are created ten times as fast as frozen dataclasses.


class Box(NamedTuple):
    """An area of a page, as fractions of its width and height from the top left corner."""

    left: float
    top: float
    right: float
    bottom: float


class Word(NamedTuple):
    """Characters without a space, their position, and the visual line of the page they belong to.

    `certainty` is what OCR reports about its result; a text layer is certain.
    """

    text: str
    page: int
    line: int
    box: Box
    certainty: float = 1.0


@dataclass(frozen=True, slots=True)
class TranscriptPage:
    """A page's size in points, as it is read (already upright).

    `rotation` is by how many degrees, clockwise, it was turned beyond the rotation that the file declares.
    A viewer that turns the page by as much can use the boxes as they are.
    """

    width: float
    height: float
    rotation: Rotation = 0


@dataclass(frozen=True, slots=True)
class Transcript:
    """The words of a document in reading order: by page, by line, and from left to right."""

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
    """Everything that was read from one file. `media_type` is what its bytes show.

    `skip_reason` says why a file is no document at all; its transcript is then empty.
    """

    transcript: Transcript
    embedded: tuple[EmbeddedFile, ...] = ()
    media_type: str = ""
    skip_reason: str = ""


@dataclass(frozen=True, slots=True)
class OcrPage:
    """The words that OCR found on one page, and by how much the page had to be turned."""

    rotation: Rotation
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class PartialReading:
    """A reading before OCR; `pages_without_text` have no usable text layer."""

    reading: FileReading
    pages_without_text: tuple[int, ...] = ()
