"""D3, D11: files in watched folders and buckets become documents like attachments, each exactly once."""

import signal
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib import import_module
from io import BytesIO
from zipfile import ZIP_LZMA, ZipFile

import psycopg
import pytest

import amazon
import databases
from mailsim import samples
from postroom.config import Settings
from postroom.errors import OperatorError
from postroom.model import WorkKind
from postroom.store import watched_files, work
from postroom.store.work import FinishedWork, WorkRequest
from postroom.wiring import documents as wired
from postroom.wiring import storage
from postroom.wiring.engine import open_engine
from scenarios.document_postroom import TODAY, get_attachment
from scenarios.postroom_process import PostroomProcess
from scenarios.worker_pool import until
from shared_sandbox import SharedSandbox

BILL, OTHER = (
    get_attachment(
        samples.MessageSpec(seed=seed, kind="invoice", variant="letterhead", language="en", date=TODAY)
    )[1]
    for seed in (1, 2)
)
PIPELINE = '[invoices]\nkind = "invoice"\nwatch = "{place}"\nwatch_seconds = 1\n'
ARRIVALS = """
    SELECT file_name, sender, source, bucket_generation, received_at::date::text
    FROM arrivals ORDER BY arrivals.id
"""


@pytest.fixture
async def database(service_url, tmp_path):
    async with databases.open_pools(service_url, entry_macs=databases.build_home_macs(tmp_path)) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "inbox"
    made.mkdir()
    return made


@pytest.fixture
async def readers():
    async with SharedSandbox(parallel=1, ocr_processes=1) as started:
        yield started


@pytest.fixture
def look(database, organization, tmp_path, move_clock, readers):
    """One look at what is watched, and everything that follows from it."""

    async def once(place, **given):
        file = tmp_path / "pipelines.toml"
        file.write_text(PIPELINE.format(place=place))
        settings = Settings(home=tmp_path / "home", pipelines=file, organization=organization, **given)
        async with open_engine(settings, database) as engine:
            folders = storage.build_watched_folders(settings, engine.pipelines)
            kinds = wired.build_handlers(engine, readers, folders)
        async with database.engine() as connection:
            await work.ensure_scheduled(
                connection, [WorkRequest(organization, WorkKind.WATCH_FOLDER, f"{organization}/invoices")]
            )
        await move_clock(2)
        while True:
            async with database.engine() as connection:
                claim = await work.claim(connection, list(kinds), batch=1, lease_seconds=300)
            if not claim.leases:
                return
            [lease] = claim.leases
            done = await kinds[lease.kind].step(lease)
            async with work.fenced_transaction(database, lease) as connection:
                await work.finish(connection, [FinishedWork(lease, done and done.again_after)])

    return once


@pytest.fixture
def rows(owner):
    async def read(query):
        return await (await owner.execute(query)).fetchall()

    return read


async def test_a_file_is_taken_once_it_has_stopped_growing_and_never_again(look, folder, rows):
    file = folder / "sender_email=ann%40example%2Ecom" / f"received_date={TODAY:%Y-%m-%d}" / "bill.pdf"
    file.parent.mkdir(parents=True)
    file.write_bytes(BILL[:2000])
    await look(folder)
    file.write_bytes(BILL)
    await look(folder)
    assert await rows("SELECT count(*) FROM documents") == [(0,)], "it was not the same at both looks"
    for _ in range(3):
        await look(folder)
    assert await rows(ARRIVALS) == [("bill.pdf", "ann@example.com", "poller", None, f"{TODAY:%Y-%m-%d}")]
    [(state, path)] = await rows("SELECT state, archive_path FROM documents")
    assert state == "completed"
    assert path.startswith(f"archive/sender_email=ann%40example%2Ecom/received_date={TODAY:%Y-%m-%d}/")
    # Another content under the same name is another file; the same bytes are the same document.
    file.write_bytes(OTHER)
    (folder / "copy.pdf").write_bytes(BILL)
    for _ in range(3):
        await look(folder)
    assert await rows("SELECT count(*) FROM documents") == [(2,)]
    assert [name for name, *_ in await rows(ARRIVALS)] == ["bill.pdf", "copy.pdf", "bill.pdf"]


async def test_what_cannot_be_taken_is_refused_with_its_reason_and_what_is_gone_forgotten(
    look, folder, rows, database, organization
):
    (folder / "notes.doc").write_bytes(b"words")
    (folder / "bill.pdf.part").write_bytes(BILL)
    (folder / ".hidden.pdf").write_bytes(BILL)
    (folder / "link.pdf").symlink_to("/etc/hostname")
    for _ in range(3):
        await look(folder)
    assert await rows("SELECT count(*) FROM documents") == [(0,)]
    async with database.transaction(organization) as connection:
        [known] = await watched_files.list_states(connection)
    assert (known.name, known.imported_at) == ("notes.doc", None)
    assert "it is not a PDF" in known.rejection
    (folder / "notes.doc").unlink()
    await look(folder)
    assert await rows("SELECT count(*) FROM watched_files") == [(0,)]


DEFECT = """
    CREATE FUNCTION defect() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM 1 / 0; RETURN new; END';
    CREATE TRIGGER defect BEFORE INSERT ON {} EXECUTE FUNCTION defect();
"""


async def test_a_file_that_triggers_a_bug_does_not_block_the_others(look, folder, rows, owner):
    """A ZIP file that is damaged inside is refused in words; a defect of ours keeps only its file out."""
    packed = BytesIO()
    with ZipFile(packed, "w", compression=ZIP_LZMA) as archive:
        archive.writestr("bill.pdf", BILL)
    damaged = bytearray(packed.getvalue())
    damaged[60:2000] = bytes(1940)
    await owner.execute(DEFECT.format("arrivals FOR EACH ROW WHEN (new.file_name = 'b.pdf')"))
    (folder / "a.zip").write_bytes(damaged)
    (folder / "b.pdf").write_bytes(OTHER)
    (folder / "c.pdf").write_bytes(BILL)
    for _ in range(2):
        await look(folder)
    refused = dict(await rows("SELECT name, rejection FROM watched_files"))
    assert "damaged" in refused["a.zip"]
    assert "it caused an unexpected error" in refused["b.pdf"]
    assert [name for name, *_ in await rows(ARRIVALS)] == ["c.pdf"]


async def test_a_defect_met_in_reading_ends_the_document_as_failed(look, folder, rows, owner):
    await owner.execute(DEFECT.format("transcripts"))
    (folder / "bill.pdf").write_bytes(BILL)
    for _ in range(2):
        await look(folder, max_attempts=1)
    [(state, why)] = await rows("SELECT state, last_error FROM documents")
    assert state == "failed"
    assert why.startswith("reading it raised an unexpected error")


async def test_an_archive_that_refuses_says_why_on_the_document(look, folder, rows, tmp_path):
    (folder / "bill.pdf").write_bytes(BILL)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "archive").write_bytes(b"")
    await look(folder)
    with pytest.raises(OperatorError):
        await look(folder)
    [(state, why)] = await rows("SELECT state, last_error FROM documents")
    assert state == "completed"
    assert why.startswith("Not archived yet: Blobs cannot be stored")


async def test_a_folder_that_is_not_there_says_what_to_do(look, tmp_path):
    with pytest.raises(OperatorError, match=r"nowhere cannot be read \(No such file.*Create it"):
        await look(tmp_path / "nowhere")


async def test_objects_of_a_watched_bucket_are_taken_with_their_generation(look, rows, monkeypatch, tmp_path):
    for name, value in amazon.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with amazon.server() as url:
        client = import_module("boto3").client("s3", endpoint_url=url)
        client.create_bucket(Bucket="watched", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        client.put_object(Bucket="watched", Key="inbox/sender_email=ann@example.com/bill.pdf", Body=BILL)
        client.put_object(Bucket="watched", Key="elsewhere/other.pdf", Body=OTHER)
        for _ in range(2):
            await look("s3://watched/inbox", blobs_endpoint=url)
        tag = client.head_object(Bucket="watched", Key="inbox/sender_email=ann@example.com/bill.pdf")["ETag"]
    [(name, sender, source, generation, _)] = await rows(ARRIVALS)
    assert (name, sender, source) == ("bill.pdf", "ann@example.com", "poller")
    assert generation == tag.strip('"')


HELD = """
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN new; END';
    CREATE TRIGGER hold BEFORE UPDATE ON watched_files FOR EACH ROW EXECUTE FUNCTION hold();
"""
WAITS = """
    SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
"""
TAKEN = """
    SELECT EXISTS (SELECT FROM watched_files WHERE imported_at IS NOT NULL)
        AND EXISTS (SELECT FROM documents WHERE archived_at IS NOT NULL)
"""


@asynccontextmanager
async def holding(database_url):
    """Block commits that record a file as taken in."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute("SELECT pg_advisory_lock(7)")
        yield


async def test_a_worker_killed_while_it_takes_a_file_loses_and_doubles_nothing(
    database_url, owner, folder, rows, tmp_path
):
    (tmp_path / "pipelines.toml").write_text(PIPELINE.format(place=folder))
    (folder / "bill.pdf").write_bytes(BILL)
    await owner.execute(HELD)

    def worker():
        return PostroomProcess(
            tmp_path,
            "work",
            **databases.login_settings(database_url),
            POSTROOM_HOME=str(tmp_path),
            POSTROOM_PIPELINES=str(tmp_path / "pipelines.toml"),
            POSTROOM_LEASE_SECONDS="2",
            POSTROOM_POLL_SECONDS="0.2",
        )

    async with holding(database_url):
        with worker() as program:
            await until(owner, WAITS)
            program.end(signal.SIGKILL)
    with worker() as program:
        await until(owner, TAKEN)
        program.end()
    assert [name for name, *_ in await rows(ARRIVALS)] == ["bill.pdf"]
    [(digest,)] = await rows("SELECT sha256 FROM documents")
    assert digest == sha256(BILL).digest()
    assert [each.name for each in folder.iterdir()] == ["bill.pdf"]
