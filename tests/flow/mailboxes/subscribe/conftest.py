"""A mailbox of each provider over the simulator, and the receiver of its pushes."""

from datetime import datetime

import pytest

from flow.mailboxes.subscribe.subscribed_mailbox import SubscribedMailbox, insert_mailbox
from providers.conftest import contract, graph, shared, sim
from providers.receiver import receiving

__all__ = ["contract", "shared", "sim"]  # fixtures
only_graph = pytest.mark.parametrize("contract", [graph], indirect=True, ids=["graph"])


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
