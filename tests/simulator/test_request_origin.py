"""Web pages of other sites cannot reach the simulator through a developer's browser; programs can."""

import httpx2
import pytest

from simulator.driver import running

BODY = b'{"seconds": 60}'


@pytest.fixture(scope="module")
def open_sim():
    with running("--clock", "manual", "--allow-host", "Mail.Example", checked=False) as sim:
        yield sim


def post_clock(sim, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.post(f"{sim.http}/_sim/clock", content=BODY, headers=named, trust_env=False).status_code


def test_unknown_host_name_is_refused(open_sim):
    port = open_sim.http.rpartition(":")[2]
    for host in (
        "rebound.attacker.example",
        f"rebound.attacker.example:{port}",
        "127.0.0.1.attacker.example",
    ):
        assert post_clock(open_sim, host=host) == 421
        page = httpx2.get(open_sim.http, headers={"host": host}, trust_env=False)
        assert page.status_code == 421
    known = ("localhost", "a.localhost:1", "192.0.2.7", "[::1]:80", "mail.example:1", "graph.microsoft.com")
    for host in known:
        assert post_clock(open_sim, host=host) == 200, host


def test_text_posted_by_a_page_of_another_origin_is_refused(open_sim):
    before = httpx2.get(f"{open_sim.http}/_sim/clock", trust_env=False).json()
    for sent in (
        {"origin": "https://attacker.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost:1", "sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site"},
    ):
        assert post_clock(open_sim, content_type="text/plain", **sent) == 403, sent
    assert httpx2.get(f"{open_sim.http}/_sim/clock", trust_env=False).json() == before
    assert post_clock(open_sim, content_type="text/plain") == 200, "a program"
    assert post_clock(open_sim, origin=open_sim.http) == 200, "our own page"
