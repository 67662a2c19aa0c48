"""Fixtures of the referee tests: a simulator, and functions that prepare a program for it."""

from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest

from simulator.driver import Simulation, running
from simulator.referees.environments import node_environment, python_environment
from simulator.referees.referee import Prepare, Referee, make_variables


@pytest.fixture(scope="module")
def shared() -> Generator[Simulation]:
    """A simulator in real time and without quotas: these programs have no option for another pace."""
    with running("--quota", "off") as simulation:
        yield simulation


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture
def address(numbers: Iterator[int]) -> str:
    """Return an address of this module's own count: it determines the mail, whichever other modules run."""
    return f"person{next(numbers)}@example.com"


@pytest.fixture
def python_referee(tmp_path: Path) -> Prepare:
    """Return a function that prepares the Python program of an environment."""

    def prepare(sim: Simulation, name: str) -> Referee:
        programs = python_environment(name)
        return Referee(programs, tmp_path, make_variables(sim, tmp_path, programs))

    return prepare


@pytest.fixture
def node_referee(tmp_path: Path) -> Prepare:
    """Return a function that prepares the program of an environment of Node.js."""

    def prepare(sim: Simulation, name: str) -> Referee:
        place = node_environment(name)
        return Referee(place, tmp_path, make_variables(sim, tmp_path, place / "node_modules/.bin"))

    return prepare
