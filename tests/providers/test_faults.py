"""Y8: faults between Postroom and a provider cost requests, but never a message."""

import asyncio

import pytest

from postroom.errors import InvalidGrant, TokenRejected, TransientError
from postroom.model import FetchedMessage, FetchFailure, MessageChange, Presence
from postroom.providers.transport import open_client
from providers.conftest import Contract, gmail, graph
from providers.reader import attached, changed, digests, fetched, is_gmail, listed, truth, wanted


async def read_all(contract, mailbox) -> None:
    """Everything, compared with what is really there."""
    found, live = await listed(mailbox)
    real = truth(contract)
    assert set(found) == set(real)
    for each in await fetched(mailbox, list(found.values())):
        assert isinstance(each, FetchedMessage), each
        assert await digests(mailbox, each) == attached(real[each.key])
    assert await changed(mailbox, live) == []


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "throttle", "retry_after": 2},
        {"kind": "throttle", "retry_after": 0},
        {"kind": "error", "status": 503},
        {"kind": "error", "status": 500},
        {"kind": "html"},
        {"kind": "cut"},
        {"kind": "truncated"},
    ],
    ids=lambda fault: f"{fault['kind']}-{fault.get('retry_after', fault.get('status', ''))}",
)
async def test_all_messages_arrive_despite_sporadic_failures(contract, fault):
    contract.sim.deliver(contract.address, kind="invoice", count=3)
    contract.sim.deliver(contract.address, kind="plain", count=60)
    _, _, mailbox = await contract.connect()
    contract.sim.fault(mailbox=contract.address, probability=0.08, **fault)
    if not is_gmail(contract):  # a batch is not a request for a mailbox there
        contract.sim.fault(endpoint="batch", provider="outlook", probability=0.3, **fault)
    await read_all(contract, mailbox)


@pytest.mark.parametrize(
    "order", [{"kind": "forward", "variant": "attached"}, {"kind": "big", "size": 14 << 20}]
)
async def test_a_truncated_attachment_is_not_accepted(contract, order):
    if is_gmail(contract):
        pytest.skip("attachments come with the message, as JSON that ends where it should")
    key = contract.sim.deliver(contract.address, **order)["id"]
    _, _, mailbox = await contract.connect()
    [message] = await fetched(mailbox, wanted(key))
    assert None in [each.content for each in message.content.attachments]
    contract.sim.fault("truncated", mailbox=contract.address, endpoint="attachments.value", times=1)
    with pytest.raises(TransientError):
        await digests(mailbox, message)
    assert await digests(mailbox, message) == attached(truth(contract)[key])


async def test_a_stalled_response_is_requested_again(sim):
    async with open_client(read_seconds=2) as client:
        for make in (gmail, graph):
            provider = make(sim, client)
            address = f"stalled-{provider.name}@example.com"
            sim.create(provider.name, address, messages=6)
            contract = Contract(provider, address, sim)
            _, _, mailbox = await contract.connect()
            sim.fault("stall", mailbox=address, seconds=6, times=1, skip=1)
            await read_all(contract, mailbox)


async def test_an_unavailable_provider_is_a_transient_error(contract):
    contract.sim.deliver(contract.address, kind="plain", count=5)
    _, _, mailbox = await contract.connect()
    found, live = await listed(mailbox)
    contract.sim.fault("error", mailbox=contract.address, status=503)
    contract.sim.fault("error", endpoint="batch", status=503)
    scope, cursor = next(iter(live.items()))
    for asked in (
        mailbox.list_folders(),
        mailbox.list_messages(scope, cursor=None, since=None),
        mailbox.list_changes(scope, cursor),
        mailbox.look_up(list(found)),
    ):
        with pytest.raises(TransientError):
            await asked


async def test_a_long_requested_wait_is_left_to_the_work_row(contract):
    _, _, mailbox = await contract.connect()
    found, live = await listed(mailbox)
    contract.sim.fault("throttle", mailbox=contract.address, retry_after=300)
    scope, cursor = next(iter(live.items()))
    with pytest.raises(TransientError) as caught:
        await mailbox.list_changes(scope, cursor)
    assert caught.value.retry_after == pytest.approx(300, abs=1)
    contract.sim.delete("faults")
    requests = contract.sim.meter(contract.address)["requests"]
    with pytest.raises(TransientError) as caught:
        await fetched(mailbox, list(found.values()))
    assert caught.value.retry_after > 250
    assert contract.sim.meter(contract.address)["requests"] == requests  # no request is sent earlier


@pytest.mark.parametrize("number", [2, 7], ids=["few", "many"])
async def test_messages_that_always_fail_do_not_affect_others(contract, number):
    keys = [contract.sim.deliver(contract.address, kind="plain")["id"] for _ in range(number)]
    _, _, mailbox = await contract.connect()
    found, live = await listed(mailbox)
    contract.sim.fault("error", mailbox=contract.address, endpoint="messages.get", status=500)
    contract.sim.fault("error", mailbox=contract.address, endpoint="messages.list", status=500)
    answers = await fetched(mailbox, [found[key] for key in keys])
    assert all(isinstance(each, FetchFailure) and not each.gone and each.reason for each in answers)
    assert await changed(mailbox, live) == []


@pytest.mark.parametrize("number", [2, 7], ids=["few", "many"])
async def test_a_message_that_cannot_be_looked_up_fails_alone(contract, number):
    broken, *others = [contract.sim.deliver(contract.address, kind="plain")["id"] for _ in range(number)]
    _, _, mailbox = await contract.connect()
    contract.sim.fault("error", mailbox=contract.address, path=f"*{broken.rstrip('=')}*", status=500)
    seen = {each.key: each for each in await mailbox.look_up([broken, *others])}
    failed = seen.pop(broken)
    assert isinstance(failed, FetchFailure)
    assert (failed.gone, bool(failed.reason)) == (False, True)
    assert {key: each.presence for key, each in seen.items()} == dict.fromkeys(others, Presence.PRESENT)


async def test_a_message_with_a_failing_attachment_page_fails_alone(contract):
    if is_gmail(contract):
        pytest.skip("attachments come with the message")
    contract.sim.control.patch("microsoft/options", json={"attachments_page": 1})
    try:
        broken = contract.sim.deliver(contract.address, kind="attachment", variant="several")["id"]
        contract.sim.deliver(contract.address, kind="plain", count=5)
        _, _, mailbox = await contract.connect()
        found, _ = await listed(mailbox)
        await read_all(contract, mailbox)
        contract.sim.fault(
            "error", mailbox=contract.address, endpoint="attachments.list", status=404, skip=1, times=1
        )
        # No other message has attachments, so the second list is the second page of this one.
        without = [change for key, change in found.items() if not attached(truth(contract)[key])]
        answers = {each.key: each for each in await fetched(mailbox, [found[broken], *without])}
    finally:
        contract.sim.control.patch("microsoft/options", json={"attachments_page": 0})
    failed = answers.pop(broken)
    assert isinstance(failed, FetchFailure)
    assert not failed.gone
    assert all(isinstance(each, FetchedMessage) for each in answers.values())


async def test_throttled_parts_of_a_batch_are_fetched_later(contract):
    contract.sim.deliver(contract.address, kind="plain", count=80)
    _, _, mailbox = await contract.connect()
    found, _ = await listed(mailbox)
    bare = [MessageChange(key, Presence.PRESENT) for key in found]  # no dates: batches at both providers
    contract.sim.fault(
        "throttle", mailbox=contract.address, endpoint="messages.get", probability=0.2, retry_after=1
    )
    answers = await fetched(mailbox, bare)
    assert all(isinstance(each, FetchedMessage) for each in answers)


async def test_an_account_with_low_concurrency_gets_smaller_batches(contract):
    if not is_gmail(contract):
        pytest.skip("Graph publishes how many calls it answers at a time")
    contract.sim.control.patch("google/options", json={"concurrent_calls": 12})
    try:
        contract.sim.deliver(contract.address, kind="plain", count=110)
        _, _, mailbox = await contract.connect()
        found, _ = await listed(mailbox)
        await fetched(mailbox, list(found.values()))
        assert mailbox.api.rate_limit.max_batch_parts <= 12
        before = contract.sim.meter(contract.address)["rejections"]
        await fetched(mailbox, list(found.values()))
        again = contract.sim.meter(contract.address)["rejections"] - before
        assert again <= before / 5
    finally:
        contract.sim.control.patch("google/options", json={"concurrent_calls": 50})


async def test_a_message_not_readable_right_after_its_push_is_fetched_a_little_later(contract):
    _, _, mailbox = await contract.connect()
    contract.sim.fault("not_readable", mailbox=contract.address, seconds=0.9, times=1)
    key = contract.sim.deliver(contract.address, kind="plain")["id"]
    [seen] = await mailbox.look_up([key])
    assert seen.presence is Presence.PRESENT
    [message] = await fetched(mailbox, wanted(key))
    assert isinstance(message, FetchedMessage)


async def test_an_access_token_that_expires_meanwhile_is_replaced_once(contract):
    _, tokens, mailbox = await contract.connect()
    found, _ = await listed(mailbox)
    contract.sim.post(f"mailboxes/{contract.address}/expire-tokens")
    answers = await fetched(mailbox, list(found.values()))
    assert all(isinstance(each, FetchedMessage) for each in answers)
    assert len(set(tokens.refused)) == 1


async def test_a_revoked_consent_concerns_the_mailbox_and_not_a_message(contract):
    _, _, mailbox = await contract.connect()
    found, _ = await listed(mailbox)
    contract.sim.post(f"mailboxes/{contract.address}/revoke")
    contract.sim.post(f"mailboxes/{contract.address}/expire-tokens")
    with pytest.raises(InvalidGrant):
        await fetched(mailbox, list(found.values()))


async def test_rejected_fresh_tokens_concern_the_mailbox_and_not_a_message(contract):
    _, _, mailbox = await contract.connect()
    found, _ = await listed(mailbox)
    contract.sim.fault("error", mailbox=contract.address, status=401)
    with pytest.raises(TokenRejected):
        await fetched(mailbox, list(found.values()))


async def test_a_cancelled_fetch_leaves_no_task_running(contract):
    contract.sim.deliver(contract.address, kind="plain", count=150)
    _, _, mailbox = await contract.connect()
    found, _ = await listed(mailbox)
    before = asyncio.all_tasks()
    reading = mailbox.fetch(list(found.values()), next(iter(type(contract.new_login().policy))))
    await anext(reading)
    await reading.aclose()
    assert asyncio.all_tasks() == before
