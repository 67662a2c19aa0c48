"""Fixtures for tests against a running mailsim."""

from collections.abc import Callable, Generator
from contextlib import ExitStack
from inspect import signature
from itertools import count

import httpx2
import pytest

from simulator import conformance
from simulator.driver import Simulation, running
from simulator.google_user import GoogleUsers
from simulator.microsoft_user import MicrosoftUsers

_numbers = count(1)
# The default of 5 seconds is too short on a machine under load.
for _part in ("connect", "read", "write", "pool"):
    setattr(signature(httpx2.Client).parameters["timeout"].default, _part, 60)


@pytest.fixture
def start() -> Generator[Callable[..., Simulation]]:
    """Return a function that starts a separate mailsim: `start("--seed", "7")`."""
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(running(*options))


@pytest.fixture(scope="module")
def shared() -> Generator[Simulation]:
    with running("--clock", "manual", "--start", "2026-03-02T09:00:00Z") as simulation:
        yield simulation


@pytest.fixture
def sim(shared: Simulation) -> Generator[Simulation]:
    """Return the simulator shared by a module, with a manual clock; faults are cleared after each test."""
    conformance.record(shared.control)
    yield shared
    if shared.process.poll() is None:
        try:
            conformance.check(shared.control)
        finally:
            shared.delete("faults")
            shared.delete("requests")


@pytest.fixture
def google() -> Generator[GoogleUsers]:
    with ExitStack() as stack:
        yield GoogleUsers(stack)


@pytest.fixture
def microsoft() -> Generator[MicrosoftUsers]:
    with ExitStack() as stack:
        yield MicrosoftUsers(stack)


@pytest.fixture
def address() -> str:
    """Return an address that no other test uses."""
    return f"person{next(_numbers)}@example.com"
