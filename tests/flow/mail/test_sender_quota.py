"""A sender at its quota: its messages are stored, its files wait with a reason, and others continue."""

import pytest

from postroom.flow.storage import sender_quota
from postroom.flow.storage.sender_quota import SenderQuota
from postroom.store import failures

STORED = """
    SELECT from_address, count(*), count(sha256) FROM messages JOIN attachments ON message_id = messages.id
    GROUP BY 1 ORDER BY 1
"""


def deliver(mirror, sender, *contents):
    files = [(f"{part}.pdf", "application/pdf", content) for part, content in enumerate(contents)]
    key = mirror.remote.deliver(files=files)
    mirror.remote.senders[key] = sender
    return key


@pytest.fixture
def quota(mirror):
    return lambda max_bytes: SenderQuota(mirror.database, max_bytes)


async def test_files_of_a_sender_at_its_quota_wait_and_its_messages_are_stored(mirror, quota, move_clock):
    deliver(mirror, "a@flood.example", b"1" * 60, b"2" * 60)
    await mirror.sync(sender_quota=quota(100))
    late = deliver(mirror, "B@Flood.example", b"3" * 60)
    deliver(mirror, "c@other.example", b"4" * 60)
    await mirror.sync(sender_quota=quota(100))
    assert await mirror.rows(STORED) == [
        ("a@flood.example", 2, 2),
        ("b@flood.example", 1, 0),
        ("c@other.example", 1, 1),
    ]
    [(id_, subject, error, due_at)] = await mirror.rows(
        "SELECT id, subject, last_error, due_at FROM failures"
    )
    assert (subject, due_at) == (f"{late}\n1", None)
    assert "Raise POSTROOM_SENDER_STORAGE_GB" in error
    assert "flood" not in error, "errors hold no personal data"
    for max_bytes, stored, is_open in ((100, 0, True), (1000, 1, False)):
        async with mirror.database.transaction(mirror.organization) as connection:
            await failures.retry(connection, id_)
        await mirror.sync(sender_quota=quota(max_bytes))
        assert (await mirror.rows(STORED))[1] == ("b@flood.example", 1, stored)
        assert await mirror.rows("SELECT resolved_at IS NULL, due_at FROM failures") == [(is_open, None)]


async def test_one_page_of_mail_does_not_exceed_the_quota_by_more_than_one_file(mirror, quota):
    deliver(mirror, "a@flood.example", *(bytes([number]) * 60 for number in range(10)))
    await mirror.sync(sender_quota=quota(100))
    assert await mirror.rows(STORED) == [("a@flood.example", 10, 2)]


async def test_stored_files_stay_when_their_message_is_fetched_again_at_the_quota(mirror, quota):
    key = deliver(mirror, "a@flood.example", b"1" * 60, b"2" * 60, b"3" * 60)
    await mirror.sync(sender_quota=quota(100))
    assert await mirror.rows(STORED) == [("a@flood.example", 3, 2)]
    async with mirror.database.transaction(mirror.organization) as connection:
        await failures.retry_all(connection, mirror.mailbox)
    await mirror.sync(sender_quota=quota(100))
    assert await mirror.rows(STORED) == [("a@flood.example", 3, 2)]
    assert await mirror.rows("SELECT subject FROM failures WHERE resolved_at IS NULL") == [(f"{key}\n3",)]


async def test_a_file_that_is_sent_often_counts_once(mirror, quota):
    for _ in range(5):
        deliver(mirror, "a@flood.example", b"1" * 60)
    await mirror.sync(sender_quota=quota(100))
    assert await mirror.rows(STORED) == [("a@flood.example", 5, 5)]


@pytest.mark.parametrize("domain", ["gmail.com", "example.com"])
async def test_addresses_of_public_services_and_of_own_domains_count_apart(mirror, quota, domain):
    await mirror.owner.execute("UPDATE mailboxes SET address = 'me@example.com'")
    for number in range(3):
        deliver(mirror, f"{number}@{domain}", bytes([number]) * 60)
    await mirror.sync(sender_quota=quota(50))
    assert [stored for _, _, stored in await mirror.rows(STORED)] == [1, 1, 1]
    uses = await sender_quota.list_largest(mirror.database, mirror.organization, limit=10)
    assert [(use.sender, use.used_bytes) for use in uses] == [
        (f"{number}@{domain}", 60) for number in range(3)
    ]


async def test_mail_without_a_sender_has_a_quota_too(mirror, quota):
    for number in range(3):
        deliver(mirror, "nothing", bytes([number]) * 60)
        await mirror.sync(sender_quota=quota(100))
    assert [(total, stored) for _, total, stored in await mirror.rows(STORED)] == [(3, 2)]
    uses = await sender_quota.list_largest(mirror.database, mirror.organization, limit=10)
    assert [(use.sender, use.used_bytes) for use in uses] == [("", 120)]
    assert await sender_quota.count_full(mirror.database, 100) == 1
