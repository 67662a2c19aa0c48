"""Hostile files never end the worker: each yields a result or a reason, within the limits."""

import asyncio
import os

import pytest

from documents.files import hostile_files
from postroom.documents.files.file_reading import FileReading
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.errors import UnreadableFile

LIMITS = FileLimits(memory_bytes=300_000_000, cpu_seconds=1, wall_seconds=100)
# Files that only look strange are read; in these groups none may be.
HOPELESS = {"encrypted", "truncated", "polyglots", "blanks", "markup"}
# Nothing is wrong with these, but no document has their format: they are skipped.
SKIPPED = {"a stylesheet from elsewhere", "XML of 100,000 floors", "XML of another kind", "a calendar"}


async def outcome(readers, content):
    try:
        return await readers.read(content)
    except UnreadableFile as reason:
        return reason


@pytest.mark.parametrize("group", hostile_files.GROUPS)
async def test_every_hostile_file_is_read_or_rejected_with_a_reason(group):
    files = hostile_files.GROUPS[group]()
    async with FileSandbox(LIMITS) as readers:
        outcomes = await asyncio.gather(*(outcome(readers, content) for content in files.values()))
        zygote = readers.zygote.process
        assert zygote is None or zygote.returncode is None
    reasons = {name: str(each) for name, each in zip(files, outcomes, strict=True)}
    assert all(isinstance(each, FileReading) or str(each).endswith(".") for each in outcomes), reasons
    if group in HOPELESS:
        readings = {
            name: each for name, each in zip(files, outcomes, strict=True) if isinstance(each, FileReading)
        }
        assert readings.keys() <= SKIPPED
        assert all(reading.skip_reason for reading in readings.values())


def test_there_are_two_hundred_hostile_files():
    assert sum(len(make()) for make in hostile_files.GROUPS.values()) >= 200


async def test_an_oversized_file_does_not_affect_other_files():
    bombs = [*hostile_files.flate_bombs().values()][:4]
    good = hostile_files.page(hostile_files.WORDS)
    async with FileSandbox(LIMITS) as readers:
        mixed = await asyncio.gather(*(outcome(readers, each) for bomb in bombs for each in (bomb, good)))
    assert all(isinstance(each, UnreadableFile) for each in mixed[::2])
    assert [each.transcript.text for each in mixed[1::2]] == ["Invoice"] * 4


async def test_reasons_say_what_is_wrong():
    files = (
        hostile_files.lengths()
        | hostile_files.encrypted()
        | hostile_files.polyglots()
        | hostile_files.pictures()
    )
    async with FileSandbox(LIMITS) as readers:
        for name, words in {
            "10,000 pages": "10000 pages; the limit is 20",
            "asks for a password, AES-256": "needs a password",
            "PDF and ZIP": "both a PDF and a ZIP file",
            "PNG of 400 million pixels": "more than 50 million pixels",
            "TIFF of 25 pages": "more than 20 pages",
        }.items():
            with pytest.raises(UnreadableFile, match=words):
                await readers.read(files[name])


async def test_cpu_and_memory_limits_have_different_reasons():
    slow, hungry = (
        hostile_files.operators()["tiles finer than dust"],
        hostile_files.flate_bombs()["content of 200 MB"],
    )
    async with FileSandbox(LIMITS) as readers:
        with pytest.raises(UnreadableFile, match="1 seconds of CPU time"):
            await readers.page_image(slow, page=0, width=800)
        with pytest.raises(UnreadableFile, match="memory"):
            await readers.read(hungry)


async def test_the_wall_clock_limit_ends_a_read(tmp_path):
    async with FileSandbox(FileLimits(wall_seconds=0.0)) as readers:
        with pytest.raises(UnreadableFile, match="took more than"):
            await readers.read(hostile_files.page(hostile_files.WORDS))


async def test_special_files_are_rejected_without_blocking(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    async with FileSandbox() as readers:
        for path in (tmp_path / "pipe", tmp_path):
            with pytest.raises(UnreadableFile, match="not a regular file"):
                await readers.read(path)
