"""`postroom ledger`: workers seal, and verification survives key changes and purges (K4)."""

import asyncio
import json
import os
import shutil
import stat
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

import databases
from ledger_sealing import seal_ledger
from postroom import config, worker
from postroom.errors import OperatorError
from postroom.model import WorkKind
from postroom.store import ledger, work
from postroom.store.ledger import NewLedgerEntry
from postroom.vault import LedgerKeys
from postroom.wiring import secrets
from postroom.wiring.engine import open_engine
from scenarios.postroom_process import PostroomProcess
from scenarios.worker_pool import until

SEALED = "SELECT count(*) > 0 AND bool_and(position IS NOT NULL) FROM ledger"
MAKE = (
    "import sys; from pathlib import Path; from postroom.vault import LedgerKeys; sys.stdin.readline();"
    " print(LedgerKeys(Path(sys.argv[1])).load_signing_key().id)"
)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
async def database(service_url, home):
    macs = secrets.build_entry_macs(config.load(home=home))
    async with databases.open_pools(service_url, entry_macs=macs) as database:
        yield database


@pytest.fixture
def write(database, organization):
    async def write(count=1):
        entries = [
            NewLedgerEntry(
                "MESSAGE_INGESTED", "message", str(number), personal={"from_email": "jane@example.org"}
            )
            for number in range(count)
        ]
        async with database.transaction(organization) as connection:
            await ledger.append_entries(connection, organization, entries)

    return write


@pytest.fixture
def seal_with(database, organization, owner, home):
    """Run a worker with this key until all entries are sealed."""

    async def seal_with(ledger_key=None):
        settings = config.load(home=home, ledger_key=ledger_key)
        async with database.engine() as connection:
            await work.enqueue(connection, [work.WorkRequest(organization, WorkKind.SEAL, str(organization))])
        stop = asyncio.Event()
        async with open_engine(settings, database) as engine:
            limits = worker.worker_limits(settings)
            working = asyncio.create_task(worker.run(database, engine.handlers, limits, stop))
            await until(owner, SEALED)
            stop.set()
            await working

    return seal_with


@pytest.fixture
def verify(postroom, database_url):
    def run(*arguments, **settings):
        done = postroom(
            "ledger", "verify", *arguments, "--json", **databases.login_settings(database_url), **settings
        )
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout)

    return run


async def test_running_worker_seals_earlier_and_new_entries(
    write, owner, home, tmp_path, database_url, verify
):
    await write(2)
    settings = {**databases.login_settings(database_url), "POSTROOM_HOME": str(home)}
    program = PostroomProcess(tmp_path, "work", **settings)
    try:
        await until(owner, SEALED)
        await write(3)
        await until(owner, SEALED)
    finally:
        assert program.end() == 0, "".join(program.said)
    code, [proof] = verify()
    assert (code, proof["faults"], proof["entries"], proof["unsealed"]) == (0, [], 5, 0)
    for name in ("ledger.key", "ledger.public"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600


async def test_ledger_verifies_after_a_key_change_with_public_keys_only(write, seal_with, home, verify):
    given = b64encode(bytes(range(32))).decode()
    for key in (None, given, None):
        await write()
        await seal_with(key)
    (home / "ledger.key").unlink()
    code, [proof] = verify()
    assert (code, proof["faults"], proof["seals"]) == (0, [], 3)
    assert not (home / "ledger.key").exists(), "verifying makes no key"
    (home / "ledger.public").unlink()
    code, [proof] = verify(POSTROOM_LEDGER_KEY=given)
    assert code == 1
    assert sum("unknown key" in fault for fault in proof["faults"]) == 2


async def test_verification_with_public_keys_only_says_what_it_did_not_check(
    write, seal_with, home, tmp_path, verify, database, organization, owner, postroom, database_url
):
    await write(3)
    await seal_with()
    async with database.transaction(organization) as connection:
        await ledger.purge_personal(connection, "message", ["0"])
    auditor = tmp_path / "auditor"
    auditor.mkdir()
    shutil.copy(home / "ledger.public", auditor)
    code, [proof] = verify(POSTROOM_HOME=str(auditor))
    assert (code, proof["faults"]) == (0, [])
    assert (proof["unchecked_entries"], proof["unchecked_purges"]) == (4, 1)
    shown = postroom(
        "ledger", "verify", POSTROOM_DATABASE_URL=database_url, POSTROOM_HOME=str(auditor)
    ).stdout
    assert "Not checked: the MACs of 4 entries and 1 purges." in shown
    _, [proof] = verify(POSTROOM_HOME=str(home))
    assert (proof["unchecked_entries"], proof["unchecked_purges"]) == (0, 0)
    await owner.execute("ALTER TABLE ledger DISABLE TRIGGER USER")
    await owner.execute("UPDATE ledger SET mac = %s WHERE position = 1", [bytes(40)])
    code, [proof] = verify(POSTROOM_HOME=str(auditor))
    assert (code, "does not match its entries" in proof["faults"][0]) == (1, True)


async def test_purged_entries_verify_and_tampering_is_detected(
    write, seal_with, home, verify, database, organization, owner, postroom, database_url
):
    await write(3)
    await seal_with()
    async with database.transaction(organization) as connection:
        await ledger.purge_personal(connection, "message", ["0", "1", "2"])
    code, [proof] = verify()
    assert (code, proof["faults"], proof["purged"]) == (0, [], 3)
    await owner.execute("ALTER TABLE ledger DISABLE TRIGGER USER")
    await owner.execute("UPDATE ledger SET entity_id = 'other' WHERE position = 2")
    done = postroom("ledger", "verify", **databases.login_settings(database_url))
    assert done.returncode == 1
    assert "BROKEN" in done.stdout
    assert "was changed" in done.stdout


async def test_head_detects_truncation_and_belongs_to_one_organization(
    write, seal_with, home, verify, owner, organization, make_organization, postroom, database_url
):
    for _ in range(2):
        await write()
        await seal_with()
    _, [proof] = verify()
    kept = proof["head"]
    assert verify("--head", kept)[0] == 0
    for table in ("ledger", "ledger_personal", "seals"):
        await owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER".encode())
    await owner.execute("DELETE FROM seals WHERE number = 2")
    await owner.execute(
        "DELETE FROM ledger_personal WHERE entry_id IN (SELECT id FROM ledger WHERE position > 1)"
    )
    await owner.execute("DELETE FROM ledger WHERE position > 1")
    code, [proof] = verify("--head", kept)
    assert code == 1
    assert "truncated" in proof["faults"][0]
    await make_organization()
    done = postroom("ledger", "verify", "--head", kept, **databases.login_settings(database_url))
    assert (done.returncode, "--organization" in done.stderr) == (2, True)
    assert verify("--head", kept, "--organization", str(organization))[0] == 1


async def test_verification_writes_no_head_and_says_that_the_end_was_not_checked(
    write, seal_with, home, verify, postroom, database_url
):
    await write()
    await seal_with()
    shown = postroom("ledger", "verify", **databases.login_settings(database_url)).stdout
    assert "cut off" not in shown
    (home / "ledger.heads").unlink()
    done = postroom("ledger", "verify", **databases.login_settings(database_url))
    assert (done.returncode, "Not checked: whether entries were cut off at the end" in done.stdout) == (
        0,
        True,
    )
    assert not (home / "ledger.heads").exists()


async def test_truncation_is_found_without_a_noted_head(
    write, seal_with, home, verify, owner, organization, tmp_path
):
    for _ in range(2):
        await write()
        await seal_with()
    assert verify(POSTROOM_HOME=str(home))[0] == 0
    for table in ("ledger_personal", "seals", "ledger"):
        await owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER".encode())
        await owner.execute(f"DELETE FROM {table}".encode())
    code, [proof] = verify(POSTROOM_HOME=str(home))
    assert (code, "truncated" in proof["faults"][0]) == (1, True)
    await owner.execute("DELETE FROM work")
    await owner.execute("DELETE FROM feeds")
    await owner.execute("DELETE FROM organizations")
    published = tmp_path / "published"
    published.write_text(f"2026-11-15T09:30:00+00:00 {(home / 'ledger.heads').read_text()}")
    for settings in ({}, {"POSTROOM_LEDGER_HEADS_FILE": str(published)}):
        code, [proof] = verify(POSTROOM_HOME=str(home), **settings)
        assert (code, proof["organization"]) == (1, str(organization))
        assert "not in the database" in proof["faults"][0]
        (home / "ledger.heads").unlink(missing_ok=True)


async def test_entry_of_an_unknown_key_waits_until_the_key_is_known(database_url, owner, organization, home):
    """A change of key restarts one process after the other. The sealer never signs for an unknown key."""
    old, new = (b64encode(bytes([number]) * 32).decode() for number in (1, 2))

    async def append(name, ledger_key, *, seals):
        macs = secrets.build_entry_macs(config.load(home=home / name, ledger_key=ledger_key))
        async with databases.open_pools(database_url, entry_macs=macs) as database:
            async with database.transaction(organization) as connection:
                entry = NewLedgerEntry("SYNC_STARTED", "mailbox", name)
                await ledger.append_entries(connection, organization, [entry])
            if seals:
                await seal_ledger(database, home, organization)
        cursor = await owner.execute("SELECT entity_id FROM ledger WHERE position IS NULL")
        return await cursor.fetchall()

    assert await append("web", new, seals=False) == [("web",)]
    assert await append("worker", old, seals=True) == [("web",)]
    assert await append("restarted", f"{new},{old}", seals=True) == []


async def test_show_lists_newest_entries_without_personal_values(write, postroom, database_url):
    await write(3)
    done = postroom("ledger", "show", "--limit", "2", **databases.login_settings(database_url))
    assert (done.returncode, done.stdout.count("MESSAGE_INGESTED")) == (0, 2)
    done = postroom("ledger", "show", "--json", **databases.login_settings(database_url))
    assert [entry["entity_id"] for entry in json.loads(done.stdout)] == ["2", "1", "0"]
    assert "jane" not in done.stdout


def test_concurrent_processes_create_one_signing_key(home):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", MAKE, home],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        for _ in range(4)
    ]
    for each in started:
        each.stdin.write(b"\n")
        each.stdin.flush()
    assert len({each.communicate()[0] for each in started}) == 1
    assert len((home / "ledger.public").read_text().splitlines()) == 1


def test_readable_or_damaged_key_file_is_rejected_with_its_remedy(home):
    LedgerKeys(home).load_signing_key()
    (home / "ledger.key").chmod(0o644)
    with pytest.raises(OperatorError, match="chmod 600"):
        LedgerKeys(home).load_signing_key()
    (home / "ledger.key").chmod(0o600)
    (home / "ledger.key").write_text("")
    with pytest.raises(OperatorError, match="Restore it from a backup"):
        LedgerKeys(home).load_signing_key()


def test_invalid_ledger_key_is_one_clear_error_without_the_key(complaint):
    line = complaint(2, "ledger", "show", POSTROOM_LEDGER_KEY="c2hvcnQ=")
    assert "POSTROOM_LEDGER_KEY" in line
    assert "5 bytes instead of 32" in line
    assert "c2hvcnQ" not in line
