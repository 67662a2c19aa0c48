"""The tasks of a sandboxed child, run without a child: results and rejections."""

import os

import msgspec
import pytest

from documents.files import hostile_files, sample_files
from postroom.documents.files.file_reading import PartialReading
from postroom.documents.sandbox import child_tasks, zygote
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.ipc import BITMAP_HEADER, REFUSED, SUCCEEDED, TaskRequest, read_all, write_all

PDF = sample_files.pdf([(50, 700, "Rechnung 4711")])


@pytest.fixture
def perform():
    """The status and what was written."""
    source, target = (os.memfd_create("test") for _ in range(2))

    def run(content, task="read", **options):
        write_all(source, content)
        request = TaskRequest(1, task, **options)
        status = zygote.run_task(child_tasks.TASKS[task], request, (source, target), FileLimits())
        return status, read_all(target)

    yield run
    os.close(source)
    os.close(target)


def test_a_partial_reading_survives_serialization(perform):
    status, written = perform(sample_files.with_files(PDF, a_xml=b"<a/>"))
    draft = msgspec.msgpack.decode(written, type=PartialReading)
    assert status == SUCCEEDED
    assert draft.reading.transcript.text == "Rechnung 4711"
    assert draft.reading.transcript.words[0].box.left > 0
    assert draft.reading.embedded[0].content == b"<a/>"


@pytest.mark.parametrize("content", [PDF, sample_files.encoded(sample_files.blank((300, 200)), "PNG")])
def test_a_bitmap_has_its_size_and_all_pixels(content, perform):
    status, written = perform(content, "bitmap", fit_within=(120, 120))
    width, height = BITMAP_HEADER.unpack_from(written)
    assert status == SUCCEEDED
    assert max(width, height) == 120
    assert len(written) == BITMAP_HEADER.size + 3 * width * height


def test_only_files_with_pages_are_rendered(perform):
    status, written = perform(b"only text", "image", fit_within=(120, 120))
    assert (status, written) == (REFUSED, b"The file has no pages to show.")


def test_a_rejection_has_a_readable_reason(perform):
    status, written = perform(hostile_files.polyglots()["PDF and ZIP"])
    assert status == REFUSED
    assert b"as both" in written


def test_a_text_with_too_many_words_is_rejected(perform):
    status, written = perform(b"word " * 100_001)
    assert (status, written) == (REFUSED, b"The text has more than 100000 words.")
