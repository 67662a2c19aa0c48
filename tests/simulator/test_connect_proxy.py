"""The HTTPS proxy leads the providers' host names to the simulator, and connects to nothing else."""

import json
import signal
import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import resources
from urllib.parse import urlsplit

import httpx2
import pytest

from mailsim.tls import NAMES
from simulator.driver import Simulation
from simulator.microsoft_user import MicrosoftUsers


@contextmanager
def connect(sim: Simulation) -> Generator[socket.socket]:
    place = urlsplit(sim.proxy)
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        yield connection


def ask(sim: Simulation, head: bytes) -> str:
    with connect(sim) as connection:
        connection.sendall(head)
        return connection.makefile("rb").read().decode()


@pytest.mark.parametrize("name", NAMES)
def test_a_provider_name_leads_to_the_simulator(sim: Simulation, name: str):
    host = f"[{name}]" if ":" in name else name
    trusting = ssl.create_default_context(cafile=sim.ca)
    with httpx2.Client(proxy=sim.proxy, verify=trusting, trust_env=False) as client:
        answer = client.get(f"https://{host}/v1.0/me")
        assert answer.json()["error"]["code"] == "InvalidAuthenticationToken"


@pytest.mark.parametrize("api", ["gmail.v1", "pubsub.v1", "admin.directory_v1", "people.v1"])
def test_the_hosts_of_googles_discovery_documents_lead_to_the_simulator(api: str):
    """google-api-python-client calls the `rootUrl` of an API's discovery document."""
    document = resources.files("googleapiclient.discovery_cache.documents") / f"{api}.json"
    assert urlsplit(json.loads(document.read_text("utf-8"))["rootUrl"]).hostname in NAMES


def test_links_keep_the_host_name_that_the_program_used(
    sim: Simulation, microsoft: MicrosoftUsers, address: str
):
    token = microsoft.connect(sim, address, messages=3).tokens["access_token"]
    trusting = ssl.create_default_context(cafile=sim.ca)
    headers = {"authorization": f"Bearer {token}"}
    with httpx2.Client(proxy=sim.proxy, verify=trusting, trust_env=False, headers=headers) as client:
        page = client.get("https://graph.microsoft.com/v1.0/me/messages?$top=1").json()
        assert page["@odata.nextLink"].startswith("https://graph.microsoft.com/v1.0/")
        assert len(client.get(page["@odata.nextLink"]).json()["value"]) == 1


@pytest.mark.parametrize("host", ["example.com:443", "192.0.2.1:443", "graph.microsoft.com.example.com:443"])
def test_another_host_is_refused_with_the_remedy(sim: Simulation, host: str):
    answer = ask(sim, f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert answer.startswith("HTTP/1.1 403 ")
    assert f"NO_PROXY={host.removesuffix(':443')}" in answer


def test_a_plain_request_is_refused_with_the_remedy(sim: Simulation):
    answer = ask(sim, b"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
    assert answer.startswith("HTTP/1.1 501 ")
    assert "HTTPS_PROXY" in answer


@pytest.mark.parametrize("head", [b"", b"CONNECT", b"\x16\x03\x01" * 40_000, b"\r\n\r\n"])
def test_a_client_that_speaks_no_http_logs_no_error(sim: Simulation, head: bytes):
    with connect(sim) as connection:
        connection.sendall(head)
        connection.shutdown(socket.SHUT_WR)
        try:
            while connection.recv(65536):
                pass
        except ConnectionResetError:
            pass  # it did not read everything that we sent
    assert sim.process.read_output()[1] == ""


def test_a_signal_stops_it_while_a_tunnel_is_open(start: Callable[..., Simulation]):
    sim = start()
    with connect(sim) as connection:
        connection.sendall(b"CONNECT graph.microsoft.com:443 HTTP/1.1\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        sim.process.signal(signal.SIGTERM)
        assert sim.process.wait(30) == 0
