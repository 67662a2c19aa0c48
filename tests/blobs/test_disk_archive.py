"""D9: what every archive promises: nothing there is written over, and everything has its metadata."""

import json

import pytest

from postroom.errors import NotFound

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
