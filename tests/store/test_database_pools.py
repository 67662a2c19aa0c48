"""Pools recover from lost connections; transactions have limits and leave nothing in their session."""

import asyncio
from contextlib import suppress

import psycopg
import pytest

import databases
from postroom.errors import DatabaseUnavailable, TransientError
from postroom.model import WorkKind
from postroom.store import blobs, work
from postroom.store.connection import TransactionLimits
from postroom.store.work import WorkRequest
from scenarios.worker_pool import until

NAME = "postroom tests of the pool"


async def end_all(owner):
    await owner.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = %s", [NAME]
    )


async def test_connections_closed_while_idle_are_not_handed_out(service_url, owner, organization):
    async with databases.open_pools(service_url, pool_size=8, name=NAME) as database:

        async def one():
            async with database.transaction(organization) as connection:
                await asyncio.sleep(0.05)  # so that they are connections of their own
                await connection.execute("SELECT 1")

        await asyncio.gather(*(one() for _ in range(5)))
        await end_all(owner)
        await asyncio.gather(*(one() for _ in range(10)))


async def test_one_failure_drops_all_dead_connections(service_url, owner, organization):
    async with databases.open_pools(service_url, pool_size=8, name=NAME) as database:

        async def ended_meanwhile():
            async with database.transaction(organization) as connection:
                await end_all(owner)
                await connection.execute("SELECT 1")

        with pytest.raises(DatabaseUnavailable):
            await ended_meanwhile()
        async with database.transaction(organization) as connection:
            await connection.execute("SELECT 1")


BRIEF = TransactionLimits(lock_seconds=0.2, idle_seconds=0.5, statement_seconds=1)


async def test_an_idle_transaction_is_ended_and_its_locks_with_it(database_url, owner, organization):
    """The process that holds it may be frozen: only the server can end it."""
    await work.enqueue(owner, [WorkRequest(organization, WorkKind.SYNC, "a")])
    async with databases.open_pools(database_url, pool_size=4, name=NAME, limits=BRIEF) as database:

        async def hold():
            async with database.transaction(organization) as connection:
                await work.block_commits(connection, WorkKind.SYNC, "a")
                await owner.execute("SELECT FROM work FOR UPDATE")  # waits until the server ends the holder
                await work.enqueue(connection, [WorkRequest(organization, WorkKind.SYNC, "never")])

        with pytest.raises((DatabaseUnavailable, TransientError)):
            await hold()
        async with database.transaction(organization) as connection:
            cursor = await connection.execute("SELECT subject FROM work")
            assert await cursor.fetchall() == [("a",)]


async def test_a_lock_that_is_not_released_is_a_transient_error(database_url, owner, organization):
    await work.enqueue(owner, [WorkRequest(organization, WorkKind.SYNC, "a")])
    async with databases.open_pools(database_url, pool_size=4, name=NAME, limits=BRIEF) as database:

        async def wait():
            async with database.transaction(organization) as connection:
                await work.block_commits(connection, WorkKind.SYNC, "a")

        async with owner.transaction():
            await work.block_commits(owner, WorkKind.SYNC, "a")
            with pytest.raises(TransientError, match="Timed out waiting for a database lock"):
                await wait()
            with pytest.raises(TransientError, match="Timed out waiting for a database lock"):
                async with database.engine() as connection:
                    await work.enqueue(connection, [WorkRequest(organization, WorkKind.SYNC, "a")])
        await wait()


async def test_a_statement_that_never_ends_is_a_transient_error(service_url, organization):
    async with databases.open_pools(service_url, pool_size=4, name=NAME, limits=BRIEF) as database:
        with pytest.raises(TransientError, match="took too long"):
            async with database.transaction(organization) as connection:
                await connection.execute("SELECT pg_sleep(3600)")


async def test_the_removal_lock_is_held_however_long_its_holder_is_frozen(service_url, owner, organization):
    """A collector that continues after a pause removes an object: no other one may have meanwhile."""
    async with databases.open_pools(service_url, pool_size=8, name=NAME, limits=BRIEF) as database:

        async def idle():
            async with database.transaction(organization) as connection:
                await connection.execute("SELECT 1")
                await until(
                    owner, "SELECT count(*) = 1 FROM pg_stat_activity WHERE state LIKE 'idle in tr%%'"
                )

        async with database.transaction(organization) as connection:
            assert await blobs.try_removal_lock(connection, organization)
            with pytest.raises((DatabaseUnavailable, TransientError)):
                await idle()  # began to idle later, and was ended
            assert await blobs.try_removal_lock(connection, organization)
            async with database.transaction(organization) as other:
                assert not await blobs.try_removal_lock(other, organization)


async def test_nothing_of_a_transaction_stays_in_the_session(service_url, organization):
    """A connection pooler gives the session to another process, whose next transaction may be any."""
    async with databases.open_pools(service_url, pool_size=3, name=NAME) as database:
        for pool, transaction in (
            (database.application_pool, database.transaction(organization)),
            (database.engine_pool, database.engine()),
        ):
            async with pool.connection() as connection:
                before, backend = await list_parameters(connection), connection.info.backend_pid
            async with transaction as connection:
                assert connection.info.backend_pid == backend, "the pool has one"
                changed = {name for name, _ in await list_parameters(connection) ^ before}
                assert {"role", "search_path", "lock_timeout"} <= changed
            async with pool.connection() as connection:
                assert await list_parameters(connection) == before


async def list_parameters(connection):
    cursor = await connection.execute(
        """
        SELECT name, setting FROM pg_settings UNION SELECT 'role', current_user::text
        UNION SELECT 'organization', coalesce(current_setting('postroom.organization', true), '')
        """
    )
    return set(await cursor.fetchall())


async def test_a_suppressed_error_does_not_look_like_a_commit(database, organization):
    async def fail_silently():
        async with database.transaction(organization) as connection:
            with suppress(psycopg.errors.DivisionByZero):
                await connection.execute("SELECT 1 / 0")

    with pytest.raises(psycopg.InternalError, match="failed earlier"):
        await fail_silently()


async def test_listening_catches_up_after_a_lost_connection(service_url, owner):
    """What was sent meanwhile is lost for good, so the listener must look by itself."""
    async with databases.open_pools(service_url, pool_size=4, name=NAME) as database, asyncio.timeout(60):
        heard = database.listen("postroom_work", every_seconds=3600)
        assert await anext(heard) is None
        await owner.execute("SELECT pg_notify('postroom_work', 'first')")
        assert await anext(heard) == "first"
        await owner.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = %s",
            [f"{NAME} listen"],
        )
        await owner.execute("SELECT pg_notify('postroom_work', 'lost')")
        assert await anext(heard) is None
        await owner.execute("SELECT pg_notify('postroom_work', 'second')")
        assert await anext(heard) == "second"
        await heard.aclose()
