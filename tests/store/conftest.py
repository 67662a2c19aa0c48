"""The store's tests run on every PostgreSQL that the embedded server has."""

import os
from pathlib import Path

import pytest

import databases


@pytest.fixture(scope="session", params=databases.MAJORS, ids=lambda major: f"pg{major}")
def major(request):
    return request.param


@pytest.fixture(scope="session")
def database_server(major):
    """Not shared with other tests: pytest would give them the last of these servers."""
    with databases.server(Path(os.environ["TEST_SERVERS"]), major) as server:
        yield server
