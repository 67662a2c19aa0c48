"""Address lists as they are written: quotes, comments, groups, encoded words, and none of it right."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from postroom.mime.encoded_words import decode_words

_SIMPLE = re.compile(r'\s*(?:"([^"\\]*)"|([^"(),:;<>@\\]*?))\s*<([^\s"(),:;<>@\\]+@[^\s"(),:;<>@\\]+)>\s*')
_BARE = re.compile(r'\s*([^\s"(),:;<>@\\]+@[^\s"(),:;<>@\\]+)\s*')
# A list is read as these: text in quotes, comments, what separates, and runs of everything else.
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"?|([(),:;<>])|(\\.|\\)|([^"(),:;<>\\]+)', re.DOTALL)
_ANYWHERE = re.compile(r'[^\s"<>]+@[^\s"<>]+')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPACES = re.compile(r"\s+")

MOST_ADDRESSES = 5_000  # of one list; more is an attack, and one row must hold them
MOST_CHARACTERS = 500_000
MOST_OF_AN_ADDRESS = 1_000


@dataclass(frozen=True, slots=True)
class MailAddress:
    """Somebody, as the message names them. Either may be empty, never both."""

    name: str
    address: str


def parse_addresses(values: Iterable[str]) -> tuple[MailAddress, ...]:
    """Everybody whom these header values name, members of groups included."""
    found: list[MailAddress] = []
    for value in values:
        for each in _parse_list(value[:MOST_CHARACTERS]):
            found.append(each)
            if len(found) == MOST_ADDRESSES:
                return tuple(found)
    return tuple(found)


def _parse_list(value: str) -> Iterable[MailAddress]:
    if len(value) < 300 and (match := _BARE.fullmatch(value)):
        return (MailAddress("", match[1]),)
    if len(value) < 300 and (match := _SIMPLE.fullmatch(value)):
        return (MailAddress(_clean_name(match[1] or match[2] or ""), match[3]),)
    return _merge_entries(_entries(value))


def _clean_name(text: str) -> str:
    return _SPACES.sub(" ", decode_words(text)).strip()


@dataclass(slots=True)
class _AddressEntry:
    """What stands between two commas, while it is being read."""

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
            if entry.angle is not None:  # nobody separated the two
                yield entry
                entry = _AddressEntry(entry.after)
            inside, entry.angle = True, ""
        elif mark == ">":
            inside = False
        elif inside and (mark not in {",", ";"} or (entry.angle or "").startswith("@")):
            entry.angle = f"{entry.angle}{match[0]}"[:MOST_OF_AN_ADDRESS]
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
    """A name with a comma that nobody quoted, `Doe, Jane <jane@…>`, is one person and not two."""
    before: list[str] = []
    for entry in entries:
        words = "".join(entry.words).strip()
        if entry.angle is not None:
            name = ", ".join([*before, *([words] if words else [])]) or " ".join(entry.comments)
            name = _clean_name(name).removeprefix(", ")
            before.clear()
            if (address := _clean_address(entry.angle)) or name:
                yield MailAddress(name, address)
        elif match := _ANYWHERE.search(words):
            name = words if entry.quoted or match[0] != words else " ".join(entry.comments)
            yield MailAddress(_clean_name(name.replace(match[0], "")).strip(" <>"), match[0])
        elif words:
            before.append(words)
    if before:
        yield MailAddress(_clean_name(", ".join(before)), "")


def _clean_address(text: str) -> str:
    """The address between the angle brackets, without an obsolete route in front of it."""
    return _SPACES.sub("", decode_words(text.rpartition(":")[2] if text.lstrip().startswith("@") else text))
