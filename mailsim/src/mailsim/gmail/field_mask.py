"""Partial responses: parse the `fields` parameter to a mask, check it, and apply it to JSON.

Syntax: `messages(id,payload/headers),nextPageToken`. Commas separate names, `/` selects a child, parentheses
group, `*` is a wildcard. `response_schema` is the schema.
"""

import re
from functools import lru_cache
from typing import Any, TypeAlias

from mailsim.gmail.errors import GmailError, bad_field
from mailsim.gmail.response_schema import SCHEMA

Mask: TypeAlias = "dict[str, Mask]"
_TOKEN = re.compile(r"\s*([A-Za-z_$][\w.$-]*|[*,/()])")
_MAX_DEPTH = 60


@lru_cache(maxsize=512)
def parse_mask(text: str, type_name: str) -> Mask:
    """Parse the mask for a response of this type.

    Raise GmailError for unknown paths, as Google does.
    """
    tokens = _tokenize(text)
    mask, rest = _parse_group(tokens, 0, text, 0)
    if rest != len(tokens):
        raise _invalid_path_error(text, tokens[rest])
    _check_paths(mask, type_name, text, "")
    return mask


def apply_mask(mask: Mask, value: Any) -> Any:
    """Apply a mask to a JSON value. An empty mask selects everything."""
    if not mask:
        return value
    if isinstance(value, list):
        kept = [apply_mask(mask, item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        return [item for item in kept if item != {}]
    if not isinstance(value, dict):
        return value
    star = mask.get("*")
    left: dict[str, Any] = {}
    for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
        submask = mask.get(key, star)  # pyright: ignore[reportUnknownArgumentType]
        if submask is None:
            continue
        part = apply_mask(submask, item)
        if part not in ({}, []) or item in ({}, []):
            left[key] = part
    return left


def _tokenize(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _invalid_path_error(text, text[position:])
        found.append(match[1])
        position = match.end()
    return found


def _parse_group(tokens: list[str], position: int, text: str, depth: int) -> tuple[Mask, int]:
    mask: Mask = {}
    while True:
        position = _parse_path(tokens, position, text, mask, depth)
        if position >= len(tokens) or tokens[position] != ",":
            return mask, position
        position += 1


def _parse_path(tokens: list[str], position: int, text: str, mask: Mask, depth: int) -> int:
    """Add one path to the mask.

    An existing shorter path wins, because it selects everything below it.
    """
    if position >= len(tokens) or tokens[position] in {",", "/", "(", ")"} or depth > _MAX_DEPTH:
        raise _invalid_path_error(text, tokens[position] if position < len(tokens) else "")
    name = tokens[position]
    position += 1
    follows = tokens[position] if position < len(tokens) else ""
    submask: Mask = {}
    if follows == "/":
        position = _parse_path(tokens, position + 1, text, submask, depth + 1)
    elif follows == "(":
        submask, position = _parse_group(tokens, position + 1, text, depth + 1)
        if position >= len(tokens) or tokens[position] != ")":
            raise _invalid_path_error(text, name)
        position += 1
    _merge_path(mask, name, submask)
    return position


def _merge_path(mask: Mask, name: str, submask: Mask) -> None:
    if name not in mask or not submask:
        mask[name] = submask
        return
    if not mask[name]:
        return
    for key, value in submask.items():
        _merge_path(mask[name], key, value)


def _check_paths(mask: Mask, type_name: str, text: str, above: str) -> None:
    properties = SCHEMA.get(type_name, {})
    for name, submask in mask.items():
        path = f"{above}/{name}" if above else name
        if name == "*":
            continue
        if name not in properties or (submask and not properties[name]):
            raise _invalid_path_error(text, path)
        if submask:
            _check_paths(submask, properties[name], text, path)


def _invalid_path_error(text: str, path: str) -> GmailError:
    description = f"Error expanding 'fields' parameter. Cannot find matching fields for path '{path}'."
    return bad_field(text, description, "Request contains an invalid argument.")
