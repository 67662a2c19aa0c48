"""Notifications are sent after the commit, few for many, and none for a transaction that was rolled back."""

import asyncio
from contextlib import asynccontextmanager

import pytest

import databases
from postroom.model import WorkKind
from postroom.store import feed, work
from postroom.store.notifier import FEED_CHANNEL, WORK_CHANNEL
from postroom.store.work import WorkRequest


@asynccontextmanager
async def listening(database, channel):
    heard = database.listen(channel, every_seconds=3600)
    assert await anext(heard) is None
    async with asyncio.timeout(60):
        yield heard
    await heard.aclose()


async def test_commits_that_wait_together_are_announced_once(database, organization):
    async with listening(database, FEED_CHANNEL) as heard:
        for _ in range(100):
            database.notifier.add({(FEED_CHANNEL, str(organization))})
        assert await anext(heard) == str(organization)
        database.notifier.add({(FEED_CHANNEL, "the next")})
        assert await anext(heard) == "the next"


async def test_a_transaction_that_is_rolled_back_announces_nothing(database, organization):
    async def fail():
        async with database.transaction(organization) as connection:
            await feed.append_event(connection, "document.created", "document", "lost")
            raise LookupError

    async with listening(database, FEED_CHANNEL) as heard:
        with pytest.raises(LookupError):
            await fail()
        database.notifier.add({(FEED_CHANNEL, "the next")})
        assert await anext(heard) == "the next"


async def test_listeners_that_are_notified_see_the_commit(database, organization):
    async with listening(database, WORK_CHANNEL) as heard:
        for number in range(20):
            async with database.engine() as connection:
                await work.enqueue(connection, [WorkRequest(organization, WorkKind.SYNC, str(number))])
            assert await anext(heard) == ""
            async with database.engine() as connection:
                cursor = await connection.execute("SELECT count(*) FROM work")
                assert await cursor.fetchone() == (number + 1,)


async def test_a_process_that_ends_announces_its_last_commit(database, service_url, organization):
    async with listening(database, FEED_CHANNEL) as heard:
        async with (
            databases.open_pools(service_url) as ending,
            ending.transaction(organization) as connection,
        ):
            await feed.append_event(connection, "document.created", "document", "last")
        assert await anext(heard) == str(organization)
