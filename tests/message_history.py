"""After a test with a database: the events of each message, replayed by the oracle, give its state."""

import pytest

from postroom_chaos.oracle.history import check_history_of


@pytest.fixture(autouse=True)
def message_history(request):
    """For a conftest to import. A test that changes stored rows by hand is marked `damages_rows`."""
    url = request.getfixturevalue("database_url") if "database_url" in request.fixturenames else None
    yield
    if url is not None and request.node.get_closest_marker("damages_rows") is None:
        assert [str(each) for each in check_history_of(url)] == []
