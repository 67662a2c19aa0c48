"""Parser and evaluator of `$search` on messages: the Keyword Query Language (KQL) of Exchange.

Words match whole words in any case; `word*` matches the beginning of a word. A restriction that is not valid,
for example with an unknown property or a space before its value, is free text. `messages` scans the mailbox.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from mailsim.graph import bodies
from mailsim.graph.errors import bad_request
from mailsim.graph.message_json import MessageView
from mailsim.lazy_property import lazy_property

MAX_DEPTH = 40
_WORD = re.compile(r"\w+")
_CLAUSE = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_TOKEN = re.compile(
    r'(?P<mark>[()])|(?P<sign>[+-])?(?:(?P<name>[A-Za-z]+)(?P<op><>|>=|<=|[:=<>]))?(?P<value>"[^"]*"?\*?|[^\s()"]+)?'
)
_OPERATORS = frozenset({"AND", "OR", "NOT"})
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_TEXT_PROPERTIES = {
    "subject": ("subject",),
    "body": ("body",),
    "from": ("from",),
    "sender": ("sender",),
    "to": ("toRecipients",),
    "cc": ("ccRecipients",),
    "bcc": ("bccRecipients",),
    "recipients": ("toRecipients", "ccRecipients", "bccRecipients"),
    "participants": ("from", "toRecipients", "ccRecipients", "bccRecipients"),
    "attachment": ("attachments",),
    "attachments": ("attachments",),
    "category": ("categories",),
}
_DEFAULT_SOURCES = ("from", "subject", "body")
_BOOLEANS = {"hasattachment": "hasAttachments", "hasattachments": "hasAttachments", "isread": "isRead"}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_IMPORTANCE = {"low": "low", "medium": "normal", "normal": "normal", "high": "high"}
_DATES = {"received": "receivedDateTime", "sent": "sentDateTime"}
_DATE_FORMATS = ("%m/%d/%Y", "%Y-%m-%d", "%Y/%m/%d")


class SearchedMessage:
    """A message with the words of its properties, split when a term first needs them."""

    def __init__(self, view: MessageView) -> None:
        self.view = view
        self._texts: dict[str, list[str]] = {}

    def contains(self, sources: Iterable[str], words: Sequence[str], *, is_prefix: bool) -> bool:
        """Return whether a property contains these words in a row; the last may be the beginning of one."""
        return any(
            _has_words(text, words, is_prefix=is_prefix)
            for name in sources
            for text in self._list_texts(name)
        )

    @lazy_property
    def size(self) -> int:
        return len(self.view.mailbox.raw(self.view.number))

    def _list_texts(self, name: str) -> list[str]:
        texts = self._texts.get(name)
        if texts is None:
            texts = self._texts[name] = [text.casefold() for text in _read_texts(self.view, name)]
        return texts


def _read_texts(view: MessageView, name: str) -> list[str]:
    match name:
        case "body":
            if view.text is not None:
                return [view.text.text]
            return [bodies.html_to_text(view.html.text)] if view.html is not None else []
        case "attachments":
            return [attachment.name for attachment in view.attachments]
        case "subject" | "categories":
            value: Any = view(name)
            return [value] if isinstance(value, str) else list(value)
        case "from" | "sender":
            return _list_person_texts(view(name))
        case _:
            return [text for person in view(name) for text in _list_person_texts(person)]


def _list_person_texts(person: dict[str, dict[str, str]] | None) -> list[str]:
    return list(person["emailAddress"].values()) if person else []


def _has_words(text: str, words: Sequence[str], *, is_prefix: bool) -> bool:
    if not all(word in text for word in words):  # much cheaper than splitting
        return False
    found = _WORD.findall(text)
    count = len(words)
    for start in range(len(found) - count + 1):
        last = found[start + count - 1]
        if (last.startswith(words[-1]) if is_prefix else last == words[-1]) and found[
            start : start + count - 1
        ] == list(words[:-1]):
            return True
    return False


Predicate = Callable[[SearchedMessage], bool]


def parse(text: str, now: datetime) -> Predicate:
    """Parse the value of `$search`. Property restrictions are valid only inside its double quotes."""
    return _KqlParser(list(_tokenize(_unwrap_clauses(text.strip()))), now).parse()


def _unwrap_clauses(text: str) -> str:
    """Return the KQL of a value: its quoted clauses, and words and operators between them."""
    outside = _CLAUSE.sub(lambda clause: " " * len(clause[0]), text)
    for character in ':"':
        if character in outside:
            place = f"at position {outside.index(character)} in '{text[:100]}'"
            raise bad_request(f"Syntax error: character '{character}' is not valid {place}.")
    if (only := _CLAUSE.fullmatch(text)) is not None:
        return _ESCAPE.sub(r"\1", only[1])
    return _CLAUSE.sub(lambda clause: "(" + _ESCAPE.sub(r"\1", clause[1]) + ")", text)


@dataclass(frozen=True, slots=True)
class KqlToken:
    """A parenthesis, an operator or a term, with the property that restricts it."""

    value: str
    name: str = ""
    op: str = ""
    sign: str = ""
    is_mark: bool = False


def _tokenize(text: str) -> Iterator[KqlToken]:
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        token = _TOKEN.match(text, position)
        if token is None or token.end() == position:
            position += 1
            continue
        position = token.end()
        if token["mark"]:
            yield KqlToken(token["mark"], is_mark=True)
        else:
            name, op = token["name"] or "", token["op"] or ""
            yield KqlToken(token["value"] or "", name.lower(), op, token["sign"] or "")


@dataclass(frozen=True, slots=True)
class _Term:
    """A predicate and the property it restricts; adjacent terms of one property are alternatives."""

    fits: Predicate
    name: str = ""


class _KqlParser:
    """A recursive descent parser: NOT binds before AND, AND before OR."""

    def __init__(self, tokens: list[KqlToken], now: datetime) -> None:
        self._tokens = tokens
        self._now = now
        self._position: int = 0
        self._depth = 0
        self._has_operators = any(_is_operator(token) for token in tokens)

    def parse(self) -> Predicate:
        terms: list[_Term] = []
        while self._position < len(self._tokens):
            start = self._position
            terms += self._parse_list("")
            if self._position == start:  # a parenthesis that nothing opened
                self._position += 1
        if not terms:
            raise bad_request("The search query is empty or contains only operators.")
        return self._join(terms)

    def _parse_list(self, name: str) -> list[_Term]:
        """Parse up to the end or a closing parenthesis. `name` is the property before the parenthesis."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise bad_request("The search query is too complex.")
        alternatives: list[list[_Term]] = [[]]
        while (token := self._peek()) is not None and not _is_mark(token, ")"):
            if _is_operator(token) and token.value != "NOT":
                self._position += 1
                if token.value == "OR":
                    alternatives.append([])
            else:
                alternatives[-1] += self._parse_operand(name)
        self._depth -= 1
        filled = [terms for terms in alternatives if terms]
        if len(filled) < 2:
            return filled[0] if filled else []
        return [_Term(_any_of([self._join(terms) for terms in filled]))]

    def _parse_operand(self, name: str) -> list[_Term]:
        """Parse a term or a group, and any NOTs before it; nothing if the query ends or is out of order."""
        is_negated = False
        while (token := self._peek()) is not None and _is_operator(token) and token.value == "NOT":
            self._position += 1
            is_negated = not is_negated
        if token is None or _is_mark(token, ")") or _is_operator(token):
            return []
        self._position += 1
        terms = self._parse_term(token, name)
        return self._negate(terms) if is_negated else terms

    def _parse_term(self, token: KqlToken, name: str) -> list[_Term]:
        if token.is_mark:
            return self._parse_group(name)
        following = self._peek()
        if token.op and not token.value and following is not None and _is_mark(following, "("):
            self._position += 1
            return self._parse_group(token.name)
        term = _make_term(token, name, self._now)
        if term is None:
            return []
        return self._negate([term]) if token.sign == "-" else [term]

    def _parse_group(self, name: str) -> list[_Term]:
        terms = self._parse_list(name)
        if (closing := self._peek()) is not None and _is_mark(closing, ")"):
            self._position += 1
        return [_Term(self._join(terms))] if terms else []

    def _negate(self, terms: list[_Term]) -> list[_Term]:
        if not terms:
            return []
        fits = self._join(terms)
        return [_Term(lambda message: not fits(message))]

    def _join(self, terms: list[_Term]) -> Predicate:
        """Join terms without an operator between them: with AND, but OR within one property.

        With any operator in the query, they are always joined with AND.
        """
        if self._has_operators:
            return _all_of([term.fits for term in terms])
        by_name: dict[str, list[Predicate]] = {}
        for position, term in enumerate(terms):
            by_name.setdefault(term.name or str(position), []).append(term.fits)
        return _all_of([_any_of(predicates) for predicates in by_name.values()])

    def _peek(self) -> KqlToken | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None


def _is_mark(token: KqlToken, mark: str) -> bool:
    return token.is_mark and token.value == mark


def _is_operator(token: KqlToken) -> bool:
    return not token.name and not token.sign and token.value in _OPERATORS


def _all_of(predicates: list[Predicate]) -> Predicate:
    return (
        predicates[0] if len(predicates) == 1 else lambda message: all(fits(message) for fits in predicates)
    )


def _any_of(predicates: list[Predicate]) -> Predicate:
    return (
        predicates[0] if len(predicates) == 1 else lambda message: any(fits(message) for fits in predicates)
    )


def _make_term(token: KqlToken, inherited: str, now: datetime) -> _Term | None:
    """Return the predicate of a term, or None if it contains no words."""
    name, op = (token.name, token.op) if token.op else (inherited, ":")
    value = token.value.strip('"') if token.value.startswith('"') else token.value
    fits = _make_restriction(name, op, value, token.value, now) if name and value else None
    if fits is not None:
        return _Term(fits, name)
    text = f"{token.name} {token.value}" if token.op else token.value
    free = _match_words(text, _DEFAULT_SOURCES)
    return None if free is None else _Term(free)


def _make_restriction(name: str, op: str, value: str, written: str, now: datetime) -> Predicate | None:
    fits: Predicate | None = None
    if name in _TEXT_PROPERTIES and op in {":", "=", "<>"}:
        fits = _match_words(written, _TEXT_PROPERTIES[name])
    elif name in _BOOLEANS and op in {":", "=", "<>"} and value.lower() in _TRUTH:
        path, expected = _BOOLEANS[name], _TRUTH[value.lower()]
        fits = lambda message: message.view(path) is expected  # noqa: E731 - one of several forms
    elif name == "importance" and op in {":", "=", "<>"} and value.lower() in _IMPORTANCE:
        importance = _IMPORTANCE[value.lower()]
        fits = lambda message: message.view("importance") == importance  # noqa: E731
    elif name == "kind" and op in {":", "=", "<>"}:
        kind = value.lower()
        fits = lambda message: kind == ("meetings" if message.view.meeting else "email")  # noqa: E731
    elif name == "size":
        return _compare_interval(op, _parse_interval(value, _parse_size), lambda message: message.size)
    elif name in _DATES:
        path = _DATES[name]
        interval = _parse_interval(value, lambda text: _parse_date_interval(text, now))
        return _compare_interval(op, interval, lambda message: _to_datetime(message.view(path)))
    if fits is None or op != "<>":
        return fits
    wanted = fits
    return lambda message: not wanted(message)


def _match_words(written: str, sources: Sequence[str]) -> Predicate | None:
    words = [word.casefold() for word in _WORD.findall(written)]
    is_prefix = written.rstrip('"').endswith("*")
    if not words:
        return None
    return lambda message: message.contains(sources, words, is_prefix=is_prefix)


Interval = tuple[Any, Any]  # first value, first value after it


def _parse_interval(text: str, parse_value: Callable[[str], Interval | None]) -> Interval | None:
    """Parse a value or a range `first..last`."""
    first_text, dots, last_text = text.partition("..")
    first = parse_value(first_text)
    if not dots:
        return first
    last = parse_value(last_text)
    return None if first is None or last is None else (first[0], last[1])


def _compare_interval(
    op: str, interval: Interval | None, read: Callable[[SearchedMessage], Any]
) -> Predicate | None:
    """Compare a value with an interval, such as a day: later is after its end, earlier before its start."""
    if interval is None:
        return None
    first, end = interval
    if op in _COMPARISONS:
        compare = _COMPARISONS["<" if op.startswith("<") else ">="]
        bound = first if op in {"<", ">="} else end
        return lambda message: (value := read(message)) is not None and compare(value, bound)
    inside = op != "<>"
    return lambda message: (value := read(message)) is not None and (first <= value < end) is inside


def _parse_size(text: str) -> Interval | None:
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        return None
    return int(text), int(text) + 1


def _parse_date_interval(text: str, now: datetime) -> Interval | None:
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if (named := _name_interval(text.lower(), today)) is not None:
        return named
    try:
        for form in _DATE_FORMATS:
            try:
                day = datetime.strptime(text, form).replace(tzinfo=UTC)
            except ValueError:
                continue
            return day, day + timedelta(days=1)
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment, moment + timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None


def _name_interval(name: str, today: datetime) -> Interval | None:
    """Return the interval of a name such as `this week`, which begins on Sunday."""
    month, year = today.replace(day=1), today.replace(month=1, day=1)
    week = today - timedelta(days=(today.weekday() + 1) % 7)
    day = timedelta(days=1)
    intervals = {
        "today": (today, today + day),
        "yesterday": (today - day, today),
        "this week": (week, week + 7 * day),
        "this month": (month, (month + 31 * day).replace(day=1)),
        "last month": ((month - day).replace(day=1), month),
        "this year": (year, (year + 366 * day).replace(month=1, day=1)),
        "last year": ((year - day).replace(month=1, day=1), year),
    }
    return intervals.get(name)


def _to_datetime(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
