"""An organization at its storage limit: syncs wait with a clear error, and no message is lost."""

from dataclasses import replace

import pytest

from postroom.errors import OperatorError
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.flow.storage.storage_limit import LimitedBlobStore
from postroom.model import ContentPolicy
from scenarios.mirrored_mailbox import postroom


@pytest.fixture
async def room(sim, database_url, owner, organization, tmp_path):
    async with postroom(sim, database_url, owner, organization, tmp_path) as made:
        yield made


async def test_sync_waits_at_the_storage_limit_and_completes_once_it_is_raised(room, provider, owner):
    address = f"limit-{provider}@example.com"
    room.world.sim.create(provider, address, messages=40)
    box = await room.connect(provider, address, ConnectRequest(policy=ContentPolicy.FULL))
    unlimited = box.context
    box.context = replace(
        unlimited, blobs=LimitedBlobStore(unlimited.blobs, room.world.database, max_bytes=0)
    )
    with pytest.raises(OperatorError, match=r"the limit is .* Raise POSTROOM_ORGANIZATION_STORAGE_GB"):
        await box.sync()
    assert await box.rows("SELECT health FROM mailboxes") == [("operator_error",)]
    box.context = unlimited
    await owner.execute("UPDATE work SET leased_until = postroom_now() WHERE kind = 'sync'")
    await box.sync()
    assert await box.rows("SELECT health FROM mailboxes") == [("active",)]
    assert await box.check() == 40
    [(stored,)] = await box.rows("SELECT count(*) FROM attachments WHERE sha256 IS NOT NULL")
    assert stored > 1, "some messages have attachments"
