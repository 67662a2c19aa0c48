"""The store's tests run on every PostgreSQL that the embedded server has."""

import os
from pathlib import Path

import pytest

import databases

# What depends on the version most: every statement of the schema, its access rules, the search, the errors.
ON_EVERY_VERSION = ("test_schema_migrations", "test_row_security", "test_search", "test_database_errors")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of the versions before the newest, `make test` runs only some; `make soak` runs the rest."""
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if (
            parameters.get("major", databases.MAJORS[0]) != databases.MAJORS[0]
            and item.path.stem not in ON_EVERY_VERSION
        ):
            item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="session", params=databases.MAJORS, ids=lambda major: f"pg{major}")
def major(request):
    return request.param


@pytest.fixture(scope="session")
def database_server(major):
    """Not shared with other tests: pytest would give them the last of these servers."""
    with databases.server(Path(os.environ["TEST_SERVERS"]), major) as server:
        yield server
