"""A backup of the database and a copy of the blobs from another time become a complete Postroom again."""

import json
import shutil

import pytest

from databases import session
from postroom.model import ProviderName
from scenarios.mirror_check import assert_mirrors
from scenarios.mirrored_mailbox import environment
from scenarios.postroom_process import environment as command_environment


@pytest.fixture
def run(sim, launcher, organization, tmp_path):
    """Run one command on a home and a database."""

    def run_command(home, url, *arguments, code=0):
        settings = environment(sim, url, home) | {"POSTROOM_ORGANIZATION": str(organization)}
        given = command_environment(**settings)
        done = launcher.run(arguments, tmp_path, given, seconds=120)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run_command


@pytest.fixture
async def box(room, sim, provider):
    """A mirrored mailbox with attachments."""
    made = await room.mailbox(provider, messages=20, days=20)
    sim.deliver(made.address, kind="invoice")
    await made.sync()
    return made


@pytest.fixture
def new_home(tmp_path, empty_database_url, run):
    """Restore the backup into an empty database, with a home that has the given blobs."""

    def restore(backup, blobs):
        home = tmp_path / "new"
        shutil.copytree(blobs, home / "blobs")
        run(home, empty_database_url, "db", "restore", str(backup))
        run(home, empty_database_url, "blobs", "adopt")
        return home

    return restore


def list_objects(folder):
    return {path for path in folder.rglob("*") if path.is_file() and len(path.name) == 64}


async def assert_complete(url, sim, box):
    async with session(url) as connection:
        await assert_mirrors(connection, sim, box.address, box.mailbox)


@pytest.mark.parametrize("provider", [ProviderName.OUTLOOK])
async def test_blobs_older_than_the_database_are_fetched_again(
    box, sim, run, new_home, tmp_path, database_url, empty_database_url
):
    shutil.copytree(tmp_path / "blobs", tmp_path / "old-blobs")
    before = {path.name for path in list_objects(tmp_path / "blobs")}
    sim.deliver(box.address, kind="invoice")
    await box.sync()
    missing = {path.name for path in list_objects(tmp_path / "blobs")} - before
    run(tmp_path, database_url, "db", "backup", str(tmp_path / "backup"))
    home = new_home(tmp_path / "backup", tmp_path / "old-blobs")
    broken = min(list_objects(home / "blobs"))
    broken.write_bytes(b"changed")

    [found] = json.loads(run(home, empty_database_url, "blobs", "verify", "--json", code=1))
    faults = {(fault["what"], fault["sha256"]) for fault in found["faults"]}
    assert faults == {("changed", broken.name), *(("missing", name) for name in missing)}
    assert missing
    report = run(home, empty_database_url, "blobs", "verify", "--refetch", code=1)
    assert f"{len(faults)} of {len(faults)} will be fetched again" in report
    run(home, empty_database_url, "sync", box.address)
    assert "intact" in run(home, empty_database_url, "blobs", "verify")
    await assert_complete(empty_database_url, sim, box)


@pytest.mark.parametrize("provider", [ProviderName.GMAIL])
async def test_blobs_newer_than_the_database_are_reported_and_used_again(
    box, sim, run, new_home, tmp_path, database_url, empty_database_url
):
    run(tmp_path, database_url, "db", "backup", str(tmp_path / "backup"))
    before = {path.name for path in list_objects(tmp_path / "blobs")}
    sim.deliver(box.address, kind="invoice")
    await box.sync()
    extra = {path.name for path in list_objects(tmp_path / "blobs")} - before
    home = new_home(tmp_path / "backup", tmp_path / "blobs")

    [found] = json.loads(run(home, empty_database_url, "blobs", "verify", "--json"))
    assert (found["faults"], set(found["extra"])) == ([], extra)
    assert extra
    run(home, empty_database_url, "sync", box.address)
    [found] = json.loads(run(home, empty_database_url, "blobs", "verify", "--json"))
    assert (found["faults"], found["extra"]) == ([], [])
    await assert_complete(empty_database_url, sim, box)
