"""Scenarios: steps in a TOML file, played step by step over the control API of a running mailsim.

`[[step]]` tables are done in order. `do` names the step, the other keys are its fields. The whole file is
checked before anything happens, so that a mistake does not stop a scenario halfway; `scenario_steps` has the
steps.
"""

import re
import tomllib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from mailsim.errors import InvalidRequest, SimulatorError, check_name
from mailsim.provider_actions import ProviderNames
from mailsim.scenario_steps import STEPS, KnownNames, ScenarioRun, Step, read_file

if TYPE_CHECKING:  # `testing` plays scenarios
    from mailsim.testing import MailSimulator

MAX_BYTES = 1 << 20
Report = Callable[[str], None]
_STEP_LINE = re.compile(r"[ \t]*\[\[[ \t]*[\"']?step[\"']?[ \t]*\]\]")


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """A step and where it is: its file with the line, its number and its verb."""

    where: str
    step: Step


def read_scenario(path: Path, known: KnownNames | None = None) -> list[ScenarioStep]:
    """Read and check a scenario. Errors name the file, the line, the step and the nearest valid name.

    Without `known`, mailboxes and endpoints that no step creates are not checked.
    """
    data = read_file(path)
    if len(data) > MAX_BYTES:
        raise InvalidRequest(f"{path} is larger than {MAX_BYTES >> 20} MB")
    try:
        text = data.decode()
        content = tomllib.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"{path} is not TOML: {error}") from error
    with _locate_errors(str(path)):
        for key in content:
            check_name("key", key, ("step",))
    tables = content.get("step")
    if not isinstance(tables, list) or not tables:
        raise InvalidRequest(f"{path} has no steps; each begins with [[step]]")
    listed = cast("list[Any]", tables)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _STEP_LINE.match(line)]
    places = [f"{path}:{line}" for line in lines] if len(lines) == len(listed) else [str(path)] * len(listed)
    names = KnownNames(path.parent) if known is None else known
    return [
        _read_step(f"{place}, step {number}", table, names)
        for number, (place, table) in enumerate(zip(places, listed, strict=True), 1)
    ]


def _read_step(where: str, table: Any, known: KnownNames) -> ScenarioStep:
    values = dict(cast("dict[str, Any]", table)) if isinstance(table, dict) else {}
    verb = values.pop("do", None)
    if not isinstance(verb, str):
        raise InvalidRequest(f'{where}: needs do = "…", one of {", ".join(STEPS)}')
    with _locate_errors(where):
        check_name("step", verb, STEPS)
    kind, where = STEPS[verb], f"{where} ({verb})"
    with _locate_errors(where):
        for name in values:
            check_name("field", name, kind.__struct_encode_fields__)
        try:
            step = msgspec.convert(values, kind)
        except msgspec.ValidationError as error:
            raise InvalidRequest(str(error)) from error
        step.check(known)
    return ScenarioStep(where, step)


@contextmanager
def _locate_errors(where: str) -> Generator[None]:
    """Add the place to the error of a step."""
    try:
        yield
    except SimulatorError as error:
        raise SimulatorError(f"{where}: {error}") from error


def play_scenario(sim: "MailSimulator", path: Path, report: Report = lambda _: None) -> None:
    """Play a scenario; `report` gets one line per step."""
    steps = read_scenario(path, _list_known_names(sim, path.parent))
    run = ScenarioRun(sim, path.parent)
    newest = run.call("GET", "requests?limit=1")
    run.last_request = newest[0]["number"] if newest else 0
    for number, placed in enumerate(steps, 1):
        report(f"step {number} of {len(steps)}: {placed.step.verb}")
        with _locate_errors(placed.where):
            placed.step.play(run)


def _list_known_names(sim: "MailSimulator", folder: Path) -> KnownNames:
    mailboxes = {one["address"].lower(): one["provider"] for one in sim.control("GET", "mailboxes")}
    providers = sim.control("GET", "")["providers"]
    return KnownNames(folder, mailboxes, msgspec.convert(providers, dict[Any, ProviderNames]))
