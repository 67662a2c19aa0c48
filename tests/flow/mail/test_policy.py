"""A content policy decides what is requested and kept; lowering it purges, raising it refills (K2)."""

import asyncio
from datetime import timedelta

import pytest

from postroom.documents.pipelines import Pipeline
from postroom.flow.mail import file_name_index
from postroom.flow.mail import policy as policies
from postroom.model import ContentPolicy, StepResult, WorkKind
from postroom.store import mailboxes, work
from postroom.store.work import WorkRequest
from scenarios.worker_pool import until

DAY = timedelta(days=1)
PIPELINES = {"invoices": Pipeline(name="invoices", kind="invoice")}
FILES = [
    ("invoice.pdf", "application/pdf", b"%PDF-1.7 an invoice"),
    ("card.vcf", "text/vcard", b"BEGIN:VCARD"),
]
BODIES = """
    SELECT count(*) FILTER (WHERE body_plain IS NOT NULL), count(headers), count(snippet), count(*)
    FROM messages JOIN message_contents ON message_id = messages.id
"""
NAMES = "SELECT file_name FROM attachments ORDER BY message_id, part"


async def change(mirror, policy):
    """As far as a caller gets that is killed before all disallowed content was removed."""
    async with mirror.database.transaction(mirror.organization) as connection:
        before = (await mailboxes.get(connection, mirror.mailbox)).policy
        whose = connection, mirror.organization, mirror.mailbox
        await policies.block_commits(*whose, before=before, after=policy)
        if await mailboxes.set_policy(connection, mirror.mailbox, policy):
            await policies.schedule_refill(*whose, before=before, after=policy)


async def set_policy(mirror, policy):
    await change(mirror, policy)
    await policies.remove_disallowed(mirror.database, PIPELINES, mirror.organization, mirror.mailbox, batch=1)


async def run_to_the_end(mirror, move_clock):
    """What a worker does some time later."""
    await move_clock(policies.TAKEOVER_SECONDS + 1)
    async with mirror.database.engine() as connection:
        claim = await work.claim(connection, [WorkKind.APPLY_POLICY], batch=1, lease_seconds=60)
    [lease] = claim.leases
    assert await policies.run(mirror.database, PIPELINES, lease) == StepResult()


async def found(mirror, word):
    async with mirror.database.transaction(mirror.organization) as connection:
        cursor = await connection.execute(
            "SELECT count(*) FROM some_matching_messages(plainto_tsquery('simple', %s), 100)", [word]
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


UNNAMED = [
    ("scan.dat", "application/octet-stream", b"%PDF-1.7 a scan"),
    (
        "report.docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        b"PK\3\4 text",
    ),
    ("notes.dat", "application/octet-stream", b"some notes"),
    ("fake.pdf", "application/pdf", b"no document at all"),
]


async def test_lowering_to_documents_keeps_exactly_what_documents_stores(mirror):
    mirror.remote.deliver(age=2 * DAY, files=UNNAMED)
    await mirror.settle()
    await set_policy(mirror, ContentPolicy.DOCUMENTS)
    lowered = [name for (name,) in await mirror.rows(NAMES)]
    mirror.remote.deliver(age=DAY, files=UNNAMED)
    await mirror.settle()
    assert [name for (name,) in await mirror.rows(NAMES)] == lowered * 2 == ["scan.dat", "report.docx"] * 2


async def test_documents_stores_a_large_attachment_by_its_first_bytes(mirror):
    """The bytes of a large attachment are not fetched with its message."""
    await set_policy(mirror, ContentPolicy.DOCUMENTS)
    mirror.remote.deliver(files=UNNAMED, streamed=True)
    await mirror.settle()
    kept = await mirror.rows("SELECT file_name, sha256 IS NOT NULL FROM attachments ORDER BY part")
    # Its name says that it is a document; when in doubt, it is kept.
    assert kept == [("scan.dat", True), ("report.docx", True), ("fake.pdf", True)]


async def test_names_of_attachments_are_searched_as_far_as_the_policy_stores_them(mirror):
    mirror.remote.deliver(files=[*FILES, ("Rechnung_März-2024.pdf", "application/pdf", b"%PDF-1.7")])
    await mirror.settle()
    names = ("invoice", "invoice.pdf", "card.vcf", "märz", "rechnung_märz-2024.pdf")
    assert [await found(mirror, name) for name in names] == [1, 1, 1, 1, 1]
    await set_policy(mirror, ContentPolicy.DOCUMENTS)
    assert [await found(mirror, name) for name in names] == [1, 1, 0, 1, 1]
    await set_policy(mirror, ContentPolicy.METADATA)
    assert [await found(mirror, name) for name in names] == [0, 0, 0, 0, 0]
    await set_policy(mirror, ContentPolicy.FULL)
    await mirror.settle()
    assert [await found(mirror, name) for name in names] == [1, 1, 1, 1, 1]


async def test_attachments_stored_before_an_upgrade_become_searchable_in_batches(mirror, owner):
    for age in range(1, 6):
        mirror.remote.deliver(age=age * DAY, files=FILES)
    await mirror.settle()
    await owner.execute("UPDATE message_contents SET search = message_search('', '', body_plain)")
    assert (await found(mirror, "invoice"), await found(mirror, "body")) == (0, 5)
    for _ in range(2):
        async with mirror.database.engine() as connection:
            request = WorkRequest(mirror.organization, WorkKind.INDEX_FILE_NAMES, str(mirror.organization))
            await work.enqueue(connection, [request])
            claim = await work.claim(connection, [WorkKind.INDEX_FILE_NAMES], batch=1, lease_seconds=60)
        assert await file_name_index.run(mirror.database, *claim.leases, batch=2) == StepResult()
        assert (await found(mirror, "invoice"), await found(mirror, "body")) == (5, 5)
        await owner.execute("DELETE FROM work WHERE kind = 'index_file_names'")
    assert await mirror.one("SELECT max(length(search)) FROM message_contents") < 20


async def test_a_lowering_that_was_cut_short_is_brought_to_its_end(mirror, move_clock, owner):
    mirror.remote.deliver(age=DAY, files=FILES)
    await mirror.settle()
    await change(mirror, ContentPolicy.METADATA)
    assert (await mirror.rows(BODIES))[0] == (1, 1, 1, 1)
    async with mirror.database.transaction(mirror.organization) as connection:
        await work.delete_by_subject(
            connection, str(mirror.mailbox)
        )  # as a disconnect does, which keeps the mail
    await run_to_the_end(mirror, move_clock)
    assert (await mirror.rows(BODIES))[0] == (0, 0, 0, 1)
    assert await mirror.rows(NAMES) == []


async def test_what_is_allowed_again_meanwhile_stays(mirror, move_clock):
    mirror.remote.deliver(age=DAY, files=FILES)
    await mirror.settle()
    await change(mirror, ContentPolicy.METADATA)
    await change(mirror, ContentPolicy.FULL)
    await run_to_the_end(mirror, move_clock)
    assert (await mirror.rows(BODIES))[0] == (1, 1, 1, 1)


async def test_each_batch_of_a_lowering_is_committed_on_its_own(mirror, owner):
    for age in (1, 2):
        mirror.remote.deliver(age=age * DAY)
    await mirror.settle()
    await change(mirror, ContentPolicy.METADATA)
    async with owner.transaction():
        await owner.execute("SELECT FROM messages WHERE id = (SELECT max(id) FROM messages) FOR UPDATE")
        going = asyncio.create_task(
            policies.remove_disallowed(
                mirror.database, PIPELINES, mirror.organization, mirror.mailbox, batch=1
            )
        )
        await until(owner, "SELECT count(snippet) = 1 FROM messages")
    await going
    assert (await mirror.rows(BODIES))[0] == (0, 0, 0, 2)


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
    real = mirror.remote.list_messages

    async def listing(scope, **given):
        page = await real(scope, **given)
        if page.changes:
            await set_policy(mirror, ContentPolicy.METADATA)
        return page

    mirror.remote.list_messages = listing
    with pytest.raises(Exception, match="changed during its sync"):
        await mirror.sync()
    assert await mirror.one("SELECT count(*) FROM messages") == 0
