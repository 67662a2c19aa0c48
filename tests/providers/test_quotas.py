"""What reading costs, by the provider's own meters: units, requests, refusals."""

import pytest

from postroom.model import FetchedMessage
from postroom.providers.transport import open_client
from providers.conftest import Contract, Hurried, gmail
from providers.reader import changed, fetched, is_gmail, listed, scopes, wanted

FOLDER_REQUESTS = 60  # once, whatever the mailbox holds


async def test_a_backfill_of_a_thousand_messages_costs_at_most_250_requests_or_20_units_each(contract):
    address = contract.address.replace("@", "-large@")
    contract.sim.create(contract.provider.name, address, messages=900, kinds=["plain"])
    contract.sim.deliver(address, kind="attachment", variant="csv", count=100)
    _, _, mailbox = await Contract(contract.provider, address, contract.sim).connect()
    await scopes(mailbox)
    before = contract.sim.meter(address)
    read = 0
    for scope in await scopes(mailbox):
        cursor, more = None, True
        while more:
            page = await mailbox.list_messages(scope, cursor=cursor, since=None)
            answers = await fetched(mailbox, page.changes)
            assert all(isinstance(each, FetchedMessage) for each in answers)
            read, cursor, more = read + len(answers), page.cursor, page.has_more
    after = contract.sim.meter(address)
    assert read == 1000
    assert after["rejections"] - before["rejections"] <= 10
    if is_gmail(contract):
        assert after["units"] - before["units"] <= 20.1 * 1000
    else:
        assert after["requests"] - before["requests"] <= 250


@pytest.mark.parametrize("kind", ["plain", "invoice"])
async def test_one_new_message_costs_three_requests_however_many_folders_there_are(contract, kind):
    for number in range(20):
        contract.sim.post(f"mailboxes/{contract.address}/folders", name=f"Folder {number}")
    _, _, mailbox = await contract.connect()
    _, live = await listed(mailbox)
    key = contract.sim.deliver(contract.address, kind=kind)["id"]
    before = contract.sim.meter(contract.address)["requests"]
    [seen] = await mailbox.look_up([key])
    [message] = await fetched(mailbox, [seen])
    near = {scope: live[scope] for scope in live if scope in {seen.state.folder, ""}}
    assert [change.key for change in await changed(mailbox, near)] == [key]
    spent = contract.sim.meter(contract.address)["requests"] - before
    batches = 2 if is_gmail(contract) else 0  # Gmail counts what is inside of them
    assert spent - batches == 3
    assert len(message.content.attachments) == (1 if kind == "invoice" else 0)
    assert all(each.content for each in message.content.attachments)


async def test_a_backfill_at_gmails_quota_stores_280_messages_a_minute_with_at_most_1_percent_refused(sim):
    hurried = Hurried(sim)
    address = "steady@example.com"
    sim.create("gmail", address, messages=1500, kinds=["plain"])
    async with open_client() as client:
        contract = Contract(gmail(sim, client, hurried.clock()), address, sim)
        _, _, mailbox = await contract.connect()
        read, cursor, more, start = 0, None, True, hurried.now
        while more:
            page = await mailbox.list_messages("", cursor=cursor, since=None)
            read += len(await fetched(mailbox, page.changes))
            cursor, more = page.cursor, page.has_more
    meter = sim.meter(address)
    minutes = (hurried.now - start) / 60
    assert read / minutes >= 280
    assert minutes >= 1500 / 300 - 1
    assert meter["rejections"] <= meter["calls"]["messages.get"] / 100


async def test_messages_in_other_folders_cost_nothing(contract):
    """A look at one message, and none of the others."""
    _, _, mailbox = await contract.connect()
    found, _ = await listed(mailbox)
    before = contract.sim.meter(contract.address)["calls"].get("messages.get", 0)
    await mailbox.look_up([next(iter(found))])
    await fetched(mailbox, wanted(next(iter(found))))
    assert contract.sim.meter(contract.address)["calls"]["messages.get"] - before == 2
