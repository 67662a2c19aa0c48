"""The disk blob store: private, complete and durable files, and an id for its directory."""

import asyncio
import errno
import os
import shutil
import stat
import time
from dataclasses import replace
from uuid import uuid4

import pytest

from postroom.blobs import DiskBlobStore, disk
from postroom.errors import OperatorError, TransientError

ORGANIZATION = uuid4()


@pytest.fixture
def blobs(tmp_path):
    return DiskBlobStore(tmp_path / "blobs")


def entries(blobs):
    return list(blobs.root.rglob("*"))


async def test_blobs_are_readable_by_the_owner_only(blobs):
    os.umask(0)
    try:
        await blobs.put(ORGANIZATION, b"private")
        await blobs.check()
    finally:
        os.umask(0o022)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [blobs.root, *entries(blobs)]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


async def test_no_temporary_file_is_left(blobs):
    await asyncio.gather(*(blobs.put(ORGANIZATION, os.urandom(100)) for _ in range(50)))
    await blobs.put(ORGANIZATION, iter([b"a", b"b"]))
    await blobs.put(ORGANIZATION, iter([b"a", b"b"]))
    assert list((blobs.root / "new").iterdir()) == []


async def test_files_and_directories_are_synced_before_a_put_returns(blobs, monkeypatch):
    synced = []

    def spy(path):
        synced.append((path.is_dir(), path))
        real(path)

    real = disk.fsync_path
    monkeypatch.setattr(disk, "fsync_path", spy)
    blob = await blobs.put(ORGANIZATION, b"durable")
    path = blobs._path(ORGANIZATION, blob.sha256)
    assert [each.parent for is_directory, each in synced if not is_directory] == [blobs.root / "new"]
    assert {each for is_directory, each in synced if is_directory} == {
        blobs.root.parent, blobs.root, path.parent.parent, path.parent,
    }  # fmt: skip
    assert synced[-1][0]
    synced.clear()
    await blobs.put(ORGANIZATION, b"durable")
    assert [each for _, each in synced] == [path.parent]  # another process may have linked it without a sync


async def test_leftovers_of_killed_processes_are_removed_after_a_day(blobs):
    await blobs.check()
    old, young = blobs.root / "new" / "old", blobs.root / "new" / "young"
    old.touch()
    young.touch()
    os.utime(old, (time.time() - 90_000,) * 2)
    await blobs.check()
    assert list((blobs.root / "new").iterdir()) == [young]


async def test_foreign_files_are_not_listed_as_blobs(blobs):
    blob = await blobs.put(ORGANIZATION, b"ours")
    shard = blobs._path(ORGANIZATION, blob.sha256).parent
    (shard / "README").touch()
    (shard / ("0" * 64)).symlink_to("/etc/hostname")
    assert [each.sha256 async for each in blobs.list_all(ORGANIZATION)] == [blob.sha256]


async def test_the_directory_has_an_id_of_its_own(tmp_path):
    one, same, another = (
        DiskBlobStore(tmp_path / "a"),
        DiskBlobStore(tmp_path / "a"),
        DiskBlobStore(tmp_path / "b"),
    )
    marks = await asyncio.gather(one.check(), same.check(), another.check())
    assert marks[0] == marks[1] != marks[2]


@pytest.mark.parametrize(
    "number, kind",
    [(errno.ENOSPC, OperatorError), (errno.EACCES, OperatorError), (errno.EMFILE, TransientError)],
)
async def test_a_disk_error_is_reported_to_all_waiting_puts(blobs, monkeypatch, number, kind):
    def refuse(path):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(disk, "fsync_path", refuse)
    done = await asyncio.gather(
        *(blobs.put(ORGANIZATION, b"%d" % place) for place in range(5)), return_exceptions=True
    )
    assert {type(each) for each in done} == {kind}
    assert os.strerror(number).lower() in str(done[0])
    assert [path for path in entries(blobs) if path.is_file()] == []


@pytest.mark.parametrize("total, reserved", [(10**12, 200_000_000), (10**8, 5_000_000)])
async def test_new_blobs_leave_space_for_the_database(blobs, monkeypatch, total, reserved):
    stored = await blobs.put(ORGANIZATION, b"before")
    usage = shutil._ntuple_diskusage(total, total - reserved + 1, reserved - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OperatorError, match="reserved for the database"):
        await blobs.put(ORGANIZATION, b"after")
    with pytest.raises(OperatorError, match="reserved for the database"):
        await blobs.put(ORGANIZATION, iter([b"after"]))
    assert await blobs.put(ORGANIZATION, b"before") == replace(stored, created=False), "it is there"
    usage = usage._replace(free=reserved)
    await blobs.put(ORGANIZATION, b"after")


async def test_a_root_that_is_a_file_is_an_operator_error(tmp_path):
    (tmp_path / "blobs").touch()
    with pytest.raises(OperatorError, match="Blobs cannot be stored in"):
        await DiskBlobStore(tmp_path / "blobs").put(ORGANIZATION, b"x")


async def test_a_cancelled_put_does_not_affect_others(blobs):
    tasks = [asyncio.create_task(blobs.put(ORGANIZATION, b"%d" % place)) for place in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in done[::2])
    for each in done[1::2]:
        assert await blobs.find(ORGANIZATION, each.sha256) is not None
