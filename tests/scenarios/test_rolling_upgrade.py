"""Processes stop when a newer version migrates their database: nothing is lost, nothing is stored twice."""

import pytest

from postroom.cli.exit_codes import ExitCode
from postroom.model import ProviderName
from scenarios.mirrored_mailbox import environment
from scenarios.postroom_process import PostroomProcess
from scenarios.test_sync_crashes import CURRENT
from scenarios.worker_pool import until

NEWER = "INSERT INTO schema_migrations (version, name, sha256) VALUES (9001, 'newer', '')"
# What the newer version did to the schema, and how to undo it, so that this version can play the newer one.
ADDITIVE = "ALTER TABLE work ADD COLUMN newer text", "ALTER TABLE work DROP COLUMN newer"
INCOMPATIBLE = (
    "ALTER TABLE work RENAME COLUMN lost_leases TO newer",
    "ALTER TABLE work RENAME COLUMN newer TO lost_leases",
)


@pytest.fixture
def start(sim, database_url, tmp_path):
    """Start a process of this version over the simulator."""
    given = environment(sim, database_url, tmp_path)
    return lambda *arguments: PostroomProcess(tmp_path, *arguments, **given)


async def migrate_as_newer_version(owner, statement):
    async with owner.transaction():
        await owner.execute(statement)
        await owner.execute(NEWER)


@pytest.mark.parametrize("change", [ADDITIVE, INCOMPATIBLE], ids=["additive", "incompatible"])
async def test_processes_stop_after_a_migration_by_a_newer_version(room, owner, start, change):
    boxes = [await room.mailbox(provider, messages=300, days=20) for provider in ProviderName]
    with start("work") as worker, start("serve", "--port", "0") as web:
        web.line("Postroom: ")
        await until(owner, "SELECT count(*) >= 20 FROM messages")
        await migrate_as_newer_version(owner, change[0])
        for process in (worker, web):
            assert process.wait() == ExitCode.SCHEMA, "".join(process.said)
            assert "newer" in process.said[-1]
    with start("work") as refused:
        assert refused.wait() == ExitCode.SCHEMA
        assert "9001_newer" in refused.said[-1]
    await owner.execute(change[1])
    await owner.execute("DELETE FROM schema_migrations WHERE version = 9001")
    with start("work") as worker:
        await until(owner, CURRENT)
        worker.end()
    for box in boxes:
        assert await box.check() == 300
        assert await box.one("SELECT sum(listed) FROM cursors WHERE kind = 'backfill'") == 600


async def test_up_stops_with_its_processes(owner, start):
    with start("up", "--port", "0") as up:
        up.line("Postroom: ")
        await migrate_as_newer_version(owner, ADDITIVE[0])
        assert up.wait() == ExitCode.SCHEMA, "".join(up.said)
        assert "does not match this version" in up.said[-1]
