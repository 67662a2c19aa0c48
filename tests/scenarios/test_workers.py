"""Y1: any number of workers, each work item done once, whichever worker is killed, stopped or woken."""

import asyncio
import random
import signal

import pytest

from postroom.store import work
from scenarios.postroom_process import wait_until
from scenarios.worker_pool import add_work, make_effects, until, workers


async def effects(owner):
    cursor = await owner.execute("SELECT count(*), count(DISTINCT subject) FROM effects")
    return await cursor.fetchone()


async def test_eight_workers_do_five_thousand_pieces_of_work_exactly_once(database_url, owner, organization):
    await make_effects(owner)
    await add_work(owner, organization, "count", 5000)
    async with workers(8, database_url, concurrency=20):
        await until(owner, "SELECT NOT EXISTS (SELECT FROM work)")
    assert await effects(owner) == (5000, 5000)


async def test_work_of_workers_killed_midway_is_done_by_the_others_and_never_twice(
    database_url, owner, organization
):
    await make_effects(owner)
    await add_work(owner, organization, "count", 5000)
    async with workers(8, database_url, concurrency=20, lease_seconds=6, step_seconds=0.01) as started:
        for share, victim in enumerate(started[:4], start=1):
            await until(owner, "SELECT count(*) >= %s FROM effects", share * 600)
            victim.signal(signal.SIGKILL)
        await until(owner, "SELECT NOT EXISTS (SELECT FROM work)")
    assert await effects(owner) == (5000, 5000)


async def test_a_worker_that_slept_past_its_lease_commits_nothing(database_url, owner, organization):
    await make_effects(owner)
    await add_work(owner, organization, "count", 1)
    async with workers(1, database_url, lease_seconds=1, step_seconds=2) as [sleeper]:
        await sleeper.began_one.wait()
        sleeper.signal(signal.SIGSTOP)
        [(_, lost_token)] = sleeper.began
        await until(owner, "SELECT leased_until < postroom_now() FROM work")
        sleeper.signal(signal.SIGCONT)
        await until(owner, "SELECT NOT EXISTS (SELECT FROM work)")
    cursor = await owner.execute("SELECT token FROM effects")
    tokens = [row[0] for row in await cursor.fetchall()]
    assert len(tokens) == 1, "claimed again, and done once"
    assert lost_token not in tokens


async def test_a_step_that_blocked_its_worker_past_the_lease_commits_nothing(
    database_url, owner, organization
):
    """The heartbeat cannot warn such a step: it goes straight on to its commit; only the fence is left."""
    await make_effects(owner)
    await add_work(owner, organization, "block", 1)
    async with workers(1, database_url, lease_seconds=1, step_seconds=1.5):
        await until(owner, "SELECT due_at IS NULL FROM work")
    assert await effects(owner) == (0, 0)


async def test_another_worker_takes_over_while_the_first_sleeps(database_url, owner, organization):
    await make_effects(owner)
    await add_work(owner, organization, "count", 1)
    async with workers(1, database_url, lease_seconds=1, step_seconds=2) as [sleeper]:
        await sleeper.began_one.wait()
        sleeper.signal(signal.SIGSTOP)
        async with workers(1, database_url, lease_seconds=1, step_seconds=0.3) as [other]:
            await until(owner, "SELECT EXISTS (SELECT FROM effects)")
            sleeper.signal(signal.SIGCONT)
            sleeper.signal(signal.SIGTERM)  # a worker ends its running step before it exits
            assert await sleeper.end() == 0
            assert await effects(owner) == (1, 1)
            await other.began_one.wait()
            cursor = await owner.execute("SELECT token FROM effects")
            [(token,)] = await cursor.fetchall()
            assert token not in [lost for _, lost in sleeper.began]


async def test_a_worker_frozen_inside_a_transaction_loses_its_locks_to_the_next(
    database_url, owner, organization
):
    await make_effects(owner)
    await add_work(owner, organization, "hold", 1)
    limits = {"lease_seconds": 3, "idle_seconds": 1}
    async with workers(1, database_url, freezes=True, **limits) as [frozen]:
        await frozen.began_one.wait()
        await asyncio.to_thread(wait_until, frozen.is_frozen)
        async with workers(1, database_url, **limits) as [other]:
            await until(owner, "SELECT NOT EXISTS (SELECT FROM work)")
            assert await effects(owner) == (1, 1)
            await other.began_one.wait()
            cursor = await owner.execute("SELECT token FROM effects")
            [(token,)] = await cursor.fetchall()
            assert token not in [lost for _, lost in frozen.began]
        frozen.signal(signal.SIGCONT)
        await add_work(owner, organization, "count", 1, prefix="next ")
        await until(owner, "SELECT NOT EXISTS (SELECT FROM work)")
        assert await effects(owner) == (2, 2), "it continues with the next work"
        frozen.signal(signal.SIGTERM)
        assert await frozen.end() == 0
    assert ("work.failed", "drop") in [(each["event"], each.get("outcome")) for each in frozen.logged]


async def test_a_wake_up_at_any_moment_of_a_run_is_never_lost(database_url, owner, organization):
    """Items arrive at random moments of the runs; without polling, only wake-ups get them handled."""
    await owner.execute("CREATE TABLE items (number int, handled boolean NOT NULL DEFAULT false)")
    await owner.execute("GRANT SELECT, UPDATE ON items TO postroom_application")
    dice = random.Random(7)
    async with workers(2, database_url, poll_seconds=3600, step_seconds=0.01):
        for number in range(300):
            async with owner.transaction():
                await owner.execute("INSERT INTO items VALUES (%s)", [number])
                await work.enqueue(owner, [work.WorkRequest(organization, "drain", "mailbox")])
            await asyncio.sleep(dice.uniform(0, 0.03))
            if number % 5 == 4:
                await until(owner, "SELECT NOT EXISTS (SELECT FROM items WHERE NOT handled)")
        await until(owner, "SELECT NOT EXISTS (SELECT FROM work)")


async def test_what_ends_and_is_soon_due_again_waits_for_no_poll(database_url, owner, organization):
    async with workers(1, database_url, poll_seconds=3600, lease_seconds=3600, step_seconds=0.1):
        await work.enqueue(owner, [work.WorkRequest(organization, "tick", "clock")])
        await until(owner, "SELECT due_at > enqueued_at + interval '1 second' FROM work")


async def test_a_stopping_worker_finishes_what_it_has_begun(database_url, owner, organization):
    await make_effects(owner)
    await add_work(owner, organization, "count", 5)
    async with workers(1, database_url, concurrency=5, step_seconds=0.5, stop_seconds=60) as [worker]:
        await worker.began_one.wait()
        worker.signal(signal.SIGTERM)
        assert await worker.end() == 0
    assert await effects(owner) == (5, 5)


async def test_a_stopping_worker_gives_back_what_would_take_too_long(database_url, owner, organization):
    await make_effects(owner)
    await add_work(owner, organization, "count", 3)
    async with workers(1, database_url, step_seconds=3600, stop_seconds=0) as [worker]:
        await worker.began_one.wait()
        worker.signal(signal.SIGTERM)
        assert await worker.end() == 0
    cursor = await owner.execute("SELECT lease_token, attempts, due_at <= postroom_now() FROM work")
    assert await cursor.fetchall() == [(None, 0, True)] * 3


async def test_a_worker_whose_heartbeat_fails_ends_as_a_whole(database_url, owner, organization):
    await add_work(owner, organization, "count", 1)
    async with workers(1, database_url, concurrency=1, lease_seconds=1, step_seconds=3600) as [worker]:
        await worker.began_one.wait()  # it claims nothing more, so only the heartbeat meets the damage
        await owner.execute("ALTER TABLE work RENAME COLUMN leased_until TO was_leased_until")
        assert await worker.end() == 1


async def test_each_failure_ends_as_the_table_says(database_url, owner, organization):
    for kind in ("transient", "throttled", "permanent", "bug", "operator"):
        await add_work(owner, organization, kind, 1)
    async with workers(1, database_url) as [worker]:
        await until(owner, "SELECT count(*) = 3 FROM work WHERE due_at IS NULL")
        await worker.tried(6)  # far more often than a row that is parked some day
    cursor = await owner.execute(
        "SELECT attempts, last_error, due_at IS NULL FROM work WHERE kind = 'operator'"
    )
    [(attempts, words, parked)] = await cursor.fetchall()
    # It waits until the operator acts, then continues. It may have been at it again when it was ended.
    assert (attempts <= 1, words, parked) == (True, "the secret has expired", False)
    cursor = await owner.execute(
        "SELECT attempts, due_at > enqueued_at + interval '50 minutes' FROM work WHERE kind = 'throttled'"
    )
    assert await cursor.fetchall() == [(1, True)], "as long as the provider asked for"
    cursor = await owner.execute(
        "SELECT kind, attempts, last_error FROM work WHERE due_at IS NULL ORDER BY kind"
    )
    assert await cursor.fetchall() == [
        ("bug", 3, "ZeroDivisionError"),  # retried, then parked; a stranger's words are not kept
        ("permanent", 1, "the provider has no such message"),
        ("transient", 3, "the provider is busy"),
    ]


async def test_a_worker_that_starts_retries_at_once_what_waits_for_the_operator(
    database_url, owner, organization
):
    await add_work(owner, organization, "operator", 1)
    await owner.execute(
        """
        UPDATE work SET state = 'waiting_for_operator', due_at = due_at + interval '1 hour',
            last_error = 'no secret'
        """
    )
    async with workers(1, database_url) as [worker]:
        await worker.tried(1)


async def test_work_that_kills_its_worker_is_parked(database_url, owner, organization):
    await add_work(owner, organization, "deadly", 1)
    for _ in range(work.DEADLY_LOST_LEASES):
        async with workers(1, database_url, lease_seconds=1) as [worker]:
            assert await worker.end() == 9
    async with workers(1, database_url):
        await until(owner, "SELECT due_at IS NULL FROM work")
    cursor = await owner.execute("SELECT last_error FROM work")
    assert await cursor.fetchone() == ("every worker that ran it crashed or stalled",)


async def test_work_that_lost_two_leases_runs_alone(database_url, owner, organization):
    """It kills its worker: whatever ran beside it would be leased still."""
    await make_effects(owner)
    await add_work(owner, organization, "count", 20)
    await add_work(owner, organization, "deadly", 1)
    await owner.execute("UPDATE work SET lost_leases = %s WHERE kind = 'deadly'", [work.SUSPECT_LOST_LEASES])
    async with workers(1, database_url, concurrency=5, step_seconds=0.2) as [worker]:
        assert await worker.end() == 9
        cursor = await owner.execute("SELECT kind FROM work WHERE state = 'leased'")
        assert await cursor.fetchall() == [("deadly",)]


async def test_neighbours_of_work_that_kills_its_workers_are_done_once(database_url, owner, organization):
    await make_effects(owner)
    await add_work(owner, organization, "count", 20)
    await add_work(owner, organization, "deadly", 1)
    for _ in range(work.DEADLY_LOST_LEASES):
        async with workers(1, database_url, concurrency=30, lease_seconds=1, step_seconds=0.1) as [worker]:
            assert await worker.end() == 9
    async with workers(1, database_url, lease_seconds=1):
        await until(owner, "SELECT bool_and(state = 'parked') FROM work")
    assert await effects(owner) == (20, 20)
    cursor = await owner.execute("SELECT kind FROM work")
    assert await cursor.fetchall() == [("deadly",)]


async def test_an_error_that_passes_waits_no_longer_because_workers_were_killed_before(
    database_url, owner, organization
):
    await add_work(owner, organization, "transient", 1)
    for _ in range(2):
        assert (await work.claim(owner, ["transient"], batch=1, lease_seconds=0)).leases
    async with workers(1, database_url, backoff_first_seconds=600, backoff_max_seconds=9600):
        await until(owner, "SELECT last_error IS NOT NULL FROM work")
    cursor = await owner.execute("SELECT attempts, due_at <= postroom_now() + interval '600 s' FROM work")
    assert await cursor.fetchone() == (1, True), "neither parked as the third failure nor put off like it"


async def test_a_worker_outlives_the_loss_of_all_its_connections(database_url, owner, organization):
    await make_effects(owner)
    await add_work(owner, organization, "count", 500)
    async with workers(1, database_url, lease_seconds=5, step_seconds=0.01, poll_seconds=0.1):
        for done in (50, 150, 300):
            await until(owner, "SELECT count(*) >= %s FROM effects", done)
            await owner.execute(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
                """
            )
        await until(owner, "SELECT NOT EXISTS (SELECT FROM work)")
    assert await effects(owner) == (500, 500)


async def test_with_wake_poll_due_work_is_found_by_the_poll_alone(database_url, owner, organization):
    await make_effects(owner)
    async with workers(1, database_url, wake_by_notify=False, poll_seconds=0.1):
        await add_work(owner, organization, "count", 3)
        await until(owner, "SELECT NOT EXISTS (SELECT FROM work)")
    assert await effects(owner) == (3, 3)


@pytest.mark.soak
async def test_workers_killed_stopped_and_continued_at_random_do_everything_once(
    database_url, owner, organization
):
    await make_effects(owner)
    await add_work(owner, organization, "count", 50_000)
    dice = random.Random(11)
    for _ in range(30):
        async with workers(4, database_url, concurrency=20, lease_seconds=5, step_seconds=0.005) as started:
            await asyncio.sleep(dice.uniform(0.5, 4))
            for worker in started:
                worker.signal(dice.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP]))
            await asyncio.sleep(dice.uniform(0, 6))
    async with workers(4, database_url, concurrency=20, lease_seconds=30):
        await until(owner, "SELECT NOT EXISTS (SELECT FROM work)")
    assert await effects(owner) == (50_000, 50_000)
