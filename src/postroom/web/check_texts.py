"""Turn stored checks and review reasons into sentences with field labels and percentages.

The stored text keeps field names and confidences from 0 to 1: the API and the command line show it.
"""

import re
from typing import Final

from postroom.web import field_labels

_NAME: Final = r"(?P<name>[a-z][a-z0-9_]*)"
_END: Final = r"(?=; |$)"
_UNCERTAIN: Final = re.compile(rf"\b{_NAME} is uncertain \((?P<share>\d\.\d+)\)")
_MISSING: Final = re.compile(rf"\b{_NAME} was not found\b")
_CHECK_DIGITS: Final = re.compile(rf"\bcheck digits of {_NAME}: (?P<value>.+?){_END}")
_AMBIGUOUS: Final = re.compile(rf"\b{_NAME} is ambiguous: ")
_DISAGREEMENT: Final = re.compile(rf"\bthe readers disagree on {_NAME}: ")
# The names of the last two in an earlier version.
_READING: Final = re.compile(rf"\bone reading of {_NAME}: ")
_AGREEMENT: Final = re.compile(rf"\bboth readers agree on {_NAME}: ")
_CONTROL: Final = re.compile(rf"\b(?:known|plausible|usual) {_NAME}: ")
_KIND: Final = re.compile(r"\bkind: certainty (?P<share>\d\.\d+)")
_SEVERAL: Final = re.compile(r"\bone invoice: (?=\d)")
_TITLE: Final = re.compile(
    r"\btitle: (?:the title )?(?P<title>“.+?”) (?:suggests another kind of document|looks like its title)\b"
)
_OTHER_NAMES: Final = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_ACRONYMS: Final = re.compile(r"\b(?:iban|isin|vat)\b")


def describe_findings(text: str, kind: str | None = None, *, passed: bool = False) -> str:
    """Describe a check, or the reasons of a review, of a document of `kind`."""

    def label(found: re.Match[str]) -> str:
        return field_labels.in_sentence(found["name"], kind)

    shown_kind = field_labels.kind_label(kind).lower() if kind else "unknown"
    digits = "correct" if passed else "wrong"
    text = _UNCERTAIN.sub(lambda found: f"{label(found)} is uncertain ({_percent(found)})", text)
    text = _MISSING.sub(lambda found: f"{label(found)} was not found", text)
    text = _CHECK_DIGITS.sub(
        lambda found: f"Check digits of {label(found)} {found['value']} are {digits}", text
    )
    text = _AMBIGUOUS.sub(lambda found: f"{label(found)} is ambiguous: ", text)
    text = _DISAGREEMENT.sub(lambda found: f"{label(found)}: the readers disagree: ", text)
    text = _READING.sub(lambda found: f"{label(found)}: ", text)
    text = _AGREEMENT.sub(lambda found: f"{label(found)}: the readers disagree; ", text)
    text = _CONTROL.sub(lambda found: f"{label(found)}: ", text)
    text = _KIND.sub(lambda found: f"Document kind: {shown_kind} ({_percent(found)})", text)
    text = _SEVERAL.sub("", text)
    text = _TITLE.sub(r"The title \g<title> suggests another kind of document", text)
    text = _OTHER_NAMES.sub(lambda found: field_labels.in_sentence(found[0], kind), text)
    return _ACRONYMS.sub(lambda found: found[0].upper(), text)


def _percent(found: re.Match[str]) -> str:
    return f"{float(found['share']):.0%}"
