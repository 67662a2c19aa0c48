"""Gmail mailboxes that a service account opens by domain-wide delegation."""

import json
from dataclasses import replace

import pytest

from postroom.errors import ApplicationRejected, InvalidGrant, OperatorError, PermanentError
from postroom.flow.mailboxes import connect, lifecycle, subscribe
from postroom.model import AppCredential, ContentPolicy, MailboxHealth, ProviderName, Secret, WorkKind
from postroom.store import mailboxes, work

PREFIX = "https://www.googleapis.com/auth/"
IDENTITY = ("openid", PREFIX + "userinfo.email")
READONLY, METADATA = PREFIX + "gmail.readonly", PREFIX + "gmail.metadata"


class ServiceAccount:
    """A service account, and the mailboxes that it opens."""

    def __init__(self, world, key):
        self.world, self.key = world, key

    def delegate(self, *scopes):
        delegation = {"client_id": self.key["client_id"], "domain": "example.com", "scopes": scopes}
        self.world.sim.post("google/delegations", **delegation)

    async def connect(self, address, **wanted):
        key_file = Secret(json.dumps(self.key))
        credential = AppCredential(None, self.key["client_id"], certificate=key_file)
        done = await connect.connect_app_only(
            self.world.connect_context,
            self.world.organization,
            credential,
            address=address,
            provider=ProviderName.GMAIL,
            **wanted,
        )
        return done.mailbox


@pytest.fixture
def account(world):
    world.sim.post("google/topics", name="projects/mailsim/topics/gmail")
    account = ServiceAccount(world, world.sim.post("google/service-accounts", name="reader"))
    account.delegate(*IDENTITY, READONLY, METADATA)
    return account


@pytest.fixture
def expire(world, owner):
    async def expire() -> None:
        await owner.execute("UPDATE credentials SET access_expires_at = postroom_now()")
        world.tokens.cached.clear()

    return expire


async def test_a_service_account_opens_and_watches_a_mailbox(world, account, expire):
    address = world.person(ProviderName.GMAIL)
    mailbox = await account.connect(address)
    assert (mailbox.address, mailbox.folder, mailbox.policy) == (address, None, ContentPolicy.FULL)
    await expire()
    await world.remote(mailbox).check()
    async with world.database.engine() as connection:
        claim = await work.claim(connection, [WorkKind.SUBSCRIBE], batch=5, lease_seconds=60)
    for lease in claim.leases:
        await subscribe.run(replace(world.engine.subscribe, public_url="https://post.example.org"), lease)
    [watch] = world.sim.get(f"mailboxes/{address}")["subscriptions"]
    assert watch["topic"] == "projects/mailsim/topics/gmail"


async def test_a_sign_in_of_the_owner_finds_the_same_mailbox(world, account):
    address = world.person(ProviderName.GMAIL)
    mailbox = await account.connect(address)
    done = await world.login(ProviderName.GMAIL, address)
    assert (done.mailbox.id, done.is_new) == (mailbox.id, False)
    assert (await account.connect(address)).id == mailbox.id


async def test_only_the_scope_of_the_policy_is_requested(world, account, owner):
    account.delegate(*IDENTITY, METADATA)
    address = world.person(ProviderName.GMAIL)
    with pytest.raises(ApplicationRejected, match="Domain-wide delegation"):
        await account.connect(address)
    mailbox = await account.connect(address, policy=ContentPolicy.METADATA)
    [row] = await (await owner.execute("SELECT scopes, kind, tenant_id FROM credentials")).fetchall()
    assert row == ([METADATA], "app_certificate", None)
    assert (await account.connect(address)).policy is ContentPolicy.METADATA
    with pytest.raises(PermanentError, match="--app-only --policy full"):
        await lifecycle.set_policy(world.connect_context, world.organization, mailbox.id, ContentPolicy.FULL)


async def test_a_deleted_key_is_the_operators_problem_and_a_new_one_serves_all_mailboxes(
    world, account, expire
):
    first = await account.connect(world.person(ProviderName.GMAIL))
    second = await account.connect(world.person(ProviderName.GMAIL))
    world.sim.delete(
        f"google/service-accounts/{account.key['client_email']}/keys/{account.key['private_key_id']}"
    )
    await expire()
    with pytest.raises(OperatorError, match="key of the service account"):
        await world.source(first).get_token()
    async with world.database.transaction(world.organization) as connection:
        assert (await mailboxes.get(connection, first.id)).health is MailboxHealth.ACTIVE
    account.key = world.sim.post("google/service-accounts", name="reader")
    await account.connect(second.address)
    await world.source(first, world.another_process()).get_token()


async def test_a_suspended_user_waits_for_a_reconnect(world, account, expire):
    mailbox = await account.connect(world.person(ProviderName.GMAIL))
    world.sim.post(f"google/accounts/{mailbox.address}", trouble="suspended")
    await expire()
    with pytest.raises(InvalidGrant, match="suspended"):
        await world.source(mailbox).get_token()
    world.sim.post(f"google/accounts/{mailbox.address}", trouble="")
    await account.connect(mailbox.address)
    await world.source(mailbox, world.another_process()).get_token()


async def test_an_unreadable_key_file_connects_nothing(world, account, owner):
    account.key = {**account.key, "private_key": "x"}
    with pytest.raises(OperatorError, match="JSON key file"):
        await account.connect(world.person(ProviderName.GMAIL))
    assert await (await owner.execute("SELECT count(*) FROM credentials")).fetchall() == [(0,)]
