"""K3: what every store of blobs promises."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import uuid4

import pytest

from postroom.errors import NotFound
from postroom.ports import Blob

ORGANIZATION, OTHER = uuid4(), uuid4()
LARGE = os.urandom(20_000_000)


async def whole(blobs, organization, digest, **limits):
    return b"".join([piece async for piece in blobs.read(organization, digest, **limits)])


async def as_stream(content, size=300_000):
    for start in range(0, len(content), size):
        yield content[start : start + size]


def as_pieces(content, size=300_000):
    return (content[start : start + size] for start in range(0, len(content), size))


async def test_bytes_are_found_by_their_digest(blobs):
    content = b"%PDF-1.7 and so on"
    blob = await blobs.put(ORGANIZATION, content)
    assert blob == Blob(sha256(content).digest(), len(content), created=True)
    assert await whole(blobs, ORGANIZATION, blob.sha256) == content


async def test_putting_again_is_harmless_and_reported(blobs):
    first = await blobs.put(ORGANIZATION, b"same")
    again = await blobs.put(ORGANIZATION, b"same")
    assert (first.created, again.created) == (True, False)
    assert again.sha256 == first.sha256
    assert await whole(blobs, ORGANIZATION, first.sha256) == b"same"


@pytest.mark.parametrize("made", [as_stream, as_pieces])
async def test_large_content_is_written_and_read_in_pieces(blobs, made):
    blob = await blobs.put(ORGANIZATION, made(LARGE))
    assert (blob.sha256, blob.size, blob.created) == (sha256(LARGE).digest(), len(LARGE), True)
    pieces = [piece async for piece in blobs.read(ORGANIZATION, blob.sha256)]
    assert b"".join(pieces) == LARGE
    assert max(map(len, pieces)) < 10_000_000
    assert not (await blobs.put(ORGANIZATION, made(LARGE))).created


@pytest.mark.parametrize(
    "start, end",
    [(0, 5), (3, 4), (5, None), (0, 10_000), (10, 10), (10_000, None), (999, 1000), (1000, 1001)],
)
async def test_a_range_is_read_without_the_rest(blobs, start, end):
    content = bytes(range(250)) * 4
    blob = await blobs.put(ORGANIZATION, content)
    assert await whole(blobs, ORGANIZATION, blob.sha256, start=start, end=end) == content[start:end]


async def test_empty_content_can_be_stored(blobs):
    blob = await blobs.put(ORGANIZATION, iter([]))
    assert blob.size == 0
    assert await whole(blobs, ORGANIZATION, blob.sha256) == b""


async def test_organizations_share_no_object(blobs):
    ours = await blobs.put(ORGANIZATION, b"secret of ours")
    with pytest.raises(NotFound):
        await whole(blobs, OTHER, ours.sha256)
    assert await blobs.find(OTHER, ours.sha256) is None
    assert (await blobs.put(OTHER, b"secret of ours")).created
    await blobs.delete(OTHER, ours.sha256)
    assert await whole(blobs, ORGANIZATION, ours.sha256) == b"secret of ours"


async def test_deleting_a_missing_blob_is_no_error(blobs):
    blob = await blobs.put(ORGANIZATION, b"short life")
    await blobs.delete(ORGANIZATION, blob.sha256)
    await blobs.delete(ORGANIZATION, blob.sha256)
    assert await blobs.find(ORGANIZATION, blob.sha256) is None
    with pytest.raises(NotFound):
        await whole(blobs, ORGANIZATION, blob.sha256)
    assert (await blobs.put(ORGANIZATION, b"short life")).created


async def test_every_object_of_an_organization_is_listed_with_size_and_time(blobs):
    contents = [b"number %d" % number for number in range(30)]
    await asyncio.gather(*(blobs.put(ORGANIZATION, content) for content in contents))
    await blobs.put(OTHER, b"not mine")
    found = {each.sha256: each async for each in blobs.list_all(ORGANIZATION)}
    assert {digest: each.size for digest, each in found.items()} == {
        sha256(content).digest(): len(content) for content in contents
    }
    one = await blobs.find(ORGANIZATION, sha256(contents[0]).digest())
    assert one == found[one.sha256]
    assert abs(one.modified_at - datetime.now(UTC)) < timedelta(minutes=5)
    assert [each async for each in blobs.list_all(uuid4())] == []


async def test_the_time_of_a_store_is_that_of_its_objects(blobs):
    before = await blobs.get_time()
    blob = await blobs.put(ORGANIZATION, b"dated")
    found = await blobs.find(ORGANIZATION, blob.sha256)
    assert before <= found.modified_at <= await blobs.get_time()
    assert [each.sha256 async for each in blobs.list_all(ORGANIZATION)] == [blob.sha256]


async def test_the_same_content_put_by_many_at_once_is_one_object(blobs):
    done = await asyncio.gather(*(blobs.put(ORGANIZATION, b"popular") for _ in range(20)))
    assert len({each.sha256 for each in done}) == 1
    assert len([each async for each in blobs.list_all(ORGANIZATION)]) == 1
    assert await whole(blobs, ORGANIZATION, done[0].sha256) == b"popular"


async def test_content_that_fails_midway_leaves_nothing(blobs):
    async def broken():
        yield b"x" * 1000
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await blobs.put(ORGANIZATION, broken())
    assert [each async for each in blobs.list_all(ORGANIZATION)] == []


async def test_a_store_reports_its_location(blobs):
    assert (await blobs.check()).startswith(("disk:", "s3://blobs-", "gs://blobs-"))
    assert await blobs.check() == await blobs.check()
