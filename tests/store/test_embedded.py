"""The embedded PostgreSQL: one server for all processes of a home, while one of them runs."""

import os
import signal
import threading
from pathlib import Path

import psycopg
import pytest

from postroom.store import embedded
from postroom.store.embedded import database_home as homes
from store.embedded_homes import answers, ask, quick_home, until, watched_home


@pytest.fixture
def home():
    with quick_home() as home:
        yield home


def test_ten_processes_that_attach_at_once_share_one_server(home):
    processes = [home.attach() for _ in range(10)]
    started = {ask(each.url, "SELECT pg_postmaster_start_time()") for each in processes}
    assert len(started) == 1
    assert home.inside.log.read_text().count("starting PostgreSQL") == 1


def test_the_role_is_no_superuser_and_owns_its_database(home):
    with embedded.start_or_join(home.path) as attachment:
        assert ask(
            attachment.url,
            """
            SELECT current_user::text, rolsuper, rolcreatedb, rolcreaterole, rolbypassrls,
                   pg_has_role('postroom_application', 'SET'), pg_has_role('postroom_engine', 'SET'),
                   (SELECT datdba = r.oid FROM pg_database WHERE datname = current_database()),
                   (SELECT count(*) FROM pg_roles WHERE rolname LIKE 'postroom\\_%' AND rolcanlogin
                                                    AND NOT rolsuper)
            FROM pg_roles r WHERE rolname = current_user
            """,
        ) == ("postroom", False, True, False, False, True, True, True, 1)


def test_the_server_is_durable_private_and_speaks_utf8(home):
    with embedded.start_or_join(home.path) as attachment:
        assert ask(
            attachment.url,
            """
            SELECT current_setting('fsync'), current_setting('full_page_writes'),
                   current_setting('synchronous_commit'), current_setting('listen_addresses'),
                   current_setting('server_encoding'), current_setting('timezone'),
                   upper('é') = 'É', current_setting('server_version_num')::int / 10000
            """,
        ) == ("on", "on", "on", "", "UTF8", "UTC", True, 18)


def test_slow_creation_is_reported_once(tmp_path):
    with watched_home(tmp_path / "home") as home:
        processes = [home.attach() for _ in range(2)]
        heard = [line for each in processes for line in each.answer["heard"]]
        assert heard == [f"creating the database in {home.inside.root}"]


def test_server_stops_with_its_last_user_and_keeps_the_data(home):
    first, second = embedded.start_or_join(home.path), embedded.start_or_join(home.path)
    ask(first.url, "CREATE TABLE kept AS SELECT 42 AS answer")
    first.release()
    first.release()
    assert ask(second.url, "SELECT answer FROM kept") == (42,)
    second.release()
    until(home.has_stopped, "the server stops")
    with embedded.start_or_join(home.path) as again:
        assert ask(again.url, "SELECT answer FROM kept") == (42,)


def test_process_that_joins_during_a_stop_waits_and_restarts_the_server(home):
    """Processes join and leave as fast as possible, to hit every phase of a stop."""
    failures = []

    def come_and_go():
        for _ in range(6):
            try:
                with embedded.start_or_join(home.path) as attachment:
                    ask(attachment.url)
            except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
                failures.append(error)
            threading.Event().wait(0.45)

    visitors = [threading.Thread(target=come_and_go) for _ in range(3)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    assert failures == []


def test_wait_for_a_stopping_server_is_reported(home):
    stopping = homes.take_lock(home.inside.attached_lock, homes.EXCLUSIVE, deadline=0)
    heard = []

    def say(line):
        heard.append(line)
        os.close(stopping)  # the server has stopped

    with embedded.start_or_join(home.path, say=say) as attachment:
        assert answers(attachment.url)
    assert heard == [f"waiting until the database in {home.inside.root} has stopped, to start it again"]


def test_ctrl_c_in_the_terminal_of_one_process_leaves_the_server_to_the_others(home):
    starter = home.attach()
    assert answers(starter.url)
    other = home.attach()
    assert answers(other.url)
    os.killpg(starter.process.pid, signal.SIGINT)
    starter.close()
    start = ask(other.url, "SELECT pg_postmaster_start_time()")
    assert answers(other.url)
    assert ask(other.url, "SELECT pg_postmaster_start_time()") == start


def test_service_stop_signals_do_not_stop_the_server_under_a_running_process(home):
    url = home.attach().url
    for order in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(home.supervisor(), order)
    assert answers(url)


def test_two_homes_run_side_by_side(tmp_path):
    with (
        watched_home(tmp_path / "one", made=True) as one,
        watched_home(tmp_path / "two", made=True) as two,
        embedded.start_or_join(one.path) as first,
        embedded.start_or_join(two.path) as second,
    ):
        ask(first.url, "CREATE TABLE only_here ()")
        with pytest.raises(psycopg.errors.UndefinedTable):
            ask(second.url, "SELECT FROM only_here")


def test_variables_of_postgresql_in_the_environment_change_nothing(home):
    confusing = {"PGPORT": "6543", "PGDATA": "/nonexistent", "PGHOST": "nowhere.invalid", "PGUSER": "root"}
    assert answers(home.attach(more=confusing).url)


def test_settings_and_secrets_are_not_in_the_servers_environment(home):
    assert answers(home.attach(more={"POSTROOM_SECRET_KEY": "hunter2"}).url)
    try:
        kept = Path(f"/proc/{home.supervisor()}/environ").read_bytes()
    except PermissionError:
        pytest.skip("this root may not look into its own processes")
    assert b"PATH=" in kept
    assert b"hunter2" not in kept


def test_no_row_reaches_the_log_of_the_server(home):
    with embedded.start_or_join(home.path) as attachment:
        ask(attachment.url, "CREATE TABLE people (address text PRIMARY KEY)")
        for _ in range(2):
            try:
                ask(attachment.url, "INSERT INTO people VALUES ('jane@example.org')")
            except psycopg.errors.UniqueViolation as error:
                assert "jane@example.org" in str(error)  # noqa: PT017 - the second time it is violated
    assert "jane" not in home.inside.log.read_text()
