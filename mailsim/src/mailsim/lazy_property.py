"""`lazy_property`: like functools.cached_property, without the lock that Python 3.11 takes."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class lazy_property(Generic[Value]):  # noqa: N801 - used like `property`
    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__

    def __get__(self, instance: Any, _owner: type) -> Value:
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
