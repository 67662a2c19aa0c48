"""Scheduled faults as clients of both providers see them over a socket, and their meters and logs."""

import json
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from mailsim.errors import InvalidRequest
from mailsim.faults import KINDS, Fault, FaultSchedule
from simulator.driver import Simulation

LIST = {"gmail": "/gmail/v1/users/me/messages", "outlook": "/v1.0/me/messages"}
ENDPOINT = {"gmail": "messages.list", "outlook": "messages.list"}
_numbers = count(1)


@dataclass(frozen=True)
class Client:
    """An HTTP client with a token for one mailbox."""

    sim: Simulation
    provider: str
    address: str
    token: str

    def list(self, **options: Any) -> httpx2.Response:
        return self.get(LIST[self.provider], **options)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.token}"}
        with httpx2.Client(trust_env=False, timeout=30) as client:
            return client.get(f"{self.sim.http}{path}", headers=headers, **options)


@pytest.fixture(params=["gmail", "outlook"])
def client(request: pytest.FixtureRequest, sim: Simulation) -> Client:
    return connect(sim, request.param)


def connect(sim: Simulation, provider: str) -> Client:
    address = f"{provider}{next(_numbers)}@example.com"
    sim.create(provider, address, 20)
    tokens = sim.post(f"{'google' if provider == 'gmail' else 'microsoft'}/tokens", address=address)
    return Client(sim, provider, address, tokens["access_token"])


def test_throttling_uses_the_providers_format_a_given_number_of_times(client):
    client.sim.fault("throttle", mailbox=client.address, times=2, retry_after=7)
    first, second, third = client.list(), client.list(), client.list()
    assert [answer.status_code for answer in (first, second, third)] == [429, 429, 200]
    error = first.json()["error"]
    if client.provider == "gmail":
        assert error["status"] == "RESOURCE_EXHAUSTED"
        assert "Retry after" in error["message"]
    else:
        assert first.headers["retry-after"] == "7"
        assert error["code"] in {"TooManyRequests", "ApplicationThrottled"}


def test_throttling_says_when_to_retry_unless_asked_not_to(client):
    """Gmail names the time in the message, Graph the seconds in a header.

    "Resolve errors", https://developers.google.com/workspace/gmail/api/guides/handle-errors
    "Microsoft Graph throttling guidance", https://learn.microsoft.com/graph/throttling
    """
    now = datetime.fromisoformat(client.sim.get("clock")["now"])
    client.sim.fault("throttle", mailbox=client.address, times=1)
    answer = client.list()
    assert answer.status_code == 429
    if client.provider == "gmail":
        until = answer.json()["error"]["message"].partition("Retry after ")[2]
        assert datetime.fromisoformat(until) - now >= timedelta(seconds=9)
    assert answer.headers.get("retry-after") == (None if client.provider == "gmail" else "10")
    client.sim.fault("throttle", mailbox=client.address, retry_after=0, times=1)
    answer = client.list()
    assert answer.status_code == 429
    assert "retry-after" not in answer.headers
    assert "Retry after" not in answer.text


def test_a_fault_can_be_limited_to_one_path(client):
    one, other = (each["id"] for each in client.sim.truth(client.address, digests=False)[:2])
    client.sim.fault("error", mailbox=client.address, status=500, path=f"*{one.rstrip('=')}*")
    paths = {"one": f"{LIST[client.provider]}/{one}", "other": f"{LIST[client.provider]}/{other}"}
    assert [client.get(path).status_code for path in (paths["one"], paths["other"])] == [500, 200]
    assert client.list().status_code == 200


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_server_errors_use_the_providers_json(client, status):
    client.sim.fault("error", mailbox=client.address, status=status)
    answer = client.list()
    assert answer.status_code == status
    assert answer.json()["error"]["code"]


def test_an_html_error_is_not_json(client):
    client.sim.fault("html", mailbox=client.address)
    answer = client.list()
    assert answer.status_code == 502
    assert answer.headers["content-type"].startswith("text/html")
    with pytest.raises(json.JSONDecodeError):
        answer.json()


def test_a_stall_outlasts_the_clients_timeout(client):
    client.sim.fault("stall", mailbox=client.address, seconds=30, times=1)
    with pytest.raises(httpx2.ReadTimeout):
        client.list(timeout=0.3)
    assert client.list().status_code == 200


def test_a_short_stall_ends_with_the_normal_response(client):
    client.sim.fault("stall", mailbox=client.address, seconds=0.05)
    assert client.list().status_code == 200


def test_a_cut_connection_ends_inside_the_body(client):
    client.sim.fault("cut", mailbox=client.address, times=1)
    with pytest.raises(httpx2.RemoteProtocolError):
        client.list()
    assert client.list().json()


def test_truncated_json_looks_complete_to_http(client):
    client.sim.fault("truncated", mailbox=client.address)
    answer = client.list()
    assert answer.status_code == 200
    assert len(answer.content) == int(answer.headers["content-length"])
    with pytest.raises(ValueError, match=r"utf-8|delimiter|Unterminated|Expecting"):
        answer.json()


def test_a_fault_affects_only_its_mailbox_endpoint_and_provider(sim):
    gmail, outlook = connect(sim, "gmail"), connect(sim, "outlook")
    sim.fault("error", mailbox=gmail.address, endpoint="messages.*")
    assert gmail.list().status_code == 503
    assert gmail.get("/gmail/v1/users/me/profile").status_code == 200
    assert outlook.list().status_code == 200
    sim.delete("faults")
    sim.fault("error", provider="outlook")
    assert gmail.list().status_code == 200
    assert outlook.list().status_code == 503


def test_a_fault_skips_the_first_requests_and_ends_when_cancelled(client):
    plan = client.sim.fault("error", mailbox=client.address, skip=2)
    assert [client.list().status_code for _ in range(4)] == [200, 200, 503, 503]
    (shown,) = client.sim.get("faults")
    assert (shown["matched"], shown["taken"]) == (4, 2)
    client.sim.delete(f"faults/{plan['number']}")
    assert client.list().status_code == 200


def batch(client: Client, *paths: str) -> str:
    """Send a batch of these requests and return the response text."""
    if client.provider == "gmail":
        path, kind = "/batch/gmail/v1", "multipart/mixed; boundary=b"
        calls = [
            f"--b\r\nContent-Type: application/http\r\n\r\nGET {path} HTTP/1.1\r\n\r\n" for path in paths
        ]
        body = "\r\n".join([*calls, "--b--"])
    else:
        path, kind = "/v1.0/$batch", "application/json"
        calls = [{"id": str(n), "method": "GET", "url": url} for n, url in enumerate(paths)]
        body = json.dumps({"requests": calls})
    headers = {"authorization": f"Bearer {client.token}", "content-type": kind}
    with httpx2.Client(trust_env=False, timeout=30) as http:
        answer = http.post(f"{client.sim.http}{path}", content=body, headers=headers)
    assert answer.status_code == 200
    return answer.text


def test_one_part_of_a_batch_can_be_refused_alone(client):
    client.sim.fault("throttle", mailbox=client.address, endpoint="messages.list", skip=1, times=1)
    client.sim.fault("stall", mailbox=client.address, endpoint="messages.list", seconds=600)
    path = LIST[client.provider] if client.provider == "gmail" else "/me/messages"
    answer = batch(client, path, path, path)
    statuses = ["429" if "429" in part else "200" for part in answer.split("HTTP/1.1 ")[1:]]
    if client.provider == "outlook":
        statuses = [
            str(part["status"]) for part in sorted(json.loads(answer)["responses"], key=lambda p: p["id"])
        ]
    assert sorted(statuses) == ["200", "200", "429"]
    log = client.sim.get("requests", mailbox=client.address)
    parts = [entry for entry in log if entry.get("via")]
    assert sorted((entry["status"], entry.get("fault", "")) for entry in parts) == [
        (200, ""),
        (200, ""),
        (429, "throttle"),
    ]
    assert {entry["via"] for entry in parts} == {entry["number"] for entry in log if not entry.get("via")}


def test_faults_show_in_log_and_meter(client):
    client.sim.fault("throttle", mailbox=client.address, times=1)
    client.list()
    client.list()
    newest, before = client.sim.get("requests", mailbox=client.address)
    assert (before["status"], before["fault"], before["provider"]) == (429, "throttle", client.provider)
    assert (newest["status"], newest.get("fault", ""), newest["endpoint"]) == (200, "", before["endpoint"])
    meter = client.sim.meter(client.address)
    assert (meter["requests"], meter["faults"], meter["rejections"]) == (2, 1, 0)
    assert meter["statuses"] == {"429": 1, "200": 1}


def test_bodies_are_logged_only_on_request(client):
    client.sim.control.put("requests", json={"bodies": False})
    client.list()
    client.sim.control.put("requests", json={"bodies": True})
    answer = client.list()
    with_bodies, without = client.sim.get("requests", mailbox=client.address)
    assert with_bodies["response_body"] == answer.text
    assert ["authorization", f"Bearer {client.token}"] in with_bodies["request_headers"]
    assert {"response_body", "request_headers"}.isdisjoint(without)
    client.sim.delete("requests")
    assert client.sim.get("requests") == []


def test_requests_are_filtered(client):
    for _ in range(3):
        client.list()
    client.get(f"{LIST[client.provider]}/nothing")
    ask = {"mailbox": client.address, "provider": client.provider}
    found = client.sim.get("requests", **ask)
    assert len(found) == 4
    assert len(client.sim.get("requests", **ask, limit=2)) == 2
    assert len(client.sim.get("requests", **ask, status=200)) == 3
    assert [one["number"] for one in client.sim.get("requests", after=found[1]["number"])] == [
        found[0]["number"]
    ]


def test_the_meter_shows_the_peak_of_concurrent_requests(client):
    client.list()
    client.sim.fault("stall", mailbox=client.address, seconds=600)
    place = urlsplit(client.sim.http)
    path, token = LIST[client.provider], client.token
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(4):
            waiting = stack.enter_context(socket.create_connection((place.hostname, place.port)))
            waiting.sendall(request.encode())
        wait_until(lambda: client.sim.meter(client.address)["in_flight"] == 4)
    assert client.sim.meter(client.address)["peak"] == 4
    client.sim.delete("meters")
    meter = client.sim.meter(client.address)
    assert (meter["requests"], meter["peak"]) == (0, 4)


def wait_until(happened: Callable[[], bool]) -> None:
    for _ in range(600):
        if happened():
            return
        time.sleep(0.05)
    pytest.fail("it did not happen within half a minute")


@pytest.mark.parametrize("provider", ["gmail", "outlook"])
def test_unknown_paths_are_refused_in_the_providers_format(sim, provider):
    client = connect(sim, provider)
    answer = client.get("/gmail/v9/nothing" if provider == "gmail" else "/v1.0/nothing")
    assert answer.status_code in {400, 404}
    if provider == "gmail":  # Google's front end responds with HTML
        assert "was not found on this server" in answer.text
    else:
        assert answer.json()["error"]["message"]


def chances(seed: int, calls: list[tuple[str, str]]) -> list[tuple[str, str]]:
    faults = FaultSchedule(seed)
    faults.add(Fault("error", probability=0.3))
    return [call for call in calls if faults.take_response_fault(*call, "gmail")]


def test_probability_depends_on_the_seed_and_not_on_the_order_of_arrival():
    calls = [(f"a{n % 5}@example.com", f"messages.{n % 3}") for n in range(3000)]
    by_mailbox = sorted(calls)
    first = chances(1, calls)
    assert sorted(first) == sorted(chances(1, by_mailbox))
    assert first != chances(2, calls)
    assert 750 < len(first) < 1050


def test_requests_to_one_mailbox_do_not_affect_the_faults_of_another():
    alone = [("a@example.com", "x")] * 200
    mixed = [call for pair in zip(alone, [("b@example.com", "x")] * 200, strict=True) for call in pair]
    assert chances(7, alone) == [call for call in chances(7, mixed) if call[0] == "a@example.com"]


def test_kinds_are_counted_separately():
    faults = FaultSchedule(1)
    faults.add(Fault("push_lost", times=1))
    faults.add(Fault("stall"))
    assert faults.take_part_fault("a@example.com", "messages.get", "gmail") is None
    answer = faults.take_response_fault("a@example.com", "messages.get", "gmail")
    assert answer is not None
    assert answer.kind == "stall"
    assert faults.take("push_lost", "a@example.com") is not None
    assert faults.take("push_lost", "a@example.com") is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_scheduled(sim, kind):
    more = {"code": "aud"} if kind == "push_token" else {}
    made = sim.fault(kind, mailbox="nobody@example.net", **more)
    assert (made["kind"], made["taken"]) == (kind, 0)


@pytest.mark.parametrize(
    "wrong", [{"kind": "x"}, {"kind": "error", "probability": -0.1}, {"kind": "error", "times": -1}]
)
def test_impossible_faults_are_refused(wrong):
    with pytest.raises(InvalidRequest):
        FaultSchedule(1).add(Fault(**wrong))


@pytest.mark.parametrize(
    "wrong, word",
    [
        ({"kind": "error", "endpoint": "message.get"}, "messages.get"),
        ({"kind": "error", "endpoint": "getProfile", "provider": "outlook"}, "subscriptions.create"),
        ({"kind": "error", "provider": "yahoo"}, "outlook"),
        ({"kind": "error", "code": "aud"}, "none"),
        ({"kind": "push_token", "code": "audience"}, "aud"),
        ({"kind": "push_token"}, "aud"),
        ({"kind": "token_error", "code": "AADSTS1"}, "AADSTS50173"),
        ({"kind": "token_error", "code": "AADSTS50173", "provider": "gmail"}, "invalid_grant"),
    ],
)
def test_a_fault_that_can_never_happen_is_refused_with_the_valid_names(sim, wrong, word):
    answer = sim.control.post("faults", json=wrong)
    assert answer.status_code == 400
    assert word in answer.json()["error"]


@pytest.mark.parametrize("endpoint", ["messages.*", "*token", "push", "lifecycle", "oauth.token", "batch"])
def test_endpoints_of_faults_are_names_or_patterns(sim, endpoint):
    assert sim.fault("error", endpoint=endpoint, mailbox="nobody@example.net")["endpoint"] == endpoint


def test_a_signal_ends_mailsim_during_a_stall(start: Callable[..., Simulation]):
    sim = start()
    client = connect(sim, "gmail")
    sim.fault("stall", seconds=600)
    with pytest.raises(httpx2.ReadTimeout):
        client.list(timeout=0.2)
    sim.process.signal(signal.SIGTERM)
    assert sim.process.wait(30) == 0
