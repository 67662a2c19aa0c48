"""Every line that mailsim prints for a client works without changes.

The lines of clients that need an environment of their own run in `referees/test_printed_lines.py`.
"""

import json
import os
import pty
import shutil
import subprocess
from collections.abc import Generator
from typing import Any

import pytest
import requests
from azure.identity import ClientSecretCredential
from google.oauth2.credentials import Credentials
from googleapiclient import discovery
from kiota_abstractions.authentication import AnonymousAuthenticationProvider
from msal import ConfidentialClientApplication
from msgraph.graph_request_adapter import GraphRequestAdapter

from mailsim.client_lines import list_client_lines
from simulator.driver import Simulation, command, environment, ready_line, running
from simulator.referees.test_printed_lines import CLIENTS as TESTED_WITH_REFEREES

ANN, BOB = "ann@example.com", "bob@example.com"


@pytest.fixture(scope="module")
def shared() -> Generator[Simulation]:
    with running() as simulation:
        simulation.create("gmail", ANN, messages=5, spread=False)
        simulation.create("outlook", BOB, messages=5, spread=False)
        yield simulation


@pytest.fixture(autouse=True)
def _no_other_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset what requests prefers to the certificate authority of a session."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def lines(sim: Simulation) -> dict[str, str]:
    return {entry.client: entry.line for entry in list_client_lines(sim.ready)}


def run_google_client(sim: Simulation, line: str) -> int:
    credentials = Credentials(sim.post("google/tokens", address=ANN)["access_token"])
    with eval(line, {**vars(discovery), "credentials": credentials}) as gmail:
        return len(gmail.users().messages().list(userId="me").execute()["messages"])


def run_graph_sdk(sim: Simulation, line: str) -> int:
    request_adapter = GraphRequestAdapter(AnonymousAuthenticationProvider())
    exec(line, {"request_adapter": request_adapter})
    return count_messages(sim.post("microsoft/tokens", address=BOB), request_adapter.base_url, "me")


def run_msal(sim: Simulation, line: str) -> int:
    application = eval(line, {"ConfidentialClientApplication": ConfidentialClientApplication})
    token = application.acquire_token_for_client(["https://graph.microsoft.com/.default"])
    return count_messages(token, f"{sim.http}/v1.0", f"users/{BOB}")


def run_azure_identity(sim: Simulation, line: str) -> int:
    with eval(line, {"ClientSecretCredential": ClientSecretCredential}) as credential:
        token = credential.get_token("https://graph.microsoft.com/.default").token
        return count_messages({"access_token": token}, f"{sim.http}/v1.0", f"users/{BOB}")


def run_curl(sim: Simulation, line: str) -> int:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    token = sim.post("microsoft/tokens", address=BOB)["access_token"]
    ended = subprocess.run(
        ["bash", "-c", line],
        env={"PATH": os.environ["PATH"], "TOKEN": token},
        capture_output=True,
        check=True,
    )
    return len(json.loads(ended.stdout)["value"])


def count_messages(tokens: dict[str, Any], base: str, whose: str) -> int:
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    with requests.Session() as session:
        return len(session.get(f"{base}/{whose}/messages", headers=headers, timeout=60).json()["value"])


CLIENTS = {
    "curl": run_curl,
    "google-api-python-client": run_google_client,
    "msgraph-sdk for Python": run_graph_sdk,
    "msal for Python": run_msal,
    "azure-identity for Python": run_azure_identity,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_printed_line_points_its_client_at_the_simulator(
    sim: Simulation, lines: dict[str, str], client: str
):
    assert CLIENTS[client](sim, lines[client]) == 5


def test_the_line_of_every_client_is_tested(lines: dict[str, str]):
    assert len(lines) >= 10
    assert {*CLIENTS, *TESTED_WITH_REFEREES} == set(lines)


def test_the_option_prints_every_line():
    with subprocess.Popen(
        command("--show-clients"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        ready = ready_line(process.stdout)
        process.terminate()
        printed = process.stderr.read()
    assert [entry.line for entry in list_client_lines(ready) if entry.line not in printed] == []
    assert "Create a mailbox" in printed


def test_a_terminal_shows_the_lines_after_the_ready_line():
    ours, theirs = pty.openpty()
    with subprocess.Popen(command(), stdout=theirs, stderr=theirs, env=environment()) as process:
        os.close(theirs)
        with os.fdopen(ours, encoding="utf-8", newline="") as terminal:
            ready = json.loads(terminal.readline())
            shown = ""
            while "m365 login" not in shown:
                shown += terminal.readline()
            process.terminate()
    assert list_client_lines(ready)[0].line in shown
    assert "Create a mailbox" not in shown  # the sample mailboxes exist
