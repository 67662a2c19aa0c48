"""Scenarios: steps in TOML files, played by the command and by the pytest plugin's object."""

import json
import re
import subprocess
import threading
import time
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from mailsim.__main__ import main
from mailsim.errors import SimulatorError
from mailsim.scenario import read_scenario
from mailsim.scenario_steps import STEPS
from mailsim.testing import MailSimulator
from simulator.driver import Simulation, command, environment, ready_line

README = Path(__file__).parents[2] / "mailsim/README.md"
ANN, BOB = "ann@example.com", "bob@example.com"


def write(folder: Path, text: str) -> Path:
    file = folder / "scenario.toml"
    file.write_text(text, encoding="utf-8")
    return file


def player(sim: Simulation) -> MailSimulator:
    sim.post("reset")
    return MailSimulator(sim.http)


SCENARIO = """
[[step]]
do = "create"
mailbox = "ann@example.com"
provider = "gmail"
messages = 3
[[step]]
do = "create"
mailbox = "bob@example.com"
provider = "outlook"
[[step]]
do = "deliver"
mailbox = "ann@example.com"
kind = "invoice"
language = "en"
as = "invoice"
[[step]]
do = "deliver"
mailbox = "bob@example.com"
file = "hello.eml"
[[step]]
do = "label"
mailbox = "ann@example.com"
message = "invoice"
add = ["STARRED"]
remove = ["UNREAD"]
[[step]]
do = "move"
mailbox = "bob@example.com"
message = "newest"
folder = "archive"
[[step]]
do = "mark"
mailbox = "bob@example.com"
message = 0
read = true
flag = "flagged"
[[step]]
do = "delete"
mailbox = "ann@example.com"
message = 0
[[step]]
do = "delete"
mailbox = "ann@example.com"
message = 1
trash = true
[[step]]
do = "advance"
days = 1
hours = 2
[[step]]
do = "fault"
kind = "push_lost"
times = 1
as = "lost"
[[step]]
do = "fault"
kind = "throttle"
mailbox = "ann@example.com"
retry_after = 5
[[step]]
do = "clear"
fault = "lost"
[[step]]
do = "expire"
mailbox = "bob@example.com"
what = "cursors"
[[step]]
do = "revoke"
mailbox = "ann@example.com"
[[step]]
do = "lifecycle"
mailbox = "bob@example.com"
event = "missed"
[[step]]
do = "settle"
"""


def test_a_scenario_is_played_in_order(sim: Simulation, tmp_path: Path):
    played = player(sim)
    began = played.now()
    (tmp_path / "hello.eml").write_bytes(b"Subject: Hello\r\n\r\nHi\r\n")
    played.play(write(tmp_path, SCENARIO))
    ann, bob = played.messages(ANN), played.messages(BOB)
    assert [message.number for message in ann] == [1, 2, 3]
    assert "TRASH" in ann[0].folders
    assert "STARRED" in ann[-1].folders
    assert "UNREAD" not in ann[-1].folders
    [archive] = [one["id"] for one in sim.get(f"mailboxes/{BOB}")["folders"] if one["key"] == "archive"]
    assert [(message.subject, message.folders, message.read) for message in bob] == [
        ("Hello", [archive], True)
    ]
    assert (played.now() - began).total_seconds() == 26 * 3600
    assert [fault["kind"] for fault in sim.get("faults")] == ["throttle"]
    assert set(re.findall(r'do = "(\w+)"', SCENARIO)) == set(STEPS) - {"wait"}


def test_wait_continues_once_the_client_made_its_requests(sim: Simulation, tmp_path: Path):
    played = player(sim)
    sim.create("gmail", ANN)
    scenario = write(
        tmp_path,
        '[[step]]\ndo = "wait"\nendpoint = "getProfile"\nmailbox = "ann@*"\ntimes = 2\n'
        '[[step]]\ndo = "deliver"\nmailbox = "ann@example.com"\n'
        '[[step]]\ndo = "wait"\nendpoint = "getProfile"\n',
    )
    headers = {"authorization": f"Bearer {played.gmail_token(ANN)}"}
    thread = threading.Thread(target=played.play, args=[scenario])
    thread.start()
    with httpx2.Client(trust_env=False, headers=headers) as http:
        deadline, made = time.monotonic() + 60, 0
        while not played.messages(ANN):  # requests count from the moment the scenario begins
            assert http.get(f"{played.gmail_url}/users/me/profile").status_code == 200
            made += 1
            assert time.monotonic() < deadline
        assert made >= 2
        while thread.is_alive():
            http.get(f"{played.gmail_url}/users/me/profile")
            assert time.monotonic() < deadline


@pytest.mark.parametrize(
    "text, why",
    [
        (
            '[[step]]\ndo = "delvier"',
            "scenario.toml:1, step 1: unknown step 'delvier'; did you mean 'deliver'?",
        ),
        (
            '[[step]]\ndo = "settle"\n[[step]]\ndo = "deliver"\nmailbx = "a@b"',
            "scenario.toml:3, step 2 (deliver): unknown field 'mailbx'; did you mean 'mailbox'?",
        ),
        (
            '[[step]]\ndo = "fault"\nkind = "push_lots"',
            "step 1 (fault): unknown fault kind 'push_lots'; did you mean 'push_lost'?",
        ),
        (
            '[[step]]\ndo = "settle"\n[[step]]\ndo = "deliver"\nmailbox = "a@b"\nkind = "invoce"',
            "step 2 (deliver): unknown kind 'invoce'; did you mean 'invoice'?",
        ),
        (
            '[[step]]\ndo = "create"\nmailbox = "a@b"\nprovider = "gmail"\nkinds = ["plain", "repy"]',
            "step 1 (create): unknown kind 'repy'; did you mean 'reply'?",
        ),
        ('[[step]]\ndo = "move"\nmailbox = "a@b"\nmessage = 1', "step 1 (move): "),
        (
            (
                '[[step]]\ndo = "deliver"\nmailbox = "a@b"\nas = "invoice"\n'
                '[[step]]\ndo = "delete"\nmailbox = "a@b"\nmessage = "invoce"'
            ),
            "scenario.toml:5, step 2 (delete): no earlier step has as = 'invoce'; did you mean 'invoice'?",
        ),
        (
            (
                '[[step]]\ndo = "deliver"\nmailbox = "a@b"\nas = "hello"\n'
                '[[step]]\ndo = "mark"\nmailbox = "c@d"\nmessage = "hello"'
            ),
            "step 2 (mark): the message 'hello' is in the mailbox a@b",
        ),
        ('[[step]]\ndo = "clear"\nfault = "lost"', "step 1 (clear): no earlier step has as = 'lost'"),
        ('[[step]]\ndo = "fault"\nkind = "error"\nprobability = 2', "step 1 (fault): probability must be"),
        (
            '[[step]]\ndo = "deliver"\nmailbox = "a@b"\nfile = "missing.eml"',
            "missing.eml: no such file or directory",
        ),
        (
            '[[step]]\ndo = "deliver"\nmailbox = "a@b"\nfile = "scenario.toml"\nkind = "plain"',
            "step 1 (deliver): a message from a file takes no kind",
        ),
        (
            '[[step]]\ndo = "deliver"\nmailbox = "a@b"\nlanguage = "eng"',
            "step 1 (deliver): unknown language 'eng'; did you mean 'en'?",
        ),
        (
            '[[step]]\ndo = "create"\nmailbox = "ann"\nprovider = "gmail"',
            "step 1 (create): 'ann' is not an email address",
        ),
        ('[[step]]\ndo = "create"\nmailbox = "a@b"\nprovider = "gmail"\n' * 2, "a@b already exists"),
        (
            (
                '[[step]]\ndo = "create"\nmailbox = "a@b"\nprovider = "gmail"\n'
                '[[step]]\ndo = "lifecycle"\nmailbox = "a@b"\nevent = "missed"'
            ),
            "step 2 (lifecycle): a@b is a mailbox of gmail; only outlook has this step",
        ),
        ('[[step]]\ndo = "advance"\nhours = -1', "step 1 (advance): "),
        ('[[step]]\ndo = "wait"\ntimes = 0', "step 1 (wait): "),
        ("#" * (1 << 20) + '\n[[step]]\ndo = "settle"', "is larger than 1 MB"),
        ('[[step]]\ndo = "wait"\ntimes = "many"', "step 1 (wait): "),
        ('[[steps]]\ndo = "settle"', "unknown key 'steps'; did you mean 'step'?"),
        ("", "has no steps"),
        ("[[step]]\nx = 1", 'step 1: needs do = "…", one of create, deliver'),
        ("[[step", "is not TOML"),
    ],
)
def test_a_mistake_is_named_with_file_step_and_nearest_name(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = write(tmp_path, text)
    with pytest.raises(SimulatorError, match=re.escape(why)):
        read_scenario(file)
    for options in (["--scenario", str(file)], ["play", str(file), "http://127.0.0.1:1"]):
        with pytest.raises(SystemExit) as ended:
            main(options)
        said = capsys.readouterr().err
        assert (ended.value.code, said.count("\n"), why in said) == (2, 1, True), said


@pytest.mark.parametrize(
    "step, why",
    [
        (
            'do = "revoke"\nmailbox = "no@example.com"',
            "no mailbox no@example.com; create it in an earlier step",
        ),
        ('do = "fault"\nkind = "error"\nendpoint = "message.get"', "did you mean 'messages.get'?"),
        ('do = "fault"\nkind = "token_error"\ncode = "no"', "unknown code 'no' for token_error; use one of"),
        ('do = "wait"\nendpoint = "message.list"', "did you mean 'messages.list'?"),
        ('do = "revoke"\nmailbox = "ann@example.com"\nreason = "pasword"', "did you mean 'password'?"),
        ('do = "create"\nmailbox = "Ann@example.com"\nprovider = "gmail"', "already exists"),
    ],
)
def test_nothing_is_played_if_a_step_cannot_be(sim: Simulation, tmp_path: Path, step: str, why: str):
    played = player(sim)
    sim.create("gmail", ANN)
    scenario = write(tmp_path, f'[[step]]\ndo = "deliver"\nmailbox = "{ANN}"\n[[step]]\n{step}\n')
    with pytest.raises(SimulatorError, match=rf"scenario.toml:4, step 2 \(.*\): .*{re.escape(why)}"):
        played.play(scenario)
    assert not played.messages(ANN)


def test_a_step_that_fails_is_named(sim: Simulation, tmp_path: Path):
    scenario = write(tmp_path, '[[step]]\ndo = "wait"\nseconds = 0.1\nendpoint = "history.list"\n')
    with pytest.raises(SimulatorError, match=r"0 of 1 requests to history.list"):
        player(sim).play(scenario)


def test_play_names_a_simulator_that_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    scenario = str(write(tmp_path, '[[step]]\ndo = "settle"\n'))
    for url, why in (("http://127.0.0.1:1", "cannot reach mailsim"), ("nowhere", "is not a URL of mailsim")):
        with pytest.raises(SystemExit):
            main(["play", scenario, url])
        assert why in capsys.readouterr().err


def test_the_command_plays_a_scenario_and_stops_if_a_step_fails(tmp_path: Path):
    scenario = write(tmp_path, SCENARIO.split('[[step]]\ndo = "deliver"', maxsplit=1)[0])
    with subprocess.Popen(
        command("--scenario", str(scenario)), stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        ready = ready_line(process.stdout)
        deadline = time.monotonic() + 60
        while len(httpx2.get(f"{ready['control']}/mailboxes", trust_env=False).json()) < 2:
            assert time.monotonic() < deadline
        main(["play", str(write(tmp_path, '[[step]]\ndo = "settle"\n')), ready["http"]])
        process.terminate()
        assert process.wait(30) == 0
    scenario = write(tmp_path, '[[step]]\ndo = "revoke"\nmailbox = "no@example.com"\n')
    ended = subprocess.run(
        command("--scenario", str(scenario)),
        capture_output=True, text=True, timeout=60, check=False, env=environment(),
    )  # fmt: skip
    assert ended.returncode == 2
    assert "step 1 (revoke)" in ended.stderr.splitlines()[-1]
    assert json.loads(ended.stdout)["http"]


def test_mailsim_stops_while_its_scenario_waits(tmp_path: Path):
    scenario = write(tmp_path, '[[step]]\ndo = "wait"\n')
    with subprocess.Popen(
        command("--scenario", str(scenario)),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stderr.readline() == "mailsim: step 1 of 1: wait\n"
        process.terminate()
        assert (process.stderr.read(), process.wait(30)) == ("", 0)


def test_the_readme_explains_every_step_and_its_scenario_is_played_to_the_end(
    sim: Simulation, tmp_path: Path
):
    text = README.read_text(encoding="utf-8")
    section = text.partition("## Play a scenario")[2].partition("\n## ")[0]
    assert {verb for verb in STEPS if f"`{verb}`" not in section} == set()
    assert len(section.splitlines()) < 70
    scenario = write(tmp_path, section.partition("```toml\n")[2].partition("```")[0])
    played = player(sim)
    began = played.now()
    thread = threading.Thread(target=played.play, args=[scenario])
    thread.start()
    deadline = time.monotonic() + 60
    with httpx2.Client(trust_env=False) as http:
        while thread.is_alive():  # the client for which the scenario waits
            assert time.monotonic() < deadline
            if sim.get("mailboxes"):
                headers = {"authorization": f"Bearer {played.gmail_token(ANN)}"}
                http.get(f"{played.gmail_url}/users/me/messages", headers=headers)
    messages = played.messages(ANN)
    assert len(messages) == 21
    assert "STARRED" in messages[-1].folders
    assert played.now() - began >= timedelta(days=8)
    assert [fault["kind"] for fault in sim.get("faults")] == ["push_lost"]
    headers = {"authorization": f"Bearer {played.gmail_token(ANN)}"}
    history = f"{played.gmail_url}/users/me/history?startHistoryId=1"
    assert httpx2.get(history, headers=headers, trust_env=False).status_code == 404
