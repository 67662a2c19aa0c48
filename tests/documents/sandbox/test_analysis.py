"""Analyses run in a child: same result as in this process, and what exceeds the limits is a reason."""

import pytest
import pytest_asyncio

from documents.test_analysis import BILL, CII, NOTE, UBL, reading
from postroom.documents import analysis
from postroom.documents.kinds.contract_note import CONTRACT_NOTE
from postroom.documents.kinds.invoice import INVOICE
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.errors import UnreadableFile
from postroom.flow.documents import extraction

pytestmark = pytest.mark.asyncio(loop_scope="module")
LONG = reading("\n".join(f"{BILL}\nPos {each} Schrauben {each},50 EUR" for each in range(1, 1000)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox():
    async with FileSandbox(parallel=1) as opened:
        yield opened


@pytest.mark.parametrize(
    "read, kind",
    [
        (reading(BILL), INVOICE),
        (reading(NOTE), CONTRACT_NOTE),
        (reading(BILL), CONTRACT_NOTE),
        (reading(BILL, CII), INVOICE),
        (reading("", UBL), INVOICE),
        (reading(""), INVOICE),
    ],
    ids=["invoice", "contract note", "another kind", "embedded XML", "XML alone", "no text"],
)
async def test_a_child_finds_what_this_process_would_find(sandbox, read, kind):
    here, there = analysis.analyze(read, [kind]), await sandbox.analyze(read, kind)
    assert there.kind is here.kind
    assert there.values() == here.values()
    assert there.confidences == here.confidences
    assert (there.checks, there.differences) == (here.checks, here.differences)
    assert (there.source, there.skip_reason) == (here.source, here.skip_reason)


@pytest.mark.parametrize(
    "limits, reason",
    [
        (FileLimits(cpu_seconds=1), "Analyzing the document takes more than 1 seconds of CPU time."),
        (FileLimits(wall_seconds=0.5), "Analyzing the document took more than 0.5 seconds."),
        (FileLimits(memory_bytes=1), "Analyzing the document needs more than 0 MB of memory."),
    ],
    ids=["CPU time", "time", "memory"],
)
async def test_an_analysis_that_exceeds_its_limits_needs_review(limits, reason):
    async with FileSandbox(limits, parallel=1) as sandbox:
        found = await extraction.analyze_document(sandbox, None, LONG, INVOICE)
    assert found.failed_checks == (f"analysis: {reason}",)
    assert (found.kind, found.skip_reason, found.fields) == (INVOICE, None, {})


async def test_an_error_in_the_analysis_names_its_place():
    async with FileSandbox(parallel=1) as sandbox:
        sandbox.analysis_zygote.module = "documents.sandbox.hostile_analysis"
        with pytest.raises(UnreadableFile, match=r"\(KeyError in hostile analysis, line \d+\)"):
            await sandbox.analyze(reading("fail"), INVOICE)
