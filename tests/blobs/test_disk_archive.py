"""D9: what every archive promises: nothing is overwritten, and every file has its metadata."""

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from postroom.errors import NotFound

SOURCES = Path(__file__).parents[2] / "src"

PATH = "archive/sender_email=a%40example%2Eorg/received_date=2026-02-04/k-1/note.pdf"
METADATA = {"sender-email": "a@example.org", "source": "graph_webhook"}


async def test_bytes_are_fetched_by_their_path(archive):
    await archive.put_once(PATH, b"%PDF-1.7", METADATA)
    assert await archive.fetch(PATH) == b"%PDF-1.7"


async def test_an_existing_path_stays_as_it_is(archive):
    await archive.put_once(PATH, b"first", METADATA)
    await archive.put_once(PATH, b"second", METADATA)
    assert await archive.fetch(PATH) == b"first"


async def test_a_missing_path_is_not_found(archive):
    with pytest.raises(NotFound):
        await archive.fetch(PATH)


async def test_metadata_is_stored_with_the_object(archive, stored_metadata):
    await archive.put_once(PATH, b"%PDF-1.7", METADATA)
    assert stored_metadata(PATH) == METADATA


async def test_archived_files_are_readable_by_the_owner_only(disk_archive):
    await disk_archive.put_once(PATH, b"%PDF-1.7", METADATA)
    assert (disk_archive.root / PATH).stat().st_mode & 0o777 == 0o600
    assert json.loads((disk_archive.root / f"{PATH}.metadata.json").read_text()) == METADATA


async def test_a_removed_path_is_gone_and_free_again(archive):
    await archive.put_once(PATH, b"first", METADATA)
    for _ in range(2):
        await archive.remove(PATH)
        with pytest.raises(NotFound):
            await archive.fetch(PATH)
    await archive.put_once(PATH, b"second", METADATA)
    assert await archive.fetch(PATH) == b"second"


async def test_a_removed_file_leaves_no_folder_that_names_its_sender(disk_archive):
    other = PATH.replace("a%40", "b%40")
    for path in (PATH, other):
        await disk_archive.put_once(path, b"%PDF-1.7", METADATA)
    await disk_archive.remove(PATH)
    assert [path for path in disk_archive.root.rglob("*") if "a%40" in str(path)] == []
    assert await disk_archive.fetch(other) == b"%PDF-1.7"


# Archives in a process that is killed when it syncs the content's file. With an argument, on a file system
# that has no files without a name.
KILLED = """
import asyncio, errno, os, signal, sys
from pathlib import Path
from postroom.blobs.disk_archive import DiskArchive

syncs, sync, open_ = 0, os.fsync, os.open

def kill(descriptor):
    global syncs
    syncs += os.fstat(descriptor).st_size == 8
    if syncs:
        os.kill(os.getpid(), signal.SIGKILL)
    sync(descriptor)

def refuse(path, flags, *rest, **named):
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        raise OSError(errno.EOPNOTSUPP, "not supported")
    return open_(path, flags, *rest, **named)

os.fsync = kill
if len(sys.argv) > 3:
    os.open = refuse
asyncio.run(DiskArchive(Path(sys.argv[1])).put_once(sys.argv[2], b"%PDF-1.7", {}))
"""


def list_files(archive):
    return {path.relative_to(archive.root).as_posix() for path in archive.root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("options", [(), ("without nameless files",)], ids=["nameless", "named"])
async def test_a_killed_process_leaves_no_temporary_file_for_good(disk_archive, options):
    killed = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", KILLED, str(disk_archive.root), PATH, *options],
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    left = list_files(disk_archive)
    assert PATH not in left
    if not options:
        assert left == {f"{PATH}.metadata.json"}
    await disk_archive.put_once(PATH, b"%PDF-1.7", METADATA)
    assert list_files(disk_archive) == {PATH, f"{PATH}.metadata.json"}
    assert await disk_archive.fetch(PATH) == b"%PDF-1.7"


async def test_a_file_system_without_nameless_files_is_no_obstacle(disk_archive, monkeypatch):
    opened = os.open

    def refuse(path, flags, *rest, **named):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        return opened(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", refuse)
    await disk_archive.put_once(PATH, b"first", METADATA)
    await disk_archive.put_once(PATH, b"second", METADATA)
    assert await disk_archive.fetch(PATH) == b"first"
    assert list_files(disk_archive) == {PATH, f"{PATH}.metadata.json"}
