"""K6: a pipeline shares the state of messages with a foreign scheduler that works on the same mailbox."""

import asyncio
from urllib.parse import quote

import httpx2
import pytest

from databases import session
from flow.simulated_world import TOPIC
from mailsim import samples
from postroom.flow.documents import review
from postroom.flow.documents.shared_state import POLL_SECONDS, PROCESSED_ELSEWHERE
from postroom.model import DocumentState, ProviderName, WorkKind
from postroom.store import mailboxes, work
from postroom.store.work import WorkRequest
from postroom.wiring.documents import build_handlers
from scenarios import foreign_scheduler
from scenarios.document_postroom import document_postroom
from scenarios.mirrored_mailbox import postroom
from simulator.driver import running

PIPELINE = """
[contract-notes]
kind = "contract-note"
shared_state = "pad_contract_notes"
shared_state_minutes = 5
"""
ROW = "SELECT status, worker_id FROM bo_airflow.email_ingestion_state WHERE message_id = %s"


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual", "--quota", "off") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
def pipelines(tmp_path):
    file = tmp_path / "pipelines.toml"
    file.write_text(PIPELINE)
    return file


@pytest.fixture
async def room(sim, database_url, owner, organization, tmp_path, pipelines):
    async with postroom(sim, database_url, owner, organization, tmp_path, pipelines=pipelines) as made:
        yield made


@pytest.fixture
async def document_room(room, tmp_path, pipelines):
    async with document_postroom(room, tmp_path, pipelines=pipelines) as made:
        yield made


@pytest.fixture
async def box(room):
    return await room.mailbox(ProviderName.OUTLOOK)


@pytest.fixture
async def them(database_url):
    async with session(database_url) as connection:
        await foreign_scheduler.set_clock(connection)
        yield connection


async def passing_ids(box):
    """The ids of a mailbox's messages, newest first, as they are for who does not ask for lasting ones."""
    async with box.database.transaction(box.organization) as connection:
        mailbox = await mailboxes.get(connection, box.mailbox)
    token = await box.world.source(mailbox).get_token()
    url = f"{box.sim.http}/v1.0/users/{quote(mailbox.provider_user_id)}/messages?$select=id,subject&$top=50"
    async with httpx2.AsyncClient() as client:
        answer = await client.get(url, headers={"authorization": f"Bearer {token.reveal()}"})
    return [each["id"] for each in answer.json()["value"]]


async def later(document_room, seconds=POLL_SECONDS + 1):
    await document_room.room.move_clock(seconds)
    await document_room.work()


async def read_by_us(document_room):
    """How often we have read each document."""
    return await document_room.rows(
        "SELECT (SELECT count(*) FROM extractions WHERE document_id = documents.id),"
        " (SELECT count(*) FROM ledger WHERE entity_id = documents.id::text"
        " AND event_type = 'DOCUMENT_COMPLETED'), state, skip_reason FROM documents"
    )


async def test_processed_messages_are_in_the_shared_table_under_the_foreign_id(
    document_room, box, them, organization
):
    note = document_room.order("contract-note", "statement")
    await document_room.deliver(box, note, document_room.order("newsletter", ""))
    document = await document_room.document("contract-notes", note)
    assert document.state is DocumentState.COMPLETED
    theirs = (await passing_ids(box))[-1]
    [row] = await document_room.rows(
        "SELECT message_id, mailbox_email, sender_email, subject, status, error_message,"
        " attachments_processed, trades_extracted, archive_gcs_paths, worker_id"
        " FROM bo_airflow.email_ingestion_state"
    )
    assert row == (
        theirs,
        box.address,
        note.sender[1],
        row[3],
        "success",
        None,
        1,
        1,
        [document.archive_path],
        f"postroom {organization}",
    )
    assert await foreign_scheduler.has_ended(them, theirs)
    assert await foreign_scheduler.claim(them, theirs, box.address) == []


async def test_what_they_are_at_waits_and_what_they_processed_is_left(document_room, box, them):
    note = document_room.order("contract-note", "statement")
    box.sim.deliver(box.address, samples.write_message(note))
    [theirs] = await passing_ids(box)
    await foreign_scheduler.claim(them, theirs, box.address)
    await document_room.deliver(box)
    assert (await document_room.document("contract-notes", note)).state is DocumentState.QUEUED
    await later(document_room)
    assert (await document_room.document("contract-notes", note)).state is DocumentState.QUEUED
    await foreign_scheduler.succeed(them, theirs)
    await later(document_room)
    left = await document_room.document("contract-notes", note)
    assert (left.state, left.skip_reason) == (DocumentState.SKIPPED, PROCESSED_ELSEWHERE)
    assert await document_room.rows(ROW, theirs) == [("success", "them")]
    assert await document_room.rows(
        "SELECT count(*) FROM work WHERE kind IN ('share_state', 'process_document')"
    ) == [(0,)]


@pytest.mark.parametrize("end", ["failure", "death"])
async def test_what_they_fail_at_or_leave_behind_is_processed_by_us(document_room, box, them, end):
    note = document_room.order("contract-note", "statement")
    box.sim.deliver(box.address, samples.write_message(note))
    [theirs] = await passing_ids(box)
    await foreign_scheduler.claim(them, theirs, box.address)
    await document_room.deliver(box)
    if end == "failure":
        await foreign_scheduler.fail(them, theirs)
        await later(document_room)
    else:
        await later(document_room, 240)
        assert (await document_room.document("contract-notes", note)).state is DocumentState.QUEUED
        await later(document_room, 70)
    assert (await document_room.document("contract-notes", note)).state is DocumentState.COMPLETED
    assert await document_room.rows("SELECT status FROM bo_airflow.email_ingestion_state") == [("success",)]


async def test_a_row_that_they_reopen_is_ended_again_and_the_document_not_read_again(
    document_room, box, them
):
    await document_room.deliver(box, document_room.order("contract-note", "statement"))
    [theirs] = await passing_ids(box)
    await foreign_scheduler.fail(them, theirs)  # too late, and it asks for no owner
    [(document, message)] = await document_room.rows("SELECT document_id::text, message_id FROM arrivals")
    subjects = {WorkKind.PROCESS_DOCUMENT: document, WorkKind.SHARE_STATE: f"contract-notes/{message}"}
    async with document_room.transaction() as connection:
        wakes = [WorkRequest(box.organization, kind, subject) for kind, subject in subjects.items()]
        await work.enqueue(connection, wakes)
    await document_room.work()
    assert await read_by_us(document_room) == [(1, 1, "completed", None)]
    assert await document_room.rows(ROW, theirs) == [("success", us(document_room))]


def us(document_room):
    return f"postroom {document_room.room.world.organization}"


async def test_a_document_that_failed_fails_the_message_until_a_person_has_it_read_again(
    document_room, box, them
):
    damaged = document_room.order("invoice-odd", "cut-off")
    await document_room.deliver(box, damaged)
    [theirs] = await passing_ids(box)
    document = await document_room.document("contract-notes", damaged)
    failed = await document_room.rows("SELECT status, error_message FROM bo_airflow.email_ingestion_state")
    assert failed == [("failed", document.last_error)]
    assert await foreign_scheduler.claim(them, theirs, box.address) == [("processing",)], "they may try"
    async with document_room.transaction() as connection:
        await review.retry(connection, box.organization, document.id, actor="Ann")
    await document_room.work()
    assert (await document_room.document("contract-notes", damaged)).state is DocumentState.QUEUED
    await foreign_scheduler.fail(them, theirs)
    await later(document_room)
    assert await document_room.rows(ROW, theirs) == [("failed", us(document_room))]
    assert (await document_room.ledger_events(document)).count("DOCUMENT_FAILED") == 2


async def test_where_messages_have_one_id_for_all_their_life_both_sides_use_it(document_room, room):
    box = await room.mailbox(ProviderName.GMAIL)
    await document_room.deliver(box, document_room.order("contract-note", "statement"))
    [(ours, theirs)] = await document_room.rows(
        "SELECT provider_message_id, state.message_id"
        " FROM messages CROSS JOIN bo_airflow.email_ingestion_state AS state WHERE status = 'success'"
    )
    assert ours == theirs


@pytest.mark.parametrize(
    "end, kind, awaited",
    [
        (foreign_scheduler.fail, WorkKind.SHARE_STATE, WorkKind.PROCESS_DOCUMENT),
        (foreign_scheduler.succeed, WorkKind.PROCESS_DOCUMENT, WorkKind.SHARE_STATE),
    ],
)
async def test_no_work_of_ours_waits_for_other_work_with_a_shared_row_locked(
    document_room, box, them, database_url, end, kind, awaited
):
    """Each of the two locks its own row and wakes the other: with the shared row locked, a deadlock."""
    box.sim.deliver(box.address, samples.write_message(document_room.order("contract-note", "statement")))
    [theirs] = await passing_ids(box)
    await foreign_scheduler.claim(them, theirs, box.address)
    await document_room.deliver(box)
    await end(them, theirs)
    await document_room.room.move_clock(POLL_SECONDS + 1)
    async with box.database.engine() as connection:
        [lease] = (await work.claim(connection, [kind], batch=1, lease_seconds=300)).leases
    async with session(database_url) as other:
        async with other.transaction():
            await other.execute("SELECT FROM postroom.work WHERE kind = %s FOR UPDATE", [awaited])
            handlers = build_handlers(document_room.engine, document_room.readers, {})
            step = asyncio.create_task(handlers[kind].step(lease))
            while not await document_room.rows(
                "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            ):
                assert not step.done(), "it waits for the locked row"
                await asyncio.sleep(0.01)
            await them.execute("SELECT FROM bo_airflow.email_ingestion_state FOR UPDATE NOWAIT")
        await step


async def test_a_message_without_documents_is_skipped(document_room, box):
    await document_room.deliver(box, document_room.order("meeting", ""))
    assert await document_room.rows("SELECT count(*) FROM documents") == [(0,)]
    assert await document_room.rows("SELECT status FROM bo_airflow.email_ingestion_state") == [("skipped",)]


async def test_beside_the_scheduler_nothing_is_read_twice_by_us_and_nothing_is_lost(
    document_room, box, them, database_url
):
    notes = [document_room.order("contract-note", "statement", seed=seed) for seed in range(6)]
    for note in notes:
        box.sim.deliver(box.address, samples.write_message(note))
    theirs, stop = await passing_ids(box), asyncio.Event()
    workers = [
        asyncio.create_task(foreign_scheduler.run(database_url, name, box.address, theirs, stop))
        for name in ("them 1", "them 2")
    ]
    await asyncio.gather(document_room.deliver(box), document_room.work())
    for _ in range(8):
        await asyncio.gather(later(document_room), document_room.work())
        await asyncio.sleep(0.1)
    stop.set()
    ended = set[str]().union(*await asyncio.gather(*workers))
    # What the dead ones claimed lapses.
    for _ in range(3):
        await later(document_room, 301)
    statuses = await document_room.rows("SELECT DISTINCT status FROM bo_airflow.email_ingestion_state")
    found = await read_by_us(document_room)
    assert len(found) == len(notes)
    assert all(reads <= 1 and completed <= 1 for reads, completed, *_ in found), found
    by_us = [each for each in found if each[2] == "completed"]
    left = [each for each in found if each[2:] == ("skipped", PROCESSED_ELSEWHERE)]
    assert len(by_us) + len(left) == len(notes), found
    assert len(left) <= len(ended)
    assert statuses in ([("success",)], [("failed",), ("success",)]), statuses
