"""The store's tests run on every PostgreSQL that the embedded server has."""

import pytest

import databases


@pytest.fixture(scope="session", params=databases.MAJORS, ids=lambda major: f"pg{major}")
def major(request):
    return request.param
