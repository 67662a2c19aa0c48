"""An audit finds missing, extra and different messages; the sync repairs them."""

from datetime import timedelta

import pytest

from flow.mail.fake_provider import NOW
from postroom.errors import PermanentError
from postroom.flow.mail import audit
from postroom.flow.mail.audit import AuditDepth
from postroom.model import WorkKind
from postroom.store import audits, work
from postroom.store.views import mailbox_status
from postroom.store.work import WorkRequest

DAY = timedelta(days=1)


@pytest.fixture
async def mirror(mirror):
    """With seven messages, all of them mirrored."""
    mirror.keys = [mirror.remote.deliver(age=age * DAY) for age in range(1, 8)]
    await mirror.settle()
    return mirror


async def audited(mirror, depth=AuditDepth.STATES):
    return await audit.audit_mailbox(mirror.build_context(), await mirror.get(), depth)


def summary(found):
    return found.listed, found.missing, found.extra, found.different


async def test_a_true_mirror_has_nothing_to_be_found(mirror):
    assert summary(await audited(mirror)) == (7, [], [], [])
    async with mirror.database.transaction(mirror.organization) as connection:
        kept = await audits.get_latest(connection, mirror.mailbox)
    assert kept.is_clean
    recorded = await mirror.one("SELECT payload FROM ledger WHERE event_type = 'AUDIT_COMPLETED'")
    assert recorded == {"listed": 7, "missing": 0, "extra": 0, "different": 0}
    assert await mirror.one("SELECT count(*) FROM listed_messages") == 0


@pytest.mark.damages_rows
async def test_what_is_missing_extra_and_different_is_found_and_repaired(mirror):
    lost, kept, changed, marked = mirror.keys[:4]
    await mirror.owner.execute("DELETE FROM messages WHERE provider_message_id = %s", [lost])
    await mirror.owner.execute(
        "UPDATE messages SET deleted_at = postroom_now() WHERE provider_message_id = %s", [marked]
    )
    del mirror.remote.items[kept]
    await mirror.owner.execute("UPDATE messages SET is_read = true WHERE provider_message_id = %s", [changed])
    found = await audited(mirror)
    assert summary(found) == (6, [lost, marked], [kept], [changed])
    async with mirror.database.transaction(mirror.organization) as connection:
        await audit.repair(connection, mirror.organization, mirror.mailbox, found)
    await mirror.settle()
    assert summary(await audited(mirror)) == (6, [], [], [])
    assert await mirror.one("SELECT count(*) FROM failures WHERE resolved_at IS NULL") == 0


async def test_what_left_the_folder_that_is_read_is_extra(folders):
    folders.remote.choose("inbox")
    left, kept = folders.remote.deliver(), folders.remote.deliver()
    folders.remote.deliver("archive")
    await folders.settle()
    folders.remote.move(left, "archive")
    folders.remote.log.clear()  # no change feed reports it
    found = await audited(folders)
    assert summary(found) == (1, [], [left], [])
    async with folders.database.transaction(folders.organization) as connection:
        await audit.repair(connection, folders.organization, folders.mailbox, found)
    await folders.settle()
    assert await folders.rows("SELECT provider_message_id FROM messages WHERE left_at IS NULL") == [(kept,)]
    assert [event[0] for event in await folders.events(left)] == ["created", "left"]
    assert summary(await audited(folders)) == (1, [], [], [])


async def test_what_is_stored_otherwise_is_different_though_it_was_not_listed(folders):
    key = folders.remote.deliver()
    await folders.settle()
    folders.remote.change(key, is_read=True, received_at=NOW - 40 * DAY)
    folders.remote.log.clear()  # no change feed reports it
    assert summary(await audited(folders)) == (0, [], [], [key])


SPOILED_IN_ANY_CASE = {
    "its content": "DELETE FROM message_contents WHERE message_id = %s",
    "its thread": """
        UPDATE messages SET thread_id = (SELECT min(id) FROM threads WHERE id <> messages.thread_id)
        WHERE id = %s
    """,
    "the bytes of an attachment": "UPDATE attachments SET sha256 = NULL WHERE message_id = %s",
}
SPOILED_INSIDE = {
    "an attachment": "DELETE FROM attachments WHERE message_id = %s",
    "its subject": "UPDATE messages SET subject = 'other' WHERE id = %s",
    "its sender": "UPDATE messages SET from_address = 'eve@example.net' WHERE id = %s",
}


@pytest.fixture
async def with_attachment(mirror):
    """One more, with an attachment; its key and id."""
    key = mirror.remote.deliver(age=DAY, files=[("a.txt", "text/plain", b"bytes")])
    await mirror.settle()
    return key, await mirror.one("SELECT id FROM messages WHERE provider_message_id = %s", key)


async def found_and_mended(mirror, key, depth):
    found = await audited(mirror, depth)
    assert summary(found)[1:] == ([], [], [key])
    async with mirror.database.transaction(mirror.organization) as connection:
        await audit.repair(connection, mirror.organization, mirror.mailbox, found)
    await mirror.settle()
    assert summary(await audited(mirror, AuditDepth.CONTENTS))[1:] == ([], [], [])


@pytest.mark.parametrize("what", SPOILED_IN_ANY_CASE)
async def test_what_is_not_all_there_is_different(mirror, with_attachment, what):
    key, id_ = with_attachment
    await mirror.owner.execute(SPOILED_IN_ANY_CASE[what], [id_])
    await found_and_mended(mirror, key, AuditDepth.STATES)


@pytest.mark.parametrize("what", SPOILED_INSIDE)
async def test_what_is_stored_otherwise_is_seen_when_contents_are_compared(mirror, with_attachment, what):
    key, id_ = with_attachment
    await mirror.owner.execute(SPOILED_INSIDE[what], [id_])
    assert summary(await audited(mirror))[1:] == ([], [], [])
    await found_and_mended(mirror, key, AuditDepth.CONTENTS)


async def test_an_audit_moves_no_cursor(mirror):
    cursors = "SELECT kind, scope, value, updated_at FROM cursors ORDER BY kind, scope"
    before = await mirror.rows(cursors)
    await audited(mirror)
    assert await mirror.rows(cursors) == before


async def test_what_came_just_now_is_not_missing(mirror):
    mirror.remote.deliver(age=timedelta(seconds=30))
    assert (await audited(mirror)).missing == []


async def test_a_message_stored_during_an_audit_is_not_extra_while_its_lookup_is_a_404(folders):
    folders.remote.deliver()
    await folders.settle()
    list_recent = folders.remote.list_recent

    async def list_then_sync(since, *, drafts):
        async for page in list_recent(since, drafts=drafts):
            yield page
        folders.remote.only_listed.add(folders.remote.deliver(age=DAY / 1000))
        await folders.sync()

    folders.remote.list_recent = list_then_sync
    assert summary(await audited(folders)) == (1, [], [], [])


async def test_a_mailbox_is_audited_after_its_first_sync(make_mirror, mirror):
    await mirror.owner.execute("UPDATE cursors SET completed_at = NULL WHERE kind = 'backfill'")
    with pytest.raises(PermanentError, match="still running"):
        await audited(mirror)


async def run_scheduled(mirror, *, repairs=True):
    async with mirror.database.engine() as connection:
        await work.enqueue(
            connection, [WorkRequest(mirror.organization, WorkKind.AUDIT, str(mirror.mailbox))]
        )
        [lease] = (await work.claim(connection, [WorkKind.AUDIT], batch=1, lease_seconds=60)).leases
    await audit.run(mirror.build_context(), 7 * 86400, lease, repairs=repairs)


DUE_HOURS = "SELECT extract(epoch FROM due_at - postroom_now())::int / 3600 FROM work WHERE kind = 'audit'"


async def test_audits_come_by_themselves(mirror):
    await run_scheduled(mirror)
    assert await mirror.one("SELECT count(*) FROM audits") == 1
    assert await mirror.one(DUE_HOURS) // 24 == 6
    assert await mirror.one("SELECT count(*) FROM ledger WHERE event_type = 'AUDIT_REPAIR_STARTED'") == 0


async def spoil(mirror) -> None:
    """One message is missing, one is extra, one has another state."""
    lost, kept, changed = mirror.keys[:3]
    await mirror.owner.execute("DELETE FROM messages WHERE provider_message_id = %s", [lost])
    del mirror.remote.items[kept]
    if not mirror.remote.labelled:  # of Gmail's messages, only a share is compared
        await mirror.owner.execute(
            "UPDATE messages SET is_read = true WHERE provider_message_id = %s", [changed]
        )


@pytest.mark.damages_rows
async def test_a_scheduled_audit_repairs_what_it_finds_and_says_so(mirror):
    await spoil(mirror)
    await run_scheduled(mirror)
    found = {"missing": 1, "extra": 1, "different": 0 if mirror.remote.labelled else 1}
    assert await mirror.one("SELECT payload FROM ledger WHERE event_type = 'AUDIT_REPAIR_STARTED'") == found
    assert await mirror.one("SELECT data FROM events WHERE kind = 'mailbox.repair_started'") == found
    async with mirror.database.transaction(mirror.organization) as connection:
        latest = await audits.get_latest(connection, mirror.mailbox)
        status = (await mailbox_status.list_by_mailbox(connection))[mirror.mailbox]
    assert latest.repair_started_at is not None
    assert status.repair_started_at == latest.repair_started_at
    assert await mirror.one("SELECT due_at <= postroom_now() FROM work WHERE kind = 'sync'")
    assert await mirror.one(DUE_HOURS) <= 1, "another audit shows soon whether it worked"
    await mirror.settle()
    assert summary(await audited(mirror)) == (6, [], [], [])
    assert await mirror.one("SELECT count(*) FROM failures WHERE resolved_at IS NULL") == 0


@pytest.mark.damages_rows
async def test_a_repair_that_does_not_help_is_followed_by_audits_as_usual(mirror):
    await spoil(mirror)
    await run_scheduled(mirror)
    await run_scheduled(mirror)
    assert await mirror.one(DUE_HOURS) // 24 == 6


@pytest.mark.damages_rows
async def test_a_scheduled_audit_may_only_look(mirror):
    await spoil(mirror)
    await run_scheduled(mirror, repairs=False)
    assert await mirror.one("SELECT missing + extra FROM audits") == 2
    assert await mirror.one("SELECT count(*) FROM failures") == 0
    assert await mirror.one("SELECT repair_started_at FROM audits") is None
    assert await mirror.one("SELECT count(*) FROM messages") == 6


async def test_a_repair_settles_failures_of_messages_that_are_no_longer_listed(mirror, move_clock):
    key = mirror.remote.deliver(age=DAY)
    mirror.remote.late.add(key)
    await mirror.sync()
    await run_scheduled(mirror)
    is_open = "SELECT count(*) FROM failures WHERE resolved_at IS NULL"
    assert await mirror.one(is_open) == 1
    del mirror.remote.items[key]
    await move_clock(60)
    await run_scheduled(mirror)
    assert await mirror.one(is_open) == 0
