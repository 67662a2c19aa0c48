"""Fixtures for everything that is tested against a running mailsim."""

from collections.abc import Callable, Generator
from contextlib import ExitStack
from itertools import count

import pytest

from simulator.driver import Simulation, running

_numbers = count(1)


@pytest.fixture
def start() -> Generator[Callable[..., Simulation]]:
    """Starts a mailsim of the test's own: `start("--seed", "7")`."""
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(running(*options))


@pytest.fixture(scope="module")
def shared() -> Generator[Simulation]:
    with running("--clock", "manual", "--start", "2026-03-02T09:00:00Z") as simulation:
        yield simulation


@pytest.fixture
def sim(shared: Simulation) -> Generator[Simulation]:
    """One process for all tests of a module, with a hand-driven clock; faults are gone at each test's end."""
    yield shared
    if shared.process.poll() is None:
        shared.delete("faults")
        shared.control.put("requests", json={"bodies": False})


@pytest.fixture
def address() -> str:
    """An address that no other test uses."""
    return f"person{next(_numbers)}@example.com"
