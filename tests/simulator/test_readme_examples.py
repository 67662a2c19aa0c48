"""The examples of mailsim's README, run in its order as a reader does.

The tests of pytest examples are in `test_pytest_plugin`, that of the scenario in `test_scenario`.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from simulator.driver import Simulation, environment, running

README = (Path(__file__).parents[2] / "mailsim/README.md").read_text(encoding="utf-8")
URL = "http://127.0.0.1:8026"
CURL = "curl() { command curl --fail-with-body --silent --show-error --noproxy '*' \"$@\"; }\n"
OTHER_COMMANDS = {"pip", "mailsim", "buildah", "podman", "export"}  # tested elsewhere, or for an operator


@pytest.fixture
def simulation() -> Generator[Simulation]:
    with running("--start", "2026-03-02T09:00:00Z", checked=False) as simulation:
        yield simulation


def list_commands(block: str) -> list[str]:
    """Split a block into commands: the lines of one continue indented."""
    lines = "".join(line for line in block.splitlines(keepends=True) if not line.startswith("#"))
    return re.split(r"\n(?=\S)", lines.rstrip("\n"))


def fill_in(command: str, values: dict[str, Callable[[], str]]) -> str:
    for written, find in values.items():
        command = command.replace(written, find()) if written in command else command
    return command


def start_device_sign_in(sim: Simulation) -> str:
    client = sim.ready["clients"]["outlook"]["client_id"]
    sim.control.patch(f"microsoft/applications/{client}", json={"public": True})
    form = {"client_id": client, "scope": "User.Read"}
    started = sim.control.post(f"{sim.http}/common/oauth2/v2.0/devicecode", data=form)
    return started.json()["user_code"]


def test_commands_succeed(simulation: Simulation, tmp_path: Path):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    (tmp_path / "message.eml").write_bytes(b"From: ann@example.org\r\nSubject: Hello\r\n\r\nHi\r\n")
    values: dict[str, Callable[[], str]] = {
        URL: lambda: simulation.http,
        "BCDFGHJK": lambda: start_device_sign_in(simulation),
        "…": lambda: json.loads((tmp_path / "key.json").read_text())["client_id"],
    }
    ran = 0
    for block in re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        for command in list_commands(block):
            if command.split()[0] in OTHER_COMMANDS:
                continue
            shown = fill_in(command, values)
            ended = subprocess.run(
                ["bash", "-euc", CURL + shown],
                cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert ended.returncode == 0, f"{shown}\n{ended.stdout}{ended.stderr}"
            ran += 1
    assert ran >= 20
    assert (tmp_path / "case.mailsim").stat().st_size > 1000


def test_clients_of_the_providers_list_messages(simulation: Simulation):
    simulation.create("gmail", "ann@example.com", 5, spread=False)
    simulation.create("outlook", "bob@example.com", 5, spread=False)
    examples = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    scripts = [example for example in examples if "def test_" not in example]
    assert len(scripts) == 2
    for script, expected in zip(scripts, ("resultSizeEstimate", "MessageCollectionResponse"), strict=True):
        ended = subprocess.run(
            [sys.executable, "-c", script.replace(URL, simulation.http)],
            env=environment() | {"NO_PROXY": "*"}, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        assert expected in ended.stdout
