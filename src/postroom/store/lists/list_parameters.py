"""What is asked of a list, as text: the parameters of a URL or of a command, and positions of pages."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from postroom.store.lists.list_definition import (
    FilterChoice,
    ListDefinition,
    ListFilter,
    ListPosition,
    ListQuery,
    ListSort,
)

MAX_QUERY: Final = 2_000
MAX_TEXT: Final = 500

# The choices of filters that depend on the organization. Without them, such a filter takes any text.
Choices = Mapping[str, Sequence[FilterChoice]]


def parse_query(definition: ListDefinition, params: Mapping[str, str], choices: Choices) -> ListQuery:
    """What the parameters ask for. Invalid ones are ignored, as if they were not there."""
    values = {
        each.name: value
        for each in definition.filters
        if (value := _parse_value(each, params.get(each.name, "").strip(), choices)) is not None
    }
    name = params.get("sort", "")
    sort = definition.find_sort(name.removeprefix("-"))
    is_descending = name.startswith("-") if name.removeprefix("-") == sort.name else sort.is_descending
    is_descending = is_descending or sort.nulls_first
    query = ListQuery(definition, values, sort, is_descending)
    return replace(query, after=parse_position(params.get("after"), definition, sort))


def find_problem(definition: ListDefinition, params: Mapping[str, str], choices: Choices) -> str | None:
    """Why `parse_query` would ignore one of these parameters; None if it takes all of them."""
    if rejected := find_rejected_filter(definition, params, choices):
        return f"`{rejected.name}` must be {_describe_values(rejected, choices)}."
    sort = params.get("sort")
    names = [
        name
        for each in definition.sorts
        for name in (*([] if each.nulls_first else [each.name]), f"-{each.name}")
    ]
    if sort and sort not in names:
        return f"`sort` must be one of {', '.join(names)}."
    return None


def find_rejected_filter(
    definition: ListDefinition, params: Mapping[str, str], choices: Choices
) -> ListFilter | None:
    """The first filter whose parameter `parse_query` ignores, because it is invalid."""
    for each in definition.filters:
        text = params.get(each.name, "").strip()
        if text and _parse_value(each, text, choices) is None:
            return each
    return None


def _describe_values(each: ListFilter, choices: Choices) -> str:
    match each.shape:
        case "search":
            return f"at most {MAX_TEXT} characters"
        case "day":
            return "a date such as 2026-03-01"
        case "amount":
            return "a number such as 119.00"
        case "uuid":
            return "an ID"
        case "choice":
            known = [choice.value for choice in (*each.choices, *choices.get(each.name, ()))]
            return f"one of {', '.join(known)}" if known else f"at most {MAX_TEXT} characters"


def _parse_value(each: ListFilter, text: str, choices: Choices) -> Any:
    if not text or len(text) > MAX_TEXT or "\0" in text:
        return None
    try:
        match each.shape:
            case "search":
                return text
            case "day":
                return date.fromisoformat(text).isoformat()
            case "amount":
                number = float(text)
                return number if abs(number) < 1e30 else None
            case "uuid":
                return UUID(text)
            case "choice":
                known = [choice.value for choice in (*each.choices, *choices.get(each.name, ()))]
                is_open = not each.choices and each.name not in choices
                return text if is_open or text in known else None
    except ValueError:
        return None


def format_position(position: ListPosition) -> str:
    """Encode a position for a URL."""
    value = str(position.value) if isinstance(position.value, float) else position.value  # may be infinite
    return urlsafe_b64encode(msgspec.json.encode((value, position.id))).rstrip(b"=").decode()


def parse_position(text: str | None, definition: ListDefinition, sort: ListSort) -> ListPosition | None:
    """Decode a position of a list with this sort. An invalid one starts from the beginning."""
    if not text or len(text) > MAX_QUERY:
        return None
    shape = datetime if sort.shape == "moment" else str
    id_ = int if definition.id_type == "bigint" else UUID
    kind: Any = tuple[shape | None, id_] if sort.nulls_first else tuple[shape, id_]
    try:
        decoded = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        value, found = msgspec.json.decode(decoded, type=kind)
        value = float(value) if sort.shape == "number" else value
    except (Base64Error, ValueError, msgspec.DecodeError):
        return None
    if (isinstance(value, str) and "\0" in value) or (isinstance(found, int) and not 0 <= found < 2**63):
        return None
    return ListPosition(value, found)


def describe_query(query: ListQuery) -> dict[str, str]:
    """The parameters of the URL of this query, without its position."""
    described = {name: format_value(value) for name, value in query.values.items()}
    if query.sort != query.definition.sorts[0] or query.is_descending != query.sort.is_descending:
        described["sort"] = ("-" if query.is_descending else "") + query.sort.name
    return described


def format_value(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)
