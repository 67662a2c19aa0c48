"""`postroom export`: every row once, whenever the process is killed. DuckDB reads the files."""

import asyncio
import random
import signal

import pytest

from postroom.flow.documents import record_changes
from postroom.flow.documents.record_changes import RecordChange
from postroom.model import ProviderName
from scenarios.document_postroom import bill
from scenarios.mailbox_user import MailboxUser
from scenarios.mirrored_mailbox import environment
from scenarios.postroom_process import PostroomProcess, wait_until

duckdb = pytest.importorskip("duckdb")  # environments from before it was a dependency lack it

EXPORT = "postroom.flow.outbound.export:Export."
# Killed before the events of a range, between its tables, and right after a file got its name.
MOMENTS = (
    (EXPORT + "_write_events", 1),
    (EXPORT + "_write_table", 2),
    ("postroom.flow.outbound.parquet_files:fsync_path", 1),
    (EXPORT + "_write_table", 4),
)


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def export(sim, database_url, room, lake, tmp_path):
    """Start `postroom export` of the room's organization."""
    given = environment(sim, database_url, tmp_path) | {"POSTROOM_ORGANIZATION": str(room.world.organization)}
    return lambda *options, **held: PostroomProcess(tmp_path, "export", str(lake), *options, **held, **given)


def read_files(lake, table, columns, *, newest=True):
    """The rows of all files, or the newest of each id, in the order of the id."""
    kept = "QUALIFY row_number() OVER (PARTITION BY id ORDER BY position DESC) = 1" if newest else ""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute(f"SELECT {columns} FROM '{lake}/{table}/*.parquet' {kept} ORDER BY id")
        return [tuple(row.values()) for row in found.to_arrow_table().to_pylist()]


async def read_stored(room, query):
    return [tuple(row) for row in await room.rows(query)]


async def assert_exported(room, lake):
    """The newest row of each id equals the stored one; mail events and events are there once, all of them."""
    columns = "id, revision, is_read, is_flagged, subject, labels, categories, received_at, deleted_at"
    stored = await read_stored(room, f"SELECT {columns} FROM messages ORDER BY id")
    assert read_files(lake, "messages", columns) == stored
    columns = "id, message_id, revision, kind, labels_added, observed_at"
    stored = await read_stored(room, f"SELECT {columns} FROM mail_events ORDER BY id")
    assert read_files(lake, "mail_events", columns, newest=False) == stored
    columns = "id::text, pipeline, kind, state, record_id::text, archive_path, created_at"
    stored = await read_stored(room, f"SELECT {columns} FROM documents ORDER BY id")
    assert read_files(lake, "documents", columns) == stored
    columns = "id::text, kind, key, state, version, merged_into::text, confirmed_at"
    stored = await read_stored(room, f"SELECT {columns} FROM records ORDER BY id")
    assert read_files(lake, "records", columns) == stored
    grosses = await read_stored(room, "SELECT (fields->>'gross')::numeric FROM records ORDER BY id")
    assert read_files(lake, "records", "coalesce(invoice.gross, contract_note.gross)") == grosses
    positions = sorted(position for (position,) in read_files(lake, "events", "position", newest=False))
    assert positions == list(range(1, len(positions) + 1))
    assert await read_stored(room, "SELECT last_position FROM feeds") == [(len(positions),)]


def list_ranges(lake, table="events"):
    return sorted(tuple(map(int, path.stem.split("-"))) for path in lake.glob(f"{table}/*.parquet"))


class Activity:
    """Mail that arrives and changes, and invoices that become records, are corrected and merged."""

    def __init__(self, box, document_room, seed):
        self.box, self.room = box, document_room
        self.user = MailboxUser(box.sim, box.address, seed)
        self.dice = random.Random(seed)
        self.numbers = iter(range(1, 10_000))

    async def continue_(self, *, acts=6):
        await asyncio.to_thread(self.user.act, acts)
        await self.box.sync()
        number = next(self.numbers)
        [document] = await self.room.read(bill(f"R-{number}", f"{number}.50"))
        if document.record_id and number % 2:
            async with self.room.transaction() as connection:
                change = RecordChange(self.box.organization, document.record_id, "Ann", "not ours")
                await record_changes.void(connection, self.room.reviewing, change)


@pytest.fixture
async def activity(room, document_room):
    box = await room.mailbox(ProviderName.GMAIL, messages=20)
    return Activity(box, document_room, seed=7)


def end_of(process):
    assert process.wait() == 0, process.said


async def test_a_killed_export_continues_without_a_gap_or_a_repeat(activity, document_room, export, lake):
    await activity.continue_()
    for function, call in MOMENTS:
        with export(held={"moment": (function, call)}) as killed:
            await asyncio.to_thread(killed.line, "inside moment")
            killed.end(signal.SIGKILL)
        await activity.continue_(acts=2)
    with export() as last:
        await asyncio.to_thread(end_of, last)
    await assert_exported(document_room, lake)
    ranges = list_ranges(lake)
    assert [first for first, _ in ranges] == [0, *(end + 1 for _, end in ranges[:-1])]
    assert not list(lake.glob("*/.*"))


async def test_an_export_that_follows_writes_what_is_stored_later(activity, document_room, export, lake):
    with export("--follow", "--interval", "0.1") as following:
        await asyncio.to_thread(following.line, "records/")
        await activity.continue_(acts=2)
        [(count,)] = await read_stored(document_room, "SELECT count(*) FROM events")
        # The last event is that of a voided record, and the file of records is the last of a range.
        await asyncio.to_thread(wait_until, lambda: list_ranges(lake, "records")[-1][1] >= count)
        assert (following.end(signal.SIGINT), list(lake.glob("*/.*"))) == (130, []), following.said
    await assert_exported(document_room, lake)


@pytest.mark.soak
async def test_an_export_killed_at_random_moments_has_every_row_once(activity, document_room, export, lake):
    for _ in range(60):
        with export("--follow", "--interval", "0.1") as killed:
            acting = asyncio.create_task(activity.continue_())
            await asyncio.sleep(activity.dice.uniform(0.3, 2.5))
            killed.end(signal.SIGKILL)
            await acting
    with export() as last:
        await asyncio.to_thread(end_of, last)
    await assert_exported(document_room, lake)
