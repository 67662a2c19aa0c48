"""The embedded PostgreSQL when processes are killed, stopped or hung, and what they leave behind."""

import os
import shutil
import signal
import subprocess
from contextlib import closing

import psycopg
import pytest

from example_counts import examples
from postroom.errors import DatabaseUnavailable
from postroom.store import embedded
from postroom.store.embedded import binaries
from postroom.store.embedded.stale_processes import find_server_processes
from store.embedded_homes import answers, ask, kill, quick_home, until, watched_home


@pytest.fixture
def home():
    with quick_home() as home:
        yield home


@pytest.mark.examples
@pytest.mark.parametrize("victims", ["client", "supervisor", "postmaster", "all"])
def test_after_a_kill_the_next_process_starts_and_finds_what_was_committed_every_time(home, victims):
    one = home.attach()
    ask(one.url, "CREATE TABLE rounds (number int)")
    for number in range(examples(6)):
        ask(one.url, f"INSERT INTO rounds VALUES ({number})")
        supervisor, postmaster = (
            home.supervisor(),
            home.postmaster(),
        )  # a server left alone may end by itself
        if victims in {"supervisor", "all"}:
            kill(supervisor)
        if victims in {"postmaster", "all"}:
            kill(postmaster)
        if victims in {"client", "all"}:
            one.kill()
        for other in find_server_processes(home.inside.data) if victims == "all" else ():
            kill(other)
        one = home.attach()
        assert ask(one.url, "SELECT count(*) FROM rounds") == (number + 1,)


@pytest.mark.parametrize("victim", ["supervisor", "postmaster"])
def test_a_process_that_stays_attached_gets_its_server_back_at_the_same_address(home, victim):
    url = home.attach().url
    with psycopg.connect(url, autocommit=True) as connection:
        kill(getattr(home, victim)())
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT pg_sleep(60)")
    until(lambda: answers(url), "the server comes back by itself")


def test_the_server_stops_with_the_last_process_even_if_all_of_them_were_killed(home):
    processes = [home.attach() for _ in range(3)]
    assert all(answers(each.url) for each in processes)
    for each in processes:
        each.kill()
    until(home.has_stopped, "the server stops")
    assert "database system is shut down" in home.inside.log.read_text().splitlines()[-1]


def test_killed_supervisor_takes_its_server_along_when_unused(home):
    one = home.attach()
    assert answers(one.url)
    supervisor = home.supervisor()
    os.kill(supervisor, signal.SIGSTOP)
    one.kill()
    kill(supervisor)
    until(home.has_stopped, "no orphan is left")


def test_a_busy_connection_of_a_killed_server_does_not_block_the_next_start(home):
    url = home.attach().url
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        backend = connection.info.backend_pid
        connection.pgconn.send_query(b"DO $$ BEGIN LOOP END LOOP; END $$")
        postmaster = home.postmaster()
        kill(home.supervisor())
        kill(postmaster)
        assert answers(home.attach().url)
        assert backend not in find_server_processes(home.inside.data)


@pytest.mark.parametrize("name", ["postmaster.pid", ".s.PGSQL.5432.lock"])
def test_a_stale_file_that_names_a_living_process_of_the_same_user_is_not_believed(home, name):
    with embedded.start_or_join(home.path):
        content = (home.inside.data / name).read_text().splitlines()
        owner = home.inside.data.stat().st_uid
    until(home.has_stopped, "the server stops")
    as_owner = {"user": owner} if owner != os.geteuid() else {}
    with subprocess.Popen(["sleep", "600"], cwd="/", **as_owner) as stranger:
        try:
            (home.inside.data / name).write_text("\n".join([str(stranger.pid), *content[1:]]))
            with embedded.start_or_join(home.path) as attachment:
                assert answers(attachment.url)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_corrupt_pid_file_is_no_obstacle(home):
    with embedded.start_or_join(home.path):
        pass
    until(home.has_stopped, "the server stops")
    (home.inside.data / "postmaster.pid").write_bytes(b"\xff\x00 no pid\n\n")
    with embedded.start_or_join(home.path) as attachment:
        assert answers(attachment.url)


def test_a_kill_while_the_database_is_made_leaves_nothing_half_made(tmp_path):
    with watched_home(tmp_path / "home") as home:
        for _ in range(3):
            one = home.attach()
            until(lambda: any(home.inside.root.glob("new-*/*")), "the database is being made")
            kill(home.supervisor())
            one.kill()
            assert not home.inside.data.exists()
            until(home.has_stopped, "nothing runs any more")
        assert answers(home.attach().url)
        assert not any(home.inside.root.glob("new-*"))


def test_a_hung_server_is_an_error_after_a_bounded_wait_and_works_again_when_it_resumes(home):
    url = home.attach().url
    assert answers(url)
    postmaster = home.postmaster()
    os.kill(postmaster, signal.SIGSTOP)
    try:
        error = home.attach(wait_seconds=2).answer["error"]
    finally:
        os.kill(postmaster, signal.SIGCONT)
    assert "does not respond" in error
    assert str(postmaster) in error
    assert answers(home.attach().url)


def test_server_started_by_others_on_the_data_is_left_alone(home):
    with embedded.start_or_join(home.path):
        owner = home.inside.data.stat()
    until(home.has_stopped, "the server stops")
    as_owner = {"user": owner.st_uid, "group": owner.st_gid} if owner.st_uid != os.geteuid() else {}
    command = [
        binaries.find_binaries().program("postgres"),
        "-D",
        "/proc/self/cwd",
        "-k",
        ".",
        "-c",
        "listen_addresses=",
    ]
    with subprocess.Popen(command, cwd=home.inside.data, stderr=subprocess.DEVNULL, **as_owner) as stranger:
        try:
            until((home.inside.data / ".s.PGSQL.5432").exists, "the other server runs")
            with pytest.raises(DatabaseUnavailable, match=f"did not start.*process {stranger.pid}"):
                embedded.start_or_join(home.path)
            assert stranger.poll() is None
        finally:
            stranger.send_signal(signal.SIGINT)
    with embedded.start_or_join(home.path) as attachment:
        assert answers(attachment.url)


def test_removed_home_of_a_running_server_is_not_used_again(home):
    one = home.attach()
    assert answers(one.url)
    pids = [home.supervisor(), *find_server_processes(home.inside.data)]
    shutil.rmtree(home.path, ignore_errors=True)  # the supervisor removes some of it, too
    one.close()
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "supervisor and server end")  # noqa: PTH110 - not a file
    shutil.rmtree(home.path, ignore_errors=True)  # what the server wrote meanwhile
    assert answers(home.attach().url)
