"""N4: Pub/Sub pushes, by hand and from the simulator, with tokens that are wrong in every way."""

import asyncio
import base64
import json
import time
from contextlib import asynccontextmanager
from functools import partial
from uuid import uuid4

import httpx2
import pytest

import databases
from postroom.errors import PushRejected, PushUnverifiable
from postroom.flow.mail.push import PushReceiver
from postroom.flow.mail.push_rejections import PushRejections
from postroom.model import OrganizationId, ProviderName
from postroom.ports import PushRequest
from postroom.providers import registry
from postroom.providers.gmail.push import FRESH_KEYS_SECONDS
from postroom.providers.transport import open_client
from postroom.web.push import PushEndpoint, SigningKeyRefresher
from postroom.web.throttle import Throttle
from providers.receiver import receiving
from simulator.driver import running
from web.push_server import (
    ACCOUNT,
    AUDIENCE,
    SUBSCRIPTION,
    TOKEN,
    google_project,
    list_due_mailboxes,
    open_push_server,
)

TOPIC = "projects/mailsim/topics/gmail"


@pytest.fixture
async def web(service_url):
    async with databases.open_pools(service_url) as database:
        yield database


@pytest.fixture
async def server(web):
    async with open_push_server(web) as running:
        yield running


def envelope(data, subscription=SUBSCRIPTION, encode=base64.b64encode):
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return {"message": {"data": encode(text).decode(), "messageId": "1"}, "subscription": subscription}


def change(address, history_id="17"):
    return envelope({"emailAddress": address, "historyId": history_id})


async def push(server, body, *, token=TOKEN, again=True):
    """The status, sent again when asked to, as the provider does."""
    for _ in range(30):
        answer = await server.client.post("/webhooks/gmail", params={"token": token}, json=body)
        if answer.status_code != 503 or not again:
            break
    return answer.status_code


async def test_push_queues_every_organization_with_the_address(
    server, owner, make_mailbox, organization, other_organization
):
    both = {
        await make_mailbox(organization, address="one@example.org"),
        await make_mailbox(other_organization, address="one@example.org"),
    }
    await make_mailbox(organization, address="two@example.org")
    await make_mailbox(organization, provider="outlook", address="one@example.org")
    assert await push(server, change("One@Example.org")) == 200
    assert await list_due_mailboxes(owner) == both


@pytest.mark.parametrize("history_id", ["17", 17, None])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
async def test_both_base64_alphabets_and_number_formats_are_parsed(
    server, owner, make_mailbox, organization, history_id, encode
):
    mailbox = await make_mailbox(organization, address="o?~o@example.org")
    data = {"emailAddress": "o?~o@example.org", "historyId": history_id}
    assert await push(server, envelope(data, encode=lambda text: encode(text).rstrip(b"="))) == 200
    assert await list_due_mailboxes(owner) == {mailbox}


async def test_unknown_and_disconnected_addresses_are_acknowledged(server, owner, make_mailbox, organization):
    await make_mailbox(organization, address="one@example.org")
    await owner.execute("UPDATE mailboxes SET disconnected_at = now()")
    assert await push(server, change("one@example.org")) == 200
    assert await push(server, change("nobody@example.org")) == 200
    assert await list_due_mailboxes(owner) == set()


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", {"emailAddress": 5}, {"emailAddress": ""}, {"emailAddress": "a\u0000@x"}, []]
)
async def test_authentic_push_without_content_is_acknowledged(server, owner, data):
    assert await push(server, envelope(data)) == 200
    assert await list_due_mailboxes(owner) == set()


async def test_unauthenticated_push_is_rejected(server, owner, make_mailbox, organization):
    await make_mailbox(organization, address="one@example.org")
    right = change("one@example.org")
    assert await push(server, right, token="guessed") == 403
    assert (await server.client.post("/webhooks/gmail", json=right)).status_code == 403
    other = change("one@example.org") | {"subscription": "projects/mailsim/subscriptions/other"}
    assert await push(server, other) == 403
    assert await push(server, {"nothing": 1}) == 403
    assert await push(server, [right]) == 403
    answer = await server.client.post(f"/webhooks/gmail?token={TOKEN}", content=b"\xff{")
    assert answer.status_code == 403
    assert await list_due_mailboxes(owner) == set()
    assert (await server.client.post("/webhooks/gmail", content=b"x" * 70_000)).status_code == 413


async def test_gmail_endpoint_has_no_graph_handshake(server):
    answer = await server.client.post("/webhooks/gmail?validationToken=x")
    assert (answer.status_code, answer.text) == (403, "")


async def test_unreachable_database_returns_503(server, web):
    await web.engine_pool.close()
    assert await push(server, change("one@example.org"), again=False) == 503


@pytest.fixture(scope="module")
def sim():
    with running() as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
async def signed(web, sim):
    """The webhooks of a subscription that signs, once they have the keys."""
    async with open_push_server(web, settings=google_project(sim.http, signed=True)) as server:
        yield server


@pytest.fixture
async def receiver():
    async with receiving() as receiver:
        yield receiver


@asynccontextmanager
async def pushing(sim, url):
    """The simulator pushes to this address and signs."""
    order = {"name": SUBSCRIPTION, "topic": TOPIC, "push_endpoint": url}
    order |= {"service_account": ACCOUNT, "audience": AUDIENCE, "retry_min_seconds": 1}
    await asyncio.to_thread(sim.post, "google/subscriptions", **order)
    yield
    remove = partial(sim.control.delete, "google/subscriptions", params={"name": SUBSCRIPTION})
    await asyncio.to_thread(remove)


async def publish(sim, address):
    data = json.dumps({"emailAddress": address, "historyId": "1"})
    await asyncio.to_thread(sim.post, "google/publish", topic=TOPIC, data=data)


async def signed_push(sim, receiver, address, wrong=None):
    """A push as the simulator sends it, its token wrong in one way."""
    async with pushing(sim, receiver.url):
        if wrong:
            await asyncio.to_thread(sim.fault, "push_token", code=wrong, times=1)
        await publish(sim, address)
        async with asyncio.timeout(30):
            return await receiver.pushes.get()


async def forward(server, given, **changed):
    headers = {"authorization": given.authorization} if given.authorization else {}
    return await server.client.post(
        "/webhooks/gmail", params={"token": TOKEN}, content=given.body, headers=headers | changed
    )


async def until_keys_are_there(server, given):
    async with asyncio.timeout(60):
        while (await forward(server, given)).status_code == 503:  # noqa: ASYNC110  # another process fetches them
            await asyncio.sleep(0.05)


async def test_signed_push_is_accepted(sim, signed, owner, make_mailbox, organization):
    mailbox = await make_mailbox(organization, address="one@example.org")
    async with pushing(sim, f"{signed.url}/webhooks/gmail?token={TOKEN}"):
        await publish(sim, "one@example.org")
        async with asyncio.timeout(60):
            while mailbox not in await list_due_mailboxes(owner):  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("wrong", ["aud", "email", "expired", "iss", "unverified"])
async def test_token_with_one_wrong_claim_is_rejected(
    sim, signed, receiver, owner, make_mailbox, organization, wrong
):
    await until_keys_are_there(signed, await signed_push(sim, receiver, "nobody@example.org"))
    await make_mailbox(organization, address="one@example.org")
    given = await signed_push(sim, receiver, "one@example.org", wrong)
    assert (await forward(signed, given)).status_code == 403
    assert await list_due_mailboxes(owner) == set()


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic eDp4", "Bearer a.b.c", "Bearer é"])
async def test_push_without_a_token_is_rejected(sim, signed, receiver, header):
    given = await signed_push(sim, receiver, "one@example.org")
    await until_keys_are_there(signed, given)
    changed = {"authorization": header.encode("latin-1")} if header else {}
    bare = PushRequest({}, None, given.body)
    assert (await forward(signed, bare, **changed)).status_code == 403


async def test_token_of_a_key_that_google_does_not_publish_is_rejected(
    sim, signed, receiver, owner, make_mailbox, organization
):
    await until_keys_are_there(signed, await signed_push(sim, receiver, "nobody@example.org"))
    await make_mailbox(organization, address="one@example.org")
    given = await signed_push(sim, receiver, "one@example.org", "signature")
    assert (await forward(signed, given)).status_code == 403
    assert await list_due_mailboxes(owner) == set()


async def test_token_of_an_unknown_key_is_unverifiable_while_the_keys_are_not_fresh(sim, receiver):
    given = await signed_push(sim, receiver, "one@example.org", "signature")
    now = [0.0]
    async with open_client() as client:
        reader = registry.build_gmail(client, google_project(sim.http, signed=True)).push
        reader.clock = lambda: now[0]
        pushed = PushRequest({"token": TOKEN}, given.authorization, given.body)
        with pytest.raises(PushUnverifiable):
            reader.read(pushed)
        await reader.refresh_keys()
        with pytest.raises(PushRejected):
            reader.read(pushed)
        now[0] += FRESH_KEYS_SECONDS  # Google may have a new key by now
        with pytest.raises(PushUnverifiable):
            reader.read(pushed)


@asynccontextmanager
async def without_keys(web):
    """The webhooks of a Postroom that cannot fetch Google's keys."""
    async with open_push_server(web, settings=google_project("http://127.0.0.1:9", signed=True)) as server:
        yield server


async def test_pushes_get_503_while_keys_cannot_be_fetched(web, sim, receiver):
    given = await signed_push(sim, receiver, "one@example.org")
    async with without_keys(web) as server:
        answer = await forward(server, given)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1


def encode_part(value) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


NOW = int(time.time())
CLAIMS = {
    "aud": AUDIENCE,
    "email": ACCOUNT,
    "email_verified": True,
    "exp": NOW + 3600,
    "iat": NOW,
    "iss": "https://accounts.google.com",
}
HEADER = {"alg": "RS256", "kid": "k", "typ": "JWT"}
MALFORMED = {
    "alg none": ({"alg": "none", "typ": "JWT"}, CLAIMS),
    "alg none with a key": (HEADER | {"alg": "none"}, CLAIMS),
    "another algorithm": (HEADER | {"alg": "HS256"}, CLAIMS),
    "no algorithm": ({"kid": "k"}, CLAIMS),
    "no key id": ({"alg": "RS256"}, CLAIMS),
    "empty key id": (HEADER | {"kid": ""}, CLAIMS),
    "key id of another type": (HEADER | {"kid": ["k"]}, CLAIMS),
    "header is a list": ([HEADER], CLAIMS),
    "header is not JSON": (b"x", CLAIMS),
    "header is nested": (b"[" * 9000 + b"]" * 9000, CLAIMS),
    "claims are a list": (HEADER, [CLAIMS]),
    "claims are not JSON": (HEADER, b"{"),
    "claims are nested": (HEADER, b"[" * 9000 + b"]" * 9000),
    "no claims": (HEADER, {}),
    "endless": (HEADER, json.dumps(CLAIMS).replace(str(NOW + 3600), "1e999").encode()),
    "expiry of another type": (HEADER, CLAIMS | {"exp": {}}),
    "expired": (HEADER, CLAIMS | {"exp": NOW - 3600}),
    "another audience": (HEADER, CLAIMS | {"aud": [{}]}),
    "another issuer": (HEADER, CLAIMS | {"iss": ["https://accounts.google.com"]}),
    "another account": (HEADER, CLAIMS | {"email": "x@example.org"}),
}


@pytest.mark.parametrize("wrong", MALFORMED)
async def test_a_malformed_token_is_rejected_even_while_keys_cannot_be_fetched(web, wrong):
    token = ".".join([*map(encode_part, MALFORMED[wrong]), encode_part(b"signature")])
    async with without_keys(web) as server:
        bare = PushRequest({}, f"Bearer {token}", json.dumps(change("one@example.org")).encode())
        assert (await forward(server, bare)).status_code == 403


async def test_a_token_whose_signature_cannot_be_checked_yet_gets_503(web):
    """The counterpart of the malformed ones: only the keys are missing."""
    token = ".".join([encode_part(HEADER), encode_part(CLAIMS), encode_part(b"signature")])
    async with without_keys(web) as server:
        bare = PushRequest({}, f"Bearer {token}", json.dumps(change("one@example.org")).encode())
        assert (await forward(server, bare)).status_code == 503


async def test_expired_token_is_rejected(sim, signed, receiver):
    """It is checked once and remembered; a token that differs in one character is another."""
    given = await signed_push(sim, receiver, "one@example.org")
    await until_keys_are_there(signed, given)
    assert (await forward(signed, given)).status_code == 200
    head, _, signature = given.authorization.rpartition(".")
    flipped = "A" if signature[0] != "A" else "B"
    forged = f"{head}.{flipped}{signature[1:]}"
    assert (await forward(signed, given, authorization=forged)).status_code == 403


async def test_source_of_tokens_with_unknown_keys_is_blocked(web):
    now = int(time.time())
    claims = {"iss": "https://accounts.google.com", "aud": AUDIENCE, "iat": now, "exp": now + 600}
    claims |= {"email": ACCOUNT, "email_verified": True}
    forged = f"{encode_part(HEADER | {'kid': 'made-up'})}.{encode_part(claims)}.{encode_part(b'signature')}"
    async with open_client() as client:
        reader = registry.build_gmail(client, google_project(signed=True)).push
        receiver = PushReceiver(web, PushRejections(web, OrganizationId(uuid4())))
        throttle = Throttle(clock=lambda: 0.0, credit=3)
        endpoint = PushEndpoint(ProviderName.GMAIL, reader, receiver, throttle, SigningKeyRefresher(reader))
        transport = httpx2.ASGITransport(endpoint)
        async with httpx2.AsyncClient(transport=transport, base_url="http://post.example") as sender:
            answers = [
                await sender.post(
                    "/webhooks/gmail",
                    params={"token": TOKEN},
                    json=change("one@example.org"),
                    headers={"authorization": f"Bearer {forged}"},
                )
                for _ in range(4)
            ]
    assert [answer.status_code for answer in answers] == [503, 503, 503, 429]
