"""The task of a child that gets what was read from a file: analyze it. Also the warm-up.

`zygote` forks the child and limits it. Its zygote is not that of `child_tasks`: processes that only read or
show files need none of what an analysis loads.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from postroom.documents import analysis, analysis_result
from postroom.documents.analysis_result import AnalysisTask
from postroom.documents.files import plain_text
from postroom.documents.files.file_reading import EmbeddedFile, FileReading
from postroom.documents.kinds import kind_registry
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.ipc import ChildTask, TaskRequest

_SAMPLE_TEXT: Final = (
    "Beispiel GmbH\nRechnung Wertpapierabrechnung Kauf\nRechnungsnummer RE-4711\nDatum 14.10.2024\n"
    "ISIN US0378331005\nIBAN DE02 1203 0000 0000 2020 51\nUSt-IdNr. DE136695976\nStück 20 Kurs 52,00 EUR\n"
    "20 Broschüren 52,00 1.040,00\nNetto 1.040,00 EUR\nMwSt 19 % 197,60 EUR\nGesamtbetrag 1.237,60 EUR"
)


def analyze_document(content: bytes, _request: TaskRequest, _limits: FileLimits) -> bytes:
    """Find the fields of what was read from a file if it is of one of the named kinds."""
    task = analysis_result.decode_task(content)
    kinds = [kind_registry.list_installed()[name] for name in task.kinds]
    found = analysis.analyze(task.reading, kinds, use_exact=task.use_exact, answer=task.answer)
    return analysis_result.encode_analysis(found)


def warm_up(limits: FileLimits) -> None:
    """Analyze a text and an e-invoice as each kind, because a child can load no model and no table itself."""
    invoice_xml = EmbeddedFile("a.xml", b"<Invoice><ID>1</ID><IssueDate>2024-10-14</IssueDate></Invoice>")
    for name in kind_registry.list_installed():
        for embedded in ((), (invoice_xml,)):
            reading = FileReading(plain_text.to_transcript(_SAMPLE_TEXT), embedded)
            task = msgspec.msgpack.encode(AnalysisTask(reading, (name,)))
            analyze_document(task, TaskRequest(0, "analyze"), limits)


TASKS: Final[Mapping[str, ChildTask]] = {"analyze": analyze_document}
