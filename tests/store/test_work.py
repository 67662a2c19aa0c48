"""The table `work`: claims, leases, fences and states."""

import asyncio
import re

import pytest

import databases
from postroom.errors import LeaseLost
from postroom.model import WorkKind
from postroom.store import claim_statement, parked_work, roles, work
from postroom.store.work import ExtensionResult, FinishedWork, WorkRequest
from scenarios.worker_pool import until


@pytest.fixture
async def engine(service_url):
    """A session of the engine role in which each statement commits."""
    async with databases.session(service_url, roles.ENGINE) as connection:
        yield connection


async def claim(engine, *, batch=10, kinds=("sync",), lease_seconds=30):
    return (await work.claim(engine, kinds, batch=batch, lease_seconds=lease_seconds)).leases


async def rows(owner, columns="subject"):
    cursor = await owner.execute(f"SELECT {columns} FROM work ORDER BY kind, subject")
    return await cursor.fetchall()


BLOCKED = """
    SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


async def test_claims_only_due_work(engine, organization):
    await work.enqueue(
        engine,
        [
            WorkRequest(organization, WorkKind.SYNC, "now"),
            WorkRequest(organization, WorkKind.SYNC, "later", delay=3600),
        ],
    )
    assert [lease.subject for lease in await claim(engine)] == ["now"]


async def test_empty_claim_reports_when_next_row_is_due(engine, organization):
    assert await work.claim(engine, [WorkKind.SYNC], batch=1, lease_seconds=30) == work.ClaimResult([], None)
    await work.enqueue(
        engine, [WorkRequest(organization, WorkKind.SYNC, "a", delay=delay) for delay in (600, 60)]
    )
    claimed = await work.claim(engine, [WorkKind.SYNC], batch=1, lease_seconds=30)
    assert claimed.leases == []
    assert 0 < claimed.next_in <= 60


async def test_claims_only_requested_kinds(engine, organization):
    await work.enqueue(
        engine, [WorkRequest(organization, WorkKind.SYNC, "a"), WorkRequest(organization, "unheard_of", "b")]
    )
    assert [lease.kind for lease in await claim(engine)] == ["sync"]


async def test_leased_row_is_not_claimable_until_lease_expires(engine, organization, owner, move_clock):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [first] = await claim(engine)
    assert await claim(engine) == []
    await move_clock(31)
    [second] = await claim(engine)
    assert second.token != first.token
    assert (second.attempts, second.lost_leases) == (1, 1), "no word of the first is no failure of the work"


async def test_oldest_due_row_is_claimed_first(engine, organization, owner, move_clock):
    for subject in ("first", "second", "third"):
        await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, subject)])
        await move_clock(1)
    assert [[lease.subject for lease in await claim(engine, batch=1)] for _ in range(3)] == [
        ["first"],
        ["second"],
        ["third"],
    ]


async def test_a_long_backlog_does_not_hide_another_organizations_single_row(
    engine, organization, other_organization, owner
):
    await owner.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at)
        SELECT %s, 'sync', 'backlog ' || number, postroom_now() - interval '1 hour'
        FROM generate_series(1, 100000) AS number
        """,
        [organization],
    )
    await work.enqueue(engine, [WorkRequest(other_organization, WorkKind.SYNC, "single")])
    assert "single" in [lease.subject for lease in await claim(engine, batch=50)]


async def test_claim_stays_cheap_with_very_many_lanes(engine, organization, other_organization, owner):
    """Each claim looks at some of the lanes, and no lane is passed over for long."""
    await owner.execute("INSERT INTO organizations (name) SELECT n::text FROM generate_series(1, 3000) n")
    await owner.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at)
        SELECT id, 'sync', id::text, postroom_now() + interval '1 hour' FROM organizations
        """
    )
    await owner.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at)
        SELECT %s, 'sync', 'backlog ' || number, postroom_now() - interval '1 hour'
        FROM generate_series(1, 3000) AS number
        """,
        [organization],
    )
    await work.enqueue(engine, [WorkRequest(other_organization, WorkKind.SYNC, "single")])
    await owner.execute("ANALYZE work")
    async with engine.transaction(force_rollback=True):
        cursor = await engine.execute(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + claim_statement.CLAIM,
            claim_statement.claim_parameters(["sync"], batch=1, lease_seconds=30),
        )
        [plan] = (await cursor.fetchone())[0]
    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 3000
    subjects = [lease.subject for _ in range(150) for lease in await claim(engine, batch=1)]
    assert "single" in subjects


async def test_a_long_backlog_of_one_kind_does_not_hide_another_kind(engine, organization):
    await work.enqueue(
        engine, [WorkRequest(organization, WorkKind.PROCESS_DOCUMENT, str(number)) for number in range(1000)]
    )
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "single")])
    leases = await claim(engine, batch=10, kinds=(WorkKind.PROCESS_DOCUMENT, WorkKind.SYNC))
    assert "single" in [lease.subject for lease in leases]


@pytest.mark.parametrize("kinds, batch", [(1, 50), (4, 8), (8, 8), (8, 2)])
async def test_an_organization_with_a_backlog_of_many_kinds_leaves_room_for_another(
    engine, organization, other_organization, owner, kinds, batch
):
    names = [f"kind{number}" for number in range(kinds)]
    await owner.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at)
        SELECT %s, kind, number::text, postroom_now() - interval '1 hour'
        FROM unnest(%s::text[]) AS kind, generate_series(1, 2000) AS number
        """,
        [organization, names],
    )
    for trial in range(10):
        await work.enqueue(engine, [WorkRequest(other_organization, "kind0", f"single {trial}")])
        assert f"single {trial}" in [lease.subject for lease in await claim(engine, batch=batch, kinds=names)]


async def test_organization_with_less_running_work_is_served_first(engine, organization, other_organization):
    await work.enqueue(
        engine, [WorkRequest(organization, WorkKind.SYNC, str(number)) for number in range(100)]
    )
    await claim(engine, batch=7)
    await work.enqueue(engine, [WorkRequest(other_organization, WorkKind.SYNC, "single")])
    assert [lease.subject for lease in await claim(engine, batch=1)] == ["single"]


async def test_claim_skips_rows_locked_by_another_claim(database, organization):
    async with database.engine() as connection:
        await work.enqueue(
            connection, [WorkRequest(organization, WorkKind.SYNC, str(number)) for number in range(20)]
        )
    async with database.engine() as first, database.engine() as second:
        taken = await claim(first, batch=10)
        async with asyncio.timeout(30):  # it would wait forever otherwise
            others = await claim(second, batch=10)
    assert len({lease.id for lease in [*taken, *others]}) == 20


async def test_concurrent_claims_never_take_the_same_row(database, organization):
    async with database.engine() as connection:
        await work.enqueue(
            connection, [WorkRequest(organization, WorkKind.SYNC, str(number)) for number in range(400)]
        )

    async def take():
        async with database.engine() as connection:
            return [lease.id for _ in range(5) for lease in await claim(connection, batch=40)]

    taken = [number for batch in await asyncio.gather(take(), take()) for number in batch]
    assert len(taken) == len(set(taken)) == 400


async def test_enqueue_during_the_work_leaves_the_row_due(engine, organization, owner):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [lease] = await claim(engine)
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    assert await claim(engine) == [], "not before the holder has finished"
    await work.finish(engine, [FinishedWork(lease, again_after=3600)])
    [again] = await claim(engine)
    assert again.attempts == 1


async def test_enqueue_waiting_for_a_finish_recreates_the_row(database, engine, organization, owner):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [lease] = await claim(engine)
    async with database.transaction(organization) as finishing:
        await work.finish(finishing, [FinishedWork(lease)])
        waking = asyncio.create_task(work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")]))
        await until(owner, BLOCKED)
    await waking
    async with database.engine() as connection:
        assert [lease.subject for lease in await claim(connection)] == ["a"]


async def test_finish_waiting_for_an_enqueue_leaves_the_row_due(database, engine, organization, owner):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [lease] = await claim(engine)
    async with database.transaction(organization) as waking:
        await work.enqueue(waking, [WorkRequest(organization, WorkKind.SYNC, "a")])
        finishing = asyncio.create_task(work.finish(engine, [FinishedWork(lease)]))
        await until(owner, BLOCKED)
    assert await finishing == {lease.id}
    async with database.engine() as connection:
        assert [lease.subject for lease in await claim(connection)] == ["a"]


async def test_consecutive_lost_leases_are_counted_until_a_result(engine, organization, move_clock):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    for lost in range(3):
        [lease] = await claim(engine)
        assert (lease.attempts, lease.lost_leases) == (1, lost)
        await move_clock(31)
    [lease] = await claim(engine)
    await work.release(engine, [lease])
    [lease] = await claim(engine)
    assert (lease.attempts, lease.lost_leases) == (1, 3), "a worker that stops says nothing about the work"
    await work.retry(engine, lease, delay=0, error="busy")
    [lease] = await claim(engine)
    assert (lease.attempts, lease.lost_leases) == (2, 0)


async def test_enqueue_does_not_shorten_a_backoff(engine, organization):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [lease] = await claim(engine)
    await work.retry(engine, lease, delay=600, error="busy")
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    assert await claim(engine) == []


async def test_uncounted_attempt_keeps_its_delay_and_resets_the_count(engine, organization, move_clock):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    for _ in range(5):
        [lease] = await claim(engine)
        assert lease.attempts == 1
        await work.retry(engine, lease, delay=600, error="the secret has expired", counts=False)
        await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
        assert await claim(engine) == [], "enqueue does not shorten the backoff"
        await move_clock(601)


async def test_finished_row_is_deleted_or_due_again_later(engine, organization, owner, move_clock):
    await work.enqueue(
        engine,
        [WorkRequest(organization, WorkKind.SYNC, "once"), WorkRequest(organization, WorkKind.SYNC, "sweep")],
    )
    once, sweep = sorted(await claim(engine), key=lambda lease: lease.subject)
    assert await work.finish(engine, [FinishedWork(once), FinishedWork(sweep, again_after=900)]) == {
        once.id,
        sweep.id,
    }
    assert await rows(owner, "subject, attempts, lease_token") == [("sweep", 0, None)]
    await move_clock(901)
    assert [lease.subject for lease in await claim(engine)] == ["sweep"]


async def test_expired_lease_can_neither_commit_nor_finish_nor_extend(
    database, engine, organization, owner, move_clock
):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [lease] = await claim(engine)
    await move_clock(31)
    with pytest.raises(LeaseLost):
        async with work.fenced_transaction(database, lease) as connection:
            await work.enqueue(connection, [WorkRequest(organization, WorkKind.SYNC, "never committed")])
    assert await work.finish(engine, [FinishedWork(lease)]) == set()
    assert await work.extend(engine, [lease], lease_seconds=30) == ExtensionResult(set(), set())
    assert await rows(owner) == [("a",)]


async def test_a_worker_whose_work_was_claimed_by_another_commits_nothing(
    database, engine, organization, owner, move_clock
):
    """Its lease expires between its claim and its write, and the other one's lease is valid meanwhile."""
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [first] = await claim(engine)
    await move_clock(31)
    [second] = await claim(engine)
    with pytest.raises(LeaseLost):
        async with work.fenced_transaction(database, first) as connection:
            await work.enqueue(connection, [WorkRequest(organization, WorkKind.SYNC, "never committed")])
    assert await work.finish(engine, [FinishedWork(first)]) == set()
    assert await rows(owner, "subject, lease_token") == [("a", second.token)]
    async with work.fenced_transaction(database, second) as connection:
        assert await work.finish(connection, [FinishedWork(second)]) == {second.id}
    assert await rows(owner) == []


async def test_a_lost_lease_can_neither_retry_nor_park_nor_release(engine, organization, owner, move_clock):
    columns = "state, lease_token, leased_until, due_at, attempts, lost_leases, last_error"
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [first] = await claim(engine)
    await move_clock(31)
    [second] = await claim(engine)
    before = await rows(owner, columns)
    assert not await work.retry(engine, first, delay=3600, error="late")
    assert not await work.retry(engine, first, delay=3600, error="late", counts=False)
    assert not await work.park(engine, first, error="late")
    await work.release(engine, [first])
    assert await rows(owner, columns) == before
    assert await work.retry(engine, second, delay=0, error="the provider is busy")
    [third] = await claim(engine)
    assert await work.park(engine, third, error="the provider is busy")


async def test_a_row_is_not_claimed_while_its_holder_commits_past_the_lease(
    database, engine, organization, owner, move_clock
):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [first] = await claim(engine)
    async with work.fenced_transaction(database, first) as connection:
        await move_clock(31)
        assert await claim(engine) == []
        await work.enqueue(connection, [WorkRequest(organization, WorkKind.SYNC, "committed")])
    assert [lease.subject for lease in await claim(engine)] == ["a", "committed"]


async def test_a_lease_that_ends_while_its_row_is_locked_commits_nothing(
    database, engine, organization, owner
):
    """A statement of another worker may lock the row of a lease and freeze before its commit."""
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [lease] = await claim(engine, lease_seconds=1)

    async def commit():
        async with work.fenced_transaction(database, lease):
            pass

    async with database.transaction(organization) as other:
        await other.execute("SELECT 1 FROM work WHERE id = %s FOR UPDATE", [lease.id])
        committing = asyncio.create_task(commit())
        await until(owner, BLOCKED)
        await until(owner, "SELECT leased_until < clock_timestamp() FROM work")
    with pytest.raises(LeaseLost):
        await committing


async def test_extended_lease_is_held_longer(engine, organization, move_clock):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [lease] = await claim(engine)
    await move_clock(20)
    assert await work.extend(engine, [lease], lease_seconds=30) == ExtensionResult({lease.id}, set())
    await move_clock(20)
    assert await claim(engine) == []


async def test_locked_row_does_not_block_extending_other_leases(database, engine, organization, move_clock):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, each) for each in "abc"])
    leases = await claim(engine)
    held, *others = leases
    async with database.transaction(organization) as connection:
        await work.block_commits(connection, WorkKind.SYNC, held.subject)
        await move_clock(20)
        extended = await work.extend(engine, leases, lease_seconds=30)
    assert extended == ExtensionResult({each.id for each in others}, {held.id})
    assert await work.extend(engine, [held], lease_seconds=30) == ExtensionResult({held.id}, set())


async def test_a_fenced_transaction_sees_its_organization_only(
    database, engine, organization, other_organization
):
    await work.enqueue(
        engine,
        [
            WorkRequest(organization, WorkKind.SYNC, "ours"),
            WorkRequest(other_organization, WorkKind.SYNC, "theirs"),
        ],
    )
    lease = next(lease for lease in await claim(engine) if lease.subject == "ours")
    async with work.fenced_transaction(database, lease) as connection:
        cursor = await connection.execute("SELECT subject FROM work")
        assert await cursor.fetchall() == [("ours",)]


async def test_parked_row_waits_for_an_operator(database, engine, organization, owner):
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    [lease] = await claim(engine)
    await work.park(engine, lease, error="unreadable")
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    assert await claim(engine) == []
    async with database.transaction(organization) as connection:
        assert await parked_work.unpark(connection, WorkKind.SYNC, "a")
        assert not await parked_work.unpark(connection, WorkKind.SYNC, "a")
    [again] = await claim(engine)
    assert again.attempts == 1


async def test_every_statement_sets_the_state(engine, organization, owner, move_clock):
    async def state():
        [(state,)] = await rows(owner, "state")
        return state

    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    assert await state() == "waiting"
    [lease] = await claim(engine)
    assert await state() == "leased"
    await work.release(engine, [lease])
    assert await state() == "waiting"
    [lease] = await claim(engine, lease_seconds=1)
    await move_clock(2)
    assert await state() == "leased"  # expired, and claimable
    [lease] = await claim(engine)
    await work.retry(engine, lease, delay=0, error="timeout")
    assert await state() == "waiting"
    [lease] = await claim(engine)
    await work.retry(engine, lease, delay=60, error="secret expired", counts=False)
    assert await state() == "waiting_for_operator"
    assert await work.resume_waiting_for_operator(engine) == 1
    assert await state() == "waiting"
    assert await work.resume_waiting_for_operator(engine) == 0
    [lease] = await claim(engine)
    await work.park(engine, lease, error="unreadable")
    assert await state() == "parked"
    await parked_work.unpark(engine, WorkKind.SYNC)
    [lease] = await claim(engine)
    await work.park(engine, lease, error="unreadable")
    await work.restart(engine, [WorkRequest(organization, WorkKind.SYNC, "a")])
    assert await state() == "waiting"
    [lease] = await claim(engine)
    await work.finish(engine, [FinishedWork(lease, again_after=60)])
    assert await state() == "waiting"


async def test_many_requests_for_one_subject_are_one_row(engine, organization, owner):
    await work.enqueue(
        engine, [WorkRequest(organization, WorkKind.SYNC, "a", delay=delay) for delay in (9, 0, 5)]
    )
    await work.enqueue(engine, [])
    assert await rows(owner, "subject, due_at <= postroom_now()") == [("a", True)]


async def test_requests_for_the_same_rows_in_other_orders_do_not_deadlock(database, organization):
    subjects = [str(number) for number in range(50)]

    async def storm(order):
        for _ in range(20):
            async with database.engine() as connection:
                await work.enqueue(
                    connection, [WorkRequest(organization, WorkKind.SYNC, subject) for subject in order]
                )

    await asyncio.gather(storm(subjects), storm(subjects[::-1]))


async def test_workers_are_notified_only_when_a_row_became_claimable(database, engine, organization):
    heard = database.listen("postroom_work", every_seconds=0.5)
    assert await anext(heard) is None, "what came before was not heard"
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "later", delay=60)])
    await work.enqueue(engine, [WorkRequest(organization, WorkKind.SYNC, "now")])
    await claim(engine)
    await work.enqueue(
        engine, [WorkRequest(organization, WorkKind.SYNC, "now")]
    )  # leased: its finish will see to it
    assert [await anext(heard), await anext(heard)] == ["", None]
    await heard.aclose()


async def test_claim_reads_its_indexes_however_much_is_waiting(engine, organization, owner):
    """A hundred thousand rows, ten of them due: the plan touches pages by the dozen, not by the thousand."""
    await owner.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at)
        SELECT %s, 'sync', number::text, postroom_now() + (number - 9.5) * interval '1 hour'
        FROM generate_series(0, 99999) AS number
        """,
        [organization],
    )
    await owner.execute("ANALYZE work")
    async with engine.transaction(force_rollback=True):
        cursor = await engine.execute(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + claim_statement.CLAIM,
            claim_statement.claim_parameters(["sync"], batch=50, lease_seconds=30),
        )
        [plan] = (await cursor.fetchone())[0]
    assert "work" not in re.findall(r"'Seq Scan'[^{}]*'Relation Name': '(\w+)'", str(plan))
    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 500
    assert len(await claim(engine, batch=50)) == 10
