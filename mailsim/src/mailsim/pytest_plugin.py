"""The pytest plugin: the fixture `mailsim`, one server per test session and a new simulation per test.

pytest loads this module in every run, so it imports the simulator only once a test uses the fixture. With
pytest-xdist, every worker is a session with a server of its own.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mailsim.testing import MailSimulator


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("mailsim_options", "options of the command mailsim, such as --clock manual", type="args")


@pytest.fixture(scope="session")
def mailsim_server(pytestconfig: pytest.Config) -> "Generator[MailSimulator]":
    """Run one mailsim for the session."""
    from mailsim.testing import run_simulator

    with run_simulator(*pytestconfig.getini("mailsim_options")) as server:
        yield server


@pytest.fixture
def mailsim(mailsim_server: "MailSimulator") -> "MailSimulator":
    """Return the session's mailsim with a new, empty simulation."""
    mailsim_server.reset()
    return mailsim_server
