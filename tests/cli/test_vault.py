"""`postroom vault`: keys rotate while other processes write tokens; no secret is printed (C3)."""

import json
import os
import re
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path
from uuid import uuid4

import pytest

import databases
from postroom.model import CredentialKind, Secret
from postroom.ports import SecretLocation
from postroom.store import credentials
from postroom.vault import KeyFile, LocalVault, Sealer

WRITER = Path(__file__).with_name("token_writer.py")


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
async def database(service_url, home):
    async with databases.open_pools(service_url, entry_macs=databases.build_home_macs(home)) as database:
        yield database


@pytest.fixture
def vault(postroom, database_url):
    """Run `postroom vault …` on the test's database: its exit code, and what it printed."""

    def run(*arguments, **settings):
        done = postroom("vault", *arguments, **databases.login_settings(database_url), **settings)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def in_json(vault):
    def run(*arguments):
        return json.loads(vault(*arguments, "--json")[1])

    return run


@pytest.fixture
def writing(database_url, organization, home):
    """Start a process that keeps writing the tokens of these mailboxes."""
    started = []

    def start(mailboxes):
        command = [sys.executable, "-W", "error", WRITER, database_url, home, organization, *mailboxes]
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


async def opened(database, keys, organization, mailbox):
    async with database.transaction(organization) as connection:
        row = await credentials.load(connection, mailbox)
    vault = LocalVault(Sealer(keys))
    grant = await vault.fetch(SecretLocation(organization, mailbox, "grant"), row.grant)
    access = await vault.fetch(SecretLocation(organization, mailbox, "access"), row.access)
    return grant.reveal(), access.reveal()


async def test_rotation_loses_no_token_written_meanwhile(
    in_json, writing, database, organization, make_mailbox, home
):
    boxes = [[await make_mailbox(organization) for _ in range(4)] for _ in range(2)]
    writers = [writing(mine) for mine in boxes]
    assert [writer.stdout.readline() for writer in writers] == ["1\n", "1\n"]
    rotations = [in_json("rotate") for _ in range(4)]
    last = [int(writer.communicate(timeout=60)[0].split()[-1]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert sum(done["sealed"] for done in rotations) > 0
    assert len({done["key_id"] for done in rotations}) == 4
    for mine, number in zip(boxes, last, strict=True):
        for mailbox in mine:
            found = await opened(database, KeyFile(home), organization, mailbox)
            assert found == (f"grant {number}", f"access {number}")
    done = in_json("rotate", "--finish")
    assert (done["key_id"], done["left"]) == (rotations[-1]["key_id"], 0)
    assert len(done["unused"]) == 4


async def test_key_is_created_used_and_removed(vault, database, organization, make_mailbox, home):
    keys = KeyFile(home)
    place = SecretLocation(organization, await make_mailbox(organization), "grant")
    async with database.transaction(organization) as connection:
        sealed = Sealer(keys).seal(place.context, Secret("x"))
        await credentials.save(connection, place.mailbox, kind=CredentialKind.DELEGATED, grant=sealed)
    code, said = vault("rotate")
    new, old = (key.id for key in keys.list_all())
    assert (code, old) == (0, sealed.key_id)
    assert f"Values encrypted with key {new}: 1." in said
    assert f"{old}. Remove them with `postroom vault forget-key`" in said
    code, said = vault("status")
    assert code == 0
    assert [line.split() for line in said.splitlines()[1:3]] == [[new, "current", "1"], [old, "old", "0"]]
    code, said = vault("forget-key", old)
    assert code == 5
    assert re.search(r"Run this again in \d+ minutes", said)
    os.utime(home / "vault.keys", (time.time(), time.time() - 3600))
    assert vault("forget-key", old) == (0, f"Removed: {old}.\n")
    assert [key.id for key in keys.list_all()] == [new]


async def test_missing_key_fails_and_no_key_is_printed(vault, database, organization, make_mailbox, home):
    place = SecretLocation(organization, await make_mailbox(organization), "grant")
    async with database.transaction(organization) as connection:
        sealed = Sealer(KeyFile(home)).seal(place.context, Secret("x"))
        await credentials.save(connection, place.mailbox, kind=CredentialKind.DELEGATED, grant=sealed)
    key = b64encode(b"k" * 32).decode()
    for command, words in (
        (["status"], f"{sealed.key_id}  missing"),
        (["rotate"], "Values still encrypted with older keys: 1."),
        (["forget-key", "a"], "Remove them from POSTROOM_VAULT_KEYS"),
    ):
        code, said = vault(*command, POSTROOM_VAULT_KEYS=f"a:{key}")
        assert (code, words in said) == (1, True), said
        assert key[:10] not in said


def test_doctor_reports_an_unusable_vault(postroom, home):
    KeyFile(home).first()
    (home / "vault.keys").chmod(0o644)
    done = postroom("doctor", POSTROOM_PORT="0", POSTROOM_DATABASE_URL="postgresql://127.0.0.1:1/x")
    assert done.returncode == 1
    assert f"Run `chmod 600 {home / 'vault.keys'}`." in done.stdout


def test_status_of_an_empty_vault_creates_no_key(in_json, home):
    found = in_json("status")
    assert found == {"vault": "local", "source": str(home / "vault.keys"), "keys": [], "parameters": 0}
    assert not (home / "vault.keys").exists()


def test_rotate_creates_no_key_when_the_database_is_unavailable(complaint, home):
    url = f"postgresql://postroom@127.0.0.1:1/{uuid4().hex}"
    assert "database" in complaint(3, "vault", "rotate", POSTROOM_DATABASE_URL=url)
    assert not (home / "vault.keys").exists()
