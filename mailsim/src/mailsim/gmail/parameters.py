"""Query parameters and JSON bodies: declaration, parsing, and conversion to Python types.

Errors are those of Google's front end. `methods` declares the parameters.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast
from urllib.parse import parse_qsl

import msgspec

from mailsim.gmail.errors import GmailError, bad_field, bad_request

ParameterKind = Literal["text", "texts", "uint32", "uint64", "bool"]
COMMON = frozenset(
    ("alt", "fields", "key", "quotaUser", "prettyPrint", "$.xgafv", "access_token", "oauth_token", "callback",
     "uploadType", "upload_protocol", "upload_id", "$alt", "$fields", "$key", "$prettyPrint", "$callback")
)  # fmt: skip
_UPPER = re.compile(r"([A-Z])")
_TYPE = {"uint32": "TYPE_UINT32", "uint64": "TYPE_UINT64", "bool": "TYPE_BOOL"}
_LIMIT = {"uint32": 1 << 32, "uint64": 1 << 64}


@dataclass(frozen=True, slots=True)
class QueryParameter:
    kind: ParameterKind = "text"
    choices: tuple[str, ...] = ()  # the values of an enum parameter


@lru_cache(maxsize=256)
def parse_query(query: str) -> tuple[tuple[str, str], ...]:
    """Parse a query string.

    Cached, because the calls of a batch mostly have the same query.
    """
    try:
        return tuple(parse_qsl(query, keep_blank_values=True, max_num_fields=1000, errors="replace"))
    except ValueError as error:
        raise bad_request("Request contains an invalid argument.") from error


def convert_arguments(
    pairs: Iterable[tuple[str, str]], known: Mapping[str, QueryParameter]
) -> dict[str, Any]:
    """Convert a method's own parameters to their types.

    The last value of a repeated scalar wins.
    """
    values: dict[str, Any] = {}
    for name, text in pairs:
        parameter = known.get(name)
        if parameter is None:
            if name in COMMON:
                continue
            raise _unknown_parameter_error(name)
        value = _convert_value(name, text, parameter)
        if parameter.kind == "texts":
            values.setdefault(name, []).append(value)
        else:
            values[name] = value
    return values


def _convert_value(name: str, text: str, parameter: QueryParameter) -> Any:
    if parameter.kind in {"uint32", "uint64"}:
        if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < _LIMIT[parameter.kind]):
            raise _invalid_value_error(name, _TYPE[parameter.kind], text)
        return int(text)
    if parameter.kind == "bool":
        if text.lower() not in {"true", "false", "1", "0", ""}:
            raise _invalid_value_error(name, "TYPE_BOOL", text)
        return text.lower() in {"true", "1"}
    if parameter.choices:
        for word in parameter.choices:
            if word.lower() == text.lower():
                return word
        raise _invalid_value_error(name, f"TYPE_ENUM, one of {', '.join(parameter.choices)}", text)
    return text


def parse_json_body(body: bytes, known: Mapping[str, type]) -> dict[str, Any]:
    """Parse a JSON body and reject unknown properties.

    An empty body is an empty object.
    """
    if not body.strip():
        return {}
    try:
        value: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _malformed_json_error() from error
    if not isinstance(value, dict):
        raise _malformed_json_error()
    return check_properties(cast("dict[str, Any]", value), known)


def check_properties(value: Mapping[str, Any], known: Mapping[str, type]) -> dict[str, Any]:
    """Return the properties of a JSON object without nulls; reject unknown ones and wrong types."""
    checked: dict[str, Any] = {}
    for name, item in value.items():
        wanted = known.get(name)
        if wanted is None:
            text = f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
            raise bad_field("", text)
        checked[name] = check_type(name, item, wanted)
    return {name: item for name, item in checked.items() if item is not None}


def check_type(name: str, item: Any, wanted: type) -> Any:
    """Return the value of a property, or raise if it has another type than Google documents."""
    if item is None:
        return None
    if wanted is list:
        items = cast("list[Any]", item) if isinstance(item, list) else [item]
        if all(isinstance(item, str) for item in items):
            return items
    elif isinstance(item, wanted) and not (wanted is int and isinstance(item, bool)):
        return item
    raise _invalid_value_error(
        name, "TYPE_MESSAGE" if wanted is dict else "TYPE_STRING", str(cast("object", item))
    )


def _malformed_json_error() -> GmailError:
    return bad_request("Invalid JSON payload received. Unexpected token.", "badRequest")


def _unknown_parameter_error(name: str) -> GmailError:
    text = (
        f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
        f"Field '{name}' could not be found in request message."
    )
    return bad_field("", text)


def _invalid_value_error(name: str, kind: str, text: str) -> GmailError:
    snake = _UPPER.sub(lambda found: f"_{found[1].lower()}", name)
    return bad_field(snake, f"Invalid value at '{snake}' ({kind}), \"{text[:200]}\"")
