"""A mailbox of each provider over the simulator, and the receiver of its pushes."""

from datetime import datetime

import pytest

import databases
from flow.mailboxes.subscribe.subscribed_mailbox import SubscribedMailbox, insert_mailbox
from postroom.store.database import open_database
from providers.conftest import contract, graph, shared, sim
from providers.receiver import receiving

__all__ = ["contract", "shared", "sim"]  # fixtures
only_graph = pytest.mark.parametrize("contract", [graph], indirect=True, ids=["graph"])


@pytest.fixture
async def database(service_url):
    async with open_database(
        service_url, pool_size=12, name="postroom tests", entry_macs=databases.ENTRY_MACS
    ) as database:
        yield database


@pytest.fixture
async def subscribed(contract, database, owner, organization):
    """A connected mailbox without a subscription; the database's clock shows what the simulator's does."""
    grant, tokens, _ = await contract.connect()
    async with receiving() as receiver:
        mailbox = await insert_mailbox(owner, organization, contract.provider.name, grant.account)
        now = datetime.fromisoformat(contract.sim.get("clock")["now"])
        await owner.execute("UPDATE clock_offset SET ahead = %s - clock_timestamp()", [now])
        yield SubscribedMailbox(
            contract, receiver, database, owner, organization, mailbox, grant, {mailbox: tokens}
        )
