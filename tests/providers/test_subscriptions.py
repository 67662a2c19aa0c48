"""S1, S2, N2, N6: subscriptions and pushes of both providers."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from postroom.errors import AlreadyExists, NotFound, PostroomError
from postroom.model import ProviderName, Secret
from postroom.ports import SubscriptionRequest
from providers.conftest import TOKEN, TOPIC
from providers.receiver import receiving

SECRET = Secret("only-we-know-this")


@pytest.fixture
async def receiver(sim):
    async with receiving() as receiver:
        sim.post(
            "google/subscriptions",
            name="projects/mailsim/subscriptions/push",
            topic=TOPIC,
            push_endpoint=f"{receiver.url}?token={TOKEN}",
        )
        yield receiver
        sim.control.delete("google/subscriptions", params={"name": "projects/mailsim/subscriptions/push"})


def wanted(contract, receiver, **changed):
    now = datetime.fromisoformat(contract.sim.get("clock")["now"])
    given = {
        "notification_url": receiver.url,
        "lifecycle_url": receiver.url,
        "secret": SECRET,
        "folder": None,
        "expires_at": now + timedelta(days=6),
    }
    return SubscriptionRequest(**given | changed)


async def next_notices(contract, receiver, match):
    """The notices of the first push that has one like this."""
    async with asyncio.timeout(30):
        while True:
            push = await receiver.pushes.get()
            if found := [notice for notice in contract.provider.push.read(push) if match(notice)]:
                return found


async def test_a_change_is_pushed_and_names_its_mailbox(contract, receiver):
    _, _, mailbox = await contract.connect()
    subscription = await mailbox.subscribe(wanted(contract, receiver))
    assert subscription.expires_at.astimezone(UTC) > datetime.fromisoformat(contract.sim.get("clock")["now"])
    contract.sim.deliver(contract.address, kind="plain")
    await asyncio.to_thread(contract.sim.move_clock, 2)

    def ours(notice):
        by_address = notice.address == contract.address
        return by_address or notice.provider_subscription_id == subscription.provider_subscription_id

    notices = await next_notices(contract, receiver, ours)
    for notice in notices:
        if contract.provider.name is ProviderName.OUTLOOK:
            assert notice.client_state == SECRET
            assert notice.message_id


async def test_a_subscription_can_be_renewed_and_removed_twice(contract, receiver):
    _, _, mailbox = await contract.connect()
    subscription = await mailbox.subscribe(wanted(contract, receiver))
    await asyncio.to_thread(contract.sim.move_clock, 3600)
    renewed = await mailbox.renew(subscription, expires_at=wanted(contract, receiver).expires_at)
    assert renewed.expires_at > subscription.expires_at
    await mailbox.unsubscribe(renewed)
    await mailbox.unsubscribe(renewed)


async def test_a_subscription_that_the_provider_lost_can_be_recreated(contract, receiver):
    """If subscriptions have ids, renewing a lost one raises NotFound; otherwise renewing creates it."""
    _, _, mailbox = await contract.connect()
    subscription = await mailbox.subscribe(wanted(contract, receiver))
    await mailbox.unsubscribe(subscription)
    try:
        again = await mailbox.renew(subscription, expires_at=wanted(contract, receiver).expires_at)
    except NotFound:
        again = await mailbox.subscribe(wanted(contract, receiver))
    assert again.expires_at


async def test_an_existing_subscription_is_reported_with_its_id(contract, receiver):
    _, _, mailbox = await contract.connect()
    subscription = await mailbox.subscribe(wanted(contract, receiver))
    if contract.provider.name is ProviderName.GMAIL:
        assert (await mailbox.subscribe(wanted(contract, receiver))).resource == subscription.resource
        assert await mailbox.list_subscriptions() == ()
        return
    with pytest.raises(AlreadyExists) as caught:
        await mailbox.subscribe(wanted(contract, receiver))
    assert caught.value.provider_id == subscription.provider_subscription_id
    assert subscription.provider_subscription_id in [
        each.provider_subscription_id for each in await mailbox.list_subscriptions()
    ]


async def test_an_unreachable_notification_url_is_our_error(contract, receiver):
    if contract.provider.name is ProviderName.GMAIL:
        contract.sim.post("google/topics", name=TOPIC, publisher=False)
    receiver.validates = False
    _, _, mailbox = await contract.connect()
    try:
        with pytest.raises(PostroomError):
            await mailbox.subscribe(wanted(contract, receiver))
    finally:
        contract.sim.post("google/topics", name=TOPIC)
