"""K7: expired data is removed, a person can be purged, and the ledger stays verifiable."""

import asyncio

import pytest

from ledger_sealing import check_signature, seal_ledger
from postroom.flow.ledger.verification import verify
from postroom.flow.mail import purge, retention
from postroom.flow.mail.retention import RetentionPeriods
from postroom.model import ContentPolicy, WorkKind
from postroom.store import feed, ledger, mailboxes, work
from postroom.store import purge as stored_purge
from postroom.store.ledger import NewLedgerEntry
from postroom.store.work import WorkRequest
from scenarios.worker_pool import until
from store.sample_rows import document, message

WAITS = """
    SELECT count(*) > 0 FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""

# Tables that hold ids, digests, numbers and texts of Postroom, or personal values that a purge deletes.
WITHOUT_ADDRESS = {
    "audits", "backlogs", "blob_removals", "blobs", "credentials", "cursors", "events", "failures",
    "feeds", "figures", "foreign_message_ids", "ledger", "ledger_boundaries", "ledger_personal",
    "ledger_purges", "listed_messages", "mail_events", "notice_conditions", "notifications",
    "oauth_states", "purged_people", "quota_usage", "record_identifiers", "resource_uses", "seals",
    "sign_in_failures", "subscriptions", "suspect_messages", "unannounced_messages",
    "untrusted_suppliers", "verdicts", "work",
}  # fmt: skip


@pytest.fixture
def retain(database, organization):
    async def run(**periods):
        async with database.engine() as connection:
            await work.enqueue(
                connection, [WorkRequest(organization, WorkKind.APPLY_RETENTION, str(organization))]
            )
            claim = await work.claim(connection, [WorkKind.APPLY_RETENTION], batch=1, lease_seconds=60)
        [lease] = claim.leases
        done = await retention.run(database, RetentionPeriods(**periods), {}, lease)
        async with database.engine() as connection:
            await work.finish(connection, [work.FinishedWork(lease)])
        assert done.again_after == 86_400

    return run


@pytest.fixture
def rows(owner):
    async def count(table):
        cursor = await owner.execute(f"SELECT count(*) FROM {table}")
        return (await cursor.fetchone())[0]

    return count


async def ids(owner):
    cursor = await owner.execute("SELECT id FROM messages ORDER BY id")
    return [row[0] for row in await cursor.fetchall()]


@pytest.fixture
def sealed(database, organization, tmp_path):
    async def sealed():
        await seal_ledger(database, tmp_path, organization)
        return await verify(database, organization, check_signature)

    return sealed


async def test_a_purge_waits_for_the_page_that_a_sync_is_committing(
    database, owner, organization, make_mailbox, retain, rows
):
    mailbox = await make_mailbox(organization)
    await message(owner, organization, mailbox, days_ago=4000, deleted_days_ago=3999)
    await work.enqueue(owner, [WorkRequest(organization, WorkKind.SYNC, str(mailbox))])
    async with database.transaction(organization) as page:
        await work.block_commits(page, WorkKind.SYNC, str(mailbox))
        retaining = asyncio.create_task(retain(deleted_messages=30))
        await until(owner, WAITS)
        assert await rows("messages") == 1
    await retaining
    assert await rows("messages") == 0


async def test_without_a_period_nothing_goes(database, owner, organization, make_mailbox, retain, rows):
    await message(owner, organization, await make_mailbox(organization), days_ago=4000, deleted_days_ago=3999)
    await retain()
    assert (await rows("messages"), await rows("mail_events"), await rows("ledger")) == (1, 1, 0)


async def test_mail_is_kept_as_long_as_its_mailboxs_policy_says(
    owner, organization, make_mailbox, retain, rows
):
    full, bare = await make_mailbox(organization), await make_mailbox(organization)
    await owner.execute("UPDATE mailboxes SET content_policy = 'metadata' WHERE id = %s", [bare])
    kept = [
        await message(owner, organization, full, days_ago=20),
        await message(owner, organization, bare, days_ago=5),
    ]
    await message(owner, organization, bare, days_ago=20)
    await message(owner, organization, full, days_ago=40)
    await retain(messages={ContentPolicy.METADATA: 10, ContentPolicy.FULL: 30})
    assert await ids(owner) == sorted(kept)
    assert await rows("message_contents") == await rows("threads") == 2
    cursor = await owner.execute("SELECT event_type, payload FROM ledger")
    assert await cursor.fetchall() == [("RETENTION_APPLIED", {"messages_metadata": 1, "messages_full": 1})]


async def test_deleted_mail_and_old_changes_and_names_go_each_after_its_time(
    database, owner, organization, make_mailbox, retain, rows, move_clock, sealed
):
    mailbox = await make_mailbox(organization)
    live = await message(owner, organization, mailbox, days_ago=100)
    await message(owner, organization, mailbox, days_ago=100, deleted_days_ago=50)
    recently = await message(owner, organization, mailbox, days_ago=100, deleted_days_ago=5)
    async with database.transaction(organization) as connection:
        await ledger.append_entries(
            connection,
            organization,
            [NewLedgerEntry("MESSAGE_INGESTED", "message", "1", personal={"from_email": "jane@example.org"})],
        )
    await move_clock(20 * 86_400)
    await retain(deleted_messages=30, mail_events=60, personal_values=10)
    assert await ids(owner) == [live, recently]
    assert await rows("mail_events") == 0
    assert await rows("ledger_personal") == 0
    proof = await sealed()
    assert (proof.purged, proof.faults) == (1, [])


async def test_an_old_reader_of_the_feed_notices_that_it_was_pruned(
    database, organization, retain, move_clock
):
    async with database.transaction(organization) as connection:
        for number in range(5):
            await feed.append_event(connection, "message.created", "message", str(number))
        await feed.assign_positions(connection)
    await move_clock(31 * 86_400)
    async with database.transaction(organization) as connection:
        await feed.append_event(connection, "message.created", "message", "new")
        await feed.assign_positions(connection)
    await retain(events=30)
    async with database.transaction(organization) as connection:
        assert await feed.get_bounds(connection) == feed.FeedBounds(5, 6)
        assert [event.entity_id for event in await feed.list_after(connection, 5, 10)] == ["new"]


async def test_more_than_a_batch_goes_in_one_run(owner, organization, make_mailbox, retain, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 2)
    mailbox = await make_mailbox(organization)
    for _ in range(5):
        await message(owner, organization, mailbox, days_ago=40)
    await retain(messages={ContentPolicy.FULL: 30})
    assert await ids(owner) == []


@pytest.fixture
async def jane(database, owner, organization, make_mailbox):
    """Mail by her, to her, beside her; a document she sent; entries that name her."""
    mailbox = await make_mailbox(organization)
    sent = await message(owner, organization, mailbox, sender="Jane@Example.org", to=["bob@example.org"])
    cursor = await owner.execute("SELECT thread_id FROM messages WHERE id = %s", [sent])
    [(thread,)] = await cursor.fetchall()
    answer = await message(
        owner, organization, mailbox, sender="bob@example.org", to=["jane@example.org"], thread=thread
    )
    other = await message(owner, organization, mailbox, sender="mary-jane@example.org")
    await document(owner, organization, "a bill", message=sent)
    entries = [
        NewLedgerEntry("MESSAGE_INGESTED", "message", str(sent), personal={"from_email": "jane@example.org"}),
        NewLedgerEntry("ATTACHMENT_SAVED", "attachment", f"{sent}/1", personal={"filename": "jane.pdf"}),
        NewLedgerEntry("LOGIN", "member", "1", personal={"words": "by Jane@example.org."}),
        NewLedgerEntry(
            "MESSAGE_INGESTED", "message", str(other), personal={"from_email": "mary-jane@example.org"}
        ),
    ]
    await owner.execute(
        """
        INSERT INTO attachments (organization_id, message_id, part, media_type, size)
        VALUES (%s, %s, '1', 'application/pdf', 1)
        """,
        [organization, sent],
    )
    async with database.transaction(organization) as connection:
        await ledger.append_entries(connection, organization, entries)
    return {"thread": thread, "answer": answer, "other": other}


async def test_a_person_is_forgotten_and_the_ledger_is_purged_not_broken(
    database, owner, organization, jane, rows, sealed
):
    before = await purge.purge_person(database, organization, "JANE@example.org")
    assert (before.messages, before.received, before.arrivals, before.ledger) == (1, 1, 1, 2)
    assert await ids(owner) == [jane["answer"], jane["other"]]
    cursor = await owner.execute("SELECT message_count FROM threads WHERE id = %s", [jane["thread"]])
    assert await cursor.fetchall() == [(1,)]
    cursor = await owner.execute("SELECT sender, file_name, message_id FROM arrivals")
    assert await cursor.fetchall() == [(None, None, None)]
    cursor = await owner.execute("SELECT personal ->> 'from_email' FROM ledger_personal")
    assert await cursor.fetchall() == [("mary-jane@example.org",)]
    proof = await sealed()
    assert (proof.purged, proof.faults) == (3, [])
    cursor = await owner.execute("SELECT payload FROM ledger WHERE event_type = 'PERSON_PURGED'")
    assert await cursor.fetchall() == [({"messages": 1, "arrivals": 1, "entries": 2, "archived": 0},)]
    assert await rows("documents") == 1


async def test_what_a_purge_leaves_is_reported_with_its_reason(database, owner, organization, jane):
    await owner.execute(
        "UPDATE message_contents SET body_html = %s, headers = %s WHERE message_id = %s",
        [
            "<a href='https://example.com/?u=jane%40example%2Eorg'>",
            '[["Subject", "=?utf-8?b?VG8gamFuZUBleGFtcGxlLm9yZw==?="]]',
            jane["other"],
        ],
    )
    await purge.purge_person(database, organization, "jane@example.org")
    left = await purge.list_remaining(database, organization, "jane@example.org")
    assert {each.table: each.rows for each in left} == {"messages": 1, "message_contents": 1, "threads": 1}
    assert all("belongs to them" in each.reason for each in left)


async def test_address_that_receives_notices_is_reported_with_what_to_do(database, owner, organization):
    await owner.execute(
        """
        INSERT INTO notice_destinations (organization_id, name, medium, addresses)
        VALUES (%s, 'Accounts', 'email', '{Jane@Example.org}')
        """,
        [organization],
    )
    [left] = await purge.list_remaining(database, organization, "jane@example.org")
    assert (left.table, left.reason) == ("notice_destinations", purge.REASONS["notice_destinations"])


async def test_folder_and_file_named_after_a_person_are_reported_with_their_reasons(
    database, owner, organization, jane
):
    await owner.execute(
        """
        INSERT INTO folders (organization_id, mailbox_id, provider_folder_id, name)
        SELECT organization_id, id, 'f', 'Jane@Example.org' FROM mailboxes
        """
    )
    await owner.execute(
        "UPDATE arrivals SET message_id = %s, sender = 'tom@example.com', file_name = %s",
        [jane["other"], "for jane@example.org 1.pdf"],
    )
    await purge.purge_person(database, organization, "jane@example.org")
    left = await purge.list_remaining(database, organization, "jane@example.org")
    assert {each.table for each in left} >= {"folders", "arrivals"}
    assert [each for each in left if "please report" in each.reason] == []


async def test_every_table_has_a_reason_or_holds_no_address(database, organization):
    async with database.transaction(organization) as connection:
        searched = await stored_purge.list_searchable_tables(connection)
    assert set(searched) ^ set(purge.REASONS) ^ WITHOUT_ADDRESS == set()


async def test_a_purged_mailbox_leaves_no_name_behind(database, owner, organization, jane, rows, sealed):
    async with database.transaction(organization) as connection:
        cursor = await connection.execute("SELECT mailbox_id FROM messages LIMIT 1")
        [(mailbox,)] = await cursor.fetchall()
        await mailboxes.purge(connection, mailbox)
    assert (await rows("messages"), await rows("threads"), await rows("documents")) == (0, 0, 1)
    cursor = await owner.execute("SELECT sender, file_name FROM arrivals")
    assert await cursor.fetchall() == [(None, None)]
    cursor = await owner.execute("SELECT personal ->> 'words' FROM ledger_personal")
    assert await cursor.fetchall() == [("by Jane@example.org.",)]  # of a member, not of the mailbox
    proof = await sealed()
    assert (proof.purged, proof.faults) == (3, [])


async def test_counting_changes_nothing(database, owner, organization, jane):
    assert (await purge.find_traces(database, organization, "jane@example.org")).messages == 1
    assert len(await ids(owner)) == 3


async def test_another_organization_keeps_what_it_has(
    database, owner, organization, other_organization, jane
):
    await purge.purge_person(database, other_organization, "jane@example.org")
    assert len(await ids(owner)) == 3
