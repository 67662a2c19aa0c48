"""C2, S1, S2 for app-only mailboxes: the same account, one subscription, pushes that arrive."""

import asyncio
from datetime import datetime

import jwt
import pytest

import databases
from flow.simulated_world import TOPIC, SimulatedWorld, open_world
from flow.simulated_world import settings as settings_of
from postroom.errors import PermanentError
from postroom.flow.mailboxes import connect, orphan_subscriptions, subscribe
from postroom.model import AppCredential, ContentPolicy, ProviderName, Secret, WorkKind
from postroom.providers.transport import open_client
from postroom.store import work
from postroom.store.work import WorkRequest
from postroom.wiring.engine import build_engine
from scenarios.worker_pool import until
from simulator.driver import running
from web.push_server import list_due_mailboxes, open_push_server

DAY = 86400


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
async def world(sim, database_url, organization, owner, tmp_path) -> SimulatedWorld:
    now = datetime.fromisoformat(sim.get("clock")["now"])
    await owner.execute("UPDATE clock_offset SET ahead = %s - clock_timestamp()", [now])
    async with (
        databases.open_pools(database_url) as database,
        open_world(sim, database, organization, tmp_path) as made,
    ):
        yield made


class AppOnly:
    """One address, and the application that opens it."""

    def __init__(self, world: SimulatedWorld, owner, context, address: str) -> None:
        self.world, self.owner, self.context, self.address = world, owner, context, address
        recorded = world.sim.post("microsoft/tokens", address=address)["id_token"]
        self.tenant = jwt.decode(recorded, options={"verify_signature": False})["tid"]

    async def connected(self, *, roles=("Mail.Read", "User.Read.All"), tenant=None, folder="Inbox"):
        known = self.world.sim.ready["clients"]["outlook"]
        self.world.sim.control.patch(
            f"microsoft/applications/{known['client_id']}", json={"roles": list(roles)}
        )
        credential = AppCredential(
            tenant or self.tenant, known["client_id"], client_secret=Secret(known["client_secret"])
        )
        done = await connect.connect_app_only(
            self.world.connect_context,
            self.world.organization,
            credential,
            address=self.address,
            folder=folder,
            policy=ContentPolicy.FULL,
        )
        return done.mailbox

    async def renewed_subscription(self) -> dict:
        """Run the work as a worker does; the subscription that then exists at the provider."""
        async with self.world.database.engine() as connection:
            claim = await work.claim(connection, [WorkKind.SUBSCRIBE], batch=5, lease_seconds=60)
        assert claim.leases
        for lease in claim.leases:
            await subscribe.run(self.context, lease)
        [existing] = self.world.sim.get(f"mailboxes/{self.address}")["subscriptions"]
        return existing

    async def move(self, seconds: float) -> None:
        await asyncio.to_thread(self.world.sim.move_clock, seconds)
        await self.owner.execute(
            "UPDATE clock_offset SET ahead = ahead + %s * interval '1 second'", [seconds]
        )


@pytest.fixture
async def app(world, owner, tmp_path):
    """Pushes go to webhooks that answer on a socket of their own."""
    async with open_push_server(world.database) as push_server, open_client() as client:
        settings = settings_of(world.sim, tmp_path, public_url=push_server.url)
        context = build_engine(settings, world.database, client).subscribe
        yield AppOnly(world, owner, context, world.person(ProviderName.OUTLOOK))


@pytest.mark.parametrize("roles", [["Mail.Read", "User.Read.All"], ["Mail.Read"]], ids=["users", "mail-only"])
async def test_a_subscription_is_created_delivers_pushes_and_is_renewed(app, owner, roles):
    mailbox = await app.connected(roles=roles)
    made = await app.renewed_subscription()
    assert made["resource"] == f"users/{mailbox.provider_user_id}/mailFolders('Inbox')/messages"
    await owner.execute("DELETE FROM work WHERE kind = 'sync'")
    app.world.sim.deliver(app.address, kind="plain")
    await app.move(2)
    await until(owner, "SELECT count(*) = 1 FROM work WHERE kind = 'sync'")
    assert await list_due_mailboxes(owner) == {mailbox.id}
    await app.move(6 * DAY)
    renewed = await app.renewed_subscription()
    assert renewed["id"] == made["id"]
    assert renewed["expires"] > made["expires"]


@pytest.mark.parametrize("folder", ["NoSuchFolder", "AAMkAGI2AAA="])
async def test_a_folder_that_does_not_exist_changes_nothing(app, owner, folder):
    await app.connected()
    made = await app.renewed_subscription()
    query = "SELECT row_to_json(mailboxes) FROM mailboxes"
    before = await (await owner.execute(query)).fetchall()
    with pytest.raises(PermanentError, match="Nothing was changed"):
        await app.connected(folder=folder)
    assert await (await owner.execute(query)).fetchall() == before
    [existing] = app.world.sim.get(f"mailboxes/{app.address}")["subscriptions"]
    assert existing == made
    rows = await owner.execute("SELECT status FROM subscriptions WHERE replaced_at IS NULL")
    assert await rows.fetchall() == [("active",)]


async def test_another_folder_moves_the_subscription(app):
    await app.connected(folder="Inbox")
    await app.renewed_subscription()
    await app.connected(folder="Archive")
    assert "Archive" in (await app.renewed_subscription())["resource"]


async def test_a_mailbox_of_an_application_is_subscribed_without_a_listing(app):
    await app.connected()
    app.world.sim.delete("requests")
    await app.renewed_subscription()
    assert app.world.sim.get("requests", endpoint="subscriptions.list") == []


async def test_orphans_of_an_application_are_removed_once_a_day(app, owner):
    kept = await app.connected()
    kept_subscription = await app.renewed_subscription()
    lost = AppOnly(app.world, owner, app.context, app.world.person(ProviderName.OUTLOOK))
    forgotten = await lost.connected()
    await lost.renewed_subscription()
    await owner.execute("UPDATE mailboxes SET disconnected_at = now() WHERE id = %s", [forgotten.id])
    await owner.execute("DELETE FROM subscriptions WHERE mailbox_id = %s", [forgotten.id])
    organization = app.world.organization
    async with app.world.database.engine() as connection:
        request = WorkRequest(organization, WorkKind.REMOVE_ORPHANS, str(organization))
        await work.enqueue(connection, [request])
        claim = await work.claim(connection, [WorkKind.REMOVE_ORPHANS], batch=1, lease_seconds=60)
    result = await orphan_subscriptions.run(app.context, claim.leases[0])
    assert result.again_after == DAY
    assert app.world.sim.get(f"mailboxes/{lost.address}")["subscriptions"] == []
    assert app.world.sim.get(f"mailboxes/{kept.address}")["subscriptions"] == [kept_subscription]


async def test_a_tenant_is_the_same_by_domain_and_by_id(app):
    mailbox = await app.connected()
    again = await app.connected(tenant=app.address.rpartition("@")[2])
    assert (again.id, again.account_id) == (mailbox.id, mailbox.account_id)


async def test_an_account_is_found_again_whatever_the_application_may_see_of_it(app):
    makeshift = await app.connected(roles=["Mail.Read"])
    assert makeshift.provider_user_id == app.address
    own = await app.connected()
    assert own.id == makeshift.id
    assert own.provider_user_id != app.address
    later = await app.connected(roles=["Mail.Read"])
    assert (later.id, later.account_id, later.provider_user_id) == (
        own.id,
        own.account_id,
        own.provider_user_id,
    )
    by_sign_in = await app.world.login(ProviderName.OUTLOOK, app.address)
    assert by_sign_in.mailbox.id == own.id


async def test_a_mailbox_known_by_its_address_is_found_by_a_sign_in(app):
    makeshift = await app.connected(roles=["Mail.Read"])
    done = await app.world.login(ProviderName.OUTLOOK, app.address)
    assert done.mailbox.id == makeshift.id
    assert done.mailbox.account_id != makeshift.account_id
