"""Runs the command line as what it is: a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"


def environment(**settings):
    """This environment without its settings, plus these. Warnings of the program are errors."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
    return kept | {"PYTHONPATH": str(SOURCES), "PYTHONWARNINGS": "error"} | settings


@pytest.fixture
def postroom(tmp_path):
    """Run one command to its end, in a directory and a home of its own."""

    def run(*arguments, **settings):
        settings = {"POSTROOM_HOME": str(tmp_path / "home")} | settings
        return subprocess.run(
            [sys.executable, "-m", "postroom", *arguments],
            cwd=tmp_path,
            env=environment(**settings),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def complaint(postroom):
    """Run a command that must fail with this code and say why in one line."""

    def run(code, *arguments, **settings):
        done = postroom(*arguments, **settings)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: ")
        return line.removeprefix("error: ")

    return run


@pytest.fixture
def environment_of():
    return environment
