"""The OCR process: receives rendered bitmaps, never a file, and returns words with positions.

It reads one page at a time on one thread, which needs the least CPU time. Several processes work in parallel;
`sandbox.file_sandbox` starts them.
"""

import contextlib
import os
import resource
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from postroom.documents.files.file_reading import OcrPage, Rotation, to_rotation
from postroom.documents.files.line_layout import PlacedWord, arrange_in_lines
from postroom.documents.sandbox import confinement, system_calls
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
    read_all,
    write_all,
)

# The direction classifier for single lines is off: it turned long lines such as IBANs into garbage.
ENGINE_OPTIONS: Final[Mapping[str, object]] = {
    "Global.use_cls": False,
    "Global.return_word_box": True,
    "Global.log_level": "critical",
    "Global.max_side_len": 2600,
    "Det.limit_side_len": 1280,
    "Det.limit_type": "max",
    # Lower than the defaults, so that isolated words are found too.
    "Det.thresh": 0.2,
    "Det.box_thresh": 0.4,
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
}
# Upright pages score above 0.9, pages upside down 0.6 to 0.7.
_UPRIGHT_CERTAINTY: Final = 0.8
# The height of a strip's part and its overlap with the next, in page widths; and a tolerance in pixel rows.
_PART_HEIGHT: Final = 1.6
_PART_OVERLAP: Final = 0.2
_ROW_TOLERANCE: Final = 4
_MEMORY_BYTES: Final = 6_000_000_000


@dataclass(frozen=True, slots=True)
class _OcrAttempt:
    """The words of a page read at one rotation; `tall` is the share of lines that run vertically."""

    rotation: Rotation
    width: int
    height: int
    words: list[PlacedWord]
    tall: float

    @property
    def worth(self) -> float:
        return sum(len(word.text) * word.certainty for word in self.words)

    @property
    def certainty(self) -> float:
        return self.worth / (sum(len(word.text) for word in self.words) or 1)


class OcrEngine:
    """The OCR engine with its models loaded."""

    def __init__(self) -> None:
        import cv2
        import numpy as np
        from rapidocr import RapidOCR

        cv2.setNumThreads(1)
        self.numpy: Any = np
        self.engine: Any = RapidOCR(params=dict(ENGINE_OPTIONS))

    def warm_up(self) -> None:
        """Read a page with one word, because a confined process can load no file later."""
        import cv2

        page = self.numpy.full((200, 400, 3), 255, self.numpy.uint8)
        cv2.putText(page, "Sample", (40, 120), cv2.FONT_HERSHEY_SIMPLEX, 2.0, (0, 0, 0), 3)
        self.read_page(BITMAP_HEADER.pack(400, 200) + page.tobytes(), 0)

    def read_page(self, bitmap: bytes, page: int) -> OcrPage:
        """Read the words of a page, rotated so that they are upright."""
        width, height = BITMAP_HEADER.unpack_from(bitmap)
        if width * height > MAX_PAGE_PIXELS or len(bitmap) != BITMAP_HEADER.size + 3 * width * height:
            raise ValueError("not a bitmap")
        pixels = self.numpy.frombuffer(bitmap, self.numpy.uint8, offset=BITMAP_HEADER.size)
        pixels = pixels.reshape(height, width, 3)[:, :, ::-1]  # the engine takes blue first
        best = self._read_upright(pixels)
        words = arrange_in_lines(best.words, page=page, width=best.width, height=best.height, is_ocr=True)
        return OcrPage(best.rotation, tuple(words))

    def _read_upright(self, pixels: Any) -> _OcrAttempt:
        """Read the page as it is.

        If lines run vertically or score badly, read it rotated and compare.
        """
        attempt = self._read_rotated(pixels, 0)
        if attempt.words and attempt.tall > 0.5:
            # The engine turns tall lines to the left before reading them: right if the page needs just that.
            further = 270 if attempt.certainty > _UPRIGHT_CERTAINTY else 90
        elif attempt.words and attempt.certainty < _UPRIGHT_CERTAINTY:
            further = 180
        else:
            return attempt
        other = self._read_rotated(pixels, to_rotation(attempt.rotation + further))
        return max(attempt, other, key=lambda result: (result.tall <= 0.5, result.worth))

    def _read_rotated(self, pixels: Any, rotation: Rotation) -> _OcrAttempt:
        upright = self.numpy.rot90(pixels, -rotation // 90)
        height, width = upright.shape[:2]
        words: list[PlacedWord] = []
        lines = tall = 0
        for part in _split_strip(width, height):
            found = self.engine(self.numpy.ascontiguousarray(upright[part.begin : part.end]))
            for index, box in enumerate(() if found.boxes is None else found.boxes):
                left, top, right, bottom = _bounding_box(box)
                if part.first <= part.begin + (top + bottom) / 2 < part.last:
                    lines += 1
                    tall += bottom - top > 1.5 * (right - left)
                    words += [_shift_down(word, part.begin) for word in _line_words(found, index)]
        return _OcrAttempt(rotation, width, height, words, tall / (lines or 1))


@dataclass(frozen=True, slots=True)
class _StripPart:
    """Pixel rows that are read together; lines whose middle is between `first` and `last` belong to it."""

    begin: int
    end: int
    first: float
    last: float


def _split_strip(width: int, height: int) -> Iterator[_StripPart]:
    """Yield the whole page, or overlapping parts of a long strip with every line complete in one."""
    if height <= STRIP_RATIO * width:
        yield _StripPart(0, height, 0, height)
        return
    tall, shared = round(_PART_HEIGHT * width), round(_PART_OVERLAP * width)
    for begin in range(0, height - shared, tall - shared):
        end = min(begin + tall, height)
        first = begin + shared / 2 - _ROW_TOLERANCE if begin else 0
        yield _StripPart(begin, end, first, end - shared / 2 + _ROW_TOLERANCE if end < height else height)


def _shift_down(word: PlacedWord, down: int) -> PlacedWord:
    return replace(word, top=word.top + down, bottom=word.bottom + down) if down else word


def _line_words(found: Any, index: int) -> Iterator[PlacedWord]:
    """Yield the words of a line with the engine's boxes, else with shares of the line's box."""
    text, certainty = str(found.txts[index]), round(float(found.scores[index]), 3)
    placed: Any = found.word_results[index] if len(found.word_results) == len(found.txts) else ()
    if "".join(str(word) for word, *_ in placed) == "".join(text.split()):
        for word, _, box in placed:
            yield PlacedWord(str(word), *_bounding_box(box), certainty)
        return
    left, top, right, bottom = _bounding_box(found.boxes[index])
    character_width = (right - left) / (len(text) or 1)
    start = 0
    for word in text.split():
        start = text.index(word, start)
        end = start + len(word)
        word_left, word_right = left + character_width * start, left + character_width * end
        yield PlacedWord(word, word_left, top, word_right, bottom, certainty)
        start = end


def _bounding_box(corners: Any) -> tuple[float, float, float, float]:
    across, down = [float(x) for x, _ in corners], [float(y) for _, y in corners]
    return min(across), min(down), max(across), max(down)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    confinement.exit_with_parent(int(sys.argv[2]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    engine = OcrEngine()
    engine.warm_up()
    confined = confinement.confine_process(int(sys.argv[2]), system_calls.build_ocr_filter())
    control.send(encode(TaskReport(0, SUCCEEDED, confinement=confined)))
    while True:
        message, files, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, 2)
        if not message:
            return
        request = decode_request(message)
        if request.task == "ocr":
            began = time.process_time()
            status = _run_task(engine, request, *files)
            cpu_seconds = time.process_time() - began
            control.send(encode(TaskReport(request.number, status, cpu_seconds=cpu_seconds)))
        for file in files:
            os.close(file)


def _run_task(engine: OcrEngine, request: TaskRequest, source: int, target: int) -> int:
    try:
        write_all(target, encode(engine.read_page(read_all(source), request.page)))
    except Exception as error:  # noqa: BLE001  # the engine may raise anything on a strange bitmap
        write_all(target, f"OCR failed on page {request.page + 1} ({type(error).__name__}).".encode())
        return REFUSED
    return SUCCEEDED


if __name__ == "__main__":
    with contextlib.suppress(ConnectionError):  # the worker was killed meanwhile: its socket is broken
        main()
