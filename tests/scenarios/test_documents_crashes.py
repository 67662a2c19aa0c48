"""A worker process that is killed while it reads, commits or archives a document costs nothing but time."""

import signal
from contextlib import asynccontextmanager

import psycopg
import pytest

import databases
from mailsim import samples
from postroom.config import Settings
from postroom.flow.documents import intake
from postroom.model import ProviderName
from postroom.store import blobs as stored
from postroom.store import orders
from postroom.wiring import documents as wired
from postroom.wiring import storage
from scenarios.document_postroom import TODAY, document_postroom, get_attachment
from scenarios.mirrored_mailbox import environment
from scenarios.postroom_process import PostroomProcess
from scenarios.worker_pool import until

HELD = """
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock(tg_argv[0]::int8); RETURN new; END';
    CREATE TRIGGER hold BEFORE INSERT ON arrivals FOR EACH ROW EXECUTE FUNCTION hold(9);
"""
UNPACK = 9
WAITS = """
    SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = %s::int8::oid AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
"""
MESSAGE = """
    WITH thread AS (
        INSERT INTO threads (organization_id, mailbox_id, provider_thread_id)
        VALUES (%s, %s, 'thread') RETURNING organization_id, mailbox_id, id
    ), message AS (
        INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id, from_address)
        SELECT organization_id, mailbox_id, id, 'message', 'ann@example.com' FROM thread RETURNING id
    )
    INSERT INTO attachments (organization_id, message_id, part, kind, file_name, media_type, sha256, size)
    SELECT %s, id, '1', 'file', %s, 'application/zip', %s, %s FROM message
"""
ENDED = """
    SELECT count(*) = %s AND NOT EXISTS (SELECT FROM work WHERE kind IN ('process_document', 'archive'))
    FROM documents WHERE archived_at IS NOT NULL
"""


@pytest.fixture
def worker(database_url, tmp_path):
    return lambda: PostroomProcess(
        tmp_path,
        "work",
        **databases.login_settings(database_url),
        POSTROOM_HOME=str(tmp_path),
        POSTROOM_LEASE_SECONDS="2",
        POSTROOM_POLL_SECONDS="0.2",
        POSTROOM_BACKOFF_FIRST_SECONDS="0.1",
    )


@asynccontextmanager
async def holding(database_url, stage):
    """Block writes of what this stage writes."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute("SELECT pg_advisory_lock(%s)", [stage])
        yield


# Where a worker is stopped (D5 to D9), and at which call: five notes come while a scan is recognised, and one
# of them stays behind in each stage.
STAGES = {
    "recognise": ("postroom.documents.sandbox.file_sandbox:FileSandbox._request_ocr", 1),
    "transcribe": ("postroom.documents.sandbox.file_sandbox:FileSandbox.read", 6),  # the scan was the first
    "analyze": ("postroom.documents.sandbox.file_sandbox:FileSandbox.analyze", 4),
    "commit": ("postroom.flow.documents.process:_commit_result", 3),
    "route": ("postroom.store.orders:match_order", 2),  # its record is written, and not committed
    "archive": (
        "postroom.blobs.disk_archive:DiskArchive.fetch",
        1,
    ),  # the file is written, but not recorded
}
NOTES = ("slip", "brief", "register", "grid", "statement")


async def test_documents_end_once_though_their_worker_is_killed_in_every_stage(
    room, sim, database_url, owner, tmp_path
):
    (tmp_path / "pipelines.toml").write_text('[contract-notes]\nkind = "contract-note"\n')
    given = environment(sim, database_url, tmp_path)
    given |= {"POSTROOM_PIPELINES": str(tmp_path / "pipelines.toml"), "POSTROOM_LEASE_SECONDS": "30"}
    async with document_postroom(room, tmp_path) as document_room:
        scan = document_room.order("contract-note-scan", "pdf", seed=9)
        notes = [
            document_room.order("contract-note", variant, seed=seed) for seed, variant in enumerate(NOTES, 1)
        ]
        await _place(document_room, scan, *notes)
        boxes = [await room.mailbox(provider) for provider in ProviderName]
        with PostroomProcess(tmp_path, "work", held=STAGES, **given) as program:
            await _send(boxes[0], scan)
            program.line("inside recognise")
            await _send(boxes[1], *notes)
            reached = {program.line("inside ") for _ in notes}
            assert reached == STAGES.keys() - {"recognise"}
            [archived] = tmp_path.glob("archive/**/*.pdf")
            program.end(signal.SIGKILL)
        assert await document_room.rows("SELECT count(*) FROM records") == [(1,)]
        await room.move_clock(60)
        with PostroomProcess(tmp_path, "work", **given) as program:
            await until(owner, ENDED, len(STAGES))
            program.end()
        for order in (scan, *notes):
            await _assert_ended_once(document_room, order)
        files = [*tmp_path.glob("archive/**/*.pdf")]
        assert (len(files), archived in files) == (len(STAGES), True)
        [counts] = await document_room.rows("SELECT count(*), count(DISTINCT order_id) FROM records")
        assert counts == (len(STAGES), len(STAGES))


async def _place(document_room, *notes):
    """An open order for each."""
    recorded = [samples.get_document_facts(note) for note in notes]
    names = ("isin", "direction", "quantity", "net")
    expected = [(each["number"], "ann", {name: str(each[name]) for name in names}) for each in recorded]
    async with document_room.transaction() as connection:
        await orders.import_orders(connection, "contract-note", expected)


async def _send(box, *mail):
    for order in mail:
        box.sim.deliver(box.address, samples.write_message(order))
    await box.wake()


async def _assert_ended_once(document_room, order):
    facts = samples.get_document_facts(order)
    document = await document_room.document("contract-notes", order)
    record = await document_room.record(document)
    recorded = {name: facts[name] for name in ("trade_date", "isin", "direction", "quantity", "net")}
    assert {name: record.fields[name] for name in recorded} == recorded
    matched = "SELECT reference, state FROM orders WHERE id = %s"
    assert await document_room.rows(matched, record.order_id) == [(facts["number"], "matched")]
    assert await document_room.ledger_events(document) == [
        "DOCUMENT_TAKEN_IN",
        "DOCUMENT_COMPLETED",
        "DOCUMENT_ARCHIVED",
    ]
    assert (document_room.room.home / document.archive_path).read_bytes() == get_attachment(order)[1]


async def test_a_container_is_opened_once_whenever_its_worker_is_killed(
    database_url, owner, organization, make_mailbox, tmp_path, worker
):
    zipped = samples.MessageSpec(seed=3, kind="invoice-zip", variant="nested", language="en", date=TODAY)
    name, content = get_attachment(zipped)
    async with databases.open_pools(database_url, entry_macs=databases.build_home_macs(tmp_path)) as database:
        blob = await storage.build_blob_store(Settings(home=tmp_path)).put(organization, content)
        async with database.transaction(organization) as connection:
            await stored.record(connection, organization, [blob])
        mailbox = await make_mailbox(organization)
        await owner.execute(MESSAGE, [organization, mailbox, organization, name, blob.sha256, blob.size])
        [(message,)] = await (await owner.execute("SELECT id FROM messages")).fetchall()
        pipelines = wired.load_pipelines(Settings(home=tmp_path))
        async with database.transaction(organization) as connection:
            await intake.take_in(pipelines, connection, organization, [message])
    await owner.execute(HELD)
    async with holding(database_url, UNPACK):
        with worker() as program:
            await until(owner, WAITS, UNPACK)
            program.end(signal.SIGKILL)
    assert await (await owner.execute("SELECT count(*) FROM documents")).fetchall() == [(0,)]
    with worker() as program:
        await until(owner, "SELECT EXISTS (SELECT FROM records)")
        await until(
            owner, "SELECT NOT EXISTS (SELECT FROM work WHERE kind IN ('process_document', 'unpack'))"
        )
        program.end()
    query = "SELECT count(*), count(DISTINCT (document_id, part)), count(DISTINCT document_id) FROM arrivals"
    [(arrivals, different, documents)] = await (await owner.execute(query)).fetchall()
    assert arrivals == different == documents == len(samples.get_document_facts(zipped)["documents"])
