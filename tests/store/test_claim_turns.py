"""Whose work is claimed next: organizations take turns, even if one of them floods the table."""

import asyncio
from contextlib import asynccontextmanager

import pytest

import databases
from postroom import worker
from postroom.engine import WorkHandler
from postroom.model import StepResult
from postroom.store import claim_pace, claim_statement, resource_uses, roles, work
from postroom.store.claim_pace import MAX_WAIT_SECONDS, ClaimPace
from postroom.store.resource_uses import ResourceMeter, ResourceUse
from postroom.store.work import WorkRequest

PATIENCE = 120  # seconds until a test is given up; nothing is asserted about how long it took


@pytest.fixture
async def engine(service_url):
    async with databases.session(service_url, roles.ENGINE) as connection:
        yield connection


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  # the workers have no event for it
            await asyncio.sleep(0.01)


async def flood(owner, organization, count=100_000):
    """Make many rows of one organization due, an hour ago."""
    await owner.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at)
        SELECT %s, 'sync', 'flood ' || number, postroom_now() - interval '1 hour'
        FROM generate_series(1, %s) AS number
        """,
        [organization, count],
    )
    await owner.execute("ANALYZE work")


async def claim(engine, *, batch, reserved=0, busy=()):
    claimed = await work.claim(engine, ["sync"], batch=batch, lease_seconds=30, reserved=reserved, busy=busy)
    return [lease.subject for lease in claimed.leases]


async def test_the_organization_whose_work_took_less_time_is_next(
    engine, owner, organization, other_organization
):
    """Both run nothing. However often it is asked, the flood of the one that used more waits."""
    await flood(owner, organization, 1000)
    await work.enqueue(engine, [WorkRequest(other_organization, "sync", f"quiet {n}") for n in range(10)])
    await resource_uses.add(engine, {organization: ResourceUse(run_seconds=60.0)})
    await resource_uses.add(engine, {other_organization: ResourceUse(run_seconds=1.0)})
    for _ in range(10):
        async with engine.transaction(force_rollback=True):
            [subject] = await claim(engine, batch=1)
            assert subject.startswith("quiet")


async def test_time_that_work_took_long_ago_does_not_count(
    engine, owner, organization, other_organization, move_clock
):
    await resource_uses.add(engine, {organization: ResourceUse(run_seconds=3600.0)})
    await move_clock(claim_statement.USE_WINDOW_SECONDS + 1)
    await resource_uses.add(engine, {other_organization: ResourceUse(run_seconds=1.0)})
    await flood(owner, organization, 10)
    await work.enqueue(engine, [WorkRequest(other_organization, "sync", "other")])
    [subject] = await claim(engine, batch=1)
    assert subject.startswith("flood")


async def test_reserved_slots_are_only_for_organizations_that_run_nothing(
    engine, owner, organization, other_organization
):
    await flood(owner, organization)
    assert len(await claim(engine, batch=8, reserved=2)) == 6
    assert await claim(engine, batch=2, reserved=2, busy=[organization]) == []
    await work.enqueue(engine, [WorkRequest(other_organization, "sync", f"quiet {n}") for n in range(3)])
    [subject] = await claim(engine, batch=2, reserved=2, busy=[organization])
    assert subject.startswith("quiet")
    assert await claim(engine, batch=1, reserved=2, busy=[organization, other_organization]) == []


async def test_a_claim_that_meets_only_locked_rows_is_repeated_soon(
    database, engine, organization, other_organization
):
    """Two workers with one free slot each claim at once and choose the same row, though another is due."""
    requests = [WorkRequest(organization, "sync", "first"), WorkRequest(other_organization, "sync", "second")]
    await work.enqueue(engine, requests)
    await resource_uses.add(engine, {other_organization: ResourceUse(run_seconds=60.0)})
    async with database.engine() as connection:
        assert await claim(connection, batch=1) == ["first"]
        meanwhile = await work.claim(engine, ["sync"], batch=1, lease_seconds=30)
        assert (meanwhile.leases, meanwhile.next_in) == ([], claim_statement.LOCKED_WAIT_SECONDS)
    assert await claim(engine, batch=1) == ["second"]


async def test_one_organization_alone_uses_all_slots(engine, owner, organization):
    await flood(owner, organization, 100)
    assert len(await claim(engine, batch=8, reserved=2)) == 8


async def test_a_claim_beside_a_flood_stays_cheap(engine, owner, organization, other_organization):
    await flood(owner, organization)
    await work.enqueue(engine, [WorkRequest(other_organization, "sync", "quiet")])
    for reserved in (0, 8):
        async with engine.transaction(force_rollback=True):
            cursor = await engine.execute(
                "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + claim_statement.CLAIM,
                claim_statement.claim_parameters(
                    ["sync"], batch=8, lease_seconds=30, reserved=reserved, busy=[organization]
                ),
            )
            [plan] = (await cursor.fetchone())[0]
        assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 500


class HeldSteps:
    """Steps that run until the test ends them; `started` lists what they work on."""

    def __init__(self):
        self.started = []
        self.end = asyncio.Event()

    async def run(self, lease):
        self.started.append(lease.subject)
        await self.end.wait()
        return StepResult()


class SteppedSteps(HeldSteps):
    """Steps that end one by one, as the test lets them."""

    def __init__(self):
        super().__init__()
        self.endings = asyncio.Semaphore(0)

    async def run(self, lease):
        self.started.append(lease.subject)
        await self.endings.acquire()
        return StepResult()


async def count_rows(owner):
    return (await (await owner.execute("SELECT count(*) FROM work")).fetchone())[0]


@asynccontextmanager
async def running_workers(database, steps, count=1, **changes):
    given = {"concurrency": 4, "lease_seconds": 60, "poll_seconds": 60, "stop_seconds": 10}
    given |= {"backoff_first_seconds": 1, "backoff_max_seconds": 60, "wake_by_notify": True, **changes}
    limits, stop, meter = worker.WorkerLimits(**given), asyncio.Event(), ResourceMeter()
    handlers = {"sync": WorkHandler(steps.run, max_attempts=None)}
    tasks = [
        asyncio.create_task(worker.run(database, handlers, limits, stop, meter=meter)) for _ in range(count)
    ]
    try:
        yield
    finally:
        steps.end.set()
        stop.set()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize("count", [1, 2])
async def test_work_of_another_organization_starts_while_a_flood_fills_the_workers(
    database, owner, organization, other_organization, count
):
    """No step of the flood ends before the other organization's step has started."""
    await flood(owner, organization)
    steps = HeldSteps()
    async with running_workers(database, steps, count):
        await until(lambda: len(steps.started) == 3 * count)
        async with database.engine() as connection:
            await work.enqueue(connection, [WorkRequest(other_organization, "sync", "quiet")])
        await until(lambda: "quiet" in steps.started)
        assert len(steps.started) == 3 * count + 1


async def test_a_polling_worker_continues_a_flood_as_soon_as_a_step_ends(
    database, owner, organization, other_organization
):
    """The interval is an hour: only the end of a step can start the next one."""
    await flood(owner, organization, 50)
    steps = HeldSteps()
    steps.end.set()
    async with running_workers(database, steps, wake_by_notify=False, poll_seconds=3600):
        await until(lambda: len(steps.started) == 50)


async def test_what_the_work_of_an_organization_used_is_recorded(database, engine, owner, organization):
    await flood(owner, organization, 5)
    steps = HeldSteps()
    steps.end.set()
    async with running_workers(database, steps):
        await until(lambda: len(steps.started) == 5)
    [use] = await resource_uses.list_recent(engine, hours=1)
    assert (use.organization_id, use.steps) == (organization, 5)
    assert use.queue_seconds > 5 * 3600
    assert use.run_seconds > 0


async def test_old_uses_are_deleted(database, engine, organization, move_clock):
    await resource_uses.add(engine, {organization: ResourceUse(steps=1)})
    await move_clock(resource_uses.KEPT_DAYS * 86400 + 600)
    await resource_uses.delete_old(database)
    assert await resource_uses.list_recent(engine, hours=10_000) == []


async def test_claims_of_a_full_worker_wait_until_a_batch_of_slots_is_free():
    now = 0.0
    pace = ClaimPace(8, clock=lambda: now)
    pace.start_claim()
    now = 0.006
    pace.end_claim(is_full=True)
    assert pace.seconds_to_wait() == pytest.approx(0.024)
    pace.count_freed()
    assert pace.seconds_to_wait() > 0
    pace.count_freed()
    assert pace.seconds_to_wait() == 0
    pace.start_claim()
    now = 10.0
    pace.end_claim(is_full=True)
    assert pace.seconds_to_wait() == pytest.approx(MAX_WAIT_SECONDS)
    now += MAX_WAIT_SECONDS
    assert pace.seconds_to_wait() == 0


@pytest.mark.parametrize("slots, is_full", [(8, False), (1, True)])
async def test_a_worker_with_free_slots_or_a_single_one_claims_at_once(slots, is_full):
    now = 0.0
    pace = ClaimPace(slots, clock=lambda: now)
    pace.start_claim()
    now = 10.0
    pace.end_claim(is_full=is_full)
    assert pace.seconds_to_wait() == 0


async def test_a_full_worker_fills_the_slots_of_several_ended_steps_with_one_claim(
    database, owner, organization, monkeypatch
):
    """Both steps end between two claims. Without the wait, each of them causes a claim of its own."""
    monkeypatch.setattr(claim_pace, "MAX_WAIT_SECONDS", PATIENCE)
    monkeypatch.setattr(claim_pace, "WAIT_FACTOR", 1e9)
    await flood(owner, organization, 100)
    steps, batches, claim_work = SteppedSteps(), [], work.claim

    async def counting_claim(*given, **options):
        result = await claim_work(*given, **options)
        batches.append(len(result.leases))
        return result

    monkeypatch.setattr(work, "claim", counting_claim)
    async with running_workers(database, steps, concurrency=8):
        await until(lambda: len(steps.started) == 8)
        for left in (99, 98):
            steps.endings.release()
            async with asyncio.timeout(PATIENCE):
                while await count_rows(owner) != left:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        await until(lambda: len(steps.started) == 10)
        assert batches == [8, 2]
        for _ in range(100):
            steps.endings.release()
