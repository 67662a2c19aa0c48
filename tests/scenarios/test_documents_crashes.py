"""A worker process that is killed while it reads, commits or archives a document costs nothing but time."""

import os
import signal
from contextlib import asynccontextmanager
from hashlib import sha256

import psycopg
import pytest

from mailsim import letters
from postroom import wiring
from postroom.config import Settings
from postroom.flow import intake, upload
from postroom.flow.upload import Upload
from postroom.store import blobs as stored
from postroom.store.database import open_database
from postroom.wiring import documents as wired
from scenarios.office import attached
from scenarios.programs import Program
from scenarios.workers import until

HELD = """
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock(tg_argv[0]::int8); RETURN new; END';
    CREATE TRIGGER hold BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION hold(7);
    CREATE TRIGGER hold BEFORE UPDATE OF archive_path ON documents FOR EACH ROW EXECUTE FUNCTION hold(8);
    CREATE TRIGGER hold BEFORE INSERT ON arrivals FOR EACH ROW EXECUTE FUNCTION hold(9);
"""
COMMIT, ARCHIVE, UNPACK = 7, 8, 9
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
PROCESSING = "SELECT EXISTS (SELECT FROM documents WHERE state = 'processing')"
DONE = """
    SELECT EXISTS (SELECT FROM documents WHERE archived_at IS NOT NULL)
        AND NOT EXISTS (SELECT FROM work WHERE kind IN ('document', 'archive'))
"""


@pytest.fixture
def worker(database_url, tmp_path):
    return lambda: Program(
        tmp_path,
        "work",
        POSTROOM_DATABASE_URL=database_url,
        POSTROOM_HOME=str(tmp_path),
        POSTROOM_LEASE_SECONDS="2",
        POSTROOM_POLL_SECONDS="0.2",
        POSTROOM_BACKOFF_FIRST_SECONDS="0.1",
    )


async def add(database_url, organization, home, order):
    settings = Settings(home=home)
    async with open_database(database_url, pool_size=6, name="test") as database:
        name, content = attached(order)
        given = Upload(name, content, "ann@example.com")
        pipeline = wired.declared(settings)["invoices"]
        await upload.add(database, wiring.blobs(settings), organization, pipeline, given)
    digest = sha256(content).hexdigest()
    [blob] = [each for each in home.rglob(digest) if each.is_file()]
    return blob


@asynccontextmanager
async def holding(database_url, stage):
    """Whoever wants to write a record, or where a document was archived, waits."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute("SELECT pg_advisory_lock(%s)", [stage])
        yield


async def test_a_document_ends_once_whenever_its_worker_is_killed(
    database_url, owner, organization, tmp_path, worker
):
    bill = letters.Order(seed=1, kind="invoice", variant="letterhead", language="en")
    blob = await add(database_url, organization, tmp_path, bill)
    await owner.execute(HELD)

    # While it reads: the bytes do not come.
    blob.rename(blob.with_suffix(".away"))
    os.mkfifo(blob)
    with worker() as program:
        await until(owner, PROCESSING)
        program.end(signal.SIGKILL)
    blob.unlink()
    blob.with_suffix(".away").rename(blob)

    # While it commits, then while it archives: the file stands there already, and nothing says so.
    for stage, files in ((COMMIT, 0), (ARCHIVE, 1)):
        async with holding(database_url, stage):
            with worker() as program:
                await until(owner, WAITS, stage)
                assert len([*tmp_path.glob("archive/**/*.pdf")]) == files
                program.end(signal.SIGKILL)

    with worker() as program:
        await until(owner, DONE)
        program.end()
    cursor = await owner.execute("SELECT event_type FROM ledger WHERE entity_type = 'document' ORDER BY id")
    assert await cursor.fetchall() == [
        ("DOCUMENT_TAKEN_IN",),
        ("DOCUMENT_COMPLETED",),
        ("DOCUMENT_ARCHIVED",),
    ]
    cursor = await owner.execute("SELECT count(*), count(DISTINCT record_id) FROM documents")
    assert await cursor.fetchall() == [(1, 1)]
    [archived] = tmp_path.glob("archive/**/*.pdf")
    assert archived.read_bytes() == blob.read_bytes()


async def test_a_container_is_opened_once_whenever_its_worker_is_killed(
    database_url, owner, organization, make_mailbox, tmp_path, worker
):
    zipped = letters.Order(seed=3, kind="invoice-zip", variant="nested", language="en")
    name, content = attached(zipped)
    async with open_database(database_url, pool_size=6, name="test") as database:
        blob = await wiring.blobs(Settings(home=tmp_path)).put(organization, content)
        async with database.transaction(organization) as connection:
            await stored.record(connection, organization, [blob])
        mailbox = await make_mailbox(organization)
        await owner.execute(MESSAGE, [organization, mailbox, organization, name, blob.sha256, blob.size])
        [(message,)] = await (await owner.execute("SELECT id FROM messages")).fetchall()
        pipelines = wired.declared(Settings(home=tmp_path))
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
        await until(owner, "SELECT NOT EXISTS (SELECT FROM work WHERE kind IN ('document', 'unpack'))")
        program.end()
    query = "SELECT count(*), count(DISTINCT (document_id, part)), count(DISTINCT document_id) FROM arrivals"
    [(arrivals, different, documents)] = await (await owner.execute(query)).fetchall()
    assert arrivals == different == documents == 2 * len(letters.facts(zipped)["documents"])
