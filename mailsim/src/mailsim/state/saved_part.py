"""SavedPart: a living object of a simulator, and which of its attributes belong to the saved state."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from mailsim.state.object_graph import DamagedState, SavedClass


@dataclass(frozen=True, slots=True)
class SavedPart:
    """`saved` attributes are written to the file; `rebuilt` ones belong to the new simulator."""

    owner: Any
    saved: tuple[str, ...]
    rebuilt: tuple[str, ...] = ()

    def set(self, name: str, value: Any) -> None:
        """Set an attribute. Containers change in place, because other objects refer to them."""
        current: Any = getattr(self.owner, name)
        if current is not None and not _is_same_kind(current, value):
            raise DamagedState(f"{name} is a {type(value).__name__}, not a {type(current).__name__}")
        if isinstance(current, dict | set):
            mapping = cast("dict[Any, Any]", current)
            mapping.clear()
            mapping.update(value)
        elif isinstance(current, list | deque):
            sequence = cast("list[Any]", current)
            sequence.clear()
            sequence.extend(value)
        elif isinstance(current, msgspec.Struct) and not current.__struct_config__.frozen:
            for field in current.__struct_fields__:
                setattr(current, field, getattr(value, field))
        else:
            setattr(self.owner, name, value)


def _is_same_kind(current: Any, value: Any) -> bool:
    if isinstance(current, float):
        return isinstance(value, int | float)
    return isinstance(value, type(current)) and isinstance(value, bool) == isinstance(current, bool)


@dataclass(frozen=True, slots=True)
class ProviderState:
    """What a provider adds to the saved state; `resume` starts its pending work after loading."""

    parts: dict[str, SavedPart]
    classes: tuple[SavedClass, ...]
    resume: Callable[[], None]
