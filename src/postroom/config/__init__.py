"""Settings: read once from the environment, checked together, every fault reported at once with its remedy.

The only reader of the environment. Functions below wiring take the values they use, never the Settings.
"""

import difflib
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from postroom.config.settings import LOOPBACK, PREFIX, LogFormat, LogLevel, Network, Settings, VaultKind, Wake
from postroom.errors import SettingsError

__all__ = [
    "LOOPBACK",
    "PREFIX",
    "LogFormat",
    "LogLevel",
    "Network",
    "Settings",
    "Shown",
    "VaultKind",
    "Wake",
    "environment_with",
    "has_screen",
    "load",
    "shown",
]


@dataclass(frozen=True)
class Shown:
    """One setting as `postroom config show` prints it: secrets are masked already."""

    name: str
    value: str | int | float | None
    source: str
    meaning: str


def load(*, ignoring: Collection[str] = (), **options: object) -> Settings:
    """The settings of this process. Options that are given win over the environment."""
    given = {name: value for name, value in options.items() if value is not None}
    given |= {name: Settings.model_fields[name].default for name in ignoring}
    faults = _unknown_names()
    try:
        settings = Settings(**cast("dict[str, Any]", given))
    except ValidationError as error:
        faults = [
            _fault(found["loc"][0], found["type"], found["msg"], found["input"]) for found in error.errors()
        ] + faults
        raise SettingsError("\n".join(faults)) from None
    if faults:
        raise SettingsError("\n".join(faults))
    return settings


def shown(settings: Settings) -> list[Shown]:
    return [
        Shown(
            name=_variable(name),
            value=_plain(getattr(settings, name)),
            source=_source(name),
            meaning=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def has_screen() -> bool:
    """Whether this process can open a window for a person to see."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def environment_with(**changed: object) -> dict[str, str]:
    """The environment for a child process: ours with these settings replaced, or removed by None."""
    environment = {
        name: value for name, value in os.environ.items() if name.upper() not in map(_variable, changed)
    }
    return environment | {_variable(name): str(value) for name, value in changed.items() if value is not None}


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _plain(value: object) -> str | int | float | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", value)))
    return value if isinstance(value, int | float) or value is None else str(value)


def _source(name: str) -> str:
    given = any(variable.upper() == _variable(name) and value for variable, value in os.environ.items())
    return "environment" if given else "default"


def _unknown_names() -> list[str]:
    given = [(name, name.upper().removeprefix(PREFIX)) for name in sorted(os.environ)]
    known = [name.upper() for name in Settings.model_fields]
    return [
        _unknown(name, difflib.get_close_matches(rest, known, n=1))
        for name, rest in given
        if name.upper().startswith(PREFIX) and rest not in known
    ]


def _unknown(name: str, near: list[str]) -> str:
    remedy = (
        f"Did you mean {PREFIX}{near[0]}?"
        if near
        else "Remove it; `postroom config show` lists every setting."
    )
    return f"{name}: there is no such setting. {remedy}"


def _fault(name: str | int, kind: str, message: str, given: object) -> str:
    field: FieldInfo = Settings.model_fields[str(name)]
    extra = cast("dict[str, str]", field.json_schema_extra)
    cause = message.removeprefix("Value error, ") if kind == "value_error" else "cannot be used"
    if given is None:
        value = "not set; it"
    else:
        value = "this value" if _is_secret(field) or "@" in str(given) else repr(str(given)[:60])
    return f"{_variable(str(name))}: {value} {cause}. Give {extra['expects']}."


def _is_secret(field: FieldInfo) -> bool:
    return "Secret" in str(field.annotation)
