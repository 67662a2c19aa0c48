"""The result of one check of `postroom doctor` or `postroom subscriptions check`."""

from dataclasses import dataclass
from enum import StrEnum


class DoctorCheckState(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class DoctorCheck:
    name: str
    state: DoctorCheckState
    found: str
    remedy: str | None = None
