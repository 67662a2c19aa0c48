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

from postroom.config.settings import (
    LOOPBACK,
    PREFIX,
    LogFormat,
    LogLevel,
    Network,
    Settings,
    VaultKind,
    WakeMode,
)
from postroom.errors import SettingsError

__all__ = [
    "LOOPBACK",
    "PREFIX",
    "LogFormat",
    "LogLevel",
    "Network",
    "Settings",
    "SettingView",
    "VaultKind",
    "WakeMode",
    "child_environment",
    "has_display",
    "load",
    "describe_settings",
]


@dataclass(frozen=True)
class SettingView:
    """One setting as `postroom config show` prints it: secrets are masked already."""

    name: str
    value: str | int | float | None
    source: str
    meaning: str


def load(*, ignoring: Collection[str] = (), **options: object) -> Settings:
    """The settings of this process. Options that are given win over the environment."""
    given = {name: value for name, value in options.items() if value is not None}
    given |= {name: Settings.model_fields[name].default for name in ignoring}
    faults = _find_unknown_names()
    try:
        settings = Settings(**cast("dict[str, Any]", given))
    except ValidationError as error:
        faults = [
            _format_fault(found["loc"][0], found["type"], found["msg"], found["input"])
            for found in error.errors()
        ] + faults
        raise SettingsError("\n".join(faults)) from None
    if faults:
        raise SettingsError("\n".join(faults))
    return settings


def describe_settings(settings: Settings) -> list[SettingView]:
    return [
        SettingView(
            name=_variable_name(name),
            value=_plain(getattr(settings, name)),
            source=_source(name),
            meaning=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def has_display() -> bool:
    """Whether this process can open a window for a person to see."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def child_environment(**changed: object) -> dict[str, str]:
    """The environment for a child process: ours with these settings replaced, or removed by None."""
    environment = {
        name: value for name, value in os.environ.items() if name.upper() not in map(_variable_name, changed)
    }
    return environment | {
        _variable_name(name): str(value) for name, value in changed.items() if value is not None
    }


def _variable_name(name: str) -> str:
    return PREFIX + name.upper()


def _plain(value: object) -> str | int | float | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", value)))
    return value if isinstance(value, int | float) or value is None else str(value)


def _source(name: str) -> str:
    given = any(variable.upper() == _variable_name(name) and value for variable, value in os.environ.items())
    return "environment" if given else "default"


def _find_unknown_names() -> list[str]:
    given = [(name, name.upper().removeprefix(PREFIX)) for name in sorted(os.environ)]
    known = [name.upper() for name in Settings.model_fields]
    return [
        _format_unknown_name(name, difflib.get_close_matches(rest, known, n=1))
        for name, rest in given
        if name.upper().startswith(PREFIX) and rest not in known
    ]


def _format_unknown_name(name: str, near: list[str]) -> str:
    remedy = (
        f"Did you mean {PREFIX}{near[0]}?"
        if near
        else "Remove it; `postroom config show` lists every setting."
    )
    return f"{name}: there is no such setting. {remedy}"


def _format_fault(name: str | int, kind: str, message: str, given: object) -> str:
    field: FieldInfo = Settings.model_fields[str(name)]
    extra = cast("dict[str, str]", field.json_schema_extra)
    cause = message.removeprefix("Value error, ") if kind == "value_error" else "cannot be used"
    if given is None:
        value = "not set; it"
    else:
        value = "this value" if _is_secret(field) or "@" in str(given) else repr(str(given)[:60])
    return f"{_variable_name(str(name))}: {value} {cause}. Give {extra['expects']}."


def _is_secret(field: FieldInfo) -> bool:
    return "Secret" in str(field.annotation)
