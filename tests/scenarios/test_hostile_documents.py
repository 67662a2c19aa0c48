"""A document whose analysis misbehaves needs review, and the worker continues with the next one."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from flow.simulated_world import settings
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.model import DocumentState
from postroom.store import reviews
from scenarios.document_postroom import DocumentPostroom, bill

LIMITS = FileLimits(cpu_seconds=1, memory_bytes=1_000_000_000)
LINE = "Invoice Example Supplies Ltd number: 4711 date: 3 May 2024 Net amount 100.00 EUR Total 119.00 EUR"
SLOW = "\n".join(f"{LINE} {number}" for number in range(4000))
# What `hostile_analysis` does in the child, and the reason that a person reads.
ATTACKS = {
    "burn": "Analyzing the document takes more than 1 seconds of CPU time.",
    "resist": "The analysis process was killed twice, perhaps for lack of memory.",
    "grow": "Analyzing the document needs more than 953 MB of memory.",
    "crash": "Analyzing the document crashed its process, or needs more memory than is allowed (SIGSEGV).",
    "stall": "Analyzing the document took more than 5 seconds.",
    "fail": "Analyzing the document failed (KeyError in hostile analysis, line ",
}


@pytest.fixture
async def document_room(room, tmp_path):
    async with FileSandbox(LIMITS, parallel=1) as sandbox:
        yield DocumentPostroom(room, settings(room.world.sim, tmp_path), sandbox)


async def test_a_document_that_takes_too_long_needs_review_and_blocks_nothing(document_room):
    assert ATTACKS["burn"] in await read_for_review(document_room, SLOW)
    await assert_next_document_is_read(document_room, "R-1")


async def test_no_analysis_harms_its_worker_or_the_next_document(document_room):
    sandbox = document_room.readers
    sandbox.analysis_zygote.module = "documents.sandbox.hostile_analysis"
    await assert_next_document_is_read(document_room, "R-0")
    zygote = sandbox.analysis_zygote.process.pid
    for number, (attack, reason) in enumerate(ATTACKS.items(), 1):
        # Low for this attack alone: a busy machine could reach it first in the others.
        if attack == "stall":
            sandbox.limits = replace(LIMITS, wall_seconds=5)
        assert reason in await read_for_review(document_room, f"{attack} {LINE}")
        sandbox.limits = LIMITS
        await assert_next_document_is_read(document_room, f"R-{number}")
        assert sandbox.analysis_zygote.process.pid == zygote
        await until(lambda: not has_children(zygote))
        assert not any("memfd:document" in name for name in open_files())


async def read_for_review(document_room, text):
    """The reason for which a document with this text needs review."""
    [document] = await document_room.read(text.encode(), suffix="txt")
    assert document.state is DocumentState.NEEDS_REVIEW
    async with document_room.transaction() as connection:
        [review] = await reviews.list_by_document(connection, document.id)
    return review.reason


async def assert_next_document_is_read(document_room, number):
    [document] = await document_room.read(bill(number, "119.00"))
    assert document.state is DocumentState.COMPLETED


def has_children(pid):
    return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def open_files():
    return [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]


async def until(condition):
    while not condition():  # noqa: ASYNC110  # of other processes there are no events
        await asyncio.sleep(0.01)
