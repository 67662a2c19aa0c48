"""K3: unreferenced blobs are removed, row and object; referenced ones stay, whatever happens in between."""

import asyncio
import os
import random
from contextlib import suppress
from hashlib import sha256

import pytest

from postroom.blobs import DiskBlobStore
from postroom.errors import LeaseLost, TransientError
from postroom.flow.storage import blob_gc, blob_verification
from postroom.flow.storage.blob_gc import BlobGcContext
from postroom.model import WorkKind
from postroom.store import blobs, work
from postroom.store.work import WorkRequest

DAY = 86_400


@pytest.fixture
def store(tmp_path):
    return DiskBlobStore(tmp_path / "blobs")


@pytest.fixture
def collected(database, store, organization):
    async def run(grace=DAY):
        async with database.engine() as connection:
            await work.enqueue(
                connection, [WorkRequest(organization, WorkKind.COLLECT_GARBAGE, str(organization))]
            )
            claim = await work.claim(connection, [WorkKind.COLLECT_GARBAGE], batch=1, lease_seconds=60)
        [lease] = claim.leases
        done = await blob_gc.run(BlobGcContext(database, store, grace), lease)
        async with database.engine() as connection:
            await work.finish(connection, [work.FinishedWork(lease)])
        return done

    return run


async def kept(database, store, organization, content):
    blob = await store.put(organization, content)
    async with database.transaction(organization) as connection:
        await blobs.record(connection, organization, [blob])
    return blob


async def objects(store, organization):
    return {each.sha256 async for each in store.list_all(organization)}


async def refer(owner, organization, digest):
    await owner.execute(
        """
        INSERT INTO documents (organization_id, pipeline, sha256, media_type)
        VALUES (%s, 'invoices', %s, 'application/pdf')
        """,
        [organization, digest],
    )


async def test_unused_blobs_and_leftover_objects_go_and_the_next_run_is_due_tomorrow(
    database, owner, store, organization, collected, move_clock
):
    used = await kept(database, store, organization, b"used")
    await refer(owner, organization, used.sha256)
    await kept(database, store, organization, b"unused")
    await store.put(organization, b"of a page that was never committed")
    done = await collected()
    assert len(await objects(store, organization)) == 3
    await move_clock(2 * DAY)
    await _age(store, organization)
    assert await collected() == done
    assert await objects(store, organization) == {used.sha256}
    assert done.again_after == DAY


async def test_a_crash_between_row_and_object_is_finished_by_the_next_run(
    database, store, organization, collected, move_clock
):
    await kept(database, store, organization, b"unused")
    await move_clock(2 * DAY)
    async with database.transaction(organization) as connection:
        await blobs.mark_unreferenced(connection, organization, grace_seconds=DAY)
    assert len(await objects(store, organization)) == 1
    await _age(store, organization)
    await collected()
    assert await objects(store, organization) == set()


async def test_an_object_that_was_written_again_after_its_mark_is_spared(
    database, store, organization, collected, move_clock
):
    blob = await kept(database, store, organization, b"back again")
    await move_clock(2 * DAY)
    async with database.transaction(organization) as connection:
        await blobs.mark_unreferenced(connection, organization, grace_seconds=DAY)
    await collected()
    assert await objects(store, organization) == {blob.sha256}
    await kept(database, store, organization, b"back again")


@pytest.mark.parametrize("ahead", ["database", "store"])
async def test_a_clock_that_jumps_between_put_and_commit_loses_nothing(
    database, owner, store, organization, collected, move_clock, ahead
):
    """Only one of the two clocks runs ahead. The other one knows that the object is new."""
    blob = await store.put(organization, b"about to be committed")
    if ahead == "database":
        await move_clock(4 * DAY)
    else:  # for a clock that is ahead, files are old
        await move_clock(-4 * DAY)
        await _age(store, organization)
    await collected()
    async with database.transaction(organization) as connection:
        await blobs.record(connection, organization, [blob])
    await refer(owner, organization, blob.sha256)
    findings = await blob_verification.verify(database, store, organization, checked=lambda _: None)
    assert (findings.checked, findings.faults) == (1, [])


async def test_a_writer_that_reused_a_removed_object_starts_over_after_a_jump_of_the_clock(
    database, owner, store, organization, collected, move_clock
):
    await kept(database, store, organization, b"popular")
    await owner.execute("UPDATE blobs SET stored_at = stored_at - interval '2 days'")
    await _age(store, organization)
    reused = await store.put(organization, b"popular")
    await collected()
    await move_clock(4 * DAY)
    await collected()
    async with database.transaction(organization) as connection:
        with pytest.raises(TransientError):
            await blobs.record(connection, organization, [reused])
    assert (await kept(database, store, organization, b"popular")).created


class Sleepy:
    """A store whose first removal takes as long as a test wants."""

    def __init__(self, store):
        self.store = store
        self.asleep, self.awake = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def delete(self, organization, digest):
        if not self.asleep.is_set():
            self.asleep.set()
            await self.awake.wait()
        await self.store.delete(organization, digest)


async def test_a_collector_that_sleeps_past_its_lease_removes_nothing_that_came_back(
    database, owner, store, organization, move_clock
):
    await kept(database, store, organization, b"back again")
    await _age(store, organization)
    await owner.execute("UPDATE blobs SET stored_at = stored_at - interval '2 days'")
    sleepy = Sleepy(store)

    async def collect_if_due():
        async with database.engine() as connection:
            claim = await work.claim(connection, [WorkKind.COLLECT_GARBAGE], batch=1, lease_seconds=60)
        for lease in claim.leases:
            with suppress(LeaseLost):
                await blob_gc.run(BlobGcContext(database, sleepy, DAY), lease)

    async with database.engine() as connection:
        await work.enqueue(
            connection, [WorkRequest(organization, WorkKind.COLLECT_GARBAGE, str(organization))]
        )
    sleeper = asyncio.create_task(collect_if_due())
    await sleepy.asleep.wait()
    async with database.engine() as connection:
        cursor = await connection.execute("SELECT FROM work FOR UPDATE SKIP LOCKED")
        assert cursor.rowcount == 1, "its lease can be prolonged meanwhile"
    await move_clock(61)
    await collect_if_due()
    back = []
    with suppress(TransientError):
        back.append(await kept(database, store, organization, b"back again"))
    sleepy.awake.set()
    await sleeper
    if not back:  # its sync is tried again
        await kept(database, store, organization, b"back again")
    findings = await blob_verification.verify(database, store, organization, checked=lambda _: None)
    assert (findings.checked, findings.faults) == (1, [])


async def test_writers_and_collectors_at_once_lose_nothing(
    database, owner, store, organization, collected, move_clock
):
    """Everything is old at once and always: collectors want all that is unused, writers bring it back."""
    contents = [b"content %d" % number for number in range(6)]
    dice = random.Random(7)
    stop = asyncio.Event()

    async def write():
        while not stop.is_set():
            content = dice.choice(contents)
            try:
                blob = await store.put(organization, content)
                await asyncio.sleep(dice.random() / 100)
                async with database.transaction(organization) as connection:
                    await blobs.record(connection, organization, [blob])
                    await connection.execute(
                        """
                        INSERT INTO documents (organization_id, pipeline, sha256, media_type)
                        VALUES (%s, %s, %s, 'application/pdf') ON CONFLICT DO NOTHING
                        """,
                        [organization, dice.choice("abc"), blob.sha256],
                    )
            except TransientError:
                continue

    async def forget():
        while not stop.is_set():
            await owner.execute(
                "DELETE FROM documents WHERE sha256 = %s", [sha256(dice.choice(contents)).digest()]
            )
            for each in contents:  # one row a transaction: nothing to be in a deadlock with
                await owner.execute(
                    "UPDATE blobs SET stored_at = stored_at - interval '2 days' WHERE sha256 = %s",
                    [sha256(each).digest()],
                )
            await asyncio.sleep(0.002)

    tasks = [asyncio.create_task(write()) for _ in range(4)] + [asyncio.create_task(forget())]
    for _ in range(6):
        # Half a grace of a day would do for marks; the objects themselves are old in any case.
        await _age(store, organization)
        await collected()
    stop.set()
    await asyncio.gather(*tasks)
    findings = await blob_verification.verify(database, store, organization, checked=lambda _: None)
    assert findings.checked > 0
    assert findings.faults == []


async def _age(store, organization):
    async for each in store.list_all(organization):
        path = store._path(organization, each.sha256)
        if path.exists():
            os.utime(path, (each.modified_at.timestamp() - 2 * DAY,) * 2)


async def test_missing_and_changed_bytes_are_reported_with_what_refers_to_them(
    database, owner, store, organization
):
    whole, missing, changed = [
        await kept(database, store, organization, content) for content in (b"whole", b"missing", b"changed")
    ]
    await refer(owner, organization, missing.sha256)
    await store.delete(organization, missing.sha256)
    store._path(organization, changed.sha256).write_bytes(b"chanGed")
    await store.put(organization, b"an orphan")
    heard = []
    findings = await blob_verification.verify(database, store, organization, checked=heard.append)
    assert {(fault.sha256, fault.problem) for fault in findings.faults} == {
        (missing.sha256, "missing"), (changed.sha256, "changed"),
    }  # fmt: skip
    assert {len(fault.referrers.documents) for fault in findings.faults} == {0, 1}
    assert (findings.checked, len(findings.extra)) == (3, 1)
    assert sum(heard) == whole.size + missing.size + changed.size


async def test_every_organization_gets_its_daily_work_once(database, organization, other_organization):
    keeping = asyncio.create_task(
        blob_gc.keep_scheduled(database, [WorkKind.COLLECT_GARBAGE, WorkKind.APPLY_RETENTION])
    )
    found = []
    while len(found) < 4:
        async with database.engine() as connection:
            cursor = await connection.execute("SELECT organization_id, kind FROM work ORDER BY 1, 2")
            found = await cursor.fetchall()
        await asyncio.sleep(0.01)
    keeping.cancel()
    both = sorted([organization, other_organization])
    assert found == [
        (each, kind) for each in both for kind in (WorkKind.APPLY_RETENTION, WorkKind.COLLECT_GARBAGE)
    ]
