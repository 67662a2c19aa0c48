"""A copy in the archive that a worker wrote before it crashed is known, and does not stay beside another."""

from mailsim import samples
from postroom.flow.mail import purge
from postroom.model import ProviderName
from postroom.store.purge import delete_messages
from scenarios.crash_mailboxes import INVOICE
from scenarios.test_poison import shared_sim, world

__all__ = ["shared_sim", "world"]
WRITTEN = {"place": "postroom.blobs.disk_archive:DiskArchive.put_once", "when": "after"}
ARCHIVED = "SELECT count(*) = 1 FROM documents WHERE archived_at IS NOT NULL AND archive_outdated_at IS NULL"


async def crash_after_writing(world):
    """Kill a worker after it wrote a copy into the archive and before its commit; return the copy."""
    box = await world.room.mailbox(ProviderName.GMAIL)
    world.sim.deliver(box.address, samples.write_message(INVOICE))
    await box.wake()
    await world.die("work", crash=WRITTEN)
    [written] = world.home.glob("archive/**/*.pdf")
    return written


async def test_a_purge_removes_the_copy_of_a_worker_that_crashed_before_its_commit(world):
    written = await crash_after_writing(world)
    assert await world.rows("SELECT archive_path FROM documents") == [(None,)]
    await purge.purge_person(world.database, world.organization, INVOICE.sender[1])
    await world.work(ARCHIVED)
    assert not written.exists()
    [moved] = world.home.glob("archive/**/*.pdf")
    assert "unknown%40localhost" in str(moved)
    assert await world.rows("SELECT path FROM archive_copies") == []


async def test_the_copy_of_a_worker_that_crashed_is_removed_if_the_path_has_changed_since(world):
    written = await crash_after_writing(world)
    async with world.database.transaction(world.organization) as connection:  # as retention does
        ids = [id_ for (id_,) in await world.rows("SELECT message_id FROM arrivals")]
        await delete_messages(connection, ids)
    await world.work(ARCHIVED)
    [archived] = world.home.glob("archive/**/*.pdf")
    assert archived != written
    assert await world.rows("SELECT path FROM archive_copies") == []
