"""Exchange's limits: four concurrent and 10,000 requests in ten minutes per application and mailbox."""

import asyncio

import httpx2
import pytest

from mailsim.graph.errors import GraphError
from mailsim.graph.throttle import GraphThrottle, RequestWindow


async def at_once(user, count, path="messages?$top=1"):
    """Return the responses to this many concurrent requests."""
    headers = {"authorization": user.http.headers["authorization"]}
    limits = httpx2.Limits(max_connections=50)
    async with httpx2.AsyncClient(
        base_url=user.simulation.http, headers=headers, trust_env=False, limits=limits, timeout=60
    ) as http:
        return await asyncio.gather(*(http.get(f"/v1.0/me/{path}") for _ in range(count)))


async def test_the_fifth_concurrent_request_is_refused_sometimes_without_retry_after(
    start, microsoft, address
):
    sim = start("--latency-ms", "300")
    user = microsoft.connect(sim, address, messages=1)
    answers = await at_once(user, 12)
    refused = [one for one in answers if one.status_code == 429]
    assert len(refused) >= 1
    assert len(answers) - len(refused) >= 4
    error = refused[0].json()["error"]
    assert error == {
        "code": "ApplicationThrottled",
        "message": "Application is over its MailboxConcurrency limit.",
    }
    waits = [one.headers.get("retry-after") for one in refused]
    assert waits.count(None) == len(waits) // 4
    assert set(waits) <= {None, "10"}
    assert sim.meter(address)["rejections"] == len(refused)
    assert [one.status_code for one in await at_once(user, 4)] == [200] * 4
    other = sim.post("applications", provider="outlook")["client_id"]
    second = microsoft.sign_in(sim, address, client_id=other)
    both = await asyncio.gather(at_once(user, 4), at_once(second, 4))
    assert {one.status_code for some in both for one in some} == {200}


async def test_without_quotas_no_request_is_refused(start, microsoft, address):
    sim = start("--latency-ms", "100", "--quota", "off")
    user = microsoft.connect(sim, address, messages=1)
    assert {one.status_code for one in await at_once(user, 12)} == {200}


def test_ten_thousand_requests_are_allowed_in_ten_minutes():
    throttle = GraphThrottle()
    for number in range(10_000):
        throttle.check_mailbox("one", 1, number / 100, "always")
    with pytest.raises(GraphError) as refused:
        throttle.check_mailbox("one", 1, 100.0, "always")
    assert (refused.value.status, refused.value.code) == (429, "TooManyRequests")
    assert 490 <= int(refused.value.headers["retry-after"]) <= 510
    throttle.check_mailbox("another", 1, 100.0, "always")
    throttle.check_mailbox("one", 1, 711.0, "always")


def test_refused_requests_count_too():
    window = RequestWindow(600)
    assert [window.add(moment) for moment in (0, 0, 300, 601)] == [1, 2, 3, 2]


def test_subscriptions_can_be_listed_25_times_in_20_seconds(sim, microsoft, address):
    user = microsoft.connect(sim, address)
    for _ in range(25):
        assert user.get("/subscriptions")["value"] == []
    assert user.expect_error(429, "/subscriptions")["code"] == "TooManyRequests"
    sim.move_clock(21)
    assert user.get("/subscriptions")["value"] == []


def test_faults_use_graphs_error_format(sim, microsoft, address):
    user = microsoft.connect(sim, address)
    for kind, more, status, code in [
        ("throttle", {"retry_after": 3}, 429, "TooManyRequests"),
        ("error", {}, 503, "serviceNotAvailable"),
        ("error", {"status": 504}, 504, "UnknownError"),
    ]:
        sim.fault(kind, mailbox=address, times=1, **more)
        answer = user.request("GET", "messages")
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert answer.headers.get("retry-after") == ("3" if more.get("retry_after") else None)
    sim.fault("html", mailbox=address, times=1)
    assert user.request("GET", "messages").headers["content-type"].startswith("text/html")
