"""A directory of many users: exactly the selected ones are connected, each with as few requests as one."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest

import databases
from flow.simulated_world import TOPIC, open_world  # pyright: ignore[reportUnknownVariableType]
from postroom.model import OrganizationId, ProviderName, WorkKind
from scenarios.simulated_directory import DirectoryWorld, SimulatedDirectory
from simulator.driver import Simulation, running
from web.push_server import open_push_server  # pyright: ignore[reportUnknownVariableType]

RENAMED = """
    UPDATE directory_users SET address = 'formerly.' || address, provider_user_id = replace(provider_user_id,
        address, 'formerly.' || address)
    WHERE address = '{address}';
    UPDATE mailboxes SET address = 'formerly.' || address, provider_user_id = replace(provider_user_id,
        address, 'formerly.' || address)
    WHERE address = '{address}'
"""
HOUR = 3600
# Time passes only as the test decides, however busy this machine is.
STOPPED_CLOCK = """
    CREATE OR REPLACE FUNCTION postroom_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    RETURN timestamptz '{now}' + (SELECT ahead FROM clock_offset)
"""
CONNECTED = "SELECT address FROM mailboxes WHERE paused_at IS NULL ORDER BY address"


@pytest.fixture(scope="module")
def shared_sim() -> Generator[Simulation]:
    """Both providers enforce their quotas, on a clock that only the tests move."""
    with running("--clock", "manual") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
async def many(
    sim: Simulation,
    service_url: str,
    owner: Any,
    organization: OrganizationId,
    provider: ProviderName,
    tmp_path: Path,
) -> AsyncGenerator[DirectoryWorld]:
    async with (
        databases.open_pools(service_url) as database,
        open_push_server(database) as server,
        open_world(
            sim, database, organization, tmp_path, google_directory_url=sim.http, public_url=server.url
        ) as world,
    ):
        yield DirectoryWorld(world, owner, SimulatedDirectory(sim, provider))


@pytest.mark.parametrize(
    "users, selected", [(40, 10), pytest.param(2000, 500, marks=pytest.mark.soak)], ids=["40", "2000"]
)
async def test_exactly_the_selected_users_are_connected_and_stay_in_step(
    many: DirectoryWorld, users: int, selected: int
) -> None:
    simulated = many.simulated
    simulated.create_users(selected, others=users - selected)
    simulated.sim.delete("meters")
    await many.add(max_leaver_percent=20)
    await many.work_off(WorkKind.SUBSCRIBE)
    assert await many.states() == {"connected": selected}
    assert [address for (address,) in await many.rows(CONNECTED)] == simulated.addresses
    assert await many.count_live_subscriptions() == selected
    calls = many.count_calls()
    assert calls["subscriptions.create"] + calls["watch"] == selected
    assert calls["subscriptions.list"] == 0, "a listing per mailbox would grow with their number"

    leaver, suspended, renamed, *rest = simulated.addresses
    joiner = f"other00000@{simulated.domain}"
    before = (await many.find_mailbox(renamed)).id
    await many.owner.execute(RENAMED.format(address=renamed))
    simulated.set_group([suspended, renamed, *rest, joiner])
    simulated.suspend(suspended)
    await many.pass_time(60)
    await many.sync()
    await many.work_off(WorkKind.SUBSCRIBE)
    assert await many.states() == {"connected": selected - 1, "paused": 2}
    assert [address for (address,) in await many.rows(CONNECTED)] == sorted([renamed, *rest, joiner])
    assert (await many.find_mailbox(renamed)).id == before, "another address is no other mailbox"
    assert (await many.find_mailbox(leaver)).paused_at is not None
    assert (await many.find_mailbox(suspended)).paused_at is not None
    assert await many.rows("SELECT count(*) FROM mailboxes") == [(selected + 1,)]
    assert await many.count_live_subscriptions() == selected + 1, "a paused mailbox keeps its subscription"
    assert many.count_rejections() == 0


@pytest.mark.parametrize("users", [60, pytest.param(10_000, marks=pytest.mark.soak)])
async def test_a_whole_tenant_is_connected_and_subscribed_within_an_hour(
    many: DirectoryWorld, users: int
) -> None:
    simulated = many.simulated
    simulated.create_users(users)
    simulated.sim.delete("meters")
    await many.owner.execute(STOPPED_CLOCK.format(now=simulated.sim.get("clock")["now"]))
    await many.add()
    await many.work_off(WorkKind.SUBSCRIBE, at_once=False)
    seconds = 0
    while (subscribed := await many.count_live_subscriptions()) < users:
        assert seconds < HOUR, f"{subscribed} of {users} are subscribed"
        await many.pass_time(2)
        seconds += 2
        await many.work_off(WorkKind.SUBSCRIBE, at_once=False)
    assert await many.states() == {"connected": users}
    assert many.count_rejections() == 0
    assert seconds >= users / 10 - 2, "users join at the pace that the quotas allow"
    print(f"{users} users in {seconds} s: {many.count_calls()}")
