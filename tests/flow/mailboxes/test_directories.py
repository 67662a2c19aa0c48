"""Directories: users join, leave, return and are skipped; a listing that lost too much stops."""

from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

import databases
from flow.simulated_world import SimulatedWorld, open_world  # pyright: ignore[reportUnknownVariableType]
from postroom.errors import OperatorError
from postroom.flow.mailboxes import directories, lifecycle
from postroom.flow.mailboxes.directory_sync import USERS_PER_SECOND
from postroom.model import OrganizationId, ProviderName, WorkKind
from postroom.store import work
from postroom.store.directories import LeaverAction, UserSelection
from scenarios.simulated_directory import DirectoryWorld, SimulatedDirectory
from simulator.driver import Simulation


@pytest.fixture
async def world(
    sim: Simulation, service_url: str, organization: OrganizationId, tmp_path: Path
) -> AsyncGenerator[SimulatedWorld]:
    async with (
        databases.open_pools(service_url) as database,
        open_world(sim, database, organization, tmp_path, google_directory_url=sim.http) as made,
    ):
        yield made


@pytest.fixture
async def joined(
    world: SimulatedWorld, owner: Any, sim: Simulation, provider: ProviderName
) -> DirectoryWorld:
    """Six users of nine are selected by a group, and connected."""
    simulated = SimulatedDirectory(sim, provider)
    simulated.create_users(6, others=3)
    made = DirectoryWorld(world, owner, simulated)
    await made.add()
    await made.work_off()
    return made


async def test_the_members_of_a_group_are_connected_with_one_stored_credential(
    joined: DirectoryWorld,
) -> None:
    assert await joined.states() == {"connected": 6}
    found = await joined.rows("SELECT address FROM mailboxes ORDER BY address")
    assert [address for (address,) in found] == joined.simulated.addresses
    assert await joined.rows("SELECT count(directory_id), count(sealed_grant) FROM credentials") == [(6, 0)]
    assert await joined.rows("SELECT count(*) FROM work WHERE kind = 'sync'") == [(6,)]
    await joined.owner.execute("UPDATE credentials SET access_expires_at = postroom_now()")
    mailbox = await joined.find_mailbox(joined.simulated.addresses[0])
    await joined.world.remote(mailbox).check()
    again = [event for event in await joined.world.ledger_events() if event == "MAILBOX_RECONNECTED"]
    await joined.sync()
    assert (again, await joined.states()) == ([], {"connected": 6})


async def test_users_join_leave_and_are_suspended(joined: DirectoryWorld) -> None:
    first, second, *rest = joined.simulated.addresses
    joiner = f"other00000@{joined.simulated.domain}"
    await joined.add(max_leaver_percent=50)
    joined.simulated.set_group([first, *rest, joiner])
    joined.simulated.suspend(first)
    preview = await directories.preview(joined.context, joined.directory)
    assert Counter(user.outcome for user in preview.users) == {"connected": 4, "connect": 1, "leave": 2}
    assert {user.address for user in preview.users if user.outcome == "leave"} == {first, second}
    await joined.sync()
    assert await joined.states() == {"connected": 5, "paused": 2}
    assert (await joined.find_mailbox(first)).paused_at is not None
    assert (await joined.find_mailbox(second)).paused_at is not None
    assert (await joined.find_mailbox(joiner)).paused_at is None
    reasons = dict(await joined.rows("SELECT address, reason FROM directory_users WHERE state = 'paused'"))
    assert reasons[first] in {"is suspended", "is disabled"}
    joined.simulated.set_group([first, second, *rest, joiner])
    await joined.sync()
    assert (await joined.find_mailbox(second)).paused_at is None, "a user who returns is resumed"
    actors = await joined.rows("SELECT DISTINCT actor_id FROM ledger WHERE event_type = 'MAILBOX_PAUSED'")
    assert actors == [(f"directory:{joined.directory.id}",)]


async def test_a_listing_that_lost_too_much_stops_until_a_person_confirms(joined: DirectoryWorld) -> None:
    first, *rest = joined.simulated.addresses
    joined.simulated.set_group([first])
    await joined.sync()
    assert await joined.states() == {"connected": 6}
    stopped = await joined.reload()
    assert stopped is not None
    assert stopped.stop_reason is not None
    assert stopped.stop_reason.startswith("5 of 6 users would leave")
    assert (await joined.world.ledger_events()).count("DIRECTORY_SYNC_STOPPED") == 1
    joined.simulated.set_group([])
    await joined.sync()
    assert await joined.states() == {"connected": 6}
    joined.simulated.set_group([first])
    await directories.request_sync(joined.context, joined.directory, confirmed_leavers=5, actor="member:x")
    await joined.work_off()
    assert await joined.states() == {"connected": 1, "paused": 5}
    assert [(await joined.find_mailbox(address)).disconnected_at for address in rest] == [None] * 5
    allowed = await joined.reload()
    assert allowed is not None
    assert (allowed.stop_reason, allowed.confirmed_leavers) == (None, None)


async def test_mailboxes_that_people_connected_or_disconnected_are_skipped(
    joined: DirectoryWorld, provider: ProviderName
) -> None:
    await joined.add(leaver_action=LeaverAction.DISCONNECT, max_leaver_percent=100)
    own, gone, *rest = joined.simulated.addresses
    mailbox = await joined.find_mailbox(gone)
    await lifecycle.disconnect(
        joined.context.connect, joined.context.tokens, joined.world.organization, mailbox.id, purge=False
    )
    world: Any = joined.world
    await world.login(provider, own)
    await joined.sync()
    assert (await joined.find_mailbox(gone)).disconnected_at is not None, "a person's decision stays"
    joined.simulated.set_group(rest)
    await joined.sync()
    assert (await joined.find_mailbox(own)).disconnected_at is None, "it is connected in another way"
    assert await joined.states() == {"connected": 4, "kept": 1, "disconnected": 1}


async def test_patterns_domains_and_exclusions_select(joined: DirectoryWorld) -> None:
    selection = UserSelection(
        domains=(joined.simulated.domain,), patterns=("user*", "other*"), excluded_patterns=("*2@*",)
    )
    await joined.add(selection=selection)
    preview = await directories.preview(joined.context, joined.directory)
    reasons = {user.address.partition("@")[0]: user.reason for user in preview.users}
    assert reasons["admin"] == "matches no pattern"
    assert reasons["user00002"] == reasons["other00002"] == "matches an excluded pattern"
    assert reasons["other00001"] == "selected"


async def test_a_removed_directory_disconnects_its_mailboxes_and_forgets_its_credential(
    joined: DirectoryWorld,
) -> None:
    await directories.remove(joined.context, joined.directory)
    for _ in range(3):
        await joined.owner.execute("UPDATE work SET due_at = postroom_now() WHERE kind = 'sync_directory'")
        await joined.work_off()
    assert await joined.reload() is None
    assert await joined.rows("SELECT count(*) FROM credentials") == [(0,)]
    assert await joined.rows("SELECT count(disconnected_at), count(*) FROM mailboxes") == [(6, 6)]
    assert await joined.rows("SELECT count(*) FROM work WHERE kind = 'sync_directory'") == [(0,)]


async def test_a_missing_group_and_permission_say_what_to_do(joined: DirectoryWorld) -> None:
    await joined.add(selection=UserSelection(groups=(f"nothing@{joined.simulated.domain}",)))
    await joined.work_off()
    found = await joined.reload()
    assert found is not None
    assert "has no group" in (found.last_error or "")
    assert await joined.states() == {"connected": 6}


async def test_the_work_of_many_users_is_spread_over_time(joined: DirectoryWorld) -> None:
    await joined.add(selection=UserSelection(domains=(joined.simulated.domain,)))
    async with joined.world.database.engine() as connection:
        claim = await work.claim(connection, [WorkKind.SYNC_DIRECTORY], batch=1, lease_seconds=60)
    await joined.world.engine.handlers[WorkKind.SYNC_DIRECTORY].step(claim.leases[0])
    [(span,)] = await joined.rows(
        "SELECT extract(epoch FROM max(due_at) - min(due_at))::float8 FROM work"
        " WHERE kind = 'sync_directory_user'"
    )
    assert span == pytest.approx(3 / USERS_PER_SECOND, abs=0.01)


async def test_another_provider_cannot_take_the_name_of_a_directory(joined: DirectoryWorld) -> None:
    other = ProviderName.OUTLOOK if joined.directory.provider is ProviderName.GMAIL else ProviderName.GMAIL
    joined.simulated.provider = other
    with pytest.raises(OperatorError, match="Choose another name"):
        await joined.add()
