"""Whether a loaded value has the type that a field declares. A file can contain any value in any place."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints


@cache
def read_field_types(kind: type[Any]) -> Mapping[str, Any]:
    """Return the declared types of a class's fields, as far as they exist at run time."""
    try:
        return get_type_hints(kind)
    except NameError:  # a name that only type checkers import
        return {}


def has_type(value: Any, declared: Any) -> bool:
    origin, inner = get_origin(declared), get_args(declared)
    if origin in {Union, UnionType}:
        return any(has_type(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if declared is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if declared is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if declared is None:
        return value is None
    plain = origin or declared
    if plain is Any or not isinstance(plain, type):
        return True  # only a type checker can judge the rest
    return isinstance(value, cast("type[Any]", plain)) and (not inner or _has_items(value, inner))


def _has_items(value: Any, types: tuple[Any, ...]) -> bool:
    """Return whether the items of a container have the declared types."""
    if isinstance(value, Counter):
        types = (types[0], int)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return all(has_type(key, types[0]) and has_type(item, types[1]) for key, item in pairs)
    if isinstance(value, tuple) and not (len(types) == 2 and types[1] is Ellipsis):
        items = cast("tuple[Any, ...]", value)
        return len(items) == len(types) and all(map(has_type, items, types))
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return all(has_type(item, types[0]) for item in cast("Iterable[Any]", value))
    return True
