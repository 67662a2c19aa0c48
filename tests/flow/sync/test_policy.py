"""A content policy says what is asked for and what is kept; lowered it purges, raised it fills again (K2)."""

from datetime import timedelta

import pytest

from postroom.flow import policy as policies
from postroom.model import ContentPolicy
from postroom.store import mailboxes, work

DAY = timedelta(days=1)
FILES = [
    ("invoice.pdf", "application/pdf", b"%PDF-1.7 an invoice"),
    ("card.vcf", "text/vcard", b"BEGIN:VCARD"),
]
BODIES = """
    SELECT count(*) FILTER (WHERE body_plain IS NOT NULL), count(headers), count(snippet), count(*)
    FROM messages JOIN message_contents ON message_id = messages.id
"""
NAMES = "SELECT file_name FROM attachments ORDER BY message_id, part"


async def set_policy(mirror, policy):
    async with mirror.database.transaction(mirror.organization) as connection:
        before = await mailboxes.get(connection, mirror.mailbox)
        await work.hold(connection, "sync", str(mirror.mailbox))
        await mailboxes.set_policy(connection, mirror.mailbox, policy)
        await policies.apply(
            connection, mirror.organization, mirror.mailbox, before=before.policy, after=policy
        )


async def found(mirror, word):
    async with mirror.database.transaction(mirror.organization) as connection:
        cursor = await connection.execute(
            "SELECT count(*) FROM matching_messages(plainto_tsquery('simple', %s))", [word]
        )
        return (await cursor.fetchone())[0]


@pytest.mark.parametrize(
    "policy, bodies, names",
    [
        (ContentPolicy.METADATA, (0, 0, 0, 2), []),
        (ContentPolicy.DOCUMENTS, (0, 0, 0, 2), ["invoice.pdf", "invoice.pdf"]),
        (ContentPolicy.FULL, (2, 2, 2, 2), ["invoice.pdf", "card.vcf"] * 2),
    ],
)
async def test_a_policy_keeps_what_it_allows(mirror, policy, bodies, names):
    await set_policy(mirror, policy)
    for age in (1, 2):
        mirror.remote.deliver(age=age * DAY, files=FILES)
    await mirror.settle()
    assert (await mirror.rows(BODIES))[0] == bodies
    assert [name for (name,) in await mirror.rows(NAMES)] == names


async def test_lowering_purges_what_is_no_longer_allowed(mirror):
    for age in (1, 2):
        mirror.remote.deliver(age=age * DAY, files=FILES)
    await mirror.settle()
    assert await found(mirror, "body") == 2
    await set_policy(mirror, ContentPolicy.DOCUMENTS)
    assert (await mirror.rows(BODIES))[0] == (0, 0, 0, 2)
    assert [name for (name,) in await mirror.rows(NAMES)] == ["invoice.pdf"] * 2
    assert (await found(mirror, "body"), await found(mirror, "subject"), await found(mirror, "bob")) == (
        0,
        2,
        2,
    )
    await set_policy(mirror, ContentPolicy.METADATA)
    assert await mirror.rows(NAMES) == []
    left = (
        "SELECT count(*) FROM ledger_personal JOIN ledger ON id = entry_id WHERE entity_type = 'attachment'"
    )
    assert await mirror.one(left) == 0


async def test_raising_fetches_again_what_is_stored(mirror):
    await set_policy(mirror, ContentPolicy.METADATA)
    for age in range(1, 8):
        mirror.remote.deliver(age=age * DAY, files=FILES)
    await mirror.settle()
    await set_policy(mirror, ContentPolicy.FULL)
    await mirror.settle()
    await mirror.assert_mirrors()
    assert await mirror.one("SELECT count(*) FROM mail_events WHERE kind <> 'created'") == 0


async def test_a_page_fetched_under_the_former_policy_is_not_stored(mirror):
    mirror.remote.deliver(files=FILES)
    real = mirror.remote.listing

    async def listing(scope, **given):
        page = await real(scope, **given)
        if page.changes:
            await set_policy(mirror, ContentPolicy.METADATA)
        return page

    mirror.remote.listing = listing
    with pytest.raises(Exception, match="changed during its sync"):
        await mirror.sync()
    assert await mirror.one("SELECT count(*) FROM messages") == 0
