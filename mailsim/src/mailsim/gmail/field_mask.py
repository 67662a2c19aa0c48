"""Partial responses: parse the `fields` parameter into a mask, check it against the schema, apply it.

Syntax: `messages(id,payload/headers),nextPageToken`. Commas separate names, `/` selects a child,
parentheses group, `*` is a wildcard.
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
    """Parse the mask for a response of this type. Raise GmailError for unknown paths, as Google does."""
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
        beneath = mask.get(key, star)  # pyright: ignore[reportUnknownArgumentType]
        if beneath is None:
            continue
        part = apply_mask(beneath, item)
        if part not in ({}, []) or item in ({}, []):
            left[key] = part
    return left


def _tokenize(text: str) -> list[str]:
    found: list[str] = []
    place = 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None:
            raise _invalid_path_error(text, text[place:])
        found.append(match[1])
        place = match.end()
    return found


def _parse_group(tokens: list[str], place: int, text: str, depth: int) -> tuple[Mask, int]:
    mask: Mask = {}
    while True:
        place = _parse_path(tokens, place, text, mask, depth)
        if place >= len(tokens) or tokens[place] != ",":
            return mask, place
        place += 1


def _parse_path(tokens: list[str], place: int, text: str, mask: Mask, depth: int) -> int:
    """Add one path to the mask. An existing shorter path wins, because it selects everything below it."""
    if place >= len(tokens) or tokens[place] in {",", "/", "(", ")"} or depth > _MAX_DEPTH:
        raise _invalid_path_error(text, tokens[place] if place < len(tokens) else "")
    name = tokens[place]
    place += 1
    follows = tokens[place] if place < len(tokens) else ""
    beneath: Mask = {}
    if follows == "/":
        place = _parse_path(tokens, place + 1, text, beneath, depth + 1)
    elif follows == "(":
        beneath, place = _parse_group(tokens, place + 1, text, depth + 1)
        if place >= len(tokens) or tokens[place] != ")":
            raise _invalid_path_error(text, name)
        place += 1
    _merge_path(mask, name, beneath)
    return place


def _merge_path(mask: Mask, name: str, beneath: Mask) -> None:
    if name not in mask or not beneath:
        mask[name] = beneath
        return
    if not mask[name]:
        return
    for key, value in beneath.items():
        _merge_path(mask[name], key, value)


def _check_paths(mask: Mask, type_name: str, text: str, above: str) -> None:
    known = SCHEMA.get(type_name, {})
    for name, beneath in mask.items():
        path = f"{above}/{name}" if above else name
        if name == "*":
            continue
        if name not in known or (beneath and not known[name]):
            raise _invalid_path_error(text, path)
        if beneath:
            _check_paths(beneath, known[name], text, path)


def _invalid_path_error(text: str, path: str) -> GmailError:
    description = f"Error expanding 'fields' parameter. Cannot find matching fields for path '{path}'."
    return bad_field(text, description, "Request contains an invalid argument.")
