"""Parses the address lists of headers: quotes, comments, groups, encoded words, correct or not."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from postroom.mime.encoded_words import decode_words

_BARE = re.compile(r'[^\s"(),:;<>@\\]+@[^\s"(),:;<>@\\]+')
_SIMPLE = re.compile(rf'(?:"([^"\\]*)"\s*|([^"(),:;<>@\\]*))<({_BARE.pattern})>')
# The tokens of a list: quoted text, separators and comment marks, escapes, and runs of everything else.
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"?|([(),:;<>])|(\\.|\\)|([^"(),:;<>\\]+)', re.DOTALL)
_NOT_ADDRESS = re.compile(r'[\s"<>]')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPACES = re.compile(r"\s+")

MAX_ADDRESSES = 5_000  # of one header; more is an attack, and all go into one row
MAX_CHARACTERS = 500_000
MAX_ADDRESS_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class MailAddress:
    """A sender or recipient as the message names them. Either field may be empty, never both."""

    name: str
    address: str


def parse_addresses(values: Iterable[str]) -> tuple[MailAddress, ...]:
    """All addresses in these header values, members of groups included."""
    addresses: list[MailAddress] = []
    for value in values:
        for address in _parse_list(value[:MAX_CHARACTERS]):
            addresses.append(address)
            if len(addresses) == MAX_ADDRESSES:
                return tuple(addresses)
    return tuple(addresses)


def _parse_list(value: str) -> Iterable[MailAddress]:
    value = value.strip()
    if len(value) < 300 and _BARE.fullmatch(value):
        return (MailAddress("", value),)
    if len(value) < 300 and (match := _SIMPLE.fullmatch(value)):
        return (MailAddress(_clean_name(match[1] or match[2] or ""), match[3]),)
    return _merge_entries(_entries(value))


def _clean_name(text: str) -> str:
    return _SPACES.sub(" ", decode_words(text)).strip()


@dataclass(slots=True)
class _AddressEntry:
    """An entry between two commas, while it is parsed."""

    words: list[str]
    angle: str | None = None
    comments: list[str] = field(default_factory=list[str])
    after: list[str] = field(default_factory=list[str])
    quoted: bool = False


def _entries(value: str) -> Iterator[_AddressEntry]:
    entry, depth, inside = _AddressEntry([]), 0, False
    for match in _TOKEN.finditer(value):
        mark = match[2]
        if mark == "(" or (mark == ")" and depth):
            depth += 1 if mark == "(" else -1
        elif depth:
            entry.comments.append(match[0])
        elif mark == "<":
            if entry.angle is not None:  # the separator is missing
                yield entry
                entry = _AddressEntry(entry.after)
            inside, entry.angle = True, ""
        elif mark == ">":
            inside = False
        elif inside and (mark not in {",", ";"} or (entry.angle or "").startswith("@")):
            entry.angle = f"{entry.angle}{match[0]}"[:MAX_ADDRESS_CHARACTERS]
        elif mark in {",", ";"}:
            yield entry
            entry, inside = _AddressEntry([]), False
        elif mark == ":":
            entry = _AddressEntry([])  # the name of a group ends here
        else:
            _add_words(entry, match)
    yield entry


def _add_words(entry: _AddressEntry, token: re.Match[str]) -> None:
    quoted = token[1] is not None
    entry.quoted = entry.quoted or quoted
    words = _ESCAPED.sub(r"\1", token[1]) if quoted else token[0]
    (entry.words if entry.angle is None else entry.after).append(words)


def _merge_entries(entries: Iterable[_AddressEntry]) -> Iterator[MailAddress]:
    """An unquoted name with a comma, `Doe, Jane <jane@…>`, is one person and not two."""
    before: list[str] = []
    for entry in entries:
        words = "".join(entry.words).strip()
        if entry.angle is not None:
            name = ", ".join([*before, *([words] if words else [])]) or " ".join(entry.comments)
            name = _clean_name(name)
            name = name if entry.quoted else name.removeprefix(", ")
            before.clear()
            if (address := _clean_address(entry.angle)) or name:
                yield MailAddress(name, address)
        elif address := _find_address(words):
            name = words if entry.quoted or address != words else " ".join(entry.comments)
            yield MailAddress(_clean_name(name.replace(address, "")).strip(" <>"), address)
        elif words:
            before.append(words)
    if before:
        yield MailAddress(_clean_name(", ".join(before)), "")


def _find_address(words: str) -> str | None:
    """The first run of characters with an @ inside it."""
    if "@" not in words:
        return None
    return next((run for run in _NOT_ADDRESS.split(words) if "@" in run[1:-1]), None)


def _clean_address(text: str) -> str:
    """The address between the angle brackets, without an obsolete route in front of it."""
    return _SPACES.sub("", decode_words(text.rpartition(":")[2] if text.lstrip().startswith("@") else text))
