import asyncio
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest

import databases
from documents.sandbox import old_kernel
from postroom.cli import doctor_checks
from postroom.cli.doctor_checks import DoctorCheckState
from postroom.documents.sandbox.confinement import UNPRIVILEGED_ID, Confinement, Measure
from postroom.flow.mailboxes import mailbox_health
from postroom.store.embedded import server_account
from postroom.store.embedded.database_home import account_name
from postroom.store.embedded.server_account import ServerAccount
from postroom.store.health import DatabaseServer
from store.embedded_homes import needs_root

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def found(done):
    return {check["name"]: check for check in json.loads(done.stdout)}


def test_doctor_passes_on_a_new_machine_and_creates_nothing(postroom, tmp_path):
    done = postroom("doctor", "--json", POSTROOM_PORT="0")
    assert done.returncode == 0
    checks = found(done)
    assert {name for name, check in checks.items() if check["state"] != "ok"} <= {"public url", "account"}
    expected = {
        "account",
        "python",
        "sandbox",
        "settings",
        "home",
        "disk",
        "database",
        "vault",
        "address",
        "public url",
    }
    assert set(checks) == expected
    assert not (tmp_path / "home").exists()


@needs_root
@pytest.mark.parametrize("owner", ["nobody", "postgres"])
def test_account_of_other_services_is_a_warning(tmp_path, owner):
    if owner not in {entry.pw_name for entry in pwd.getpwall()}:
        pytest.skip(f"this machine has no user {owner}")
    create_data_directory(tmp_path, pwd.getpwnam(owner).pw_uid)
    check = doctor_checks.check_account(tmp_path)
    assert check.state is DoctorCheckState.WARN
    assert f"every process of {owner} can read" in check.found
    assert "useradd --system postroom" in check.remedy


@needs_root
def test_process_of_another_service_in_the_account_is_a_warning(tmp_path):
    """A process in the server's directory is the server's own."""
    data = create_data_directory(tmp_path, uid := 54_321)
    options = {"user": uid, "group": uid, "extra_groups": [], "stdin": subprocess.PIPE}
    with subprocess.Popen(["cat"], cwd=data, **options) as own:
        assert doctor_checks.check_account(tmp_path).state is DoctorCheckState.OK
        with subprocess.Popen(["cat"], cwd="/", **options) as foreign:
            check = doctor_checks.check_account(tmp_path)
            assert check.state is DoctorCheckState.WARN
            assert "other processes of user id 54321 now: 1" in check.found
            foreign.stdin.close()
        own.stdin.close()


def test_shared_account_of_postroom_itself_is_a_warning(tmp_path, monkeypatch):
    own = ServerAccount(os.geteuid(), os.getegid())
    monkeypatch.setattr(server_account, "choose_account", lambda _: own)
    monkeypatch.setattr(server_account, "SHARED_ACCOUNTS", frozenset())
    assert doctor_checks.check_account(tmp_path).state is DoctorCheckState.OK
    monkeypatch.setattr(server_account, "SHARED_ACCOUNTS", {account_name(own.uid)})
    check = doctor_checks.check_account(tmp_path)
    assert check.state is DoctorCheckState.WARN
    assert "other services use this account" in check.found
    assert "POSTROOM_DATABASE_URL" in check.remedy


def create_data_directory(home, uid):
    """The database's directory of a home, as root has it."""
    data = home / "postgres" / "data"
    data.mkdir(parents=True)
    os.chown(data, uid, uid)
    return data


def test_doctor_says_how_document_processes_are_confined(postroom):
    sandbox = found(postroom("doctor", "--json", POSTROOM_PORT="0"))["sandbox"]
    assert sandbox["state"] == "ok"
    uid = UNPRIVILEGED_ID if os.getuid() == 0 else os.getuid()
    for part in (
        "seccomp",
        "Landlock ABI ",
        "no new privileges",
        "hidden memory",
        f"uid {uid}",
        "namespaces",
    ):
        assert part in sandbox["found"]


def test_measures_that_the_kernel_lacks_are_a_warning_with_a_remedy(environment_of, tmp_path):
    settings = {"POSTROOM_PORT": "0", "POSTROOM_HOME": str(tmp_path / "home")}
    program = [sys.executable, old_kernel.__file__, "-m", "postroom", "doctor", "--json"]
    done = subprocess.run(
        program, check=False, env=environment_of(**settings), capture_output=True, text=True
    )
    sandbox = found(done)["sandbox"]
    assert (done.returncode, sandbox["state"]) == (0, "warn")
    assert sandbox["found"].endswith("; not enforced: Landlock, seccomp")
    assert "Linux 5.13" in sandbox["remedy"]
    assert "seccomp" in sandbox["remedy"]


def test_root_that_may_not_change_its_user_is_a_warning():
    confined = Confinement((Measure.NO_NEW_PRIVILEGES,), 0, 0)
    assert "CAP_SETUID" in doctor_checks.describe_confinement(confined, is_root=True).remedy
    assert "own user" not in doctor_checks.describe_confinement(confined, is_root=False).found


def test_doctor_checks_a_running_database(postroom, database_url):
    done = postroom("doctor", "--json", POSTROOM_PORT="0", **databases.login_settings(database_url))
    checks = found(done)
    assert done.returncode == 0
    assert checks["database"]["found"].startswith("PostgreSQL ")
    assert checks["schema"]["state"] == checks["clock"]["state"] == "ok"


def test_every_invalid_setting_fails_with_its_remedy(postroom):
    done = postroom("doctor", POSTROOM_PORT="x", POSTROOM_WAKE="y")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["fail", "settings", "POSTROOM_PORT:", "'x'", "is", "not", "valid"]
    assert lines[2].strip() == "Set it to a whole number from 0 to 65535."
    assert "POSTROOM_WAKE" in lines[3]


def test_unreachable_database_fails_with_its_remedy(postroom):
    url = "postgresql://u:m4rked@127.0.0.1:1/x"
    done = postroom("doctor", "--json", POSTROOM_PORT="0", POSTROOM_DATABASE_URL=url)
    assert done.returncode == 1
    assert found(done)["database"]["state"] == "fail"
    assert "POSTROOM_DATABASE_URL" in found(done)["database"]["remedy"]
    assert "m4rked" not in done.stdout + done.stderr


async def test_pending_migrations_fail_with_their_remedy(postroom, database_url, owner):
    await owner.execute(
        "DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)"
    )
    done = postroom("doctor", "--json", POSTROOM_PORT="0", **databases.login_settings(database_url))
    assert done.returncode == 1
    assert found(done)["schema"] == {
        "name": "schema",
        "state": "fail",
        "found": "pending migrations: 1",
        "remedy": "Run `postroom db migrate`.",
    }


@pytest.mark.parametrize("apart, state", [(0, "ok"), (4, "ok"), (6, "fail"), (-3600, "fail")])
def test_clock_skew_is_reported(apart, state):
    assert doctor_checks.check_clock(NOW, NOW + timedelta(seconds=apart)).state == state


@pytest.mark.parametrize(
    "connections, read_only, state",
    [(10, False, "ok"), (95, False, "warn"), (10, True, "fail"), (95, True, "fail")],
)
def test_read_only_server_and_scarce_connections_are_reported(connections, read_only, state):
    assert (
        doctor_checks.check_server(DatabaseServer("18.4", 1, connections, 100, NOW, read_only, 0.1)).state
        == state
    )


@pytest.mark.parametrize("free, state", [(10**11, "ok"), (10**9, "warn"), (10**8, "fail")])
def test_full_disk_is_reported(monkeypatch, tmp_path, free, state):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 10**12 - free, free))
    assert doctor_checks.check_disk(tmp_path / "not/there/yet").state == state


def test_home_readable_by_others_is_reported(tmp_path):
    tmp_path.chmod(0o755)
    assert doctor_checks.check_home(tmp_path).remedy == f"Run `chmod 700 {tmp_path}`."
    tmp_path.chmod(0o700)
    assert doctor_checks.check_home(tmp_path).state is DoctorCheckState.OK


HOME_OF_ANOTHER_USER = """
import os, sys
from pathlib import Path
from postroom.cli import doctor_checks
if os.geteuid() == 0:
    os.setuid(65534)
path = Path(sys.argv[1])
home, disk = doctor_checks.check_home(path), doctor_checks.check_disk(path)
print(home.state, disk.name, home.remedy)
"""


def test_home_that_cannot_be_created_fails_with_its_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file/home"):
        assert doctor_checks.check_home(path).state is DoctorCheckState.FAIL
    (tmp_path / "closed").mkdir(mode=0o500)
    command = [sys.executable, "-c", HOME_OF_ANOTHER_USER, str(tmp_path / "closed/home")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == "fail disk Grant this user write access, or set POSTROOM_HOME.\n"


@contextmanager
def answering(body):
    """A server that gives every request this answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            client, _ = listening.accept()
            with client:
                client.recv(4000)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

        thread = Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("body, state", [(b"alive\n", "ok"), (b"<html>", "warn")])
def test_public_url_must_reach_a_postroom(postroom, body, state):
    with answering(body) as url:
        done = postroom("doctor", "--json", POSTROOM_PORT="0", POSTROOM_PUBLIC_URL=url)
    assert found(done)["public url"]["state"] == state


GMAIL = {
    "POSTROOM_PORT": "0",
    "POSTROOM_GOOGLE_CLIENT_ID": "x",
    "POSTROOM_GOOGLE_CLIENT_SECRET": "x",
    "POSTROOM_PUBSUB_TOPIC": "projects/p/topics/t",
}
SIGNED = {
    "POSTROOM_PUBSUB_AUDIENCE": "https://post.example.org/webhooks/gmail",
    "POSTROOM_PUBSUB_SERVICE_ACCOUNT": "push@p.iam.gserviceaccount.com",
}


@pytest.mark.parametrize(
    "proof, state", [({}, "fail"), ({"POSTROOM_PUBSUB_TOKEN": "long"}, "ok"), (SIGNED, "ok")]
)
def test_gmail_needs_a_proof_of_its_pushes(postroom, proof, state):
    done = postroom("doctor", "--json", **GMAIL | proof)
    assert found(done)["push proof"]["state"] == state
    assert done.returncode == (1 if state == "fail" else 0)


async def test_mailboxes_are_reported_with_their_health_pauses_and_parked_work(
    postroom, database_url, owner, organization, make_mailbox
):
    mailbox = await make_mailbox(organization)
    given = {
        "POSTROOM_PORT": "0",
        **databases.login_settings(database_url),
        "POSTROOM_ORGANIZATION": str(organization),
    }
    done = await asyncio.to_thread(postroom, "doctor", "--json", **given)
    assert found(done)["mailboxes"]["state"] == "ok"
    for health, cause, state in (
        ("provider_error", "server_error", "warn"),
        ("operator_error", "secret_unreadable", "fail"),
    ):
        await owner.execute(
            "UPDATE mailboxes SET health = %s, health_cause = %s WHERE id = %s", [health, cause, mailbox]
        )
        check = found(await asyncio.to_thread(postroom, "doctor", "--json", **given))["mailboxes"]
        assert check["state"] == state
        assert mailbox_health.DESCRIPTIONS[cause].name.lower() in check["found"]
    await owner.execute(
        "UPDATE mailboxes SET health = 'active', health_cause = NULL, paused_at = now() WHERE id = %s",
        [mailbox],
    )
    await owner.execute(
        "INSERT INTO work (organization_id, kind, subject, state) VALUES (%s, 'subscribe', %s, 'parked')",
        [organization, str(mailbox)],
    )
    check = found(await asyncio.to_thread(postroom, "doctor", "--json", **given))["mailboxes"]
    assert (check["state"], check["found"]) == ("warn", "1 connected; 1 paused, work parked: subscribe")


def test_port_used_by_another_program_is_reported(postroom):
    with answering(b"<html>") as url:
        done = postroom("doctor", "--json", POSTROOM_PORT=url.rpartition(":")[2])
    assert done.returncode == 1
    assert found(done)["address"]["state"] == "fail"
