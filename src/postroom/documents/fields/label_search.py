"""Finds the labels of a document kind, regardless of case, accents, hyphens and misread characters.

Also the compiler of label phrases, for other searches. It finds no values.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final

from postroom.documents.fields.document_text import UNREADABLE, DocumentText, TextLine, fold_text
from postroom.documents.kinds.document_kind import DocumentKind

DECOY: Final = ""  # the field name of labels that belong to no field (`ignored_labels`)
_WEAK: Final = 0.5
# In "Total (incl. VAT) 119.00", "VAT" only qualifies the label "Total" and is no label itself.
_INCLUSION_WORDS: Final = re.compile(
    r"\b(?:inkl|incl|inklusive|including|inclusive|included|enthalten|exkl|excl|exklusive|excluding|ohne"
    r"|without)\b[. ]*(?:in\b[. ]*)?(?:(?:of|der|die|gesetzliche|gesetzl|ges)\b[. ]*)?"
    r"(?:\d{1,2}(?:[.,]\d+)? ?% ?)?$"
)


_INCLUSION_CHARACTERS: Final = 80  # before a label that are searched for such words


@dataclass(frozen=True, slots=True)
class LabelHit:
    """An occurrence of a label, of a field or of none."""

    field: str
    weight: float
    line: int
    start: int
    end: int
    unit: bool = False  # a unit, which follows its value


@dataclass(frozen=True, slots=True)
class PhraseSearch:
    """Many phrases in one pattern, a loose pattern for letter-spaced lines, and a weight for each group."""

    pattern: re.Pattern[str]
    loose: re.Pattern[str]
    weights: tuple[float, ...]

    def find(self, line: TextLine) -> Iterable[tuple[float, int, int]]:
        for found in (self.loose if line.is_letter_spaced else self.pattern).finditer(line.folded):
            assert found.lastindex
            yield self.weights[found.lastindex - 1], *found.span(found.lastindex)


_CHARACTER_PATTERNS: Final = {"ß": f"(?:ss|s|ß|{UNREADABLE})"}


def _character_pattern(sign: str) -> str:
    plain = fold_text(sign)
    if sign in _CHARACTER_PATTERNS:
        return _CHARACTER_PATTERNS[sign]
    if plain != sign.lower():  # has an accent
        other = {"a": "|ae", "o": "|oe", "u": "|ue"}.get(plain, "")
        return f"(?:{plain}{other}|{UNREADABLE})"
    if sign in " -./":
        return r"[\s./:\-]*"
    return re.escape(plain)


def _phrase_pattern(phrase: str, *, loose: bool) -> str:
    inner = phrase.strip("*")
    body = (" ?" if loose else "").join(_character_pattern(sign) for sign in inner).replace("ss", "(?:ss|ß)")
    if loose and len(inner) > 4:
        return f"({body})"
    left = "" if phrase.startswith("*") else r"(?<![a-z0-9])"
    right = r"[a-z]*" if phrase.endswith("*") else r"(?![a-z])"
    return f"{left}({body}){right}"


@lru_cache(maxsize=512)
def compile_phrases(written: str) -> PhraseSearch:
    """Compile phrases as document kinds declare them, the longest first."""
    weights = {
        each.strip().rstrip("?"): _WEAK if each.strip().endswith("?") else 1.0 for each in written.split(",")
    }
    ordered = sorted((each for each in weights if each), key=len, reverse=True)
    strict, loose = (
        re.compile("|".join(_phrase_pattern(each, loose=loose) for each in ordered) or r"(?!x)x")
        for loose in (False, True)
    )
    return PhraseSearch(strict, loose, tuple(weights[each] for each in ordered))


def _list_searches(kind: DocumentKind) -> Iterable[tuple[str, PhraseSearch, bool]]:
    for name, field in kind.fields.items():
        if field.labels:
            yield name, compile_phrases(",".join(field.labels.values())), False
        if field.units:
            yield name, compile_phrases(field.units), True
    if kind.ignored_labels:
        yield DECOY, compile_phrases(kind.ignored_labels), False


def find_labels(document: DocumentText, kind: DocumentKind) -> tuple[LabelHit, ...]:
    """Find all labels. One inside a longer label of another field does not count."""
    wanted = tuple(_list_searches(kind))
    found: list[LabelHit] = []
    for line in document.lines:
        here = [
            LabelHit(name, weight, line.index, start, end, unit)
            for name, search, unit in wanted
            for weight, start, end in search.find(line)
        ]
        covered = _covered_spans(here)
        found.extend(
            hit
            for hit in here
            if (hit.start, hit.end) not in covered
            and not _INCLUSION_WORDS.search(
                line.folded[max(hit.start - _INCLUSION_CHARACTERS, 0) : hit.start]
            )
        )
    return tuple(sorted(found, key=lambda hit: (hit.line, hit.start)))


def _covered_spans(hits: Sequence[LabelHit]) -> set[tuple[int, int]]:
    """Return the spans that lie inside a longer label, which is not a unit."""
    covered: set[tuple[int, int]] = set()
    reach = -1  # the end of the longest label so far
    for (start, end), same in groupby(
        sorted(hits, key=lambda hit: (hit.start, -hit.end)), key=lambda hit: (hit.start, hit.end)
    ):
        if end <= reach:
            covered.add((start, end))
        if not all(hit.unit for hit in same):
            reach = max(reach, end)
    return covered
