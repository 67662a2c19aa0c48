import pytest

import databases
from flow.simulated_world import TOPIC, SimulatedWorld, open_world
from message_history import message_history
from postroom.model import ProviderName
from simulator.driver import Simulation, running

__all__ = ["message_history"]


@pytest.fixture(scope="module")
def shared_sim():
    with running("--clock", "manual") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
def sim(shared_sim: Simulation):
    yield shared_sim
    shared_sim.delete("faults")
    shared_sim.delete("microsoft/refusals")


@pytest.fixture
async def world(sim, service_url, organization, tmp_path) -> SimulatedWorld:
    """Postroom's side of connecting, with the simulator behind it."""
    async with (
        databases.open_pools(service_url) as database,
        open_world(sim, database, organization, tmp_path) as made,
    ):
        yield made


@pytest.fixture(params=list(ProviderName))
def provider(request) -> ProviderName:
    return request.param
