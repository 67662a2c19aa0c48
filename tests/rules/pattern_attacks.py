"""Strings made to be slow for one regular expression, derived from its own parse tree.

For each repetition without a limit: what comes before it, many of what it repeats, and what cannot follow.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from re import _constants as codes  # pyright: ignore[reportAttributeAccessIssue]
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]

Pattern = re.Pattern[str] | re.Pattern[bytes]

_ALPHABET = "aZ1 -._/,=?<@:\"'\n;&#(é"
_KILLER = "\x00"
_UNLIMITED = 400  # a repetition with a limit above this counts as one without
_REPEATS = {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}


def make_attacks(pattern: Pattern) -> Iterator[Callable[[int], str]]:
    """Yield functions from a size to a text; a slow pattern needs more than linear time for one of them."""
    seen: set[tuple[str, str]] = set()
    for before, pump in _find_pumps(parser.parse(pattern.pattern, pattern.flags), ""):
        if pump and (before, pump) not in seen:
            seen.add((before, pump))
            yield lambda size, before=before, pump=pump: before + pump * size + _KILLER
            yield lambda size, before=before, pump=pump: (before + pump) * (size // 2) + _KILLER


def _find_pumps(nodes: Sequence, before: str) -> Iterator[tuple[str, str]]:
    """Yield a text that leads to each repetition without a limit, and a text that it repeats."""
    for operation, value in nodes:
        if operation in _REPEATS:
            _, most, body = value
            if most == codes.MAXREPEAT or most > _UNLIMITED:
                for pump in _examples(body):
                    yield before, pump
                    yield "", pump
            yield from _find_pumps(body, before)
        elif operation is codes.BRANCH:
            for branch in value[1]:
                yield from _find_pumps(branch, before)
        elif operation is codes.SUBPATTERN:
            yield from _find_pumps(value[3], before)
        elif operation is codes.ATOMIC_GROUP:
            yield from _find_pumps(value, before)
        elif operation in {codes.ASSERT, codes.ASSERT_NOT}:
            yield from _find_pumps(value[1], before)
        before += _example([(operation, value)])


def _examples(body: Sequence) -> Iterator[str]:
    """Yield texts that the body of a repetition matches: each character of the alphabet that it can be."""
    if len(body) == 1 and body[0][0] in {codes.IN, codes.ANY, codes.NOT_LITERAL}:
        yield from [each for each in _ALPHABET if _matches_one(body[0], each)]
    yield _example(body)


def _matches_one(node: tuple, character: str) -> bool:
    operation, value = node
    if operation is codes.ANY:
        return True
    if operation is codes.NOT_LITERAL:
        return value != ord(character)
    found = any(_is_member(item, character) for item in value)
    return found != (value[0][0] is codes.NEGATE)


def _is_member(item: tuple, character: str) -> bool:
    operation, value = item
    match operation:
        case codes.LITERAL:
            return value == ord(character)
        case codes.RANGE:
            return value[0] <= ord(character) <= value[1]
        case codes.CATEGORY:
            category = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[str(value).rpartition("_")[2]]
            return bool(re.match(category, character)) != ("NOT" in str(value))
        case _:
            return False


def _example(nodes: Sequence) -> str:
    return "".join(_example_of(operation, value) for operation, value in nodes)


def _example_of(operation: object, value) -> str:
    if operation is codes.LITERAL:
        return chr(value)
    if operation in {codes.IN, codes.ANY, codes.NOT_LITERAL}:
        known = (each for each in _ALPHABET if _matches_one((operation, value), each))
        return next(known, None) or _any_member(value)
    if operation in _REPEATS:
        return _example(value[2]) * min(max(value[0], 1), 20)
    if operation is codes.BRANCH:
        return _example(value[1][0])
    if operation is codes.SUBPATTERN:
        return _example(value[3])
    if operation is codes.ATOMIC_GROUP:
        return _example(value)
    return ""


def _any_member(items) -> str:
    first = items[0] if items else (None, 0)
    return chr(first[1] if first[0] is codes.LITERAL else first[1][0] if first[0] is codes.RANGE else 120)
