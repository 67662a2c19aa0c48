"""Loading settings from the environment, describing them, and the environment of child processes.

All settings are validated together, so one run reports every fault. No other module reads settings from the
environment. Functions below the wiring take the values they need, never `Settings`.
"""

import difflib
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from postroom.config.server_settings import PREFIX
from postroom.config.setting_types import (
    LogFormat,
    LogLevel,
    Network,
    PubSubDelivery,
    VaultKind,
    WakeMode,
)
from postroom.config.settings import LOOPBACK, Settings
from postroom.errors import SettingsError

__all__ = [
    "LOOPBACK",
    "PREFIX",
    "LogFormat",
    "LogLevel",
    "Network",
    "PubSubDelivery",
    "SettingView",
    "Settings",
    "VaultKind",
    "WakeMode",
    "child_environment",
    "describe_settings",
    "has_display",
    "load",
]


@dataclass(frozen=True)
class SettingView:
    """One setting as `postroom config show` prints it, secrets masked."""

    name: str
    value: str | int | float | None
    source: str
    meaning: str


def load(*, ignoring: Collection[str] = (), **options: object) -> Settings:
    """Load the settings of this process.

    Command line options take precedence over the environment.
    """
    overrides: dict[str, object] = {name: Settings.model_fields[name].default for name in ignoring}
    overrides = {name: value for name, value in options.items() if value is not None} | overrides
    from_files, faults = _read_secret_files(overrides)
    overrides |= from_files
    faults += _find_unknown_names()
    try:
        settings = Settings(**cast("dict[str, Any]", overrides))
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
    """Whether this process can open a browser window."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def child_environment(**changed: object) -> dict[str, str]:
    """Return the environment with these settings changed; None removes one."""
    replaced = {variable for name in changed for variable in (_variable_name(name), _file_variable(name))}
    environment = {name: value for name, value in os.environ.items() if name.upper() not in replaced}
    return environment | {
        _variable_name(name): str(value) for name, value in changed.items() if value is not None
    }


def _variable_name(name: str) -> str:
    return PREFIX + name.upper()


def _file_variable(name: str) -> str:
    """The variable that names a file with the value of a secret, for credentials of systemd or Kubernetes."""
    return f"{_variable_name(name)}_FILE"


def _get_variable(variable: str) -> str | None:
    """The value of a variable, in whatever case it is written; None if it is unset or empty."""
    return next((value for name, value in os.environ.items() if name.upper() == variable and value), None)


def _read_secret_files(overrides: Collection[str]) -> tuple[dict[str, object], list[str]]:
    """Return the secrets that files hold, and the faults found."""
    values, faults = dict[str, object](), list[str]()
    for name, field in Settings.model_fields.items():
        path = _get_variable(_file_variable(name))
        if path is None or name in overrides or not _is_secret(field):
            continue
        if _get_variable(_variable_name(name)) is not None:
            faults.append(f"{_file_variable(name)}: {_variable_name(name)} is set too. Remove one of them.")
            continue
        try:
            value = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            faults.append(f"{_file_variable(name)}: cannot read {path}: {reason}. Name a readable file.")
            continue
        if value:
            values[name] = value
        else:
            faults.append(f"{_file_variable(name)}: {path} is empty. Write the secret into it.")
    return values, faults


def _plain(value: object) -> str | int | float | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", value)))
    return value if isinstance(value, int | float) or value is None else str(value)


def _source(name: str) -> str:
    if _get_variable(_variable_name(name)) is not None:
        return "environment"
    is_file = _is_secret(Settings.model_fields[name]) and _get_variable(_file_variable(name)) is not None
    return "file" if is_file else "default"


def _find_unknown_names() -> list[str]:
    variables = [(name, name.upper().removeprefix(PREFIX)) for name in sorted(os.environ)]
    files = [f"{name}_FILE" for name, field in Settings.model_fields.items() if _is_secret(field)]
    known = [name.upper() for name in (*Settings.model_fields, *files)]
    return [
        _format_unknown_name(name, difflib.get_close_matches(rest, known, n=1))
        for name, rest in variables
        if name.upper().startswith(PREFIX) and rest not in known
    ]


def _format_unknown_name(name: str, similar: list[str]) -> str:
    remedy = (
        f"Did you mean {PREFIX}{similar[0]}?"
        if similar
        else "Remove it; `postroom config show` lists every setting."
    )
    return f"{name}: unknown setting. {remedy}"


def _format_fault(name: str | int, kind: str, message: str, value: object) -> str:
    field: FieldInfo = Settings.model_fields[str(name)]
    extra = cast("dict[str, str]", field.json_schema_extra)
    cause = message.removeprefix("Value error, ") if kind == "value_error" else "is not valid"
    if value is None:
        subject = "not set; it"
    else:
        subject = "this value" if _is_secret(field) or "@" in str(value) else repr(str(value)[:60])
    return f"{_variable_name(str(name))}: {subject} {cause}. Set it to {extra['expects']}."


def _is_secret(field: FieldInfo) -> bool:
    return "Secret" in str(field.annotation)
