"""C1, C5, C6: mailboxes come in by consent, and nothing comes in without it."""

from uuid import uuid4

import pytest

from flow.connecting import state_of
from postroom.errors import LoginRejected
from postroom.flow.mailboxes import connect, lifecycle
from postroom.flow.mailboxes.connect import ConnectedMailbox
from postroom.flow.mailboxes.login_refusals import ConnectRequest, LoginRefusal, LoginRefusalReason
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


async def test_a_consent_connects_the_mailbox_and_wakes_its_work(desk, provider, owner):
    address = desk.person(provider)
    login = uuid4()
    done = await desk.login(provider, address, login_id=login)
    assert isinstance(done, ConnectedMailbox)
    assert done.is_new
    assert done.mailbox.address == address
    assert done.mailbox.health is MailboxHealth.ACTIVE
    assert done.mailbox.policy is ContentPolicy.FULL
    work = await (await owner.execute("SELECT kind, subject FROM work ORDER BY kind")).fetchall()
    assert work == [("subscribe", str(done.mailbox.id)), ("sync", str(done.mailbox.id))]
    assert await desk.told(done.mailbox) == ["MAILBOX_CONNECTED"]
    async with desk.database.transaction(desk.organization) as connection:
        [entry] = await ledger.list_by_entity(connection, "login", str(login))
    assert (entry.event_type, entry.payload) == ("LOGIN_COMPLETED", {"mailbox": str(done.mailbox.id)})
    await desk.remote(done.mailbox).check()


async def test_background_calls_name_the_account_never_me(desk):
    gmail = await desk.connected(ProviderName.GMAIL)
    outlook = await desk.connected(ProviderName.OUTLOOK)
    assert gmail.provider_user_id == gmail.address
    assert outlook.account_id.endswith(f":{outlook.provider_user_id}")
    desk.sim.delete("requests")
    for mailbox in (gmail, outlook):
        await desk.remote(mailbox).check()
    assert not [each for each in desk.sim.get("requests") if "/me" in each["path"]]


async def test_what_is_stored_is_sealed(desk, provider, owner):
    address = desk.person(provider)
    url = await desk.begin(provider)
    [[row]] = await (
        await owner.execute("SELECT row_to_json(oauth_states)::text FROM oauth_states")
    ).fetchall()
    assert state_of(url) not in row
    assert desk.browser.reveal() not in row
    done = await desk.finish(provider, await consent(url, address))
    token = (await desk.source(done.mailbox).get_token()).reveal()
    [[row]] = await (
        await owner.execute(
            "SELECT encode(sealed_access, 'escape') || encode(sealed_grant, 'escape') FROM credentials"
        )
    ).fetchall()
    assert token not in row


async def test_a_denied_consent_stores_nothing(desk, provider, owner):
    done = await desk.login(provider, desk.person(provider), decision="deny")
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.DENIED
    assert await nothing_is_stored(owner)
    assert await desk.told() == ["LOGIN_REFUSED"]


async def test_a_state_is_good_once(desk, provider, owner):
    address = desk.person(provider)
    answer = await consent(await desk.begin(provider), address)
    assert isinstance(await desk.finish(provider, answer), ConnectedMailbox)
    again = await desk.finish(provider, answer)
    assert isinstance(again, LoginRefusal)
    assert again.reason is LoginRefusalReason.UNKNOWN
    assert await rows(owner, "mailboxes") == 1


async def test_a_state_is_worth_nothing_in_another_browser_and_then_nowhere(desk, provider, owner):
    answer = await consent(await desk.begin(provider), desk.person(provider))
    for browser in (Secret("another"), desk.browser):
        done = await desk.finish(provider, answer, browser=browser)
        assert isinstance(done, LoginRefusal)
        assert done.reason is LoginRefusalReason.UNKNOWN
    assert await nothing_is_stored(owner)


async def test_without_the_cookie_nothing_is_stored(desk, provider, owner):
    answer = await consent(await desk.begin(provider), desk.person(provider))
    done = await desk.finish(provider, answer, browser=None)
    assert done.reason is LoginRefusalReason.UNKNOWN
    assert await nothing_is_stored(owner)


async def test_a_state_lapses_after_ten_minutes(desk, provider, owner, move_clock):
    answer = await consent(await desk.begin(provider), desk.person(provider))
    await move_clock(601)
    assert (await desk.finish(provider, answer)).reason is LoginRefusalReason.UNKNOWN
    assert await nothing_is_stored(owner)


async def test_a_state_of_one_provider_is_nothing_at_the_other(desk, owner):
    answer = await consent(await desk.begin(ProviderName.GMAIL), desk.person(ProviderName.GMAIL))
    assert (await desk.finish(ProviderName.OUTLOOK, answer)).reason is LoginRefusalReason.UNKNOWN
    assert await nothing_is_stored(owner)


async def test_a_made_up_state_or_code_stores_nothing(desk, provider, owner):
    done = await desk.finish(provider, {"state": "made-up", "code": "made-up"})
    assert done.reason is LoginRefusalReason.UNKNOWN
    url = await desk.begin(provider)
    done = await desk.finish(provider, {"state": state_of(url), "code": "made-up"})
    assert done.reason is LoginRefusalReason.NOT_ACCEPTED
    assert await nothing_is_stored(owner)


async def test_a_code_exchanged_by_somebody_else_stores_nothing(desk, provider, owner):
    """The code was used with another login of ours: the verifier does not fit, whoever comes first."""
    answer = await consent(await desk.begin(provider), desk.person(provider))
    other = await desk.begin(provider)
    done = await desk.finish(provider, {"state": state_of(other), "code": answer["code"]})
    assert done.reason is LoginRefusalReason.NOT_ACCEPTED
    assert await rows(owner, "mailboxes") == 0


async def test_a_scope_left_out_is_explained_and_asked_for_again(desk, owner):
    address = desk.person(ProviderName.GMAIL)
    done = await desk.login(ProviderName.GMAIL, address, untick=["gmail.readonly"])
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.SCOPES_MISSING
    assert "box on the consent page" in done.message
    assert await nothing_is_stored(owner)
    assert done.request
    assert done.request.force_consent
    assert isinstance(await desk.login(ProviderName.GMAIL, address, done.request), ConnectedMailbox)


async def test_the_policy_metadata_asks_only_for_that(desk, provider):
    mailbox = await desk.connected(provider, request=ConnectRequest(ContentPolicy.METADATA))
    assert mailbox.policy is ContentPolicy.METADATA
    url = await desk.begin(provider, ConnectRequest(ContentPolicy.METADATA))
    assert ("gmail.metadata" in url) or ("Mail.ReadBasic" in url)
    assert "readonly" not in url
    assert "Mail.Read&" not in url


async def test_a_reconnect_finds_its_mailbox_even_when_the_address_changed(desk, provider, owner):
    address = desk.person(provider)
    first = (await desk.login(provider, address)).mailbox
    await owner.execute(
        "UPDATE mailboxes SET address = 'former@example.org', health = 'token_refresh_failed'"
    )
    again = await desk.login(provider, address, ConnectRequest(mailbox=first.id))
    assert isinstance(again, ConnectedMailbox)
    assert not again.is_new
    assert (again.mailbox.id, again.mailbox.address) == (first.id, address)
    assert again.mailbox.health is MailboxHealth.ACTIVE
    assert await desk.told(first) == ["MAILBOX_CONNECTED", "MAILBOX_RECONNECTED"]


async def test_connecting_a_known_account_again_keeps_its_policy_unless_another_is_asked_for(desk, provider):
    address = desk.person(provider)
    first = (await desk.login(provider, address, ConnectRequest(ContentPolicy.METADATA))).mailbox
    again = await desk.login(provider, address, ConnectRequest())
    assert (again.mailbox.id, again.mailbox.policy) == (first.id, ContentPolicy.METADATA)
    raised = await desk.login(provider, address, ConnectRequest(ContentPolicy.FULL))
    assert raised.mailbox.policy is ContentPolicy.FULL
    told = ["MAILBOX_CONNECTED", "MAILBOX_RECONNECTED", "MAILBOX_POLICY_CHANGED", "MAILBOX_RECONNECTED"]
    assert await desk.told(first) == told


async def test_a_reconnect_leaves_a_paused_mailbox_paused(desk, provider):
    address = desk.person(provider)
    mailbox = (await desk.login(provider, address)).mailbox
    await lifecycle.pause(desk.desk, desk.organization, mailbox.id)
    again = await desk.login(provider, address)
    assert again.mailbox.paused_at
    await lifecycle.disconnect(desk.desk, desk.tokens, desk.organization, mailbox.id, purge=False)
    assert (await desk.login(provider, address)).mailbox.paused_at is None


async def test_a_reconnect_begins_parked_and_failing_work_anew(desk, provider, owner):
    address = desk.person(provider)
    await desk.login(provider, address)
    await owner.execute("UPDATE work SET due_at = NULL, attempts = 3 WHERE kind = 'sync'")
    await owner.execute(
        "UPDATE work SET due_at = postroom_now() + interval '1 h', attempts = 3 WHERE kind = 'subscribe'"
    )
    await desk.login(provider, address)
    due = await (await owner.execute("SELECT due_at <= postroom_now(), attempts FROM work")).fetchall()
    assert due == [(True, 0), (True, 0)]


async def test_a_reconnect_with_another_account_changes_nothing(desk, provider, owner):
    mailbox = await desk.connected(provider)
    done = await desk.login(provider, desk.person(provider), ConnectRequest(mailbox=mailbox.id))
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.OTHER_ACCOUNT
    assert await rows(owner, "mailboxes") == 1


async def test_a_shared_mailbox_cannot_be_connected_by_somebody_elses_login(desk, provider, owner):
    shared = desk.person(provider, "shared")
    done = await desk.login(provider, desk.person(provider), ConnectRequest(address=shared))
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.OTHER_ACCOUNT
    assert "shared mailbox cannot be connected" in done.message
    assert await nothing_is_stored(owner)
    assert isinstance(
        await desk.login(provider, shared, ConnectRequest(address=shared.upper())), ConnectedMailbox
    )


async def test_an_account_without_a_mailbox_is_refused(desk, owner):
    address = desk.person(ProviderName.OUTLOOK)
    desk.sim.post(f"microsoft/accounts/{address}", mailbox=False)
    done = await desk.login(ProviderName.OUTLOOK, address)
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.NO_MAILBOX
    assert await nothing_is_stored(owner)


async def test_one_account_may_be_connected_by_two_organizations(desk, provider, other_organization):
    address = desk.person(provider)
    ours = await desk.login(provider, address)
    theirs = await desk.login(provider, address, organization=other_organization)
    assert ours.mailbox.id != theirs.mailbox.id
    async with desk.database.engine() as engine:
        told = await notifications.find_mailboxes_by_address(engine, provider, [address])
    assert {reached.mailbox for _, reached, _ in told} == {ours.mailbox.id, theirs.mailbox.id}


async def test_the_same_account_connected_twice_at_the_same_time_is_one_mailbox(desk, provider, owner):
    import asyncio

    address = desk.person(provider)
    answers = [await consent(await desk.begin(provider), address) for _ in range(4)]
    done = await asyncio.gather(*(desk.finish(provider, answer) for answer in answers))
    assert len({each.mailbox.id for each in done}) == 1
    assert await rows(owner, "mailboxes") == await rows(owner, "credentials") == 1
    await desk.remote(done[0].mailbox).check()


async def test_a_provider_without_an_application_of_ours_cannot_be_begun(desk, provider):
    from dataclasses import replace

    bare = replace(desk.desk, sign_ins=frozenset())
    with pytest.raises(LoginRejected, match="no application"):
        await connect.begin_login(
            bare, desk.organization, provider, ConnectRequest(), browser=desk.browser, login_id=uuid4()
        )


async def test_a_wrong_secret_of_ours_is_an_alarm_and_no_fault_of_the_login(desk, owner):
    desk.sim.post("microsoft/refusals", code=7000222)
    done = await desk.login(ProviderName.OUTLOOK, desk.person(ProviderName.OUTLOOK))
    assert isinstance(done, LoginRefusal)
    assert done.reason is LoginRefusalReason.APPLICATION
    assert await nothing_is_stored(owner)
    assert await desk.told() == ["APPLICATION_REFUSED", "LOGIN_REFUSED"]
    desk.sim.delete("microsoft/refusals")
    await desk.connected(ProviderName.OUTLOOK)
    assert "APPLICATION_ACCEPTED" in await desk.told()


async def test_lapsed_logins_are_removed_when_another_begins(desk, provider, owner, move_clock):
    await desk.begin(provider)
    await move_clock(601)
    url = await desk.begin(provider)
    async with desk.database.engine() as engine:
        assert await oauth_states.find_organization(engine, Secret(state_of(url))) == desk.organization
    assert await rows(owner, "oauth_states") == 1
