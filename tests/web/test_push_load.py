"""A storm of notifications, genuine, forged and mixed: exactly the genuine ones are queued (N3, N5)."""

import asyncio
import random

import httpx2
import pytest

import databases
from web.push_server import insert_subscription, list_due_mailboxes, open_push_server


@pytest.fixture
async def server(service_url):
    async with (
        databases.open_pools(service_url) as database,
        open_push_server(database) as running,
    ):
        yield running


def batch(dice, kind, real, decoys):
    """Ten items: genuine ones name real subscriptions, forged ones are wrong in one of four ways."""
    genuine = {"genuine": 10, "forged": 0, "mixed": dice.randint(1, 9)}[kind]
    items = [each.item(f"real{dice.randrange(10**9)}") for each in dice.choices(real, k=genuine)]
    for _ in range(10 - genuine):
        decoy = dice.choice(decoys)
        wrong = dice.choice(
            [
                {"clientState": "guessed"},
                {"clientState": None},
                {"clientState": dice.choice(real).secret},
                {"subscriptionId": "unknown"},
            ]
        )
        items.append(decoy.item(f"forged{dice.randrange(10**9)}", **wrong))
    dice.shuffle(items)
    return items


async def send_all(server, batches):
    """Every batch, until it is answered with something else than a plea to try again; the statuses."""
    limits = httpx2.Limits(max_connections=32)
    left = iter(enumerate(batches))
    statuses = {}

    async def sender(client):
        for number, (_, items) in left:
            while statuses.setdefault(number, 503) == 503:
                answer = await client.post("/webhooks/outlook", json={"value": items})
                statuses[number] = answer.status_code

    async with httpx2.AsyncClient(base_url=server.url, trust_env=False, limits=limits, timeout=60) as client:
        await asyncio.gather(*(sender(client) for _ in range(32)))
    return [statuses[number] for number in range(len(batches))]


async def weather(server, owner, organization, make_mailbox, count):
    dice = random.Random(4711)
    made = [
        await insert_subscription(owner, organization, await make_mailbox(organization, provider="outlook"))
        for _ in range(80)
    ]
    real, decoys = made[:40], made[40:]
    kinds = ["genuine"] * (count // 2) + ["forged"] * (count // 4) + ["mixed"] * (count // 4)
    dice.shuffle(kinds)
    batches = [(kind, batch(dice, kind, real, decoys)) for kind in kinds]
    statuses = await send_all(server, batches)
    expected = {"genuine": 202, "forged": 401, "mixed": 202}
    assert statuses == [expected[kind] for kind in kinds]
    assert await list_due_mailboxes(owner) == {each.mailbox for each in real}
    cursor = await owner.execute("SELECT mailbox_id, message_ids FROM notifications")
    kept = dict(await cursor.fetchall())
    assert set(kept) == {each.mailbox for each in real}
    sent = {}
    for _, items in batches:
        for item in items:
            sent.setdefault(item["subscriptionId"], set()).add(item["resourceData"]["id"])
    for each in real:
        assert set(kept[each.mailbox]) <= sent[each.provider_id]
        assert len(kept[each.mailbox]) == min(20, len(sent[each.provider_id]))
    assert not any("forged" in message for ids in kept.values() for message in ids)


async def test_small_load_queues_exactly_the_genuine_items(server, owner, organization, make_mailbox):
    await weather(server, owner, organization, make_mailbox, 400)


@pytest.mark.soak
async def test_ten_thousand_batches_queue_exactly_the_genuine_items(
    server, owner, organization, make_mailbox
):
    await weather(server, owner, organization, make_mailbox, 10_000)
