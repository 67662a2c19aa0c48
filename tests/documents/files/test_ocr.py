"""Scans are read offline: words with positions, pages turned upright."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
import pytest_asyncio

from documents.files import sample_files
from postroom.documents.files import pdf
from postroom.documents.files.ocr import _line_words, _split_strip
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.errors import TransientError, UnreadableFile

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGE = sample_files.page_pdf()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def readers():
    async with FileSandbox(ocr_processes=1) as readers:
        yield readers


def right(text):
    """The share of the page's words that were read."""
    wanted = " ".join(sample_files.PAGE_LINES).split()
    found = text.split()
    return sum(word in found for word in wanted) / len(wanted)


def assert_places_fit(transcript, page):
    """The words are where the text layer of the page has them."""
    wanted = {word.text: word.box for word in pdf.read(PAGE, FileLimits()).reading.transcript.words}
    found = {word.text: word.box for word in transcript.words if word.page == page}
    shared = [(wanted[text], found[text]) for text in wanted if text in found]
    assert len(shared) > 20
    for one, other in shared:
        assert all(abs(a - b) < 0.03 for a, b in zip(one, other, strict=True))


async def test_every_page_of_a_tiff_is_read_upright(readers):
    pages = [sample_files.picture(PAGE, turn=turn) for turn in (0, 90, 180)]
    transcript = (
        await readers.read(sample_files.encoded(pages[0], "TIFF", *pages[1:], dpi=(150, 150)))
    ).transcript
    assert transcript.method == "ocr"
    assert [page.rotation for page in transcript.pages] == [0, 270, 180]
    assert {(round(page.width), round(page.height)) for page in transcript.pages} == {(298, 420)}
    for number in range(3):
        words = [word.text for word in transcript.words if word.page == number]
        assert right(" ".join(words)) > 0.85
        assert_places_fit(transcript, number)
    lines = transcript.text.splitlines()
    assert lines[:3] == sample_files.PAGE_LINES[:3]
    assert all(0.5 < word.certainty <= 1 for word in transcript.words)


async def test_pages_with_and_without_a_text_layer_mix(readers):
    turned = sample_files.picture(PAGE, turn=270)
    scan = sample_files.scanned_pdf(
        turned, note="Scanned by somebody", size=sample_files.A6[::-1], last="Anhang 1"
    )
    transcript = (await readers.read(scan)).transcript
    assert right(transcript.text) > 0.85
    assert [page.rotation for page in transcript.pages] == [90, 0]
    assert transcript.pages[0].width < transcript.pages[0].height
    assert [(word.text, word.certainty) for word in transcript.words if word.page == 1] == [
        ("Anhang", 1.0),
        ("1", 1.0),
    ]


async def test_a_long_receipt_is_read_in_parts_without_duplicate_lines(readers):
    lines = [f"{number} Kaffee {number / 7:.2f}" for number in range(10, 54)]
    strip = sample_files.pdf([(20, 1380 - 30 * n, text) for n, text in enumerate(lines)], size=(200, 1400))
    transcript = (
        await readers.read(sample_files.encoded(sample_files.picture(strip, dots=144), "PNG"))
    ).transcript
    assert transcript.text.splitlines() == lines


async def test_an_empty_page_has_no_words(readers):
    reading = await readers.read(sample_files.encoded(sample_files.blank(), "PNG"))
    assert reading.transcript.words == ()
    assert len(reading.transcript.pages) == 1


def list_open_files(pid):
    return [file.readlink().name for file in Path(f"/proc/{pid}/fd").iterdir()]


@pytest.mark.skipif(os.getuid() != 0, reason="only root may list the files of a confined process")
async def test_the_ocr_engine_records_nothing_for_its_vendor(readers):
    await readers.read(sample_files.encoded(sample_files.blank(), "PNG"))
    opened = list_open_files(readers.ocr_processes[0].process.pid)
    assert opened
    assert [file for file in opened if file.endswith((".db", "-shm", "-wal"))] == []


async def test_a_killed_ocr_process_is_replaced_and_the_page_read(readers):
    await readers.read(sample_files.encoded(sample_files.blank(), "PNG"))
    first = readers.ocr_processes[0].process.pid
    reading = asyncio.create_task(
        readers.read(sample_files.encoded(sample_files.picture(PAGE), "JPEG", quality=80))
    )
    while not readers.ocr_processes[0].pending:  # noqa: ASYNC110  # nothing signals what happens inside
        await asyncio.sleep(0.005)
    os.kill(first, signal.SIGKILL)
    assert right((await reading).transcript.text) > 0.9
    assert readers.ocr_processes[0].process.pid != first


async def test_two_ocr_crashes_make_a_page_unreadable(readers):
    reading = asyncio.create_task(
        readers.read(sample_files.encoded(sample_files.picture(PAGE), "JPEG", quality=80))
    )
    killed = set()
    while not reading.done():
        process = readers.ocr_processes[0].process
        if (
            readers.ocr_processes[0].pending
            and readers.ocr_processes[0].is_ready
            and process.pid not in killed
        ):
            killed.add(process.pid)
            os.kill(process.pid, signal.SIGKILL)
        await asyncio.sleep(0.005)
    with pytest.raises(UnreadableFile, match="OCR crashed twice on page 1"):
        await reading


async def test_an_ocr_process_that_does_not_start_is_a_transient_error(capfd):
    async with FileSandbox(ocr_processes=1) as readers:
        readers.ocr_processes[0].module = "postroom.documents.nothing"
        with pytest.raises(TransientError, match="does not start"):
            await readers.read(sample_files.encoded(sample_files.blank(), "PNG"))
    assert "No module named" in capfd.readouterr().err


class Lines:
    """What the engine answers where it places no words."""

    boxes = ([[0, 0], [100, 0], [100, 10], [0, 10]],)
    txts = ("IBAN DE89",)
    scores = (0.9,)
    word_results = ()


async def test_a_line_without_word_boxes_is_divided_by_characters():
    first, second = _line_words(Lines, 0)
    assert (first.text, second.text) == ("IBAN", "DE89")
    assert first.right < second.left
    assert second.right == pytest.approx(100)


@pytest.mark.parametrize("height", [900, 2499, 2501, 3000, 4700, 4800, 4801, 12_000])
async def test_the_parts_of_a_strip_cover_every_row(height):
    parts = list(_split_strip(1000, height))
    assert parts[0].begin == 0
    assert parts[-1].end == height
    for row in range(height):
        owners = [part for part in parts if part.first <= row < part.last]
        assert 1 <= len(owners) <= 2
        assert all(part.begin <= row < part.end for part in owners)
