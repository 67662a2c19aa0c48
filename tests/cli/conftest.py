"""Runs the command line as what it is: a process."""

import os
from pathlib import Path

import pytest

from cli.launcher import Launcher

SOURCES = Path(__file__).parents[2] / "src"


def environment(**settings):
    """This environment without its settings, plus these. Warnings of the program are errors."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
    return kept | {"PYTHONPATH": str(SOURCES), "PYTHONWARNINGS": "error"} | settings


@pytest.fixture(scope="session")
def launcher():
    launcher = Launcher(environment())
    yield launcher
    launcher.end()


@pytest.fixture
def postroom(launcher, tmp_path):
    """Run one command to its end, in a directory and a home of its own."""

    def run(*arguments, **settings):
        settings = {"POSTROOM_HOME": str(tmp_path / "home")} | settings
        return launcher.run(arguments, tmp_path, environment(**settings), seconds=60)

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
