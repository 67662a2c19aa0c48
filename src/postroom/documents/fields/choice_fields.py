"""Ranks the possible values of a choice field, such as buy or sell, by the words of the document.

`offline_reader` makes the choice.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from postroom.documents.fields.document_text import DocumentText, TextLine
from postroom.documents.fields.extraction_result import FieldCheck
from postroom.documents.fields.label_search import LabelHit, compile_phrases
from postroom.documents.kinds.field_spec import FieldSpec

_PROSE_WORDS: Final = 12  # a longer line is running text, where words may mean anything
_HEADING_WORDS: Final = 3
_STATEMENT_WORDS: Final = 8
_STATEMENT: Final = re.compile(r"\b(?:wir haben|haben wir|we have|you have|vi confermiamo|hemos)\b")
_DATE_FOLLOWS: Final = re.compile(r"^[a-z]* ?(?:am|vom|on|of|le|du|il|el(?: dia)?|op)? ?\d{1,2}[./-]")


@dataclass(frozen=True, slots=True)
class RankedChoice:
    """One choice, its score, and the position of its strongest evidence."""

    choice: str
    score: float
    line: int
    start: int
    end: int
    is_statement: bool = False  # some words begin a short line, or a sentence such as "we have bought"


def check_choices(
    document: DocumentText, sides: Mapping[str, Sequence[RankedChoice]]
) -> Iterator[FieldCheck]:
    """Yield a failed check if the document states two choices: it may be about two trades."""
    for name, ranked in sides.items():
        stated = [each for each in ranked if each.is_statement]
        if len(stated) > 1:
            said = [document.lines[each.line].text[each.start : each.end] for each in stated]
            words = " and ".join(f"“{each}”" for each in said)
            yield FieldCheck(f"one {name}", False, words, fields=(name,), is_doubt=True)


def rank_choices(document: DocumentText, field: FieldSpec, labels: list[LabelHit]) -> list[RankedChoice]:
    """Return every choice that has evidence, the most likely first."""
    found: dict[str, list[RankedChoice]] = defaultdict(list)
    for line in document.lines:
        here = [
            (choice, weight, start, end)
            for choice, written in field.choices.items()
            for weight, start, end in compile_phrases(written).find(line)
        ]
        for choice, weight, start, end in here:
            # "Kauf / Verkauf" in one line is a form caption and decides nothing.
            both = any(other != choice and mark >= weight for other, mark, *_ in here)
            score = weight * _prominence(line, start, end, labels) * (0.2 if both else 1.0)
            is_statement = weight == 1.0 and not both and _is_statement(line, start)
            found[choice].append(RankedChoice(choice, score, line.index, start, end, is_statement))
    return sorted(map(_combine, found.values()), key=lambda side: -side.score)


def _is_statement(line: TextLine, start: int) -> bool:
    """Whether a short line begins with the words, or states what was done: "Vente au comptant"."""
    is_short = len(line.words) <= _HEADING_WORDS and not any(map(str.isdigit, line.text))
    is_sentence = len(line.words) <= _STATEMENT_WORDS and _STATEMENT.search(line.folded) is not None
    return (start == 0 and is_short and ":" not in line.text) or is_sentence


def _combine(places: list[RankedChoice]) -> RankedChoice:
    loudest = max(places, key=lambda side: side.score)
    rest = sorted((side.score for side in places), reverse=True)[1:4]
    is_statement = any(each.is_statement for each in places)
    return replace(loudest, score=loudest.score + 0.3 * sum(rest), is_statement=is_statement)


def _prominence(line: TextLine, start: int, end: int, labels: list[LabelHit]) -> float:
    words = len(line.words)
    loud = 1.0 if words <= 4 else 0.8 if words <= _PROSE_WORDS else 0.35
    if _STATEMENT.search(line.folded) or _DATE_FOLLOWS.match(line.folded[end:].lstrip()):
        loud = max(loud, 0.95)
    if any(hit.line == line.index and hit.end <= start <= hit.end + 12 for hit in labels):
        loud += 0.5
    return loud * (1.0 if line.index < 45 else 0.6)
