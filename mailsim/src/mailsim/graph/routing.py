"""GraphRoute and RouteTable: match Graph's paths, with keys as segments or in parentheses.

Names match in any case. The routes themselves are in `api`.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from mailsim.graph.authorization import RequiredPermission
from mailsim.graph.errors import bad_request, method_not_allowed, no_such_path, not_simulated
from mailsim.graph.request import GraphCall, GraphResponse
from mailsim.graph.unsimulated import get_unsimulated_methods, is_directory_function

RouteHandler = Callable[[GraphCall], Awaitable[GraphResponse]]
_KEYED = re.compile(r"([\w.$]+)\((.*)\)", re.DOTALL)
# In the place of a folder's id.
_FUNCTION = re.compile(r"\$.*|(microsoft\.graph\.)?delta", re.IGNORECASE | re.DOTALL)
MAX_PATH_LENGTH = 8192


@dataclass(frozen=True, slots=True)
class GraphRoute:
    """A method on a path. `pattern` has names in lower case and `*` for variable segments."""

    method: str
    pattern: tuple[str, ...]
    endpoint: str
    permission: RequiredPermission
    handler: RouteHandler

    @property
    def addresses_user(self) -> bool:
        return self.pattern[:2] == ("users", "*")


def make_route(
    method: str, pattern: str, endpoint: str, permission: RequiredPermission, handler: RouteHandler
) -> GraphRoute:
    return GraphRoute(method, tuple(pattern.split("/")), endpoint, permission, handler)


def split_path(path: str) -> list[str]:
    """`/me/mailFolders('inbox')/messages/delta()` -> users, me, mailFolders, inbox, messages, delta."""
    if len(path) > MAX_PATH_LENGTH:
        raise bad_request("The request URI is too long.")
    parts: list[str] = []
    for piece in path.split("/"):
        if not piece:
            continue
        text = unquote(piece)
        keyed = _KEYED.fullmatch(text)
        if keyed is None:
            parts.append(text)
            continue
        parts.append(keyed[1])
        if keyed[2]:
            parts.append(keyed[2][1:-1].replace("''", "'") if keyed[2][:1] == "'" else keyed[2])
    if parts and parts[0].lower() == "me":
        parts[0:1] = ["users", "me"]
    return _drop_parent_folders(parts)


def _drop_parent_folders(parts: list[str]) -> list[str]:
    """Shorten mailFolders/{a}/childFolders/{b}/… to mailFolders/{b}/…, where {b} is an id, not a function."""
    while len(parts) > 5 and parts[4].lower() == "childfolders" and not _FUNCTION.fullmatch(parts[5]):
        del parts[3:5]
    return parts


class RouteTable:
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[GraphRoute]) -> None:
        self.routes = tuple(routes)
        self._by_length: dict[int, list[GraphRoute]] = {}
        for route in sorted(routes, key=lambda route: route.pattern.count("*")):
            self._by_length.setdefault(len(route.pattern), []).append(route)

    def find(self, method: str, path: str, version: str) -> tuple[GraphRoute, tuple[str, ...]]:
        """Return the route and the values of its variable segments."""
        parts = split_path(path)
        lowered = [name.lower().removeprefix("microsoft.graph.") for name in parts]
        is_function = is_directory_function(lowered)
        path_exists = False
        for route in self._by_length.get(len(parts), []):
            if is_function and "*" in route.pattern:
                continue
            pairs = zip(route.pattern, lowered, strict=True)
            if all(expected in {"*", name} for expected, name in pairs):
                if route.method == method:
                    pairs = zip(route.pattern, parts, strict=True)
                    return route, tuple(name for expected, name in pairs if expected == "*")
                path_exists = True
        unsimulated = get_unsimulated_methods(lowered, version)
        if method in unsimulated:
            raise not_simulated(method, f"/{version}{path}")
        if path_exists or unsimulated:
            raise method_not_allowed(method)
        raise no_such_path(parts[-1][:100] if parts else "")
