"""Driver errors become errors with cause and remedy; bugs pass unchanged."""

import struct
from contextlib import asynccontextmanager

import pytest
from psycopg import errors

import databases
from postroom.errors import DatabaseTooOld, DatabaseUnavailable, SchemaError, SettingsError, TransientError
from postroom.store.connection import connect
from postroom.store.database_errors import translate_errors
from postroom.store.schema_migrations import migrate, read_status
from stream_server import listen


@pytest.mark.parametrize(
    "state, kind, words",
    [
        ("08006", DatabaseUnavailable, "connection to the database was lost"),
        ("25006", DatabaseUnavailable, "read-only"),
        ("25P03", TransientError, "idle for too long"),
        ("25P04", TransientError, "took too long"),
        ("3F000", SchemaError, "postroom db migrate"),
        ("40001", TransientError, "conflicting transaction"),
        ("40P01", TransientError, "conflicting transaction"),
        ("42703", SchemaError, "postroom db migrate"),
        ("42883", SchemaError, "postroom db migrate"),
        ("42P01", SchemaError, "postroom db migrate"),
        ("53100", DatabaseUnavailable, "disk is full"),
        ("53200", DatabaseUnavailable, "out of resources"),
        ("53300", DatabaseUnavailable, "no more connections"),
        ("55P03", TransientError, "lock"),
        ("57014", TransientError, "took too long"),
        ("57P01", DatabaseUnavailable, "stopping or starting"),
        ("58030", DatabaseUnavailable, "system error"),
    ],
)
async def test_server_error_becomes_our_error_with_cause_and_remedy(owner, state, kind, words):
    with pytest.raises(kind, match=words) as raised, translate_errors():
        await owner.execute(
            f"DO $$ BEGIN RAISE EXCEPTION 'in its own words' USING ERRCODE = '{state}'; END $$"
        )
    assert "in its own words" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


async def test_violated_constraint_passes_unchanged(owner, organization):
    with pytest.raises(errors.UniqueViolation), translate_errors():
        await owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'again')", [organization])


async def test_a_lost_connection_is_an_unavailable_database(owner, database_url):
    async with await connect(database_url) as victim:
        await owner.execute("SELECT pg_terminate_backend(%s)", [victim.info.backend_pid])
        with pytest.raises(DatabaseUnavailable), translate_errors():
            await victim.execute("SELECT 1")


async def open_pools(url):
    async with databases.open_pools(url, pool_size=4):
        pass


@pytest.mark.parametrize("attempt", [migrate, read_status, open_pools])
async def test_missing_server_is_one_clear_error(attempt):
    with pytest.raises(DatabaseUnavailable, match=r"cannot be reached.*POSTROOM_DATABASE_URL") as raised:
        await attempt("postgresql://postroom:secret@127.0.0.1:1/postroom")
    assert len(str(raised.value).splitlines()) == 1
    assert "secret" not in str(raised.value)


async def test_missing_database_or_role_is_one_clear_error(database_url):
    for wrong in (database_url.replace("/postroom_test_", "/no_such_"), database_url.replace("//", "//x", 1)):
        with pytest.raises(DatabaseUnavailable, match=r"refused.*does not exist.*Correct") as raised:
            await connect(wrong)
        assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("url", ["postgres//me:secret@host/name", "postgresql://me:sec ret@host/name"])
async def test_a_malformed_url_is_refused_without_showing_its_password(url):
    with pytest.raises(SettingsError, match="not a PostgreSQL URL") as raised:
        await connect(url)
    assert "sec" not in str(raised.value)
    assert raised.value.__cause__ is None


def answer(kind: bytes, payload: bytes) -> bytes:
    return kind + struct.pack("!I", len(payload) + 4) + payload


@asynccontextmanager
async def server_of_version(version: str):
    """As much of PostgreSQL as a client sees before its first statement."""

    async def greet(reader, writer):
        [size] = struct.unpack("!I", await reader.readexactly(4))
        await reader.readexactly(size - 4)
        writer.write(
            answer(b"R", struct.pack("!I", 0))
            + answer(b"S", b"server_version\0" + version.encode() + b"\0")
            + answer(b"S", b"client_encoding\0UTF8\0")
            + answer(b"Z", b"I")
        )
        await reader.read()

    async with listen(greet) as port:
        yield f"postgresql://postroom@127.0.0.1:{port}/postroom?sslmode=disable&gssencmode=disable"


async def test_a_server_that_is_too_old_is_refused():
    async with server_of_version("14.19") as url:
        with pytest.raises(DatabaseTooOld, match=r"PostgreSQL 14; Postroom needs 15 or newer. Upgrade"):
            await migrate(url)


async def test_oldest_supported_server_is_accepted():
    async with server_of_version("15.1") as url, await connect(url) as connection:
        assert connection.info.server_version == 150001
