"""Picks codes: invoice, order and account numbers, and symbols, right of their label or below it.

A number with spaces is read as a whole, and doubted unless the document repeats it.
"""

import re
from collections.abc import Iterator
from typing import Final

from postroom.documents.fields.currencies import CURRENCIES
from postroom.documents.fields.document_text import TextLine
from postroom.documents.fields.field_selection import FieldPick, find_title_numbers
from postroom.documents.fields.label_matching import LabelContext, label_weight
from postroom.documents.fields.label_search import LabelHit

SYMBOL: Final = re.compile(r"(?<![\w.])[A-Z][A-Z0-9]{0,5}(?:[.:][A-Za-z]{1,5})?(?![\w.])")
CODE: Final = re.compile(r"[A-Za-z0-9][\w./#-]*\w|\d")  # with a digit in it or behind it in the same word
# What may continue a code: "2026 0117", "26 / 441", "2026-11 / 12"; and capitals before it: "HF 2026".
_CODE_REST: Final = re.compile(r"(?: ?[/\u2013-] ?| )([A-Za-z0-9./#-]+)(?!\S)")
_CODE_SUFFIX: Final = re.compile(r" ([A-Z]{1,2})(?=\s*$)")  # "26-0117 A"
_CODE_CAPITALS: Final = re.compile(r"(?:^|(?<=[\s:.#°]))[A-Z]{1,4} ?$")
# A prefix that may belong to a code: "A- 10777", "Re 10777".
_CODE_PREFIX: Final = re.compile(r"(?<!\w)[^\W\d_]{1,4}(?:[^\w\s]{1,3}[^\W\d_]{1,4}){0,3}[^\w#°º]{0,8}$")
_NUMBER_WORDS: Final = {"ID", "N", "NO", "NR", "NUM", "REF"}  # labels of a number, not prefixes of a code
# Words of labels, and currencies.
_OTHER_CAPITALS: Final = {
    *("DE", "DEL", "DU", "ID", "N", "NO", "NR", "NUM", "OF", "REF", "VOM", "VON"),
    *CURRENCIES,
}
_JOINTS: Final = frozenset("-/_")
_MAX_LABEL_IN_CODE: Final = 4
_MAX_LABEL_IN_NAME: Final = 2
_MAX_GAP: Final = 1.2  # characters: what is farther away belongs to another column
_WORD: Final = re.compile(r"\S+")
_DIGIT: Final = re.compile(r"\d")
_MONEY: Final = re.compile(r"\d{1,3}(?:[.,' ]\d{3})*[.,]\d{2}|\d+%")


def pick_code(context: LabelContext, name: str, shape: re.Pattern[str] = CODE) -> FieldPick | None:
    """Pick an identifier with at least one digit, right of its label or below it."""
    found: list[tuple[float, str, TextLine, int, int, str]] = []
    for hits in context.hits.values():
        for hit in hits:
            if hit.field == name:
                found.extend(_codes_for_label(context, hit, shape))
    for hit, start, end, _ in find_title_numbers(context, name):
        line = context.document.lines[hit.line]
        words = f"between “{line.text[hit.start : hit.end]}” and the date"
        found.append((label_weight(context, hit) + 0.5, line.text[start:end], line, start, end, words))
    if not found:
        return None
    found.sort(key=lambda each: -each[0])
    score, short, line, start, end, why = found[0]
    others = [each[0] for each in found if each[1] != short]
    if shape is CODE:
        start, end = _extend_code(context, line, name, start, end)
    code = line.text[start:end]
    again = sum(each.text.count(code) for each in context.document.lines) > 1
    doubt = "" if code == short or again else f"it may also be only “{short}”"
    if shape is CODE and (prefix := _find_prefix(context, line, name, start, end)):
        doubt = f"“{prefix}” before it may be a part of it"
    return FieldPick(
        code,
        line.index,
        start,
        end,
        min(score, 1.0),
        min(score - max(others, default=0.0), 1.0),
        f"{why}; {doubt}" if doubt else why,
        is_repeated=again,
        ambiguity=doubt,
    )


def _extend_code(context: LabelContext, line: TextLine, name: str, start: int, end: int) -> tuple[int, int]:
    """Extend a code by what is written beside it with a space: "2026" to "HF 2026 0117"."""
    hits = context.hits.get(line.index, ())
    while rest := _CODE_REST.match(line.text, end):
        is_label = any(hit.start < rest.end(1) and rest.start(1) < hit.end for hit in hits)
        if is_label or not _DIGIT.search(rest.group(1)) or not _may_be_code(context, line, *rest.span(1)):
            break
        if not _is_beside(context, line, (start, end), rest.span(1)):
            break
        end = rest.end(1)
    suffix = _CODE_SUFFIX.match(line.text, end)
    if (
        suffix
        and suffix.group(1) not in _OTHER_CAPITALS
        and not any(hit.start < suffix.end() and end < hit.end for hit in hits)
    ):
        end = suffix.end() if _is_beside(context, line, (start, end), suffix.span(1)) else end
    floor = _find_label_end(context, line, name, start)
    capitals = _CODE_CAPITALS.search(line.text[floor:start])
    if capitals and capitals.group().strip() not in _OTHER_CAPITALS:
        left = floor + capitals.start()
        if _is_beside(context, line, (left, left + len(capitals.group().strip())), (start, end)):
            start = left
    return start, end


def _find_prefix(context: LabelContext, line: TextLine, name: str, start: int, end: int) -> str:
    """Return a prefix between the label and a code that may belong to the code; empty if there is none."""
    floor = _find_label_end(context, line, name, start)
    found = _CODE_PREFIX.search(line.text[floor:start])
    if found is None or found.group().strip(" :.").upper() in _NUMBER_WORDS:
        return ""
    left = floor + found.start()
    prefix = found.group().strip()
    is_beside = _is_beside(context, line, (left, left + len(prefix)), (start, end))
    return prefix if is_beside else ""


def _find_label_end(context: LabelContext, line: TextLine, name: str, start: int) -> int:
    """Return where the last label before a code ends.

    In "Réf. facture: A 10777", "facture: A" is no label: it begins inside the label of this field.
    """
    hits = [hit for hit in context.hits.get(line.index, ()) if hit.end <= start]
    own = [hit for hit in hits if hit.field == name]
    return max(
        (hit.end for hit in hits if not any(each.start < hit.start < each.end < hit.end for each in own)),
        default=0,
    )


def _is_beside(context: LabelContext, line: TextLine, left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Whether only a space or a mark is between two parts of a line, as far as positions are known."""
    if not context.document.has_layout:
        return True
    one, other = line.box(*left), line.box(*right)
    width = (one.right - one.left) / (left[1] - left[0])
    marks = len(line.text[left[1] : right[0]].replace(" ", ""))
    return other.left - one.right <= (_MAX_GAP + 2 * marks) * width


def _find_codes(shape: re.Pattern[str], text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Yield the matches; those of `CODE` only up to the last digit of their word."""
    if shape is not CODE:
        yield from shape.finditer(text, start, end)
        return
    for word in _WORD.finditer(text, start, end):
        digits = [digit.start() for digit in _DIGIT.finditer(text, *word.span())]
        for found in shape.finditer(text, *word.span()) if digits else ():
            if found.start() <= digits[-1]:
                yield found


def _codes_for_label(
    context: LabelContext, hit: LabelHit, shape: re.Pattern[str]
) -> Iterator[tuple[float, str, TextLine, int, int, str]]:
    line = context.document.lines[hit.line]
    label = line.text[hit.start : hit.end]
    worth = label_weight(context, hit) + 0.05 * (1 - hit.line / len(context.document.lines))
    right = _code_right_of(context, line, hit, shape)
    if right:
        gap = line.text[hit.end : right[0]]
        words = re.findall(r"[^\W\d_]{3,}", gap)
        near = 1.0 if not words else 0.55 if len(words) < 3 else 0.25
        yield worth * near, line.text[slice(*right)], line, *right, f"right of “{label}”"
        if near == 1.0:
            return
    above = line.box(hit.start, hit.end)
    if _is_part_of_name(line, hit):
        return
    for step in (1, 2, 3):
        index = hit.line + step
        if index >= len(context.document.lines) or context.document.lines[index].page != line.page:
            return
        below = context.document.lines[index]
        for found in _find_codes(shape, below.text, 0, len(below.text)):
            box = below.box(*found.span())
            beside = (
                abs(box.left - above.left) < 0.03
                or min(above.right, box.right) - max(above.left, box.left) > 0
            )
            if beside and _may_be_code(context, below, *found.span()):
                score = worth * (0.85, 0.6, 0.4)[step - 1] * (1.0 if context.document.has_layout else 0.6)
                yield score, found.group(), below, *found.span(), f"below “{label}”"
                return


def _is_part_of_name(line: TextLine, hit: LabelHit) -> bool:
    """Whether a short label is a word of a name: "Elettrica Po S.p.A.", above "Corso Italia 9"."""
    label = line.text[hit.start : hit.end]
    return len(label) <= _MAX_LABEL_IN_NAME and label.istitle() and line.text[: hit.start].endswith(" ")


def _code_right_of(
    context: LabelContext, line: TextLine, hit: LabelHit, shape: re.Pattern[str]
) -> tuple[int, int] | None:
    others = [
        other.start
        for other in context.hits.get(line.index, ())
        if other.start >= hit.end and not other.unit and (other.field != hit.field) and other.weight == 1.0
    ]
    end = min([len(line.text), *others])
    for found in _find_codes(shape, line.text, hit.end, end):
        if found.start() > hit.end and line.text[found.start() - 1] == "(":
            continue
        if _may_be_code(context, line, *found.span()):
            is_joined = _is_part_of_code(line.text, hit, found.start())
            return hit.start if is_joined else found.start(), found.end()
    return None


def _is_part_of_code(text: str, hit: LabelHit, start: int) -> bool:
    """In "PO445" and "PO-445" the label is part of the code, unlike in "Nr.445"."""
    label, gap = text[hit.start : hit.end], text[hit.end : start]
    if not label[-1].isalpha():
        return False
    return gap == "" or (gap in _JOINTS and len(label) <= _MAX_LABEL_IN_CODE and label.isupper())


def _may_be_code(context: LabelContext, line: TextLine, start: int, end: int) -> bool:
    inside = [
        value for value in context.values.get(line.index, ()) if value.start < end and start < value.end
    ]
    if any(value.shape == "date" and value.end - value.start >= end - start for value in inside):
        return False
    return not any(value.percent or value.currency for value in inside) and not _MONEY.fullmatch(
        line.text[start:end]
    )
