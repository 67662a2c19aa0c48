"""Parser of Gmail's search syntax: words, phrases, operators, OR, `-` and groups.

It never fails: whatever is not an operator is a word, as in Gmail. `search_matching` evaluates the result.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<open>[({])
      | (?P<close>[)}])
      | (?P<minus>-(?=[\w"({*@<]))
      | (?P<op>[A-Za-z_0-9]+):(?=\s*[^\s)}])
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
    """Words that must occur in sequence; mostly a single word."""

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


def parse_search(text: str) -> SearchTerm:
    tokens = _tokenize(text[:8192])
    terms: list[SearchTerm] = []
    position = 0
    while position < len(tokens):
        term, position = _parse_sequence(tokens, position, "", 0)
        terms.append(term)
        position += 1  # skip an unmatched closing bracket
    return _combine_terms(terms)


def _tokenize(text: str) -> list[_QueryToken]:
    found: list[_QueryToken] = []
    position = 0
    while match := _TOKEN.match(text, position):
        kind = match.lastgroup or "word"
        value = match[kind]
        if kind == "op" and value.lower() not in OPERATORS:
            # `http://x` and `12:30` are words, not operators.
            whole = re.compile(r"\s*([^\s(){}\"]+)").match(text, position)
            assert whole is not None
            match, kind, value = whole, "word", whole[1]
        found.append(_QueryToken(kind, value))
        position = match.end()
        if position >= len(text):
            break
    return found


def _parse_sequence(
    tokens: list[_QueryToken], position: int, closing: str, depth: int
) -> tuple[SearchTerm, int]:
    """Parse terms up to the closing bracket.

    Braces mean alternatives; `OR` joins its two neighbours.
    """
    groups: list[list[SearchTerm]] = []
    joined = False
    while position < len(tokens) and tokens[position].kind != "close":
        token = tokens[position]
        if token.kind == "word" and token.text in {"OR", "|"}:
            joined = bool(groups)
            position += 1
            continue
        if token.kind == "word" and token.text == "AND":
            position += 1
            continue
        term, position = _parse_term(tokens, position, depth)
        if term is None:
            continue
        if joined:
            groups[-1].append(term)
        else:
            groups.append([term])
        joined = False
    terms = [group[0] if len(group) == 1 else AnyOfTerms(tuple(group)) for group in groups]
    return (AnyOfTerms(tuple(terms)) if closing == "}" else _combine_terms(terms)), position


def _parse_term(tokens: list[_QueryToken], position: int, depth: int) -> tuple[SearchTerm | None, int]:
    token = tokens[position]
    match token.kind:
        case "minus":
            if position + 1 >= len(tokens):
                return None, position + 1
            term, position = _parse_term(tokens, position + 1, depth)
            return (NotTerm(term) if term is not None else None), position
        case "op":
            return _parse_operator(tokens, position, depth)
        case "open":
            if depth > 50:
                return None, position + 1
            term, position = _parse_sequence(
                tokens, position + 1, ")" if token.text == "(" else "}", depth + 1
            )
            return term, position + 1
        case _:
            return (PhraseTerm(token.text) if token.text.strip() else None), position + 1


def _parse_operator(tokens: list[_QueryToken], position: int, depth: int) -> tuple[SearchTerm | None, int]:
    """Parse an operator. It distributes over a group: `from:(amy bob)` requires both."""
    name = tokens[position].text.lower()
    if position + 1 >= len(tokens):
        return None, position + 1
    follower = tokens[position + 1]
    if follower.kind in {"word", "phrase"}:
        return OperatorTerm(name, follower.text), position + 2
    value, position = _parse_term(tokens, position + 1, depth)
    return (_distribute(name, value) if value is not None else None), position


def _distribute(name: str, term: SearchTerm) -> SearchTerm:
    match term:
        case PhraseTerm(text):
            return OperatorTerm(name, text)
        case OperatorTerm():
            return term
        case AllOfTerms(terms):
            return AllOfTerms(tuple(_distribute(name, term) for term in terms))
        case AnyOfTerms(terms):
            return AnyOfTerms(tuple(_distribute(name, term) for term in terms))
        case NotTerm(inner):
            return NotTerm(_distribute(name, inner))


def _combine_terms(terms: list[SearchTerm]) -> SearchTerm:
    return terms[0] if len(terms) == 1 else AllOfTerms(tuple(terms))
