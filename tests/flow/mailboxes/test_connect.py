"""C1, C5, C6: a mailbox is connected only with its owner's consent."""

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest

from flow.simulated_world import state_of
from postroom.errors import LoginRejected, TransientError
from postroom.flow.mailboxes import connect, lifecycle
from postroom.flow.mailboxes.connect import ConnectedMailbox
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.flow.mailboxes.login_checks import LoginRefusal, LoginRefusalReason
from postroom.model import ContentPolicy, MailboxHealth, ProviderName, Secret
from postroom.store import ledger, notifications, oauth_states
from providers.consent import consent


async def rows(owner, table) -> int:
    [[count]] = await (await owner.execute(f"SELECT count(*) FROM {table}")).fetchall()
    return count


async def nothing_is_stored(owner):
    return [await rows(owner, table) for table in ("mailboxes", "credentials", "oauth_states", "work")] == [
        0,
        0,
        0,
        0,
    ]


async def test_a_consent_connects_the_mailbox_and_wakes_its_work(world, provider, owner):
    address = world.person(provider)
    login = uuid4()
    done = await world.login(provider, address, login_id=login)
    assert isinstance(done, ConnectedMailbox)
    assert done.is_new
    assert done.mailbox.address == address
    assert done.mailbox.health is MailboxHealth.ACTIVE
    assert done.mailbox.policy is ContentPolicy.FULL
    work = await (await owner.execute("SELECT kind, subject FROM work ORDER BY kind")).fetchall()
    assert work == [("subscribe", str(done.mailbox.id)), ("sync", str(done.mailbox.id))]
    assert await world.ledger_events(done.mailbox) == ["MAILBOX_CONNECTED"]
    async with world.database.transaction(world.organization) as connection:
        [entry] = await ledger.list_by_entity(connection, "login", str(login))
    assert (entry.event_type, entry.payload) == ("LOGIN_COMPLETED", {"mailbox": str(done.mailbox.id)})
    await world.remote(done.mailbox).check()


async def test_gmail_calls_use_the_address_and_graph_calls_the_immutable_id(world):
    gmail = await world.connected(ProviderName.GMAIL)
    outlook = await world.connected(ProviderName.OUTLOOK)
    assert gmail.provider_user_id == gmail.address
    assert outlook.account_id.endswith(f":{outlook.provider_user_id}")


async def test_what_is_stored_is_sealed(world, provider, owner):
    address = world.person(provider)
    url = await world.begin(provider)
    [[row]] = await (
        await owner.execute("SELECT row_to_json(oauth_states)::text FROM oauth_states")
    ).fetchall()
    assert state_of(url) not in row
    assert world.browser.reveal() not in row
    done = await world.finish(provider, await consent(url, address))
    token = (await world.source(done.mailbox).get_token()).reveal()
    [[row]] = await (
        await owner.execute(
            "SELECT encode(sealed_access, 'escape') || encode(sealed_grant, 'escape') FROM credentials"
        )
    ).fetchall()
    assert token not in row


async def test_a_denied_consent_stores_nothing(world, provider, owner):
    done = await world.login(provider, world.person(provider), decision="deny")
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.DENIED
    assert await nothing_is_stored(owner)
    assert await world.ledger_events() == ["LOGIN_REFUSED"]


async def test_a_state_is_good_once(world, provider, owner):
    address = world.person(provider)
    answer = await consent(await world.begin(provider), address)
    assert isinstance(await world.finish(provider, answer), ConnectedMailbox)
    again = await world.finish(provider, answer)
    assert isinstance(again, LoginRefusal)
    assert again.reason is LoginRefusalReason.UNKNOWN
    assert await rows(owner, "mailboxes") == 1


async def test_state_is_single_use_and_bound_to_its_browser(world, provider, owner):
    answer = await consent(await world.begin(provider), world.person(provider))
    for browser in (Secret("another"), world.browser):
        done = await world.finish(provider, answer, browser=browser)
        assert isinstance(done, LoginRefusal)
        assert done.reason is LoginRefusalReason.UNKNOWN
    assert await nothing_is_stored(owner)


async def test_without_the_cookie_nothing_is_stored(world, provider, owner):
    answer = await consent(await world.begin(provider), world.person(provider))
    done = await world.finish(provider, answer, browser=None)
    assert done.reason is LoginRefusalReason.UNKNOWN
    assert await nothing_is_stored(owner)


async def test_a_state_lapses_after_ten_minutes(world, provider, owner, move_clock):
    answer = await consent(await world.begin(provider), world.person(provider))
    await move_clock(601)
    assert (await world.finish(provider, answer)).reason is LoginRefusalReason.UNKNOWN
    assert await nothing_is_stored(owner)


async def test_a_state_of_one_provider_is_nothing_at_the_other(world, owner):
    answer = await consent(await world.begin(ProviderName.GMAIL), world.person(ProviderName.GMAIL))
    assert (await world.finish(ProviderName.OUTLOOK, answer)).reason is LoginRefusalReason.UNKNOWN
    assert await nothing_is_stored(owner)


async def test_a_made_up_state_or_code_stores_nothing(world, provider, owner):
    done = await world.finish(provider, {"state": "made-up", "code": "made-up"})
    assert done.reason is LoginRefusalReason.UNKNOWN
    url = await world.begin(provider)
    done = await world.finish(provider, {"state": state_of(url), "code": "made-up"})
    assert done.reason is LoginRefusalReason.NOT_ACCEPTED
    assert await nothing_is_stored(owner)


async def test_a_code_used_by_another_login_stores_nothing(world, provider, owner):
    """The code was used with another login of ours: the verifier does not match, whichever comes first."""
    answer = await consent(await world.begin(provider), world.person(provider))
    other = await world.begin(provider)
    done = await world.finish(provider, {"state": state_of(other), "code": answer["code"]})
    assert done.reason is LoginRefusalReason.NOT_ACCEPTED
    assert await rows(owner, "mailboxes") == 0


async def test_a_scope_left_out_is_explained_and_asked_for_again(world, owner):
    address = world.person(ProviderName.GMAIL)
    done = await world.login(ProviderName.GMAIL, address, untick=["gmail.readonly"])
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.SCOPES_MISSING
    assert "box on the consent page" in done.message
    assert await nothing_is_stored(owner)
    assert done.request
    assert done.request.force_consent
    assert isinstance(await world.login(ProviderName.GMAIL, address, done.request), ConnectedMailbox)


async def test_the_policy_metadata_asks_only_for_that(world, provider):
    mailbox = await world.connected(provider, request=ConnectRequest(ContentPolicy.METADATA))
    assert mailbox.policy is ContentPolicy.METADATA
    url = await world.begin(provider, ConnectRequest(ContentPolicy.METADATA))
    assert ("gmail.metadata" in url) or ("Mail.ReadBasic" in url)
    assert "readonly" not in url
    assert "Mail.Read&" not in url


async def test_a_reconnect_finds_its_mailbox_even_when_the_address_changed(world, provider, owner):
    address = world.person(provider)
    first = (await world.login(provider, address)).mailbox
    await owner.execute(
        "UPDATE mailboxes SET address = 'former@example.org', health = 'token_refresh_failed'"
    )
    again = await world.login(provider, address, ConnectRequest(mailbox=first.id))
    assert isinstance(again, ConnectedMailbox)
    assert not again.is_new
    assert (again.mailbox.id, again.mailbox.address) == (first.id, address)
    assert again.mailbox.health is MailboxHealth.ACTIVE
    assert await world.ledger_events(first) == ["MAILBOX_CONNECTED", "MAILBOX_RECONNECTED"]


async def test_connecting_a_known_account_again_keeps_its_policy_unless_another_is_asked_for(world, provider):
    address = world.person(provider)
    first = (await world.login(provider, address, ConnectRequest(ContentPolicy.METADATA))).mailbox
    again = await world.login(provider, address, ConnectRequest())
    assert (again.mailbox.id, again.mailbox.policy) == (first.id, ContentPolicy.METADATA)
    raised = await world.login(provider, address, ConnectRequest(ContentPolicy.FULL))
    assert raised.mailbox.policy is ContentPolicy.FULL
    recorded = ["MAILBOX_CONNECTED", "MAILBOX_RECONNECTED", "MAILBOX_POLICY_CHANGED", "MAILBOX_RECONNECTED"]
    assert await world.ledger_events(first) == recorded


async def test_a_reconnect_leaves_a_paused_mailbox_paused(world, provider):
    address = world.person(provider)
    mailbox = (await world.login(provider, address)).mailbox
    await lifecycle.pause(world.connect_context, world.organization, mailbox.id)
    again = await world.login(provider, address)
    assert again.mailbox.paused_at
    await lifecycle.disconnect(
        world.connect_context, world.tokens, world.organization, mailbox.id, purge=False
    )
    assert (await world.login(provider, address)).mailbox.paused_at is None


async def test_a_reconnect_restarts_parked_and_failing_work(world, provider, owner):
    address = world.person(provider)
    await world.login(provider, address)
    await owner.execute("UPDATE work SET state = 'parked', due_at = NULL, attempts = 3 WHERE kind = 'sync'")
    await owner.execute(
        "UPDATE work SET due_at = postroom_now() + interval '1 h', attempts = 3 WHERE kind = 'subscribe'"
    )
    await world.login(provider, address)
    due = await (await owner.execute("SELECT due_at <= postroom_now(), attempts FROM work")).fetchall()
    assert due == [(True, 0), (True, 0)]


async def test_a_reconnect_with_another_account_changes_nothing(world, provider, owner):
    mailbox = await world.connected(provider)
    done = await world.login(provider, world.person(provider), ConnectRequest(mailbox=mailbox.id))
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.OTHER_ACCOUNT
    assert await rows(owner, "mailboxes") == 1


async def test_a_shared_mailbox_cannot_be_connected_by_another_persons_login(world, provider, owner):
    shared = world.person(provider, "shared")
    done = await world.login(provider, world.person(provider), ConnectRequest(address=shared))
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.OTHER_ACCOUNT
    assert "shared mailbox cannot be connected" in done.message
    assert await nothing_is_stored(owner)
    assert isinstance(
        await world.login(provider, shared, ConnectRequest(address=shared.upper())), ConnectedMailbox
    )


async def test_an_account_without_a_mailbox_is_refused(world, owner):
    address = world.person(ProviderName.OUTLOOK)
    world.sim.post(f"microsoft/accounts/{address}", mailbox=False)
    done = await world.login(ProviderName.OUTLOOK, address)
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.NO_MAILBOX
    assert await nothing_is_stored(owner)


async def test_one_account_may_be_connected_by_two_organizations(world, provider, other_organization):
    address = world.person(provider)
    ours = await world.login(provider, address)
    theirs = await world.login(provider, address, organization=other_organization)
    assert ours.mailbox.id != theirs.mailbox.id
    async with world.database.engine() as engine:
        recorded = await notifications.find_mailboxes_by_address(engine, provider, [address])
    assert {reached.mailbox for _, reached, _ in recorded} == {ours.mailbox.id, theirs.mailbox.id}


async def test_the_same_account_connected_twice_at_the_same_time_is_one_mailbox(world, provider, owner):
    address = world.person(provider)
    answers = [await consent(await world.begin(provider), address) for _ in range(4)]
    done = await asyncio.gather(*(world.finish(provider, answer) for answer in answers))
    assert len({each.mailbox.id for each in done}) == 1
    assert await rows(owner, "mailboxes") == await rows(owner, "credentials") == 1
    await world.remote(done[0].mailbox).check()


class OvertakenVault:
    """A vault that is so slow that an earlier version of Postroom connects the account meanwhile."""

    def __init__(self, vault, connect_meanwhile):
        self.vault = vault
        self.connect_meanwhile = connect_meanwhile

    async def store(self, location, secret):
        await self.connect_meanwhile()
        return await self.vault.store(location, secret)


async def test_an_account_that_an_earlier_version_connects_meanwhile_is_one_mailbox(
    world, provider, owner, other_organization
):
    """Earlier versions chose random ids, so the derived id is not that of the stored mailbox."""
    address = world.person(provider)
    theirs = (await world.login(provider, address, organization=other_organization)).mailbox
    random_id = uuid4()

    async def connect_meanwhile():
        await owner.execute(
            """
            INSERT INTO mailboxes (organization_id, id, provider, account_id, provider_user_id, address,
                content_policy, folder)
            SELECT %s, %s, provider, account_id, provider_user_id, address, content_policy, folder
            FROM mailboxes WHERE id = %s
            """,
            [world.organization, random_id, theirs.id],
        )

    usual = world.connect_context
    world.connect_context = replace(usual, vault=OvertakenVault(usual.vault, connect_meanwhile))
    with pytest.raises(TransientError, match="Try again"):
        await world.login(provider, address)
    world.connect_context = usual
    assert (await world.login(provider, address)).mailbox.id == random_id


async def test_a_provider_without_an_application_of_ours_cannot_be_begun(world, provider):
    bare = replace(world.connect_context, sign_ins=frozenset())
    with pytest.raises(LoginRejected, match="no OAuth application"):
        await connect.begin_login(
            bare, world.organization, provider, ConnectRequest(), browser=world.browser, login_id=uuid4()
        )


async def test_a_wrong_secret_of_ours_is_an_alert_and_no_fault_of_the_login(world, owner):
    world.sim.post("microsoft/refusals", code=7000222)
    done = await world.login(ProviderName.OUTLOOK, world.person(ProviderName.OUTLOOK))
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.APPLICATION
    assert await nothing_is_stored(owner)
    assert await world.ledger_events() == ["APPLICATION_REFUSED", "LOGIN_REFUSED"]
    world.sim.delete("microsoft/refusals")
    await world.connected(ProviderName.OUTLOOK)
    assert "APPLICATION_ACCEPTED" in await world.ledger_events()


async def test_lapsed_logins_are_removed_when_another_begins(world, provider, owner, move_clock):
    await world.begin(provider)
    await move_clock(601)
    url = await world.begin(provider)
    async with world.database.engine() as engine:
        assert await oauth_states.find_organization(engine, Secret(state_of(url))) == world.organization
    assert await rows(owner, "oauth_states") == 1
