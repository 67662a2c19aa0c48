"""How often a page waits for the database: each round trip costs the same, however little it asks."""

from itertools import pairwise

import psycopg
import pytest
from psycopg.pq import TransactionStatus

# The session in one, BEGIN, what the page shows, COMMIT.
MOST = {"/api-keys": 4, "/webhooks": 4, "/orders": 5, "/suppliers": 6, "/documents": 5, "/records": 5}


@pytest.fixture
def waits(monkeypatch):
    """What the connections of this process waited for, as the driver calls its steps."""
    seen = []
    wait = psycopg.AsyncConnection.wait

    async def record(connection, steps, *given, **named):
        is_idle = connection.info.transaction_status is TransactionStatus.IDLE
        if not (is_idle and steps.__name__ in ("_commit_gen", "_rollback_gen")):  # nothing is sent
            is_sent_later = steps.__name__ == "_execute_gen" and connection.pgconn.pipeline_status
            seen.append("" if is_sent_later else steps.__name__)
        return await wait(connection, steps, *given, **named)

    monkeypatch.setattr(psycopg.AsyncConnection, "wait", record)
    return seen


def count_round_trips(waits):
    """Several results in a row that were asked for together come in one round trip."""
    sent = [name for name in waits if name != "_enter_gen"]
    return sum(
        name != "" and (name != "_fetch_gen" or before != name) for before, name in pairwise(["", *sent])
    )


@pytest.mark.usefixtures("filled")
async def test_page_of_a_known_session_needs_few_round_trips(visitor, waits):
    needed = {}
    for path in MOST:
        assert (await visitor.get(path)).status_code == 200
        counts = []
        for _ in range(5):
            waits.clear()
            await visitor.get(path)
            counts.append(count_round_trips(waits))
        needed[path] = min(counts)  # a page may also meet what the process does in the background
    assert all(needed[path] <= most for path, most in MOST.items()), needed
