"""Text recognition: a warm process that gets bitmaps of ours, never a file, and says which words stand where.

It runs one page at a time on one thread, which needs the least CPU time; more at once are more processes.
"""

import contextlib
import os
import resource
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from postroom.documents.files.line_layout import PlacedWord, arrange_in_lines
from postroom.documents.files.transcript import OcrPage, Rotation, to_rotation
from postroom.documents.sandbox.file_limits import MAX_PAGE_PIXELS, STRIP_RATIO
from postroom.documents.sandbox.ipc import (
    BITMAP_HEADER,
    MAX_MESSAGE_BYTES,
    REFUSED,
    SUCCEEDED,
    TaskReport,
    TaskRequest,
    decode_request,
    encode,
    exit_with_parent,
    read_all,
    write_all,
)

# The direction classifier of single lines is off: with it, long lines such as IBANs came out as garbage.
ENGINE_OPTIONS: Final[Mapping[str, object]] = {
    "Global.use_cls": False,
    "Global.return_word_box": True,
    "Global.log_level": "critical",
    "Global.max_side_len": 2600,
    "Det.limit_side_len": 1280,
    "Det.limit_type": "max",
    # Lower than the defaults: words that stand alone are found too.
    "Det.thresh": 0.2,
    "Det.box_thresh": 0.4,
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
}
# Pages that stand upright come out with more than 0.9, upside down with 0.6 to 0.7.
_SURE: Final = 0.8
# How high a part of a strip is and how much of it the next one sees again, in widths; and rows of tolerance.
_PART: Final = 1.6
_SHARED: Final = 0.2
_SLACK: Final = 4
_MEMORY_BYTES: Final = 6_000_000_000


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What was read from a page that was turned so far. `tall` is the share of lines that run vertically."""

    turned: Rotation
    width: int
    height: int
    pieces: list[PlacedWord]
    tall: float

    @property
    def worth(self) -> float:
        return sum(len(piece.text) * piece.certainty for piece in self.pieces)

    @property
    def certainty(self) -> float:
        return self.worth / (sum(len(piece.text) for piece in self.pieces) or 1)


class OcrEngine:
    """The engine with its models loaded."""

    def __init__(self) -> None:
        import cv2
        import numpy as np
        from rapidocr import RapidOCR

        cv2.setNumThreads(1)
        self.numpy: Any = np
        self.engine: Any = RapidOCR(params=dict(ENGINE_OPTIONS))

    def recognise(self, bitmap: bytes, page: int) -> OcrPage:
        """The words of a page, turned so that they can be read."""
        width, height = BITMAP_HEADER.unpack_from(bitmap)
        if width * height > MAX_PAGE_PIXELS or len(bitmap) != BITMAP_HEADER.size + 3 * width * height:
            raise ValueError("this is no bitmap")
        pixels = self.numpy.frombuffer(bitmap, self.numpy.uint8, offset=BITMAP_HEADER.size)
        pixels = pixels.reshape(height, width, 3)[:, :, ::-1]  # the engine takes blue first
        best = self._upright(pixels)
        words = arrange_in_lines(best.pieces, page=page, width=best.width, height=best.height, seen=True)
        return OcrPage(best.turned, tuple(words))

    def _upright(self, pixels: Any) -> _Attempt:
        """Read the page as it is. If lines run vertically or hardly make sense, read it turned and compare."""
        attempt = self._attempt(pixels, 0)
        if attempt.pieces and attempt.tall > 0.5:
            # The engine turns tall lines to the left before it reads them: good if the page wants just that.
            further = 270 if attempt.certainty > _SURE else 90
        elif attempt.pieces and attempt.certainty < _SURE:
            further = 180
        else:
            return attempt
        other = self._attempt(pixels, to_rotation(attempt.turned + further))
        return max(attempt, other, key=lambda each: (each.tall <= 0.5, each.worth))

    def _attempt(self, pixels: Any, turned: Rotation) -> _Attempt:
        upright = self.numpy.rot90(pixels, -turned // 90)
        height, width = upright.shape[:2]
        pieces: list[PlacedWord] = []
        lines = tall = 0
        for part in _parts(width, height):
            found = self.engine(self.numpy.ascontiguousarray(upright[part.begin : part.end]))
            for index, box in enumerate(() if found.boxes is None else found.boxes):
                left, top, right, bottom = _around(box)
                if part.first <= part.begin + (top + bottom) / 2 < part.last:
                    lines += 1
                    tall += bottom - top > 1.5 * (right - left)
                    pieces += [_moved(word, part.begin) for word in _words(found, index)]
        return _Attempt(turned, width, height, pieces, tall / (lines or 1))


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of a page looked at together; lines whose middle lies from `first` to `last` are its own."""

    begin: int
    end: int
    first: float
    last: float


def _parts(width: int, height: int) -> Iterator[_Part]:
    """The whole page, or of a long strip parts that overlap, so that each line is whole in one of them."""
    if height <= STRIP_RATIO * width:
        yield _Part(0, height, 0, height)
        return
    tall, shared = round(_PART * width), round(_SHARED * width)
    for begin in range(0, height - shared, tall - shared):
        end = min(begin + tall, height)
        first = begin + shared / 2 - _SLACK if begin else 0
        yield _Part(begin, end, first, end - shared / 2 + _SLACK if end < height else height)


def _moved(word: PlacedWord, down: int) -> PlacedWord:
    return replace(word, top=word.top + down, bottom=word.bottom + down) if down else word


def _words(found: Any, index: int) -> Iterator[PlacedWord]:
    """The words of a line where the engine places them; else the line's box divided by characters."""
    text, certainty = str(found.txts[index]), round(float(found.scores[index]), 3)
    placed: Any = found.word_results[index] if len(found.word_results) == len(found.txts) else ()
    if "".join(str(word) for word, *_ in placed) == "".join(text.split()):
        for word, _, box in placed:
            yield PlacedWord(str(word), *_around(box), certainty)
        return
    left, top, right, bottom = _around(found.boxes[index])
    each = (right - left) / (len(text) or 1)
    place = 0
    for word in text.split():
        place = text.index(word, place)
        yield PlacedWord(word, left + each * place, top, left + each * (place + len(word)), bottom, certainty)
        place += len(word)


def _around(corners: Any) -> tuple[float, float, float, float]:
    across, down = [float(x) for x, _ in corners], [float(y) for _, y in corners]
    return min(across), min(down), max(across), max(down)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    exit_with_parent(int(sys.argv[2]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    recogniser = OcrEngine()
    control.send(encode(TaskReport(0, SUCCEEDED)))
    while True:
        message, files, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, 2)
        if not message:
            return
        order = decode_request(message)
        if order.task == "recognise":
            control.send(encode(TaskReport(order.number, _perform(recogniser, order, *files))))
        for file in files:
            os.close(file)


def _perform(recogniser: OcrEngine, order: TaskRequest, source: int, target: int) -> int:
    try:
        write_all(target, encode(recogniser.recognise(read_all(source), order.page)))
    except Exception as error:  # noqa: BLE001  # the engine may raise anything over a strange bitmap
        write_all(target, f"Page {order.page + 1} cannot be recognised ({type(error).__name__}).".encode())
        return REFUSED
    return SUCCEEDED


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # whoever asked was killed meanwhile, and reads no report
        main()
