"""D3: what every watched folder promises: it lists all its files, and reads each in the listed version."""

import os
from dataclasses import replace

import pytest

from postroom.blobs.watched_folders import BucketFolder, DiskFolder
from postroom.errors import NotFound


@pytest.fixture(params=["s3_blobs", "gcs_blobs"])
async def bucket(request):
    found = request.getfixturevalue(request.param)
    await found.put_once("sender_email=a@example.org/note.pdf", b"%PDF-1.7", {})
    await found.put_once("other.pdf", b"other", {})
    return BucketFolder(found)


async def test_a_bucket_lists_objects_below_its_prefix_with_their_generation(bucket):
    found = {each.name: each for each in await bucket.list_files()}
    assert {name: each.size for name, each in found.items()} == {
        "sender_email=a@example.org/note.pdf": 8,
        "other.pdf": 5,
    }
    assert all(each.generation and each.modified_at for each in found.values())
    assert await bucket.list_files() == list(found.values()), "a version stays the same"
    assert not bucket.may_hold_partial_files


async def test_an_object_is_read_in_the_version_that_was_listed_or_not_at_all(bucket):
    [note] = [each for each in await bucket.list_files() if each.name.endswith("note.pdf")]
    assert await bucket.read(note) == b"%PDF-1.7"
    with pytest.raises(NotFound):
        await bucket.read(replace(note, version="another"))
    with pytest.raises(NotFound):
        await bucket.read(replace(note, name="nowhere.pdf"))


async def test_a_file_name_that_is_not_utf8_is_listed_and_read(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9.pdf")).write_bytes(b"%PDF-1.7")
    folder = DiskFolder(tmp_path)
    [found] = await folder.list_files()
    assert found.name == r"caf\xe9.pdf"
    assert await folder.read(found) == b"%PDF-1.7"
