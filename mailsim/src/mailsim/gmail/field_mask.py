"""Partial responses: the `fields` parameter parsed into a mask, checked against the schema and applied.

`messages(id,payload/headers),nextPageToken`: names joined by commas, `/` goes down, parentheses group,
`*` is all.
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
def mask_for(text: str, type_name: str) -> Mask:
    """The mask for a response of this type; raises Refusal as Google does for paths that do not exist."""
    tokens = _tokens(text)
    mask, rest = _group(tokens, 0, text, 0)
    if rest != len(tokens):
        raise _refuse(text, tokens[rest])
    _check(mask, type_name, text, "")
    return mask


def apply(mask: Mask, value: Any) -> Any:
    """What the mask leaves of a JSON value. An empty mask means everything."""
    if not mask:
        return value
    if isinstance(value, list):
        kept = [apply(mask, item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        return [item for item in kept if item != {}]
    if not isinstance(value, dict):
        return value
    star = mask.get("*")
    left: dict[str, Any] = {}
    for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
        beneath = mask.get(key, star)  # pyright: ignore[reportUnknownArgumentType]
        if beneath is None:
            continue
        part = apply(beneath, item)
        if part not in ({}, []) or item in ({}, []):
            left[key] = part
    return left


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    place = 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None:
            raise _refuse(text, text[place:])
        found.append(match[1])
        place = match.end()
    return found


def _group(tokens: list[str], place: int, text: str, depth: int) -> tuple[Mask, int]:
    mask: Mask = {}
    while True:
        place = _path(tokens, place, text, mask, depth)
        if place >= len(tokens) or tokens[place] != ",":
            return mask, place
        place += 1


def _path(tokens: list[str], place: int, text: str, mask: Mask, depth: int) -> int:
    """Adds one path to the mask. A shorter path that is there already wins: it selects everything beneath."""
    if place >= len(tokens) or tokens[place] in {",", "/", "(", ")"} or depth > _MAX_DEPTH:
        raise _refuse(text, tokens[place] if place < len(tokens) else "")
    name = tokens[place]
    place += 1
    follows = tokens[place] if place < len(tokens) else ""
    beneath: Mask = {}
    if follows == "/":
        place = _path(tokens, place + 1, text, beneath, depth + 1)
    elif follows == "(":
        beneath, place = _group(tokens, place + 1, text, depth + 1)
        if place >= len(tokens) or tokens[place] != ")":
            raise _refuse(text, name)
        place += 1
    _merge(mask, name, beneath)
    return place


def _merge(mask: Mask, name: str, beneath: Mask) -> None:
    if name not in mask or not beneath:
        mask[name] = beneath
        return
    if not mask[name]:
        return
    for key, value in beneath.items():
        _merge(mask[name], key, value)


def _check(mask: Mask, type_name: str, text: str, above: str) -> None:
    known = SCHEMA.get(type_name, {})
    for name, beneath in mask.items():
        path = f"{above}/{name}" if above else name
        if name == "*":
            continue
        if name not in known or (beneath and not known[name]):
            raise _refuse(text, path)
        if beneath:
            _check(beneath, known[name], text, path)


def _refuse(text: str, path: str) -> GmailError:
    description = f"Error expanding 'fields' parameter. Cannot find matching fields for path '{path}'."
    return bad_field(text, description, "Request contains an invalid argument.")
