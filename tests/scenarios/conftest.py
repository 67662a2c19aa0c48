"""A Postroom in this process over a simulator that the tests of a module share."""

import pytest

from flow.simulated_world import TOPIC
from message_history import message_history
from postroom.model import ProviderName
from scenarios.document_postroom import document_postroom
from scenarios.mirrored_mailbox import postroom
from simulator.driver import running

__all__ = ["message_history"]


@pytest.fixture(scope="module")
def shared_sim():
    with running("--clock", "manual", "--quota", "off") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
def sim(shared_sim):
    yield shared_sim
    shared_sim.delete("faults")


@pytest.fixture
async def room(sim, database_url, owner, organization, tmp_path):
    async with postroom(sim, database_url, owner, organization, tmp_path) as made:
        yield made


@pytest.fixture
async def document_room(room, tmp_path):
    """The document pipelines of the same Postroom."""
    async with document_postroom(room, tmp_path, **room.changed) as made:
        yield made


@pytest.fixture
async def box(room):
    return await room.mailbox(ProviderName.GMAIL)


@pytest.fixture(params=list(ProviderName))
def provider(request):
    return request.param
