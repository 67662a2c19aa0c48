"""Paths as Graph understands them: names in any case, keys as segments or in parentheses, `me`. Pure."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from mailsim.graph.access import Need
from mailsim.graph.context import Answer, Call
from mailsim.graph.errors import bad_request, method_not_allowed, no_such_path

Work = Callable[[Call], Awaitable[Answer]]
_KEYED = re.compile(r"([\w.$]+)\((.*)\)", re.DOTALL)
LONGEST_PATH = 8192


@dataclass(frozen=True, slots=True)
class Place:
    """A method on a path. `pattern`: names in lower case, `*` where a value stands."""

    method: str
    pattern: tuple[str, ...]
    endpoint: str
    need: Need
    work: Work


def place(method: str, pattern: str, endpoint: str, need: Need, work: Work) -> Place:
    return Place(method, tuple(pattern.split("/")), endpoint, need, work)


def segments(path: str) -> list[str]:
    """`/me/mailFolders('inbox')/messages/delta()` -> users, me, mailFolders, inbox, messages, delta."""
    if len(path) > LONGEST_PATH:
        raise bad_request("The request URI is too long.")
    found: list[str] = []
    for piece in path.split("/"):
        if not piece:
            continue
        text = unquote(piece)
        keyed = _KEYED.fullmatch(text)
        if keyed is None:
            found.append(text)
            continue
        found.append(keyed[1])
        if keyed[2]:
            found.append(keyed[2][1:-1].replace("''", "'") if keyed[2][:1] == "'" else keyed[2])
    if found and found[0].lower() == "me":
        found[0:1] = ["users", "me"]
    return _without_parents(found)


def _without_parents(found: list[str]) -> list[str]:
    """mailFolders/{a}/childFolders/{b}/… is about b alone."""
    while len(found) > 5 and found[4].lower() == "childfolders" and not found[5].startswith("$"):
        del found[3:5]
    return found


class Map:
    """Finds the place of a request among those of one service."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = tuple(places)
        self._by_length: dict[int, list[Place]] = {}
        for one in sorted(places, key=lambda one: one.pattern.count("*")):
            self._by_length.setdefault(len(one.pattern), []).append(one)

    def find(self, method: str, path: str) -> tuple[Place, tuple[str, ...]]:
        """The place, and what stands at its stars."""
        found = segments(path)
        lowered = [name.lower().removeprefix("microsoft.graph.") for name in found]
        known = False
        for one in self._by_length.get(len(found), []):
            pairs = zip(one.pattern, lowered, strict=True)
            if all(wanted in {"*", name} for wanted, name in pairs):
                if one.method == method:
                    stars = zip(one.pattern, found, strict=True)
                    return one, tuple(name for wanted, name in stars if wanted == "*")
                known = True
        if known:
            raise method_not_allowed(method)
        raise no_such_path(found[-1][:100] if found else "")
