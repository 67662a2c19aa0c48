"""Judges what the machine would do with a document of the corpus: confirm, ask a person, or skip it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

from documents.corpus.pages import LANGUAGES, LAYOUTS
from example_counts import examples
from postroom.documents import record_matching
from postroom.documents.accounting_controls import KnownFacts, check_controls
from postroom.documents.analysis import analyze
from postroom.documents.fields.extraction_result import ModelAnswer
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds.kind_registry import list_installed
from postroom.documents.record_matching import OrderMatch
from training.value_comparison import is_same_value

Case = TypeVar("Case")
KINDS = list_installed()
CONFIRM_ABOVE = 0.95  # as in the built-in pipelines


@dataclass(frozen=True)
class Judgement:
    """The kind, why a person is asked, and the values that a confirmed record would have."""

    kind: str | None
    reasons: tuple[str, ...]
    recorded: Mapping[str, Any]

    @property
    def is_confirmed(self) -> bool:
        return self.kind is not None and not self.reasons

    def find_wrong_values(self, truth: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """The wrong values of a record that the machine confirms: (true, recorded). Empty in a review."""
        if not self.is_confirmed:
            return {}
        return {
            name: (truth[name], value)
            for name, value in self.recorded.items()
            if name in truth and not _is_right(name, truth[name], value)
        }


def _is_right(name: str, wanted: Any, read: Any) -> bool:
    if isinstance(wanted, str) and name == "number":
        return "".join(wanted.split()) == "".join(read.split())
    return is_same_value(name, wanted, read)


def judge(
    reading: FileReading, *, facts: KnownFacts | None = None, answer: ModelAnswer | None = None
) -> Judgement:
    """What the service decides about a document, if no order is open."""
    found = analyze(reading, list(KINDS.values()), answer=answer)
    if found.kind is None:
        return Judgement(None, (found.skip_reason or "",), {})
    controls = check_controls(found.kind, found.values(), facts) if facts else ()
    failed = [f"{check.name}: {check.words}" for check in controls if not check.passed]
    reasons = record_matching.find_review_reasons(
        required=found.kind.required,
        certain=found.kind.certain,
        confidences=found.confidences,
        confirm_above=CONFIRM_ABOVE,
        failed_checks=[*found.failed_checks, *failed],
        differences=[each.words for each in found.differences],
        match=OrderMatch(None, ""),
    )
    recorded = {
        name: field.value for name, field in found.fields.items() if field.confidence >= CONFIRM_ABOVE
    }
    return Judgement(found.kind.name, reasons.reasons, recorded)


def choose(cases: Sequence[Case]) -> list[Case]:
    """All cases, or every third of them before a landing."""
    return list(cases[:: len(cases) // examples(len(cases))])


def combine(*dimensions: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Every combination of these with every language, in changing layouts."""
    combined = product(*dimensions, LANGUAGES)
    return choose([(*each, LAYOUTS[(number + number // 3) % 3]) for number, each in enumerate(combined)])
