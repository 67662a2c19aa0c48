"""W5: deliveries are signed, in order per entity, at least once, retried, replayed; webhooks get disabled."""

import json
import random
import re
from collections import defaultdict
from datetime import datetime
from ipaddress import ip_network
from pathlib import Path

import pytest
from standardwebhooks import Webhook as Referee
from standardwebhooks import WebhookVerificationError
from starlette.applications import Starlette
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ledger_sealing import run_seal
from postroom.errors import PermanentError, TransientError
from postroom.flow.outbound import deliver, webhooks
from postroom.flow.outbound.deliver import DeliverContext
from postroom.model import WebhookFormat, WorkKind
from postroom.providers.webhook_sender import WebhookSender
from postroom.store import feed, ledger, work
from postroom.store import webhooks as stored
from postroom.store.feed import NewEvent
from web.push_server import serve
from web.sign_in_support import SEALER

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


class Receiver:
    """An application that receives deliveries. `verdict` decides the status of each delivery."""

    def __init__(self):
        self.requests, self.verdict, self.before = [], lambda _event: 204, None
        self.app = Starlette(
            routes=[
                Route("/hook", self.take, methods=["POST"]),
                Route("/elsewhere", lambda _: RedirectResponse("/hook", 307), methods=["POST"]),
            ]
        )

    async def take(self, request):
        body = await request.body()
        recorded = json.loads(body)
        if self.before:
            await self.before(recorded)
        status = self.verdict(recorded)
        self.requests.append((dict(request.headers), body, status))
        return Response(status_code=status)

    @property
    def accepted(self):
        """The accepted deliveries: entity and number."""
        return [
            (recorded["data"]["entity_id"], recorded["data"]["number"])
            for recorded in (json.loads(body) for _, body, status in self.requests if status == 204)
        ]


@pytest.fixture
async def receiver():
    made = Receiver()
    async with serve(made.app) as url:
        made.url = f"{url}/hook"
        yield made


@pytest.fixture
def delivering(database):
    return DeliverContext(database, SEALER, WebhookSender(LOOPBACK).post)


@pytest.fixture
def publish(database, organization):
    numbers = defaultdict(int)

    async def publish(*names, kind="document"):
        new_events = []
        for name in names:
            numbers[name] += 1
            new_events.append(NewEvent(f"{kind}.changed", kind, name, {"number": numbers[name]}))
        async with database.transaction(organization) as connection:
            await feed.append_events(connection, new_events)

    return publish


@pytest.fixture
def add(database, organization, receiver):
    async def add(*kinds, url=None, style=WebhookFormat.STANDARD):
        target = url or receiver.url
        return await webhooks.add(
            database, SEALER, organization, target, kinds, style=style, allows_http=True
        )

    return add


@pytest.fixture
def step(database, organization, delivering, tmp_path):
    """Number the feed, and make the deliveries that are due, as a worker does; how often that failed."""

    async def step():
        await perform(database, "seal", lambda lease: run_seal(database, tmp_path, lease), organization)
        return await perform(database, "deliver", lambda lease: deliver.run(delivering, lease))

    return step


async def perform(database, kind, run, organization=None):
    failed = 0
    async with database.engine() as connection:
        if organization:
            await work.enqueue(connection, [work.WorkRequest(organization, kind, str(organization))])
        leases = (await work.claim(connection, [kind], batch=9, lease_seconds=60)).leases
    for lease in leases:
        try:
            done = await run(lease)
        except TransientError as error:
            failed += 1
            async with database.engine() as connection:
                await work.retry(connection, lease, delay=60, error=str(error))
        else:
            if done is not None:
                async with database.engine() as connection:
                    await work.finish(connection, [work.FinishedWork(lease, done.again_after)])
    return failed


async def shown(database, organization, webhook):
    async with database.transaction(organization) as connection:
        return await stored.get(connection, webhook.id)


async def test_a_delivery_is_signed_as_the_standard_has_it(add, publish, step, receiver):
    _, secret = await add()
    await publish("d1")
    assert await step() == 0
    [(headers, body, _)] = receiver.requests
    recorded = Referee(secret.reveal()).verify(body, headers)
    assert recorded["type"] == "document.changed"
    assert recorded["data"] == {"entity_type": "document", "entity_id": "d1", "position": 1, "number": 1}
    with pytest.raises(WebhookVerificationError):
        Referee(secret.reveal()).verify(body.replace(b"d1", b"d2"), headers)
    with pytest.raises(WebhookVerificationError):
        Referee("whsec_" + "A" * 43 + "=").verify(body, headers)


async def test_a_webhook_can_receive_cloudevents(add, publish, step, receiver, delivering, organization):
    """Required and optional attributes by CloudEvents 1.0.2, structured mode of its HTTP binding."""
    webhook, secret = await add(style=WebhookFormat.CLOUDEVENTS)
    await publish("d1")
    assert await step() == 0
    assert await webhooks.send_test(delivering, organization, webhook) is None
    (headers, body, _), (test_headers, test_body, _) = receiver.requests
    recorded = Referee(secret.reveal()).verify(body, headers)
    assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    moment = recorded.pop("time")
    assert datetime.fromisoformat(moment).tzinfo is not None
    assert recorded == {
        "specversion": "1.0",
        "id": headers["webhook-id"].removeprefix("msg_"),
        "source": f"urn:postroom:{organization}",
        "type": "postroom.document.changed",
        "subject": "document/d1",
        "datacontenttype": "application/json",
        "data": {"entity_type": "document", "entity_id": "d1", "position": 1, "number": 1},
    }
    tested = Referee(secret.reveal()).verify(test_body, test_headers)
    assert (tested["type"], tested["data"], "subject" in tested) == ("postroom.webhook.test", {}, False)


async def test_only_new_events_that_pass_the_filter_are_delivered(add, publish, step, receiver):
    await publish("before")
    await add("document.*")
    await publish("m1", kind="mailbox")
    await publish("d1")
    await step()
    assert receiver.accepted == [("d1", 1)]
    assert deliver.matches_filter([], "mailbox.paused")
    assert deliver.matches_filter(["mailbox.paused"], "mailbox.paused")
    assert not deliver.matches_filter(["mailbox.*"], "mailboxes.paused")
    assert not deliver.matches_filter([], "webhook.disabled")


async def test_events_arrive_in_order_per_entity_though_the_receiver_fails_at_random(
    add, publish, step, receiver, move_clock
):
    await add()
    chance = random.Random(7)
    receiver.verdict = lambda _event: 503 if chance.random() < 0.4 else 204
    for _ in range(12):
        await publish(*(f"e{number}" for number in range(10)))
    for _ in range(60):
        await step()
        await move_clock(3600)
        if len(receiver.accepted) >= 120:
            break
    assert sorted(receiver.accepted) == sorted((f"e{e}", n) for e in range(10) for n in range(1, 13))
    for entity in range(10):
        numbers = [number for name, number in receiver.accepted if name == f"e{entity}"]
        assert numbers == sorted(numbers)


async def test_a_waiting_entity_does_not_delay_the_others(
    add, publish, step, receiver, database, organization, move_clock
):
    webhook, _ = await add()
    receiver.verdict = lambda event: 400 if event["data"]["entity_id"] == "bad" else 204
    await publish("bad", "good")
    await publish("bad", "good")
    assert await step() == 0
    assert receiver.accepted == [("good", 1), ("good", 2)]
    await publish("good", "bad")
    await step()
    assert receiver.accepted[2:] == [("good", 3)]
    found = await shown(database, organization, webhook)
    assert (found.waiting, found.given_up, found.failing_since) == (3, 0, None)
    receiver.verdict = lambda _event: 204
    await move_clock(30)
    await step()
    assert receiver.accepted[3:] == [("bad", 1), ("bad", 2), ("bad", 3)]
    assert (await shown(database, organization, webhook)).waiting == 0


async def test_a_crash_after_sending_repeats_the_delivery_with_the_same_id(
    add, publish, step, receiver, database, delivering, organization, move_clock, tmp_path
):
    await add()
    await publish("d1")

    async def dies(lease):
        look = await deliver._load_batch(delivering, lease)
        await deliver._send_all(delivering, look)
        raise TransientError("killed")

    await perform(database, "seal", lambda lease: run_seal(database, tmp_path, lease), organization)
    assert await perform(database, "deliver", dies) == 1
    await move_clock(61)
    await step()
    assert receiver.accepted == [("d1", 1), ("d1", 1)]
    first, second = (headers["webhook-id"] for headers, _, _ in receiver.requests)
    assert first == second


async def test_a_receiver_that_is_down_is_probed_and_then_gets_everything(
    add, publish, step, receiver, move_clock, database, organization
):
    webhook, _ = await add()
    receiver.verdict = lambda _event: 500
    await publish(*(f"e{number}" for number in range(20)))
    assert await step() == 1
    await publish(*(f"f{number}" for number in range(20)))
    before = len(receiver.requests)
    await move_clock(61)
    assert await step() == 1
    assert len(receiver.requests) - before == deliver.PROBES
    found = await shown(database, organization, webhook)
    assert (found.position, found.waiting) == (20, 20 + deliver.PROBES)
    assert found.last_error == "the receiver returned status 500"
    receiver.verdict = lambda _event: 204
    await move_clock(61)
    assert await step() == 0
    assert sorted(receiver.accepted) == sorted(
        (f"{name}{number}", 1) for name in "ef" for number in range(20)
    )
    assert (await shown(database, organization, webhook)).failing_since is None


async def test_things_that_are_refused_hold_up_no_others_however_many_they_are(
    add, publish, step, receiver, move_clock, database, organization
):
    webhook, _ = await add()
    receiver.verdict = lambda event: 400 if event["data"]["entity_id"].startswith("bad") else 204
    await publish(*(f"bad{number}" for number in range(5)))
    assert await step() == 1
    for number in range(3):
        await move_clock(3600)
        await step()  # only those that are refused
        await publish(f"good{number}")
        assert await step() == 0
    assert receiver.accepted == [("good0", 1), ("good1", 1), ("good2", 1)]
    found = await shown(database, organization, webhook)
    assert (found.waiting, found.failing_since, found.disabled_at) == (5, None, None)


async def test_a_new_entity_is_sent_at_once_though_all_others_are_refused(add, publish, step, receiver):
    await add()
    receiver.verdict = lambda event: 400 if event["data"]["entity_id"] == "bad" else 204
    await publish("bad")
    assert await step() == 0
    await publish("good")
    await step()
    assert receiver.accepted == [("good", 1)]


async def test_what_waits_behind_another_makes_no_work_before_that_is_due(
    add, publish, step, receiver, move_clock, database, delivering
):
    await add()
    receiver.verdict = lambda event: 400 if event["data"]["entity_id"] == "bad" else 204
    await publish("bad", "good")
    await publish("bad", "good")
    await step()
    await move_clock(30)
    await publish("good")
    await step()  # the first about `bad` is refused again, and waits for longer than the one behind it
    async with database.engine() as connection:
        claimed = await work.claim(connection, [WorkKind.DELIVER], batch=9, lease_seconds=60)
    assert claimed.leases == []
    assert claimed.next_in > 0


async def test_three_days_of_failure_disable_it_with_a_notice_and_a_replay_brings_it_back(
    add, publish, step, receiver, move_clock, database, organization
):
    webhook, _ = await add()
    receiver.verdict = lambda _event: 500
    await publish("d1")
    assert await step() == 0
    await move_clock(3 * 86400 + 60)
    assert await step() == 0
    found = await shown(database, organization, webhook)
    assert "three days: the receiver returned status 500" in found.disabled_because
    async with database.transaction(organization) as connection:
        recorded = [each.event_type for each in await ledger.list_newest(connection, limit=20)]
        events = [each.kind for each in await feed.list_after(connection, 0, 10)]
    assert "WEBHOOK_DISABLED" in recorded
    receiver.verdict = lambda _event: 204
    await publish("d2")
    await step()
    assert receiver.accepted == []
    assert events == ["document.changed"]
    with pytest.raises(PermanentError, match=r"Position 99 is not in the feed\. Choose one from 0 to"):
        await webhooks.replay(database, organization, found, after=99)
    await webhooks.replay(database, organization, found, after=0)
    await step()
    assert sorted(receiver.accepted) == [("d1", 1), ("d2", 1)]


@pytest.mark.parametrize("after", [0, 1])
async def test_a_replay_requested_during_deliveries_is_not_lost(
    add, publish, step, receiver, database, organization, after
):
    webhook, _ = await add()
    await publish("d1")
    await step()
    await publish("d1")
    ordered = []

    async def order(recorded):
        if not ordered:
            ordered.append(recorded)
            found = await shown(database, organization, webhook)
            await webhooks.replay(database, organization, found, after=after)

    receiver.before = order
    for _ in range(2):
        await step()
    replayed = [("d1", number) for number in (1, 2) if number > after]
    assert receiver.accepted == [("d1", 1), ("d1", 2), *replayed]


async def test_what_is_given_up_waits_for_a_person(
    add, publish, step, receiver, move_clock, database, organization
):
    webhook, _ = await add()
    receiver.verdict = lambda event: 400 if event["data"]["entity_id"] == "bad" else 204
    await publish("bad", "good")
    await step()
    await move_clock(3 * 86400 + 60)
    await publish("good")
    await step()
    found = await shown(database, organization, webhook)
    assert (found.waiting, found.given_up) == (0, 1)
    await publish("bad")
    receiver.verdict = lambda _event: 204
    await step()
    assert receiver.accepted[-1] == ("bad", 2)
    await webhooks.change(database, organization, found, url=found.url, kinds=[], enabled=False)
    await webhooks.change(
        database,
        organization,
        await shown(database, organization, webhook),
        url=found.url,
        kinds=[],
        enabled=True,
    )
    await step()
    assert receiver.accepted[-1] == ("bad", 1)


async def test_a_removed_webhook_receives_nothing(add, publish, step, receiver, database, organization):
    webhook, _ = await add()
    await publish("d1")
    assert await webhooks.remove(database, organization, webhook.id)
    assert not await webhooks.remove(database, organization, webhook.id)
    await step()
    assert receiver.requests == []


async def test_a_redirect_is_not_followed(delivering, receiver, add, database, organization):
    webhook, _ = await add(url=receiver.url.replace("/hook", "/elsewhere"))
    assert await webhooks.send_test(delivering, organization, webhook) == "the receiver returned status 307"
    assert receiver.requests == []
    good, secret = await add()
    assert await webhooks.send_test(delivering, organization, good) is None
    headers, body, _ = receiver.requests[0]
    assert Referee(secret.reveal()).verify(body, headers)["type"] == "webhook.test"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "https://",
        "https://u:p@x.example/",
        "https://x.example/#a",
        "ftp://x.example/",
        "https://x .example",
    ],
)
async def test_an_address_that_is_none_is_refused(add, url):
    with pytest.raises(PermanentError, match="such as https"):
        await add(url=url or " ")


async def test_a_filter_that_nothing_passes_and_plain_http_are_refused(add, database, organization):
    with pytest.raises(PermanentError, match=r"No event has the kind nope\.\*\. Kinds: document.changed, "):
        await add("document.*", "nope.*")
    with pytest.raises(PermanentError, match=r"No event has the kind webhook\.disabled"):
        await add("webhook.disabled")
    with pytest.raises(PermanentError, match="use an https URL, or"):
        await webhooks.add(database, SEALER, organization, "http://app.example.org/", [])


def test_the_event_kinds_are_those_that_the_flow_appends():
    recorded = set()
    for path in Path(deliver.__file__).parents[1].rglob("*.py"):
        text = path.read_text()
        recorded |= set(
            re.findall(r"""(?:NewEvent\(|feed\.append_event\(\s*connection,)\s*"([a-z_.]+)\"""", text)
        )
        if path.name == "lifecycle.py":
            recorded |= {
                each.lower().replace("_", ".", 1) for each in re.findall(r'"(MAILBOX_[A-Z_]+)"', text)
            }
    assert {"document.changed", "document.created", "mailbox.paused"} <= recorded
    assert recorded - {"webhook.disabled"} <= set(feed.EVENT_KINDS)
