"""A process that is killed right before or after any outside effect or commit costs nothing but time."""

import pytest

import amazon
from flow.simulated_world import TOPIC
from providers.receiver import receiving
from scenarios import crash_documents, crash_mailboxes
from scenarios.crash_points import EFFECTS
from scenarios.crash_world import CrashWorld, build_crash
from scenarios.mirrored_mailbox import postroom
from scenarios.postroom_process import server_launcher
from simulator.driver import running

SCENARIOS = vars(crash_mailboxes) | vars(crash_documents)


@pytest.fixture(scope="module")
def shared_sim():
    """Its responses are checked elsewhere: here some are cut off where a process ends."""
    with running("--clock", "manual", "--quota", "off", checked=False) as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture(scope="module")
def moto():
    with amazon.server() as url:
        yield url


@pytest.fixture
def scenario_class(effect):
    return SCENARIOS[effect.scenario]


@pytest.fixture
def aws(request, scenario_class, monkeypatch):
    """The endpoint of AWS, for a scenario that uses it."""
    if not scenario_class.uses_aws:
        return None
    url = request.getfixturevalue("moto")
    for name, value in (amazon.CREDENTIALS | {"AWS_ENDPOINT_URL_SSM": url}).items():
        monkeypatch.setenv(name, value)
    return url


@pytest.fixture
async def world(sim, database_url, owner, organization, tmp_path, scenario_class, aws):
    pipelines = tmp_path / "pipelines.toml"
    pipelines.write_text('[invoices]\nkind = "invoice"\n')
    changed = {"pipelines": pipelines, **scenario_class.changed}
    async with (
        postroom(sim, database_url, owner, organization, tmp_path, **changed) as room,
        receiving() as receiver,
    ):
        yield CrashWorld(room, server_launcher(), receiver, database_url, aws)


def parameters():
    for effect in EFFECTS:
        for when in ("before", "after"):
            marks = [] if when == effect.usual else [pytest.mark.soak]
            name = f"{effect.name}:{when}-{effect.scenario}-{effect.provider}"
            yield pytest.param(effect, when, id=name, marks=marks)


@pytest.mark.parametrize("effect, when", [*parameters()])
async def test_nothing_is_lost_or_doubled_by_a_process_that_is_killed_there(
    world, scenario_class, effect, when
):
    scenario = scenario_class(world, effect.provider)
    await scenario.prepare()
    await scenario.die(build_crash(effect, when))
    await scenario.recover()
    await scenario.check()
