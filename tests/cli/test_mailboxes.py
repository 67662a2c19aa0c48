"""`postroom mailboxes` as a person or a script uses it, with the web process and the simulator beside it."""

import asyncio
import json

import httpx2
import jwt
import pytest

import databases
from flow.simulated_world import TOPIC, settings_given
from providers.consent import consent
from scenarios.postroom_process import PostroomProcess
from simulator.driver import running


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual") as simulation:
        simulation.post("google/topics", name=TOPIC)
        simulation.create("gmail", "ann@example.com", messages=3)
        simulation.create("outlook", "bob@example.com", messages=3)
        yield simulation


@pytest.fixture
def given(sim, database_url):
    made = {f"POSTROOM_{name.upper()}": str(value) for name, value in settings_given(sim).items()}
    return made | {**databases.login_settings(database_url)}


@pytest.fixture
def run(postroom, given):
    """Run `postroom mailboxes …` to its end."""
    return lambda *arguments, **settings: postroom("mailboxes", *arguments, **given | settings)


@pytest.fixture
def web(tmp_path, given):
    with PostroomProcess(tmp_path, "serve", "--port", "0", **given) as server:
        yield server.line("Postroom: ")


def sign_in(link, address, **how):
    """What a person does in a browser with the link that the command printed."""
    with httpx2.Client(trust_env=False, timeout=30) as browser:
        begun = browser.get(link)
        answer = asyncio.run(consent(begun.headers["location"], address, **how))
        return browser.get(link.partition("/authorize")[0] + "/callback", params=answer)


def connect(folder, web, given, provider, address, *options, **how):
    """The exit code of the command and what it said."""
    settings = given | {"POSTROOM_PUBLIC_URL": web}
    with PostroomProcess(folder, "mailboxes", "connect", provider, *options, **settings) as command:
        sign_in("http" + command.line("http"), address, **how)
        code = command.wait()
    return code, "".join(command.said)


def test_connect_prints_a_link_waits_and_shows_the_result(tmp_path, web, given, run):
    code, said = connect(tmp_path, web, given, "gmail", "ann@example.com", "--policy", "documents")
    assert code == 0, said
    assert "Connected." in said
    [mailbox] = json.loads(run("list", "--json").stdout)
    assert (mailbox["address"], mailbox["policy"]) == ("ann@example.com", "documents")
    shown = json.loads(run("show", "ann@example.com", "--json").stdout)
    assert f"/oauth/gmail/authorize?mailbox={mailbox['id']}" in shown["reconnect"]
    for command, words in [
        (("pause",), "Paused."),
        (("resume",), "Resumed."),
        (("policy", "metadata"), "Changed."),
        (("disconnect",), "Disconnected; its mail is kept."),
    ]:
        done = run(command[0], mailbox["id"][:8], *command[1:])
        assert (done.returncode, words in done.stdout) == (0, True), done.stderr
    assert "disconnected" in run("list").stdout
    assert "add --yes" in run("disconnect", mailbox["id"], "--purge").stderr
    assert json.loads(run("disconnect", mailbox["id"], "--purge", "--yes", "--json").stdout)["purged"]
    assert json.loads(run("list", "--json").stdout) == []


def test_denied_consent_ends_the_command_with_its_reason(tmp_path, web, given):
    code, said = connect(tmp_path, web, given, "outlook", "bob@example.com", decision="deny")
    assert code == 1
    assert "error: The mailbox was not connected (denied)" in said


def test_sign_in_with_another_account_is_rejected(tmp_path, web, given):
    options = ("--address", "shared@example.com")
    code, said = connect(tmp_path, web, given, "outlook", "bob@example.com", *options)
    assert code == 1
    assert "other account" in said


def test_app_only_takes_a_secret_from_a_file(sim, run, tmp_path):
    client = sim.ready["clients"]["outlook"]
    sim.control.patch(
        f"microsoft/applications/{client['client_id']}", json={"roles": ["Mail.Read", "User.Read.All"]}
    )
    id_token = sim.post("microsoft/tokens", address="bob@example.com")["id_token"]
    tenant = jwt.decode(id_token, options={"verify_signature": False})["tid"]
    secret = tmp_path / "secret"
    secret.write_text(client["client_secret"] + "\n")
    arguments = ("connect", "outlook", "--app-only", "--tenant", tenant, "--client-id", client["client_id"])
    done = run(*arguments, "--mailbox", "bob@example.com", "--secret-file", str(secret), "--json")
    assert done.returncode == 0, done.stderr
    mailbox = json.loads(done.stdout)
    assert (mailbox["folder"], mailbox["state"]) == ("Inbox", "active")
    assert "--app-only" in json.loads(run("show", "bob@example.com", "--json").stdout)["reconnect"]
    missing = run(*arguments, "--mailbox", "nobody@example.com", "--secret-file", str(secret))
    assert missing.returncode == 1
    assert missing.stderr.startswith("error: ")
    secret.write_text("wrong")
    refused = run(*arguments, "--mailbox", "bob@example.com", "--secret-file", str(secret))
    assert (refused.returncode, "AADSTS7000215" in refused.stderr) == (1, True)


def test_app_only_takes_the_key_file_of_a_service_account(sim, run, tmp_path):
    prefix = "https://www.googleapis.com/auth/"
    key = sim.post("google/service-accounts", name="reader")
    scopes = ["openid", prefix + "userinfo.email", prefix + "gmail.readonly"]
    sim.create("gmail", "delegated@example.com")
    file = tmp_path / "key.json"
    file.write_text(json.dumps(key))
    arguments = ("connect", "gmail", "--app-only", "--key-file", str(file), "--mailbox")
    refused = run(*arguments, "delegated@example.com")
    assert (refused.returncode, "Domain-wide delegation" in refused.stderr) == (1, True)
    sim.post("google/delegations", client_id=key["client_id"], domain="example.com", scopes=scopes)
    done = run(*arguments, "delegated@example.com", "--json")
    assert done.returncode == 0, done.stderr
    mailbox = json.loads(done.stdout)
    assert (mailbox["folder"], mailbox["state"]) == (None, "active")
    assert (
        "gmail --app-only" in json.loads(run("show", "delegated@example.com", "--json").stdout)["reconnect"]
    )
    missing = run(*arguments, "missing@example.com")
    assert (missing.returncode, "address is unknown" in missing.stderr) == (1, True)
    file.write_text("{}")
    wrong = run(*arguments, "delegated@example.com")
    assert (wrong.returncode, "must be the JSON key file" in wrong.stderr) == (1, True)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("connect", "gmail", "--app-only"), "--key-file and --mailbox for Gmail"),
        (
            (
                "connect",
                "gmail",
                "--app-only",
                "--key-file",
                "x",
                "--mailbox",
                "a@b.example",
                "--folder",
                "X",
            ),
            "takes --key-file and --mailbox only",
        ),
        (("connect", "outlook", "--app-only", "--key-file", "x"), "--key-file applies to Gmail"),
        (("connect", "outlook", "--tenant", "x"), "Add --app-only"),
        (("connect", "outlook", "--folder", "Archive"), "Add --app-only"),
        (
            ("connect", "outlook", "--app-only", "--address", "ann@example.org"),
            "--address applies to a sign-in",
        ),
        (("connect", "outlook", "--app-only"), "--tenant, --client-id and --mailbox"),
    ],
)
def test_wrong_options_are_one_clear_error(complaint, arguments, words):
    assert words in complaint(2, "mailboxes", *arguments)


def test_unknown_mailbox_is_one_clear_error(complaint, given):
    assert "No such mailbox" in complaint(1, "mailboxes", "show", "nobody@example.com", **given)


def test_sign_in_requires_an_oauth_client(complaint, database_url):
    said = complaint(2, "mailboxes", "connect", "gmail", **databases.login_settings(database_url))
    assert "POSTROOM_GOOGLE_CLIENT_ID" in said
