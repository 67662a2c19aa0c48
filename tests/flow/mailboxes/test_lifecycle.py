"""C2, C5: app-only mailboxes; pause, resume, policy, disconnect."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

import databases
from postroom.errors import InvalidGrant, OperatorError, PermanentError, TokenRejected
from postroom.flow.mailboxes import connect, lifecycle
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.flow.mailboxes.fixed_token import FixedToken
from postroom.model import AppCredential, ContentPolicy, HealthCause, MailboxHealth, ProviderName, Secret
from postroom.store import feed, ledger, mailbox_health, mailboxes
from scenarios.worker_pool import until


async def state_of(world, mailbox):
    async with world.database.transaction(mailbox.organization) as found:
        return await mailboxes.get(found, mailbox.id)


async def credentials_left(owner) -> int:
    return (await (await owner.execute("SELECT count(*) FROM credentials")).fetchall())[0][0]


def application(sim, address) -> dict[str, str]:
    """The tenant of an address and the application there, allowed to read every mailbox."""
    known = sim.ready["clients"]["outlook"]
    sim.control.patch(
        f"microsoft/applications/{known['client_id']}", json={"roles": ["Mail.Read", "User.Read.All"]}
    )
    recorded = sim.post("microsoft/tokens", address=address)["id_token"]
    return known | {"tenant": jwt.decode(recorded, options={"verify_signature": False})["tid"]}


def certificate() -> tuple[str, str]:
    """A certificate, and the file with it and its key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "postroom.example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made, made + private.decode()


@pytest.fixture
async def app_only(world):
    """Connect a new mailbox with the application's own credential."""

    async def made(
        *, secret: str | None = None, pem: str | None = None, address: str | None = None, **wanted
    ):
        person = address or world.person(ProviderName.OUTLOOK)
        known = application(world.sim, person)
        credential = AppCredential(
            known["tenant"],
            known["client_id"],
            None if pem else Secret(secret or known["client_secret"]),
            Secret(pem) if pem else None,
        )
        done = await connect.connect_app_only(
            world.connect_context,
            world.organization,
            credential,
            address=person,
            **wanted,
        )
        return done.mailbox

    return made


async def test_a_new_secret_changes_neither_the_folder_nor_the_policy(world, app_only):
    first = await app_only()
    assert (first.folder, first.policy) == ("Inbox", ContentPolicy.FULL)
    limited = await app_only(address=first.address, folder="archive", policy=ContentPolicy.METADATA)
    again = await app_only(address=first.address)
    assert (again.id, again.folder, again.policy) == (limited.id, "archive", ContentPolicy.METADATA)


async def test_an_application_with_a_secret_opens_a_mailbox(world, app_only, owner):
    mailbox = await app_only(folder="archive", policy=ContentPolicy.DOCUMENTS)
    assert (mailbox.folder, mailbox.policy) == ("archive", ContentPolicy.DOCUMENTS)
    assert mailbox.provider_user_id in mailbox.account_id
    await owner.execute("UPDATE credentials SET access_expires_at = postroom_now()")
    world.tokens.cached.clear()
    await world.remote(mailbox).check()


async def test_an_application_with_a_certificate_opens_a_mailbox(world, app_only, owner):
    public, pem = certificate()
    known = world.sim.ready["clients"]["outlook"]
    world.sim.control.patch(f"microsoft/applications/{known['client_id']}", json={"certificates": [public]})
    mailbox = await app_only(pem=pem)
    await owner.execute("UPDATE credentials SET access_expires_at = postroom_now()")
    world.tokens.cached.clear()
    await world.remote(mailbox).check()


async def test_a_wrong_secret_or_address_connects_nothing(app_only, owner):
    with pytest.raises(OperatorError):
        await app_only(secret="wrong")
    assert await credentials_left(owner) == 0


async def test_an_expired_secret_of_an_application_is_its_own_alert(world, app_only, owner):
    mailbox = await app_only()
    await owner.execute("UPDATE credentials SET access_expires_at = postroom_now()")
    world.tokens.cached.clear()
    world.sim.post("microsoft/refusals", code=7000222)
    with pytest.raises(OperatorError):
        await world.source(mailbox).get_token()
    assert (await state_of(world, mailbox)).health is MailboxHealth.ACTIVE
    assert (await world.ledger_events()).count("APPLICATION_REFUSED") == 1


async def test_a_new_secret_is_given_once_for_all_mailboxes_of_an_application(world, app_only, owner):
    first, second = await app_only(), await app_only()
    # The first one's grant is now worthless.
    await owner.execute("UPDATE credentials SET sealed_grant = '\\x00', access_expires_at = postroom_now()")
    await app_only(address=second.address)
    await world.source(first, world.another_process()).get_token()


async def test_a_mailbox_that_waits_is_tried_at_once_when_resumed(world, provider, owner):
    mailbox = await world.connected(provider)
    await owner.execute(
        """
        UPDATE work SET state = 'waiting_for_operator', due_at = due_at + interval '1 hour',
            last_error = 'secret expired'
        """
    )
    assert not await lifecycle.resume(world.connect_context, world.organization, mailbox.id)
    cursor = await owner.execute("SELECT DISTINCT due_at <= postroom_now() FROM work")
    assert await cursor.fetchall() == [(True,)]


async def test_a_mailbox_is_paused_and_resumed(world, provider, owner):
    mailbox = await world.connected(provider)
    assert await lifecycle.pause(world.connect_context, world.organization, mailbox.id)
    assert not await lifecycle.pause(world.connect_context, world.organization, mailbox.id)
    assert (await state_of(world, mailbox)).paused_at
    await owner.execute("DELETE FROM work")
    assert await lifecycle.resume(world.connect_context, world.organization, mailbox.id)
    assert not await lifecycle.resume(world.connect_context, world.organization, mailbox.id)
    assert not (await state_of(world, mailbox)).paused_at
    kinds = await (await owner.execute("SELECT kind FROM work ORDER BY kind")).fetchall()
    assert kinds == [("subscribe",), ("sync",)]
    assert await world.ledger_events(mailbox) == ["MAILBOX_CONNECTED", "MAILBOX_PAUSED", "MAILBOX_RESUMED"]


async def test_a_policy_can_always_become_narrower_and_wider_only_as_allowed(world, provider):
    mailbox = await world.connected(provider)
    for policy in (ContentPolicy.METADATA, ContentPolicy.DOCUMENTS):
        assert await lifecycle.set_policy(world.connect_context, world.organization, mailbox.id, policy)
        assert (await state_of(world, mailbox)).policy is policy
    assert not await lifecycle.set_policy(world.connect_context, world.organization, mailbox.id, policy)
    narrow = await world.connected(provider, request=ConnectRequest(ContentPolicy.METADATA))
    with pytest.raises(PermanentError, match="Reconnect it"):
        await lifecycle.set_policy(world.connect_context, world.organization, narrow.id, ContentPolicy.FULL)
    assert (await state_of(world, narrow)).policy is ContentPolicy.METADATA


async def test_a_disconnect_erases_the_grant_and_keeps_the_mail(world, provider, owner):
    mailbox = await world.connected(provider)
    grant = await owner.execute("SELECT sealed_grant FROM credentials")
    assert await grant.fetchall()
    assert await lifecycle.disconnect(
        world.connect_context, world.tokens, world.organization, mailbox.id, purge=False
    )
    assert (await state_of(world, mailbox)).disconnected_at
    assert await credentials_left(owner) == 0
    assert await (await owner.execute("SELECT 1 FROM work")).fetchall() == []
    with pytest.raises(InvalidGrant):
        await world.source(mailbox).get_token()


async def test_a_disconnected_gmail_mailbox_is_revoked_at_google(world):
    mailbox = await world.connected(ProviderName.GMAIL)
    token = await world.source(mailbox).get_token()
    await lifecycle.disconnect(
        world.connect_context, world.tokens, world.organization, mailbox.id, purge=False
    )
    remote = world.connect_context.providers[ProviderName.GMAIL].mailbox(
        mailbox.provider_user_id, FixedToken(token)
    )
    with pytest.raises(TokenRejected):
        await remote.check()


@pytest.mark.parametrize(
    "provider, revoked_before, revocation",
    [
        (ProviderName.GMAIL, False, "revoked"),
        (ProviderName.GMAIL, True, "already_invalid"),
        (ProviderName.OUTLOOK, False, "not_supported"),
    ],
)
async def test_the_ledger_states_what_the_provider_confirmed(
    world, owner, provider, revoked_before, revocation
):
    mailbox = await world.connected(provider)
    if revoked_before:
        world.sim.post(f"mailboxes/{mailbox.address}/revoke")
    await lifecycle.disconnect(
        world.connect_context, world.tokens, world.organization, mailbox.id, purge=False
    )
    assert await revocation_of(owner, mailbox) == (revocation, revocation == "revoked")


async def test_a_revocation_without_an_answer_is_not_claimed(world, owner):
    mailbox = await world.connected(ProviderName.GMAIL)
    world.sim.fault("error", provider="gmail", endpoint="*revoke", status=400)
    await lifecycle.disconnect(
        world.connect_context, world.tokens, world.organization, mailbox.id, purge=False
    )
    world.sim.delete("faults")
    assert (await revocation_of(owner, mailbox))[1] is False


async def test_a_shared_account_is_not_revoked_and_the_ledger_says_so(world, owner, other_organization):
    address = world.person(ProviderName.GMAIL)
    ours = (await world.login(ProviderName.GMAIL, address)).mailbox
    await world.login(ProviderName.GMAIL, address, organization=other_organization)
    await lifecycle.disconnect(world.connect_context, world.tokens, world.organization, ours.id, purge=False)
    assert await revocation_of(owner, ours) == ("shared", False)


async def revocation_of(owner, mailbox) -> tuple[str, bool]:
    cursor = await owner.execute(
        """
        SELECT payload ->> 'revocation', (payload ->> 'revoked')::bool FROM ledger
        WHERE event_type = 'MAILBOX_DISCONNECTED' AND entity_id = %s
        """,
        [str(mailbox.id)],
    )
    [row] = await cursor.fetchall()
    return row


async def test_while_another_organization_has_the_account_nothing_ends_at_the_provider(
    world, provider, other_organization, owner
):
    address = world.person(provider)
    ours = (await world.login(provider, address)).mailbox
    theirs = (await world.login(provider, address, organization=other_organization)).mailbox
    await lifecycle.disconnect(world.connect_context, world.tokens, world.organization, ours.id, purge=True)
    await world.remote(theirs).check()
    await owner.execute("UPDATE credentials SET access_expires_at = postroom_now()")
    await world.source(theirs, world.another_process()).get_token()
    woken = await (
        await owner.execute("SELECT kind FROM work WHERE subject = %s", [str(theirs.id)])
    ).fetchall()
    assert ("subscribe",) in woken


async def subscribed(owner, mailbox, provider_id):
    await owner.execute(
        """
        INSERT INTO subscriptions (organization_id, mailbox_id, resource, notification_url, confirmed_at,
            provider_subscription_id)
        VALUES (%s, %s, 'mail', 'http://127.0.0.1:9/', now(), %s)
        """,
        [mailbox.organization, mailbox.id, provider_id],
    )


async def test_who_leaves_first_ends_a_subscription_of_its_own_and_leaves_a_shared_one(
    world, other_organization, owner
):
    address = world.person(ProviderName.OUTLOOK)
    ours = (await world.login(ProviderName.OUTLOOK, address)).mailbox
    theirs = (await world.login(ProviderName.OUTLOOK, address, organization=other_organization)).mailbox
    await subscribed(owner, ours, "our-own")
    for mailbox in (ours, theirs):
        await subscribed(owner, mailbox, "of-both")
    await lifecycle.disconnect(world.connect_context, world.tokens, world.organization, ours.id, purge=False)
    deleted = [each["path"] for each in world.sim.get("requests", limit=5) if each["method"] == "DELETE"]
    assert [path.rpartition("/")[2] for path in deleted] == ["our-own"]


async def test_two_that_leave_at_the_same_time_leave_nothing_at_the_provider(
    world, other_organization, owner, database_url
):
    """Each looks while the other is still there, and neither may count on the other."""
    address = world.person(ProviderName.GMAIL)
    ours = (await world.login(ProviderName.GMAIL, address)).mailbox
    theirs = (await world.login(ProviderName.GMAIL, address, organization=other_organization)).mailbox
    for mailbox in (ours, theirs):
        await subscribed(owner, mailbox, None)
    world.sim.delete("requests")
    async with databases.session(database_url) as holder, holder.transaction():
        await holder.execute("SELECT FROM credentials FOR UPDATE")
        leaving = [
            asyncio.create_task(
                lifecycle.disconnect(
                    world.connect_context, world.tokens, each.organization, each.id, purge=False
                )
            )
            for each in (ours, theirs)
        ]
        await until(
            owner,
            """
            SELECT count(*) = 2 FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ 'DELETE'
            """,
        )
    assert await asyncio.gather(*leaving) == [True, True]
    paths = [each["path"].rpartition("/")[2] for each in world.sim.get("requests")]
    assert {"stop", "revoke"} <= set(paths)


async def test_a_purge_removes_the_mailbox_and_what_was_personal_in_the_ledger(world, provider):
    mailbox = await world.connected(provider)
    await lifecycle.disconnect(
        world.connect_context, world.tokens, world.organization, mailbox.id, purge=True
    )
    assert await state_of(world, mailbox) is None
    async with world.database.transaction(world.organization) as found:
        entries = await ledger.list_by_entity(found, "mailbox", str(mailbox.id))
    assert [each.event_type for each in entries] == ["MAILBOX_CONNECTED", "MAILBOX_DISCONNECTED"]
    assert all(each.personal is None for each in entries)
    assert entries[0].personal_sha256
    assert not await lifecycle.disconnect(
        world.connect_context, world.tokens, world.organization, mailbox.id, purge=False
    )


async def test_a_provider_that_is_away_does_not_keep_a_mailbox_connected(world, owner):
    mailbox = await world.connected(ProviderName.GMAIL)
    world.sim.fault("error", provider="gmail", endpoint="oauth.revoke", status=503, retry_after=60)
    assert await lifecycle.disconnect(
        world.connect_context, world.tokens, world.organization, mailbox.id, purge=False
    )
    assert await credentials_left(owner) == 0


async def test_a_mailbox_whose_provider_has_no_settings_left_is_disconnected_all_the_same(
    world, provider, owner
):
    mailbox = await world.connected(provider)
    await owner.execute("UPDATE credentials SET access_expires_at = postroom_now()")
    await owner.execute(
        """
        INSERT INTO subscriptions (organization_id, mailbox_id, resource, notification_url, confirmed_at)
        VALUES (%s, %s, 'topic', 'http://127.0.0.1:9/', now())
        """,
        [world.organization, mailbox.id],
    )
    bare = replace(world.connect_context, providers={})
    tokens = replace(world.another_process(), providers={})
    with pytest.raises(OperatorError, match=r"is not configured\. Set POSTROOM_\w+_CLIENT_ID"):
        await lifecycle.set_policy(bare, world.organization, mailbox.id, ContentPolicy.METADATA)
    assert await lifecycle.disconnect(bare, tokens, world.organization, mailbox.id, purge=False)
    assert await credentials_left(owner) == 0
    assert await (await owner.execute("SELECT status FROM subscriptions")).fetchall() == [("removed",)]


async def test_the_subscriptions_of_a_mailbox_end_with_it(world, owner):
    mailbox = await world.connected(ProviderName.GMAIL)
    await owner.execute(
        """
        INSERT INTO subscriptions (organization_id, mailbox_id, resource, notification_url, confirmed_at)
        VALUES (%s, %s, 'topic', 'http://127.0.0.1:9/', now())
        """,
        [world.organization, mailbox.id],
    )
    world.sim.delete("requests")
    await lifecycle.disconnect(
        world.connect_context, world.tokens, world.organization, mailbox.id, purge=False
    )
    paths = [each["path"] for each in world.sim.get("requests")]
    assert any(path.endswith("/stop") for path in paths)
    assert paths[0].endswith("/revoke"), "newest first: the watch is stopped while the token still works"
    assert await (await owner.execute("SELECT status FROM subscriptions")).fetchall() == [("removed",)]


async def test_another_organizations_mailbox_is_out_of_reach(world, provider, other_organization):
    mailbox = await world.connected(provider)
    assert not await lifecycle.pause(world.connect_context, other_organization, mailbox.id)
    assert not await lifecycle.disconnect(
        world.connect_context, world.tokens, other_organization, mailbox.id, purge=True
    )
    assert await state_of(world, mailbox)


async def read_health_events(world):
    async with world.database.transaction(world.organization) as opened:
        await feed.assign_positions(opened)
        events = await feed.list_after(opened, 0, 99)
    return [(event.kind, event.data.get("health")) for event in events]


async def test_the_feed_says_that_a_mailbox_is_active_again_after_new_consent(world, provider):
    person = world.person(provider)
    mailbox = (await world.login(provider, person)).mailbox
    async with world.database.transaction(world.organization) as opened:
        await mailbox_health.record_problem(opened, mailbox.id, HealthCause.CONSENT_LOST, "revoked")
    await world.login(provider, person)
    assert await read_health_events(world) == [
        ("mailbox.connected", None),
        ("mailbox.health_changed", "token_refresh_failed"),
        ("mailbox.health_changed", "active"),
        ("mailbox.reconnected", None),
    ]
    await world.login(provider, person)
    assert (await read_health_events(world))[4:] == [("mailbox.reconnected", None)], "it was active already"


async def test_the_feed_says_that_a_mailbox_is_active_again_after_a_disconnect(world, provider):
    person = world.person(provider)
    mailbox = (await world.login(provider, person)).mailbox
    await lifecycle.disconnect(
        world.connect_context, world.tokens, world.organization, mailbox.id, purge=False
    )
    await world.login(provider, person)
    assert await read_health_events(world) == [
        ("mailbox.connected", None),
        ("mailbox.disconnected", None),
        ("mailbox.health_changed", "active"),
        ("mailbox.reconnected", None),
    ]


async def test_the_feed_says_that_a_mailbox_is_active_again_after_a_sync(world):
    mailbox = await world.connected(ProviderName.GMAIL)
    async with world.database.transaction(world.organization) as opened:
        await mailbox_health.record_problem(opened, mailbox.id, HealthCause.SERVER_ERROR, "x")
        await mailbox_health.record_sync(opened, mailbox.id)
        await mailbox_health.record_sync(opened, mailbox.id)
    assert (await read_health_events(world))[1:] == [
        ("mailbox.health_changed", "provider_error"),
        ("mailbox.health_changed", "active"),
    ]
    found = await state_of(world, mailbox)
    assert found.health is MailboxHealth.ACTIVE


async def test_changes_of_a_mailbox_appear_in_the_feed(world):
    mailbox = await world.connected(ProviderName.GMAIL)
    await lifecycle.pause(world.connect_context, world.organization, mailbox.id)
    async with world.database.transaction(world.organization) as opened:
        for _ in range(2):
            await mailbox_health.record_problem(opened, mailbox.id, HealthCause.SERVER_ERROR, "x")
    assert await read_health_events(world) == [
        ("mailbox.connected", None),
        ("mailbox.paused", None),
        ("mailbox.health_changed", "provider_error"),
    ]
