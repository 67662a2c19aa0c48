"""Runs a program that others wrote, pointed at the simulator by environment variables only."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from simulator.driver import Simulation

RUN_SECONDS = 900
Prepare = Callable[[Simulation, str], "Referee"]
# One variable per HTTP library: requests, httpx and ssl, httplib2, Node.js, curl.
CA_VARIABLES = (
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "HTTPLIB2_CA_CERTS",
    "NODE_EXTRA_CA_CERTS",
    "CURL_CA_BUNDLE",
)


def require_notmuch() -> None:
    """Skip the test unless lieer can be built and run: it needs notmuch, and its headers."""
    if shutil.which("notmuch") is None or not Path("/usr/include/notmuch.h").exists():
        pytest.skip("notmuch or libnotmuch-dev is not installed")


@dataclass(frozen=True)
class Referee:
    """A program in its own environment and home, which reaches nothing but the simulator."""

    programs: Path
    home: Path
    variables: dict[str, str]

    def run(self, *command: str) -> str:
        """Run a program, which must succeed; return its output."""
        ended = subprocess.run(
            [self._find(command[0]), *command[1:]],
            cwd=self.home,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, f"{ended.stdout[-4000:]}{ended.stderr[-8000:]}"
        return ended.stdout

    def python(self, source: str, *arguments: str) -> Any:
        """Run a Python script; return the JSON that it printed last."""
        return json.loads(self.run("python", "-c", source, *arguments).splitlines()[-1])

    def node(self, source: str, *arguments: str) -> Any:
        """Run an ECMAScript module; return the JSON that it printed last."""
        script = self.programs / f"{self.home.name}.mjs"  # beside node_modules, where imports look
        script.write_text(source, encoding="utf-8")
        try:
            return json.loads(self.run("node", str(script), *arguments).splitlines()[-1])
        finally:
            script.unlink()

    def converse(self, command: list[str], lines: list[str]) -> list[str]:
        """Run a program that answers lines; send each after the answer to the one before."""
        with subprocess.Popen(
            [self._find(command[0]), *command[1:]],
            cwd=self.home,
            env=self.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            answers: list[str] = []
            for line in lines:
                process.stdin.write(line + "\n")
                process.stdin.flush()
                answers.append(process.stdout.readline())
            process.terminate()
        return answers

    def _find(self, program: str) -> str:
        return shutil.which(program, path=self.variables["PATH"]) or program

    def write_json(self, name: str, value: object) -> None:
        (self.home / name).write_text(json.dumps(value), encoding="utf-8")


def make_variables(sim: Simulation, home: Path, programs: Path) -> dict[str, str]:
    """Return the environment of a program: a home of its own, the proxy, and the simulator's authority."""
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HTTPS_PROXY": sim.proxy,
        "NO_PROXY": "localhost,127.0.0.1",
        "BROWSER": "curl --silent --location --output /dev/null %s &",  # of Python's webbrowser
        **dict.fromkeys(CA_VARIABLES, sim.ca),
    }
