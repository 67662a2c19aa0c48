"""Evaluates a parsed search: a bound in time, a test on labels alone, and for the rest a look into the
letter.

The three are apart so that a search by date or label in a large mailbox opens no letter.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeGuard

from mailsim.gmail.search_query import (
    AllOfTerms,
    AnyOfTerms,
    NotTerm,
    OperatorTerm,
    PhraseTerm,
    SearchTerm,
    parse,
)

Labels = frozenset[str]
# Gmail reads dates without a time as midnight in Pacific Standard Time.
_PACIFIC = timedelta(hours=8)
_DATE = re.compile(r"(\d{4})[/-](\d{1,2})[/-](\d{1,2})$")
_AGE = re.compile(r"(\d{1,6})([hdmy])$")
_AGE_SECONDS = {"h": 3600, "d": 86_400, "m": 30 * 86_400, "y": 365 * 86_400}
_SIZE = re.compile(r"(\d{1,12})([kmg]?)b?$")
_WORD = re.compile(r"\w+")
_PLACES = {
    "inbox": "INBOX",
    "trash": "TRASH",
    "spam": "SPAM",
    "sent": "SENT",
    "draft": "DRAFT",
    "drafts": "DRAFT",
    "chats": "CHAT",
    "chat": "CHAT",
    "starred": "STARRED",
    "important": "IMPORTANT",
    "unread": "UNREAD",
}
_CATEGORIES = {
    "primary": "PERSONAL",
    "social": "SOCIAL",
    "promotions": "PROMOTIONS",
    "updates": "UPDATES",
    "forums": "FORUMS",
}


class SearchableMessage(Protocol):
    """What a search may look at. Only `labels` and `milliseconds` are free; the rest opens the letter."""

    @property
    def labels(self) -> Labels: ...
    @property
    def milliseconds(self) -> int: ...
    def size(self) -> int: ...
    def header(self, name: str) -> str: ...
    def words(self) -> str: ...
    def filenames(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class CompiledSearch:
    """`labels_allow` never refuses a letter that `matches` would take; `matches` is None when it adds
    nothing.
    """

    labels_allow: Callable[[Labels], bool]
    from_ms: int | None
    to_ms: int | None
    matches: Callable[[SearchableMessage], bool] | None
    message_id: str  # the one that is asked for, "" when none is
    anywhere: bool  # the search itself names spam or trash


def compile_search(text: str, now: float, label_names: Mapping[str, str]) -> CompiledSearch:
    """`label_names` gives the id of a label by its name in the form searches use: lower case, dashes."""
    term = parse(text)
    judge = _TermEvaluator(now, label_names)
    terms = term.terms if isinstance(term, AllOfTerms) else (term,)
    bounds = [judge.bound(each) for each in terms]
    lower = [bound[0] for bound in bounds if bound is not None and bound[0] is not None]
    upper = [bound[1] for bound in bounds if bound is not None and bound[1] is not None]
    open_terms = [
        each for each, bound in zip(terms, bounds, strict=True) if bound is None and not _labels_only(each)
    ]
    return CompiledSearch(
        labels_allow=lambda labels: judge.by_labels(term, labels) is not False,
        from_ms=max(lower, default=None),
        to_ms=min(upper, default=None),
        matches=(lambda letter: judge.matches(term, letter)) if open_terms else None,
        message_id=next((each.value for each in terms if _is_message_id(each)), ""),
        anywhere=_names_anywhere(term),
    )


def dashed(name: str) -> str:
    return re.sub(r"[\s/&()\"|{}]+", "-", name.strip().lower())


@dataclass(frozen=True, slots=True)
class _TermEvaluator:
    now: float
    label_names: Mapping[str, str]

    def bound(self, term: SearchTerm) -> tuple[int | None, int | None] | None:
        """From (inclusive) and to (exclusive) in milliseconds when the term is about time alone."""
        if not isinstance(term, OperatorTerm):
            return None
        match term.name:
            case "after" | "newer":
                moment = _moment(term.value)
                return None if moment is None else (moment, None)
            case "before" | "older":
                moment = _moment(term.value)
                return None if moment is None else (None, moment)
            case "newer_than" | "older_than":
                age = _AGE.match(term.value.lower())
                if age is None:
                    return None
                moment = round((self.now - int(age[1]) * _AGE_SECONDS[age[2]]) * 1000)
                return (moment, None) if term.name == "newer_than" else (None, moment)
            case _:
                return None

    def by_labels(self, term: SearchTerm, labels: Labels) -> bool | None:
        """Yes, no, or None when labels cannot tell."""
        match term:
            case AllOfTerms(terms):
                answers = [self.by_labels(each, labels) for each in terms]
                return False if False in answers else (None if None in answers else True)
            case AnyOfTerms(terms):
                answers = [self.by_labels(each, labels) for each in terms]
                return True if True in answers else (None if None in answers else False)
            case NotTerm(inner):
                answer = self.by_labels(inner, labels)
                return None if answer is None else not answer
            case OperatorTerm(name, value):
                return self._label_operator(name, value.lower(), labels)
            case PhraseTerm():
                return None

    def _label_operator(self, name: str, value: str, labels: Labels) -> bool | None:
        match name:
            case "label":
                return self._has_label(value, labels)
            case "in":
                return True if value == "anywhere" else self._has_label(value, labels)
            case "category":
                return f"CATEGORY_{_CATEGORIES.get(value, value.upper())}" in labels
            case "is":
                return "UNREAD" not in labels if value == "read" else self._has_label(value, labels)
            case "has" if value in {"userlabels", "nouserlabels"}:
                tagged = any(label.startswith("Label_") for label in labels)
                return tagged == (value == "userlabels")
            case _:
                return None

    def _has_label(self, value: str, labels: Labels) -> bool:
        return _PLACES.get(value, self.label_names.get(dashed(value), value)) in labels

    def matches(self, term: SearchTerm, letter: SearchableMessage) -> bool:
        match term:
            case AllOfTerms(terms):
                return all(self.matches(each, letter) for each in terms)
            case AnyOfTerms(terms):
                return any(self.matches(each, letter) for each in terms)
            case NotTerm(inner):
                return not self.matches(inner, letter)
            case PhraseTerm(text):
                return _contains(letter.words(), text)
            case OperatorTerm(name, value):
                return self._operator(name, value, letter)

    def _operator(self, name: str, value: str, letter: SearchableMessage) -> bool:
        by_labels = self._label_operator(name, value.lower(), letter.labels)
        if by_labels is not None:
            return by_labels
        bound = self.bound(OperatorTerm(name, value))
        if bound is not None:
            lower, upper = bound
            return (lower is None or letter.milliseconds >= lower) and (
                upper is None or letter.milliseconds < upper
            )
        return _by_content(name, value, letter)


def _by_content(name: str, value: str, letter: SearchableMessage) -> bool:
    look = _LOOKS.get(name)
    return look is not None and look(letter, value)


def _in_header(*names: str) -> "Look":
    return lambda letter, value: any(_contains(letter.header(name), value) for name in names)


def _has(letter: SearchableMessage, value: str) -> bool:
    return value.lower() == "attachment" and bool(letter.filenames())


def _filename(letter: SearchableMessage, value: str) -> bool:
    wanted = value.lower()
    files = [file.lower() for file in letter.filenames()]
    return any(file == wanted or file.endswith(f".{wanted}") or _contains(file, wanted) for file in files)


def _message_id(letter: SearchableMessage, value: str) -> bool:
    return letter.header("message-id").strip().strip("<>") == value.strip().strip("<>")


def _bytes(value: str) -> int | None:
    size = _SIZE.match(value.lower())
    return None if size is None else int(size[1]) * {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[size[2]]


def _larger(letter: SearchableMessage, value: str) -> bool:
    limit = _bytes(value)
    return limit is not None and letter.size() >= limit


def _smaller(letter: SearchableMessage, value: str) -> bool:
    limit = _bytes(value)
    return limit is not None and letter.size() < limit


Look = Callable[[SearchableMessage, str], bool]
_LOOKS: dict[str, Look] = {
    "from": _in_header("from"),
    "to": _in_header("to", "cc", "bcc"),
    "cc": _in_header("cc"),
    "bcc": _in_header("bcc"),
    "subject": _in_header("subject"),
    "deliveredto": _in_header("delivered-to"),
    "list": _in_header("list-id"),
    "rfc822msgid": _message_id,
    "has": _has,
    "filename": _filename,
    "larger": _larger,
    "size": _larger,
    "smaller": _smaller,
}


def _contains(text: str, wanted: str) -> bool:
    """Whether the words of `wanted` stand in `text` next to each other. Gmail finds whole words only."""
    words = _WORD.findall(wanted.lower())
    if not words:
        return True
    return f" {' '.join(words)} " in f" {' '.join(_WORD.findall(text.lower()))} "


def _moment(value: str) -> int | None:
    if value.isdecimal() and len(value) < 13:
        return int(value) * 1000
    date = _DATE.match(value)
    if date is None:
        return None
    try:
        midnight = datetime(int(date[1]), int(date[2]), int(date[3]), tzinfo=UTC)
    except ValueError:
        return None
    return round((midnight.timestamp() + _PACIFIC.total_seconds()) * 1000)


def _is_message_id(term: SearchTerm) -> TypeGuard[OperatorTerm]:
    return isinstance(term, OperatorTerm) and term.name == "rfc822msgid"


def _labels_only(term: SearchTerm) -> bool:
    match term:
        case AllOfTerms(terms) | AnyOfTerms(terms):
            return all(_labels_only(each) for each in terms)
        case NotTerm(inner):
            return _labels_only(inner)
        case OperatorTerm(name, value):
            return name in {"label", "in", "is", "category"} or (
                name == "has" and value.lower().endswith("userlabels")
            )
        case PhraseTerm():
            return False


def _names_anywhere(term: SearchTerm) -> bool:
    match term:
        case AllOfTerms(terms) | AnyOfTerms(terms):
            return any(_names_anywhere(each) for each in terms)
        case OperatorTerm("in" | "label" | "is", value):
            return value.lower() in {"anywhere", "trash", "spam"}
        case _:
            return False
