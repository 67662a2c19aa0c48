"""Detects several invoices in one file. Runs in the sandboxed child that analyzes a document.

A page begins another invoice if it has a number of its own. Two or more such parts, each with a total, make
the file suspicious, and a person splits it. It is split without a person only if each part is complete by
itself and its pages are numbered from 1 to their count. Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from postroom.documents.fields.extraction_result import FieldCheck, FieldExtraction
from postroom.documents.fields.field_checks import check_fields
from postroom.documents.fields.offline_reader import read_fields
from postroom.documents.files.file_reading import Transcript
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.page_ranges import CHECK_NAME, PageRange, format_ranges

_KIND: Final = "invoice"
_NUMBER: Final = "number"
_REQUIRED: Final = (_NUMBER, "issued_on", "gross")  # in each part of a suspicious file
_TOTALS: Final = ("net", "vat", "gross")
_MIN_NUMBER_CONFIDENCE: Final = 0.6  # below this, the number of a page may belong to something else
_CERTAIN_CONFIDENCE: Final = 0.9
_PAGE_NUMBER: Final = re.compile(
    r"(?:^|\b(?:page|seite|blatt|pagina|página|pag\.?|bladzijde)[ :]*)"
    r"(\d{1,2}) ?(?:/|of|von|de|di|van|sur) ?(\d{1,2})$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class DetectedParts:
    """The parts of a file with several invoices. `is_certain`: it may be split without a person."""

    ranges: tuple[PageRange, ...]
    check: FieldCheck
    is_certain: bool


def find_parts(transcript: Transcript, kind: DocumentKind) -> DetectedParts | None:
    """Find the invoices in a file. None if there is one, or no sign of another."""
    if kind.name != _KIND or len(transcript.pages) < 2:
        return None
    pages = [_cut(transcript, PageRange(page, page)) for page in range(1, len(transcript.pages) + 1)]
    ranges = _group_pages([_read_own_number(page, kind) for page in pages])
    if len(ranges) < 2:
        return None
    parts = [_cut(transcript, each) for each in ranges]
    read = [read_fields(part, kind) for part in parts]
    if any(name not in each.fields for each in read for name in _REQUIRED):
        return None
    numbers = [str(each.fields[_NUMBER].value) for each in read]
    if len(set(numbers)) < len(numbers):
        return None
    words = f"{len(parts)} invoices? Pages {format_ranges(ranges)} have the numbers {', '.join(numbers)}"
    is_certain = all(_is_complete(each, kind) for each in read) and all(map(_is_numbered, parts))
    return DetectedParts(ranges, FieldCheck(CHECK_NAME, passed=False, words=words), is_certain)


def _cut(transcript: Transcript, pages: PageRange) -> Transcript:
    """The transcript of these pages, as if they were a file of their own."""
    words = tuple(
        word._replace(page=word.page - pages.first + 1)
        for word in transcript.words
        if pages.first <= word.page + 1 <= pages.last
    )
    return replace(transcript, pages=transcript.pages[pages.first - 1 : pages.last], words=words)


def _read_own_number(page: Transcript, kind: DocumentKind) -> str | None:
    """The number of the invoice that a page may begin. None if the page says that it is not the first."""
    if any(place > 1 for place, _ in _list_page_numbers(page)):
        return None
    found = read_fields(page, kind).fields.get(_NUMBER)
    return str(found.value) if found and found.confidence >= _MIN_NUMBER_CONFIDENCE else None


def _group_pages(numbers: Sequence[str | None]) -> tuple[PageRange, ...]:
    """Begin a part at each page whose number differs from the number before."""
    starts: list[int] = [1]
    current: str | None = None
    for page, number in enumerate(numbers, 1):
        if number is not None and current is not None and number != current:
            starts.append(page)
        current = number or current
    ends = [start - 1 for start in starts[1:]] + [len(numbers)]
    return tuple(PageRange(first, last) for first, last in zip(starts, ends, strict=True))


def _is_complete(part: FieldExtraction, kind: DocumentKind) -> bool:
    """Whether a part alone would be confirmed: every required field is certain, and the totals add up."""
    if any(
        name not in part.fields or part.fields[name].confidence < _CERTAIN_CONFIDENCE
        for name in (*kind.required, *_TOTALS)
    ):
        return False
    return all(check.passed for check in (*part.checks, *check_fields(kind, part.fields)) if check.is_severe)


def _is_numbered(part: Transcript) -> bool:
    """Whether each page states its place in the part, such as 1/2 and 2/2, and no other place."""
    count = len(part.pages)
    return all(
        _list_page_numbers(_cut(part, PageRange(page, page))) == {(page, count)}
        for page in range(1, count + 1)
    )


def _list_page_numbers(page: Transcript) -> set[tuple[int, int]]:
    """Its place and the number of pages, as the page states them."""
    texts = (" ".join(word.text for word in line).strip() for line in page.lines())
    return {(int(found[1]), int(found[2])) for text in texts if (found := _PAGE_NUMBER.search(text))}
