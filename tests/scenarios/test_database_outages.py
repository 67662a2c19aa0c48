"""Y3: the programs wait for a starting database, survive its restart, and take over from a frozen worker."""

import asyncio
import signal
import socket

import pytest

import databases
from postroom.model import WorkKind
from postroom.store import schema_migrations, work
from postroom.store.work import WorkRequest
from scenarios.postroom_process import PostroomProcess, fetch, wait_until
from scenarios.starting_server import starting_server
from scenarios.worker_pool import until
from store.embedded_homes import answers, kill, quick_home

VAULT_KEYS = "one:" + "A" * 43 + "="
DONE = "SELECT lease_token IS NULL AND due_at > postroom_now() FROM work WHERE kind = 'collect_garbage'"


def settings(url, folder, **more):
    return {
        "POSTROOM_DATABASE_URL": url,
        "POSTROOM_HOME": str(folder / "home"),
        "POSTROOM_VAULT_KEYS": VAULT_KEYS,
        "POSTROOM_PORT": "0",
        "POSTROOM_LOG_FORMAT": "json",
    } | more


async def enqueue_collection(owner, organization):
    await work.enqueue(owner, [WorkRequest(organization, WorkKind.COLLECT_GARBAGE, str(organization))])


async def until_started(process, command):
    if command == "work":
        await asyncio.to_thread(wait_until, lambda: '"worker.started"' in "".join(process.said))
    else:
        page = f"{await asyncio.to_thread(process.line, 'Postroom: ')}/readyz"
        await asyncio.to_thread(wait_until, lambda: fetch(page)[0] == 200)


@pytest.mark.parametrize("command", ["serve", "work"])
async def test_a_process_waits_for_a_database_that_is_starting(database_url, tmp_path, command):
    async with starting_server(database_url) as (server, url):
        with PostroomProcess(tmp_path, command, **settings(url, tmp_path)) as process:
            said = await asyncio.to_thread(process.line, "The database is starting")
            assert "Waiting for up to 60 seconds" in said
            server.state = None
            assert await asyncio.to_thread(process.line, "The database is ready.") == ""
            await until_started(process, command)
            assert await asyncio.to_thread(process.end) == 0


@pytest.mark.parametrize("command", ["serve", "work", "up"])
async def test_a_process_whose_database_goes_away_while_it_starts_tries_again(
    database_url, tmp_path, command
):
    """The first connection is the probe, the second one reads the schema, the third is a probe again."""
    async with starting_server(database_url) as (server, url):
        server.state, server.faults = None, {2: None, 6: None}
        with PostroomProcess(tmp_path, command, **settings(url, tmp_path)) as process:
            said = await asyncio.to_thread(process.line, "The database cannot be reached")
            assert "Retrying for up to 60 seconds" in said
            await until_started(process, command)
            assert await asyncio.to_thread(process.end) == 0


@pytest.mark.parametrize("command", ["serve", "work"])
async def test_a_session_that_ends_while_it_starts_is_no_wrong_password(database_url, tmp_path, command):
    async with starting_server(database_url) as (server, url):
        server.state, server.faults = None, {2: ("57P01", "terminating connection")}
        with PostroomProcess(tmp_path, command, **settings(url, tmp_path)) as process:
            await until_started(process, command)
            assert await asyncio.to_thread(process.end) == 0
    assert "password" not in "".join(process.said)


async def test_a_worker_whose_database_goes_away_during_its_last_check_tries_again(database_url, tmp_path):
    async with starting_server(database_url) as (server, url):
        server.state, server.cut_at = None, b"blob_location"
        with PostroomProcess(tmp_path, "work", **settings(url, tmp_path)) as process:
            await asyncio.to_thread(process.line, "The database cannot be reached")
            await until_started(process, "work")
            assert await asyncio.to_thread(process.end) == 0


async def test_a_process_waits_for_a_database_that_does_not_respond(database_url, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    url = f"postgresql://postroom@127.0.0.1:{port}/none"
    with PostroomProcess(tmp_path, "work", **settings(url, tmp_path)) as process:
        await asyncio.to_thread(process.line, "The database does not respond. Waiting for up to 60 seconds")
        assert await asyncio.to_thread(process.end, signal.SIGINT) == 130


@pytest.mark.parametrize("command", ["serve", "work", "up"])
async def test_the_wait_for_a_database_is_limited(database_url, tmp_path, command):
    given = settings("", tmp_path, POSTROOM_DATABASE_WAIT_SECONDS="0")
    async with starting_server(database_url) as (_, url):
        with PostroomProcess(tmp_path, command, **given | {"POSTROOM_DATABASE_URL": url}) as process:
            assert await asyncio.to_thread(process.wait) == 3
    assert process.said == [
        "error: The database is starting, stopping or recovering. Wait, or see the server's log.\n"
    ]


@pytest.mark.parametrize("command", ["serve", "work"])
async def test_a_rejected_password_fails_at_once(database_url, tmp_path, command):
    async with starting_server(database_url) as (server, url):
        server.state = ("28P01", 'password authentication failed for user "postroom"')
        given = settings(url, tmp_path, POSTROOM_DATABASE_WAIT_SECONDS="3600")
        with PostroomProcess(tmp_path, command, **given) as process:
            assert await asyncio.to_thread(process.wait) == 3
    [line] = process.said
    assert "password authentication failed" in line
    assert "Correct the role, password or database name" in line


@pytest.mark.skipif(databases.GIVEN != "", reason="the server may run elsewhere")
async def test_web_and_worker_survive_a_restart_of_the_database(tmp_path):
    with quick_home() as home:
        url = home.attach().url
        await schema_migrations.migrate(url)
        given = settings(url, tmp_path, POSTROOM_POLL_SECONDS="1")
        with (
            PostroomProcess(tmp_path, "serve", **given) as web,
            PostroomProcess(tmp_path, "work", **given) as worker,
        ):
            ready = f"{await asyncio.to_thread(web.line, 'Postroom: ')}/readyz"
            await asyncio.to_thread(worker.line, '{"timestamp"')
            await asyncio.to_thread(wait_until, lambda: fetch(ready)[0] == 200)
            kill(home.postmaster())
            await asyncio.to_thread(wait_until, lambda: answers(url))
            await asyncio.to_thread(wait_until, lambda: fetch(ready)[0] == 200)
            async with databases.session(url) as owner:
                cursor = await owner.execute("INSERT INTO organizations (name) VALUES ('x') RETURNING id")
                [[organization]] = await cursor.fetchall()
                await enqueue_collection(owner, organization)
                await until(owner, DONE)
            assert await asyncio.to_thread(web.end) == 0
            assert await asyncio.to_thread(worker.end) == 0


async def test_another_worker_takes_over_from_one_frozen_inside_a_transaction(
    database_url, owner, organization, tmp_path
):
    given = settings(database_url, tmp_path, POSTROOM_LEASE_SECONDS="10")
    await enqueue_collection(owner, organization)
    held = {"committing": ["postroom.store.blobs:delete_old_marks", 1]}
    with PostroomProcess(tmp_path, "work", held=held, **given) as frozen:
        await asyncio.to_thread(frozen.line, "inside committing")
        frozen.process.signal(signal.SIGSTOP)
        cursor = await owner.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        )
        assert await cursor.fetchone() == (1,), "it holds the row's lock"
        with PostroomProcess(tmp_path, "work", **given) as other:
            await until(owner, DONE)
            assert await asyncio.to_thread(other.end) == 0
        frozen.process.signal(signal.SIGCONT)
        wait = wait_until, lambda: any('"work.lease_lost"' in line for line in frozen.said)
        await asyncio.to_thread(*wait)
        await owner.execute("UPDATE work SET due_at = postroom_now() WHERE kind = 'collect_garbage'")
        await until(owner, DONE)
        assert await asyncio.to_thread(frozen.end) == 0
