"""Bodies, addresses and headers that are invalid: never a 500, never a row without a valid secret."""

import asyncio
import base64
import contextlib
import json
from io import StringIO

import hypothesis
import pytest
from hypothesis import strategies as st

import databases
import example_counts
from web.push_server import SUBSCRIPTION, TOKEN, insert_subscription, list_due_mailboxes, open_push_server

SECRET = "s3cret-of-the-real-one"
text = st.text(max_size=40)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


def item(provider_id):
    """Something like a notification, each field right, odd or missing; never with the right secret."""
    fields = {
        "subscriptionId": st.just(provider_id) | anything,
        "clientState": st.text(max_size=130) | anything,
        "resource": st.just("Users/u/Messages/m") | anything,
        "resourceData": st.just({"id": "m"}) | anything,
        "changeType": st.sampled_from(["created", "updated"]) | anything,
        "lifecycleEvent": st.sampled_from(["missed", "subscriptionRemoved"]) | anything,
    }
    return st.fixed_dictionaries({}, optional=fields)


def bodies(provider_id):
    batch = st.lists(item(provider_id) | anything, max_size=6)
    return (
        st.binary(max_size=200)
        | anything.map(json.dumps).map(str.encode)
        | st.fixed_dictionaries({"value": batch}, optional={"validationTokens": anything})
        .map(json.dumps)
        .map(str.encode)
    )


def envelopes():
    data = st.binary(max_size=60) | st.fixed_dictionaries(
        {"emailAddress": st.just("one@example.org") | anything, "historyId": anything}
    ).map(json.dumps).map(str.encode)
    message = st.fixed_dictionaries({"data": data.map(base64.b64encode).map(bytes.decode) | anything})
    envelope = st.fixed_dictionaries(
        {"message": message | anything, "subscription": st.just(SUBSCRIPTION) | anything}
    )
    return st.binary(max_size=200) | envelope.map(json.dumps).map(str.encode)


@pytest.fixture
async def server(database_url, owner, organization, make_mailbox):
    await make_mailbox(organization, address="one@example.org")
    async with (
        databases.open_pools(database_url) as database,
        open_push_server(database) as running,
    ):
        yield running


def examples(strategy, count):
    """So many of them; the loop of the test is running, so the search itself cannot be."""
    found = []

    @hypothesis.settings(
        max_examples=example_counts.examples(count),
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(example):
        found.append(example)

    collect()
    return found


def raw(method, path, headers, body):
    head = b"%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n" % (
        method,
        path,
        len(body),
    )
    return head + b"".join(b"%s: %s\r\n" % each for each in headers) + b"\r\n" + body


async def status_of(server, sent):
    reader, writer = await asyncio.open_connection(*server.url.removeprefix("http://").split(":"))
    writer.write(sent)
    answer = await reader.read(4096)
    writer.close()
    return int(answer[9:12])


@pytest.mark.hypothesis
async def test_invalid_graph_push_is_rejected_and_queues_nothing(server, owner, organization, make_mailbox):
    real = await insert_subscription(
        owner, organization, await make_mailbox(organization, provider="outlook")
    )
    odd = [
        b'{"value":' + b"[" * 100_000,
        b'{"value":[' + b",".join([b"{}"] * 20_000) + b"]}",
        b'{"value":[{"clientState":"\\ud800","subscriptionId":"\\udfff\\u0000"}]}',
        json.dumps({"value": [{"subscriptionId": f"{real.provider_id}\u0000", "clientState": "x"}]}).encode(),
    ]
    for number, body in enumerate([*odd, *examples(bodies(real.provider_id), 250)]):
        path = real.path if number % 2 else "/webhooks/outlook"
        status = await status_of(server, raw(b"POST", path.encode(), [], body))
        assert status in {401, 429}, body
    assert await list_due_mailboxes(owner) == await list_due_mailboxes(owner, "subscribe") == set()


@pytest.mark.hypothesis
async def test_invalid_gmail_push_is_rejected_or_acknowledged_and_queues_nothing(server, owner):
    for body in examples(envelopes(), 150):
        sent = raw(b"POST", b"/webhooks/gmail?token=guessed", [(b"Authorization", b"Bearer x.y.z")], body)
        assert await status_of(server, sent) in {403, 429}, body
    assert await list_due_mailboxes(owner) == set()


@pytest.mark.hypothesis
async def test_invalid_authentic_push_is_acknowledged_or_rejected(server, owner):
    path = f"/webhooks/gmail?token={TOKEN}".encode()
    for body in examples(envelopes(), 150):
        assert await status_of(server, raw(b"POST", path, [], body)) in {200, 403, 429}, body


@pytest.mark.hypothesis
async def test_invalid_url_and_headers_cause_no_500(server, owner):
    odd = st.tuples(st.binary(max_size=30), st.binary(max_size=30))
    for query, value in examples(odd, 100):
        quoted = b"".join(b"%%%02X" % byte for byte in query)
        header = value.translate(None, b"\r\n\0")
        for path in (b"/webhooks/gmail?", b"/webhooks/outlook/" + quoted + b"?x=", b"/webhooks/gmail?token="):
            sent = raw(b"POST", path + quoted, [(b"Authorization", b"Bearer " + header)], b"{}")
            assert await status_of(server, sent) < 500
    assert await list_due_mailboxes(owner) == set()


async def test_disconnecting_client_is_no_error(server, owner):
    for part in (b"POST /webhooks/outlook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", b"POST "):
        _, writer = await asyncio.open_connection(*server.url.removeprefix("http://").split(":"))
        writer.write(part)
        await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    assert await status_of(server, raw(b"POST", b"/webhooks/outlook", [], b"{}")) == 401


async def test_push_content_is_never_logged(server, owner, organization, make_mailbox, log: StringIO):
    mark = "m4rk3d"
    real = await insert_subscription(
        owner, organization, await make_mailbox(organization, provider="outlook")
    )
    for secret in (real.secret, f"{mark}-secret"):
        await server.push(f"{real.path}?q={mark}", real.item(f"{mark}-message", clientState=secret))
    await server.push(f"/webhooks/outlook/{mark}", {"subscriptionId": mark, "clientState": mark})
    data = base64.b64encode(json.dumps({"emailAddress": f"{mark}@example.org"}).encode()).decode()
    for token in (TOKEN, mark):
        body = {"message": {"data": data}, "subscription": SUBSCRIPTION}
        headers = {"authorization": f"Bearer {mark}", "user-agent": mark, "x-forwarded-for": "192.0.2.77"}
        await server.client.post(f"/webhooks/gmail?token={token}", json=body, headers=headers)
    async with asyncio.timeout(30):
        while "push.rejected" not in log.getvalue():  # noqa: ASYNC110  # the server logs it later
            await asyncio.sleep(0.05)
    said = log.getvalue()
    assert said.count("request.served") >= 5
    for secret in (mark, real.secret, TOKEN, "127.0.0.1", "192.0.2.77", "[refused]"):
        assert secret not in said
