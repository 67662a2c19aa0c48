"""C1, C4, C6: what every provider's sign-in promises."""

import pytest

from postroom.errors import InvalidGrant, LoginRejected
from postroom.model import ContentPolicy, Secret


async def test_a_login_names_the_account_and_grants_what_was_asked(contract):
    grant, _, mailbox = await contract.connect()
    assert grant.account.address == contract.address
    assert grant.account.account_id
    assert grant.tokens.refresh is not None
    assert grant.missing_scopes == frozenset()
    await mailbox.check()


async def test_the_same_account_has_the_same_id_every_time(contract):
    first, second = (await contract.connect())[0], (await contract.connect())[0]
    assert first.account.account_id == second.account.account_id
    assert second.tokens.refresh is not None, "a second consent brings lasting access too"


async def test_the_metadata_policy_requests_fewer_scopes(contract):
    basic, full = (
        contract.provider.login.scopes(policy) for policy in (ContentPolicy.METADATA, ContentPolicy.FULL)
    )
    assert len(basic) == len(full)
    assert basic != full


async def test_a_code_can_be_exchanged_once(contract):
    login = contract.new_login()
    code = await contract.code(login)
    await contract.provider.login.exchange(login, code)
    with pytest.raises(LoginRejected):
        await contract.provider.login.exchange(login, code)


async def test_a_code_requires_its_verifier(contract):
    login = contract.new_login()
    code = await contract.code(login)
    with pytest.raises(LoginRejected):
        await contract.provider.login.exchange(contract.new_login(), code)


async def test_an_invalid_code_is_rejected(contract):
    with pytest.raises(LoginRejected):
        await contract.provider.login.exchange(contract.new_login(), Secret("made-up"))


async def test_a_refresh_returns_a_working_token(contract):
    grant, tokens, mailbox = await contract.connect()
    contract.sim.post(f"mailboxes/{contract.address}/expire-tokens")
    await mailbox.check()
    assert len(tokens.refused) == 1
    assert (await tokens.get_token()).reveal() != grant.tokens.access.reveal()


async def test_the_old_refresh_token_survives_a_lost_response(contract):
    grant, _, _ = await contract.connect()
    for _ in range(2):
        tokens = await contract.provider.login.refresh(grant.tokens.refresh, grant.scopes)
        assert tokens.access.reveal()


async def test_a_revoked_consent_is_an_invalid_grant(contract):
    grant, _, _ = await contract.connect()
    contract.sim.post(f"mailboxes/{contract.address}/revoke")
    with pytest.raises(InvalidGrant):
        await contract.provider.login.refresh(grant.tokens.refresh, grant.scopes)


async def test_revoking_twice_is_no_error(contract):
    grant, _, _ = await contract.connect()
    for _ in range(2):
        await contract.provider.login.revoke(grant.tokens.refresh)
