"""What a worker schedules for all organizations is repeated hourly, and soon after an outage."""

import asyncio
from contextlib import suppress

import pytest

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.store import database


@pytest.mark.parametrize("error", [DatabaseUnavailable, TransientError])
async def test_a_step_that_met_an_outage_is_repeated_before_the_next_hour(monkeypatch, error):
    """A worker that lost its sessions while it started scheduled no retention and no audit for an hour."""
    monkeypatch.setattr(database, "REPEAT_AFTER_FAILURE_SECONDS", 0.01)
    attempts, succeeded = [], asyncio.Event()

    async def schedule():
        attempts.append(len(attempts))
        if len(attempts) < 3:
            raise error("the database cannot be reached")
        succeeded.set()

    repeating = asyncio.create_task(database.repeat_hourly(schedule))
    await succeeded.wait()
    repeating.cancel()
    with suppress(asyncio.CancelledError):
        await repeating
    assert attempts == [0, 1, 2]
