"""Gmail's search syntax, as far as mail clients use it: words, phrases, operators, OR, `-`, groups.

The parser never refuses: what is no operator is a word, as in Gmail. It knows no mailbox; `match.py`
evaluates.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<open>[({])
      | (?P<close>[)}])
      | (?P<minus>-(?=[\w"({*@<]))
      | (?P<op>[A-Za-z_0-9]+):(?=[^\s)}])
      | "(?P<phrase>[^"]*)"?
      | (?P<word>[^\s(){}"]+)
    )""",
    re.VERBOSE,
)
OPERATORS = frozenset(
    (
        "after",
        "before",
        "newer",
        "older",
        "newer_than",
        "older_than",
        "from",
        "to",
        "cc",
        "bcc",
        "deliveredto",
        "subject",
        "label",
        "in",
        "is",
        "has",
        "filename",
        "rfc822msgid",
        "larger",
        "smaller",
        "size",
        "category",
        "list",
    )
)


@dataclass(frozen=True, slots=True)
class PhraseTerm:
    """Words that must stand together in this order; a single word is the usual case."""

    text: str


@dataclass(frozen=True, slots=True)
class OperatorTerm:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class AllOfTerms:
    terms: "tuple[SearchTerm, ...]"


@dataclass(frozen=True, slots=True)
class AnyOfTerms:
    terms: "tuple[SearchTerm, ...]"


@dataclass(frozen=True, slots=True)
class NotTerm:
    term: "SearchTerm"


SearchTerm: TypeAlias = PhraseTerm | OperatorTerm | AllOfTerms | AnyOfTerms | NotTerm


@dataclass(frozen=True, slots=True)
class _QueryToken:
    kind: str
    text: str


def parse(text: str) -> SearchTerm:
    tokens = _tokens(text[:8192])
    terms: list[SearchTerm] = []
    place = 0
    while place < len(tokens):
        term, place = _sequence(tokens, place, "", 0)
        terms.append(term)
        place += 1  # a closing bracket that nobody opened is passed over
    return _every(terms)


def _tokens(text: str) -> list[_QueryToken]:
    found: list[_QueryToken] = []
    place = 0
    while match := _TOKEN.match(text, place):
        kind = match.lastgroup or "word"
        value = match[kind]
        if kind == "op" and value.lower() not in OPERATORS:
            # `http://x` and `12:30` are words, not operators.
            whole = re.compile(r"\s*([^\s(){}\"]+)").match(text, place)
            assert whole is not None
            match, kind, value = whole, "word", whole[1]
        found.append(_QueryToken(kind, value))
        place = match.end()
        if place >= len(text):
            break
    return found


def _sequence(tokens: list[_QueryToken], place: int, closing: str, depth: int) -> tuple[SearchTerm, int]:
    """Terms up to the closing bracket. In braces they are alternatives; `OR` binds its two neighbours."""
    groups: list[list[SearchTerm]] = []
    joined = False
    while place < len(tokens) and tokens[place].kind != "close":
        token = tokens[place]
        if token.kind == "word" and token.text in {"OR", "|"}:
            joined = bool(groups)
            place += 1
            continue
        if token.kind == "word" and token.text == "AND":
            place += 1
            continue
        term, place = _term(tokens, place, depth)
        if term is None:
            continue
        if joined:
            groups[-1].append(term)
        else:
            groups.append([term])
        joined = False
    terms = [group[0] if len(group) == 1 else AnyOfTerms(tuple(group)) for group in groups]
    return (AnyOfTerms(tuple(terms)) if closing == "}" else _every(terms)), place


def _term(tokens: list[_QueryToken], place: int, depth: int) -> tuple[SearchTerm | None, int]:
    token = tokens[place]
    match token.kind:
        case "minus":
            if place + 1 >= len(tokens):
                return None, place + 1
            term, place = _term(tokens, place + 1, depth)
            return (NotTerm(term) if term is not None else None), place
        case "op":
            return _operator(tokens, place, depth)
        case "open":
            if depth > 50:
                return None, place + 1
            term, place = _sequence(tokens, place + 1, ")" if token.text == "(" else "}", depth + 1)
            return term, place + 1
        case _:
            return (PhraseTerm(token.text) if token.text.strip() else None), place + 1


def _operator(tokens: list[_QueryToken], place: int, depth: int) -> tuple[SearchTerm | None, int]:
    """An operator distributes over a group: `from:(amy bob)` asks for both."""
    name = tokens[place].text.lower()
    if place + 1 >= len(tokens):
        return None, place + 1
    follower = tokens[place + 1]
    if follower.kind in {"word", "phrase"}:
        return OperatorTerm(name, follower.text), place + 2
    value, place = _term(tokens, place + 1, depth)
    return (_distribute(name, value) if value is not None else None), place


def _distribute(name: str, term: SearchTerm) -> SearchTerm:
    match term:
        case PhraseTerm(text):
            return OperatorTerm(name, text)
        case OperatorTerm():
            return term
        case AllOfTerms(terms):
            return AllOfTerms(tuple(_distribute(name, each) for each in terms))
        case AnyOfTerms(terms):
            return AnyOfTerms(tuple(_distribute(name, each) for each in terms))
        case NotTerm(inner):
            return NotTerm(_distribute(name, inner))


def _every(terms: list[SearchTerm]) -> SearchTerm:
    return terms[0] if len(terms) == 1 else AllOfTerms(tuple(terms))
