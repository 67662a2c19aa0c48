"""`postroom sync` and `postroom mailboxes backfill` as a person or a script uses them."""

import asyncio
import json

import pytest

import databases
from flow.simulated_world import TOPIC, settings_given
from postroom.model import OrganizationId, ProviderName
from scenarios.mirror_check import assert_mirrors
from scenarios.mirrored_mailbox import NO_QUOTA, usually
from scenarios.mirrored_mailbox import postroom as room_of
from simulator.driver import running


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual", "--quota", "off") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
async def room(sim, database_url, owner, organization, tmp_path):
    async with room_of(sim, database_url, owner, organization, tmp_path) as made:
        yield made


@pytest.fixture
def run(postroom, sim, database_url, organization: OrganizationId, tmp_path):
    given = {f"POSTROOM_{name.upper()}": str(value) for name, value in settings_given(sim).items()}
    given |= {
        **databases.login_settings(database_url),
        "POSTROOM_ORGANIZATION": str(organization),
        "POSTROOM_HOME": str(tmp_path),
        "POSTROOM_GMAIL_QUOTA": NO_QUOTA,
    }

    async def run(*arguments):
        return await asyncio.to_thread(postroom, *arguments, **given)

    return run


@pytest.mark.parametrize("provider", usually(ProviderName.OUTLOOK))
async def test_sync_mirrors_a_mailbox_and_prints_what_changed(room, run, owner, provider):
    box = await room.mailbox(provider, messages=25, days=60)
    done = await run("sync", box.address, "--json")
    result = json.loads(done.stdout)
    assert not done.stderr, "nothing but the command's own words"
    stored = await box.one("SELECT count(*) FROM messages")
    assert (done.returncode, result["messages"], result["errors"], result["error"]) == (0, stored, 0, None)
    again = await run("sync", box.address, "--full")
    assert (again.returncode, again.stdout.split()[:4]) == (0, ["ITEM", "COUNT", "threads", "0"])
    more = await run("mailboxes", "backfill", box.address, "--days", "90", "--json")
    assert json.loads(more.stdout)["messages"] == 25 - stored
    assert (
        "already mirrored that far back"
        in (await run("mailboxes", "backfill", box.address, "--days", "80")).stdout
    )
    assert await assert_mirrors(owner, room.world.sim, box.address, box.mailbox) == 25
    assert (await run("audit", box.address, "--content")).returncode == 0
    await owner.execute(
        "UPDATE messages SET is_flagged = NOT is_flagged WHERE id IN (SELECT min(id) FROM messages)"
    )
    assert (await run("audit", box.address)).returncode == 1
    repaired = await run("audit", box.address, "--repair")
    assert (repaired.returncode, "Repaired: 1." in repaired.stdout) == (0, True)
    await assert_mirrors(owner, room.world.sim, box.address, box.mailbox)
    shown = json.loads((await run("mailboxes", "show", box.address, "--json")).stdout)
    assert shown["last_audit"].endswith("25 listed, 0 missing, 0 extra, 0 different")


async def test_failed_sync_prints_its_reason(room, run):
    box = await room.mailbox(ProviderName.OUTLOOK, messages=3)
    box.sim.post(f"mailboxes/{box.address}/revoke")
    box.sim.post(f"mailboxes/{box.address}/expire-tokens")
    done = await run("sync", box.address)
    assert done.returncode == 1
    assert "The sync failed" in done.stderr
    assert "Traceback" not in done.stderr


async def test_paused_mailbox_is_not_synced(room, run, owner):
    box = await room.mailbox(ProviderName.GMAIL)
    await owner.execute("UPDATE mailboxes SET paused_at = postroom_now()")
    done = await run("sync", box.address)
    assert (done.returncode, done.stdout) == (1, "")
    assert "paused" in done.stderr


async def test_backfill_requires_a_first_sync(room, run):
    box = await room.mailbox(ProviderName.GMAIL)
    done = await run("mailboxes", "backfill", box.address, "--days", "90")
    assert "has not been synced yet" in done.stderr
