"""A process that is killed right before or after any outside effect or commit costs nothing but time."""

from collections.abc import AsyncGenerator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import amazon
from flow.simulated_world import TOPIC
from postroom.model import OrganizationId
from providers.receiver import receiving
from scenarios import crash_directories, crash_documents, crash_mailboxes
from scenarios.crash_points import EFFECTS, Effect
from scenarios.crash_world import CrashScenario, CrashWorld, build_crash  # pyright: ignore[reportUnknownVariableType]
from scenarios.mirrored_mailbox import postroom  # pyright: ignore[reportUnknownVariableType]
from scenarios.postroom_process import server_launcher
from simulator.driver import Simulation, running

SCENARIOS = vars(crash_mailboxes) | vars(crash_documents) | vars(crash_directories)


@pytest.fixture(scope="module")
def shared_sim() -> Generator[Simulation]:
    """Its responses are checked elsewhere: here some are cut off where a process ends."""
    with running("--clock", "manual", "--quota", "off", checked=False) as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture(scope="module")
def moto() -> Generator[str]:
    with amazon.server() as url:
        yield url


@pytest.fixture
def scenario_class(effect: Effect) -> type[CrashScenario]:
    return SCENARIOS[effect.scenario]


@pytest.fixture
def aws(
    request: pytest.FixtureRequest, scenario_class: type[CrashScenario], monkeypatch: pytest.MonkeyPatch
) -> str | None:
    """The endpoint of AWS, for a scenario that uses it."""
    if not scenario_class.uses_aws:
        return None
    url: str = request.getfixturevalue("moto")
    for name, value in (amazon.CREDENTIALS | {"AWS_ENDPOINT_URL_SSM": url}).items():
        monkeypatch.setenv(name, value)
    return url


@pytest.fixture
async def world(
    sim: Simulation,
    database_url: str,
    owner: Any,
    organization: OrganizationId,
    tmp_path: Path,
    scenario_class: type[CrashScenario],
    aws: str | None,
) -> AsyncGenerator[CrashWorld]:
    pipelines = tmp_path / "pipelines.toml"
    pipelines.write_text('[invoices]\nkind = "invoice"\n')
    changed: dict[str, Any] = {"pipelines": pipelines, **scenario_class.changed}
    async with (
        postroom(sim, database_url, owner, organization, tmp_path, **changed) as room,
        receiving() as receiver,
    ):
        yield CrashWorld(room, server_launcher(), receiver, database_url, aws)


def parameters() -> Iterator[Any]:
    for effect in EFFECTS:
        for when in ("before", "after"):
            marks = [] if when == effect.usual else [pytest.mark.soak]
            name = f"{effect.name}:{when}-{effect.scenario}-{effect.provider}"
            yield pytest.param(effect, when, id=name, marks=marks)


@pytest.mark.parametrize("effect, when", [*parameters()])
async def test_nothing_is_lost_or_doubled_by_a_process_that_is_killed_there(
    world: CrashWorld, scenario_class: type[CrashScenario], effect: Effect, when: str
) -> None:
    scenario: Any = scenario_class(world, effect.provider)
    await scenario.prepare()
    await scenario.die(build_crash(effect, when))
    await scenario.recover()
    await scenario.check()
