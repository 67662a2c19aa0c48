"""Compiles a search query to filters by time range, labels and message content, and evaluates them.

The three are separate, so that a search by date or label in a large mailbox parses no message. `search_query`
parses the query, `listing` searches the mailbox.
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
    parse_search,
)

Labels = frozenset[str]
# Gmail interprets dates without a time as midnight in Pacific Standard Time.
_PACIFIC = timedelta(hours=8)
_DATE = re.compile(r"(\d{4})[/-](\d{1,2})[/-](\d{1,2})$")
_AGE = re.compile(r"(\d{1,6})([hdmy])$")
_AGE_SECONDS = {"h": 3600, "d": 86_400, "m": 30 * 86_400, "y": 365 * 86_400}
_SIZE = re.compile(r"(\d{1,12})([kmg]?)b?$")
_WORD = re.compile(r"\w+")
_LABEL_ALIASES = {
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

# An archived message is in none of these.
_PLACES = frozenset({"INBOX", "SENT", "DRAFT", "TRASH", "SPAM", "CHAT"})
# All Mail has everything else.
_OUTSIDE_ALL_MAIL = frozenset({"SPAM", "TRASH"})
_PLACES_WITHOUT_LABEL: Mapping[str, Labels] = {
    "archive": _PLACES,
    "all": _OUTSIDE_ALL_MAIL,
    "anywhere": frozenset(),
}
_PEOPLE = frozenset({"from", "to", "cc", "bcc", "deliveredto"})


class SearchableMessage(Protocol):
    """What a search can inspect.

    Only `labels` and `milliseconds` are cheap; the rest parses the message.
    """

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
    """A search, ready to apply.

    `may_match_labels` never excludes a message that `matches` accepts. `matches` is None if labels and
    time range decide alone.
    """

    may_match_labels: Callable[[Labels], bool]
    from_ms: int | None
    to_ms: int | None
    matches: Callable[[SearchableMessage], bool] | None
    message_id: str  # the Message-ID that the search requires; "" if none
    includes_spam_trash: bool  # the search itself mentions spam or trash

    def accepts(self, message: SearchableMessage) -> bool:
        """Apply the whole search to one message."""
        moment = message.milliseconds
        if (self.from_ms is not None and moment < self.from_ms) or (
            self.to_ms is not None and moment >= self.to_ms
        ):
            return False
        return self.may_match_labels(message.labels) and (self.matches is None or self.matches(message))


def compile_search(
    text: str, now: float, label_names: Mapping[str, str], address: str = ""
) -> CompiledSearch:
    """Compile a search.

    `label_names` maps names, in lower case with dashes, to label IDs; `me` means `address`.
    """
    term = _replace_me(parse_search(text), address)
    evaluator = _TermEvaluator(now, label_names)
    terms = term.terms if isinstance(term, AllOfTerms) else (term,)
    bounds = [evaluator.get_time_range(child) for child in terms]
    lower = [bound[0] for bound in bounds if bound is not None and bound[0] is not None]
    upper = [bound[1] for bound in bounds if bound is not None and bound[1] is not None]
    open_terms = [
        child
        for child, bound in zip(terms, bounds, strict=True)
        if bound is None and not _needs_only_labels(child)
    ]
    return CompiledSearch(
        may_match_labels=lambda labels: evaluator.match_labels(term, labels) is not False,
        from_ms=max(lower, default=None),
        to_ms=min(upper, default=None),
        matches=(lambda message: evaluator.matches(term, message)) if open_terms else None,
        message_id=next((child.value for child in terms if _is_message_id_term(child)), ""),
        includes_spam_trash=_includes_spam_or_trash(term),
    )


def _replace_me(term: SearchTerm, address: str) -> SearchTerm:
    """Replace `me` in `from:me`, `to:me` and the like with the address of the mailbox."""
    match term:
        case OperatorTerm(name, value) if name in _PEOPLE and value.lower() == "me" and address:
            return OperatorTerm(name, address)
        case AllOfTerms(terms):
            return AllOfTerms(tuple(_replace_me(inner, address) for inner in terms))
        case AnyOfTerms(terms):
            return AnyOfTerms(tuple(_replace_me(inner, address) for inner in terms))
        case NotTerm(inner):
            return NotTerm(_replace_me(inner, address))
        case _:
            return term


def to_search_name(name: str) -> str:
    return re.sub(r"[\s/&()\"|{}]+", "-", name.strip().lower())


@dataclass(frozen=True, slots=True)
class _TermEvaluator:
    now: float
    label_names: Mapping[str, str]

    def get_time_range(self, term: SearchTerm) -> tuple[int | None, int | None] | None:
        """Return the range [from, to) in milliseconds of a term about time.

        Return None for other terms.
        """
        if not isinstance(term, OperatorTerm):
            return None
        match term.name:
            case "after" | "newer":
                moment = _parse_date(term.value)
                return None if moment is None else (moment, None)
            case "before" | "older":
                moment = _parse_date(term.value)
                return None if moment is None else (None, moment)
            case "newer_than" | "older_than":
                age = _AGE.match(term.value.lower())
                if age is None:
                    return None
                moment = round((self.now - int(age[1]) * _AGE_SECONDS[age[2]]) * 1000)
                return (moment, None) if term.name == "newer_than" else (None, moment)
            case _:
                return None

    def match_labels(self, term: SearchTerm, labels: Labels) -> bool | None:
        """Evaluate a term on labels alone; None if labels do not decide."""
        match term:
            case AllOfTerms(terms):
                results = [self.match_labels(child, labels) for child in terms]
                return False if False in results else (None if None in results else True)
            case AnyOfTerms(terms):
                results = [self.match_labels(child, labels) for child in terms]
                return True if True in results else (None if None in results else False)
            case NotTerm(inner):
                result = self.match_labels(inner, labels)
                return None if result is None else not result
            case OperatorTerm(name, value):
                return self._match_label_operator(name, value.lower(), labels)
            case PhraseTerm():
                return None

    def _match_label_operator(self, name: str, value: str, labels: Labels) -> bool | None:
        match name:
            case "label" | "in":
                return self._is_in_place(value, labels)
            case "category":
                return f"CATEGORY_{_CATEGORIES.get(value, value.upper())}" in labels
            case "is":
                return "UNREAD" not in labels if value == "read" else self._is_in_place(value, labels)
            case "has" if value in {"userlabels", "nouserlabels"}:
                tagged = any(label.startswith("Label_") for label in labels)
                return tagged == (value == "userlabels")
            case _:
                return None

    def _is_in_place(self, value: str, labels: Labels) -> bool:
        """Whether a message has a label, or is in a place without a label; Gmail finds both by name."""
        name = self.label_names.get(to_search_name(value))
        if name is None and value in _PLACES_WITHOUT_LABEL:
            return _PLACES_WITHOUT_LABEL[value].isdisjoint(labels)
        return _LABEL_ALIASES.get(value, name or value) in labels

    def matches(self, term: SearchTerm, message: SearchableMessage) -> bool:
        match term:
            case AllOfTerms(terms):
                return all(self.matches(child, message) for child in terms)
            case AnyOfTerms(terms):
                return any(self.matches(child, message) for child in terms)
            case NotTerm(inner):
                return not self.matches(inner, message)
            case PhraseTerm(text):
                return _contains_words(message.words(), text)
            case OperatorTerm(name, value):
                return self._match_operator(name, value, message)

    def _match_operator(self, name: str, value: str, message: SearchableMessage) -> bool:
        by_labels = self._match_label_operator(name, value.lower(), message.labels)
        if by_labels is not None:
            return by_labels
        bound = self.get_time_range(OperatorTerm(name, value))
        if bound is not None:
            lower, upper = bound
            return (lower is None or message.milliseconds >= lower) and (
                upper is None or message.milliseconds < upper
            )
        return _match_content(name, value, message)


def _match_content(name: str, value: str, message: SearchableMessage) -> bool:
    look = _CONTENT_MATCHERS.get(name)
    return look is not None and look(message, value)


def _match_headers(*names: str) -> "ContentMatcher":
    return lambda message, value: any(_contains_words(message.header(name), value) for name in names)


def _has_attachment(message: SearchableMessage, value: str) -> bool:
    return value.lower() == "attachment" and bool(message.filenames())


def _match_filename(message: SearchableMessage, value: str) -> bool:
    wanted = value.lower()
    files = [file.lower() for file in message.filenames()]
    return any(
        file == wanted or file.endswith(f".{wanted}") or _contains_words(file, wanted) for file in files
    )


def _match_message_id(message: SearchableMessage, value: str) -> bool:
    return message.header("message-id").strip().strip("<>") == value.strip().strip("<>")


def _parse_size(value: str) -> int | None:
    size = _SIZE.match(value.lower())
    return None if size is None else int(size[1]) * {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[size[2]]


def _is_larger(message: SearchableMessage, value: str) -> bool:
    limit = _parse_size(value)
    return limit is not None and message.size() >= limit


def _is_smaller(message: SearchableMessage, value: str) -> bool:
    limit = _parse_size(value)
    return limit is not None and message.size() < limit


ContentMatcher = Callable[[SearchableMessage, str], bool]
_CONTENT_MATCHERS: dict[str, ContentMatcher] = {
    "from": _match_headers("from"),
    "to": _match_headers("to", "cc", "bcc"),
    "cc": _match_headers("cc"),
    "bcc": _match_headers("bcc"),
    "subject": _match_headers("subject"),
    "deliveredto": _match_headers("delivered-to"),
    "list": _match_headers("list-id"),
    "rfc822msgid": _match_message_id,
    "has": _has_attachment,
    "filename": _match_filename,
    "larger": _is_larger,
    "size": _is_larger,
    "smaller": _is_smaller,
}


def _contains_words(text: str, wanted: str) -> bool:
    """Whether `text` contains the words of `wanted` in sequence.

    Gmail matches whole words only.
    """
    words = _WORD.findall(wanted.lower())
    if not words:
        return True
    return f" {' '.join(words)} " in f" {' '.join(_WORD.findall(text.lower()))} "


def _parse_date(value: str) -> int | None:
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


def _is_message_id_term(term: SearchTerm) -> TypeGuard[OperatorTerm]:
    return isinstance(term, OperatorTerm) and term.name == "rfc822msgid"


def _needs_only_labels(term: SearchTerm) -> bool:
    match term:
        case AllOfTerms(terms) | AnyOfTerms(terms):
            return all(_needs_only_labels(child) for child in terms)
        case NotTerm(inner):
            return _needs_only_labels(inner)
        case OperatorTerm(name, value):
            return name in {"label", "in", "is", "category"} or (
                name == "has" and value.lower().endswith("userlabels")
            )
        case PhraseTerm():
            return False


def _includes_spam_or_trash(term: SearchTerm) -> bool:
    match term:
        case AllOfTerms(terms) | AnyOfTerms(terms):
            return any(_includes_spam_or_trash(child) for child in terms)
        case OperatorTerm("in" | "label" | "is", value):
            return value.lower() in {"anywhere", "trash", "spam"}
        case _:
            return False
