"""C4: tokens are refreshed before they expire, once for all; every refusal has its consequence."""

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import pytest

from flow.simulated_world import settings_given
from postroom.errors import InvalidGrant, OperatorError, TransientError
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.model import ContentPolicy, FetchFailure, MailboxHealth, ProviderName, Secret
from postroom.ports import SecretLocation, SsmParameter
from postroom.store import credentials, mailboxes
from providers.reader import fetched, wanted
from simulator.driver import environment


@pytest.fixture
def leave(owner):
    """Let every access token hold for this many seconds yet. How long they live is the provider's choice."""

    async def set_to(seconds: float) -> None:
        await owner.execute(
            "UPDATE credentials SET access_expires_at = postroom_now() + %s * interval '1 second'", [seconds]
        )

    return set_to


SOON = 240


async def health_of(world, mailbox):
    async with world.database.transaction(world.organization) as connection:
        return await mailboxes.get(connection, mailbox.id)


async def wait_for_refresh(owner):
    """Return once a process holds the lease."""
    for _ in range(600):
        rows = await (
            await owner.execute("SELECT 1 FROM credentials WHERE leased_until IS NOT NULL")
        ).fetchall()
        if rows:
            return
        await asyncio.sleep(0.05)
    pytest.fail("no process refreshes")


async def access_of(owner):
    return (await (await owner.execute("SELECT sealed_access, sealed_grant FROM credentials")).fetchall())[0]


async def test_a_fresh_token_is_not_asked_for_again(world, provider):
    mailbox = await world.connected(provider)
    world.sim.delete("requests")
    first = await world.source(mailbox).get_token()
    assert first == await world.source(mailbox, world.another_process()).get_token()
    assert world.token_calls() == 0


async def test_a_token_is_refreshed_before_it_ends_and_kept(world, provider, owner, leave):
    mailbox = await world.connected(provider)
    before = await world.source(mailbox).get_token()
    sealed = await access_of(owner)
    await leave(SOON)
    world.sim.delete("requests")
    after = await world.source(mailbox, world.another_process()).get_token()
    assert after != before
    assert await world.source(mailbox, world.another_process()).get_token() == after
    assert world.token_calls() == 1
    assert (await access_of(owner))[0] != sealed[0]


async def test_a_rotated_refresh_token_is_kept(world, owner, leave):
    mailbox = await world.connected(ProviderName.OUTLOOK)
    _, grant = await access_of(owner)
    await leave(SOON)
    await world.source(mailbox, world.another_process()).get_token()
    _, rotated = await access_of(owner)
    assert rotated != grant
    await leave(SOON)
    await world.source(mailbox, world.another_process()).get_token()


async def test_a_refused_token_is_replaced_once_however_many_complain(world, provider):
    mailbox = await world.connected(provider)
    source = world.source(mailbox)
    refused = await source.get_token()
    world.sim.post(f"mailboxes/{mailbox.address}/expire-tokens")
    world.sim.delete("requests")
    found = await asyncio.gather(*(source.replace_rejected(refused) for _ in range(20)))
    assert len(set(found)) == 1
    assert found[0] != refused
    assert world.token_calls() == 1
    await world.remote(mailbox).check()


async def test_a_call_continues_when_the_token_of_another_process_expired_too(world, provider):
    """What this process holds has ended, and so has what another put in the database."""
    mailbox = await world.connected(provider)
    await world.remote(mailbox).check()
    other = world.another_process()
    await other.for_mailbox(mailbox.organization, mailbox.id).replace_rejected(
        await world.source(mailbox).get_token()
    )
    world.sim.post(f"mailboxes/{mailbox.address}/expire-tokens")
    await world.remote(mailbox).check()
    assert (await health_of(world, mailbox)).health is MailboxHealth.ACTIVE


async def test_a_call_continues_when_its_token_expired_early(world, provider):
    mailbox = await world.connected(provider)
    await world.remote(mailbox).check()
    world.sim.post(f"mailboxes/{mailbox.address}/expire-tokens")
    await world.remote(mailbox).check()


@pytest.mark.parametrize("most", [1, None])
@pytest.mark.parametrize("provider", list(ProviderName))
async def test_messages_are_fetched_after_a_reconnect_that_allows_more(world, provider, most):
    """This process still holds the access token from before; its scope is that of the former policy."""
    address = world.person(provider)
    first = await world.login(provider, address, ConnectRequest(ContentPolicy.METADATA))
    remote = world.remote(first.mailbox)
    await remote.check()
    await world.login(provider, address, ConnectRequest(ContentPolicy.FULL))
    keys = [message["id"] for message in world.sim.truth(address)]
    messages = await fetched(remote, wanted(*keys[:most]))
    assert not [message for message in messages if isinstance(message, FetchFailure)]
    assert all(message.content.raw or message.content.body_html for message in messages)


class Needing:
    """A process of its own that needs a token."""

    def __init__(self, world, database_url, mailbox, home):
        given = {
            "settings": settings_given(world.sim),
            "home": str(home),
            "database": database_url,
            "organization": str(mailbox.organization),
            "mailbox": str(mailbox.id),
        }
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("token_process.py")), json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def ready(self):
        assert self.process.stdout.readline() == "ready\n"

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def token(self):
        return next(line.split()[1] for line in self.process.stdout if line.startswith("token "))

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def need(world, database_url, tmp_path):
    started = []

    def start(mailbox):
        started.append(Needing(world, database_url, mailbox, tmp_path))
        return started[-1]

    yield start
    for each in started:
        each.end()


async def test_ten_processes_that_need_a_refresh_at_once_make_one_call(world, need, leave):
    mailbox = await world.connected(ProviderName.OUTLOOK)
    await leave(SOON)
    processes = [need(mailbox) for _ in range(10)]
    for each in processes:
        await asyncio.to_thread(each.ready)
    world.sim.delete("requests")
    for each in processes:
        each.go()
    found = {await asyncio.to_thread(each.token) for each in processes}
    now = await world.source(mailbox, world.another_process()).get_token()
    assert found == {sha256(now.reveal().encode()).hexdigest()}
    assert world.token_calls() == 1


async def test_a_process_killed_with_the_answer_on_its_way_loses_nothing(
    world, need, owner, move_clock, leave
):
    """The provider rotated the refresh token, and its response was lost: the previous one still works."""
    mailbox = await world.connected(ProviderName.OUTLOOK)
    await leave(SOON)
    world.sim.fault("stall", provider="outlook", endpoint="token", seconds=60, times=1)
    process = need(mailbox)
    await asyncio.to_thread(process.ready)
    process.go()
    await wait_for_refresh(owner)
    process.end()
    world.sim.delete("faults")
    await move_clock(61)
    await world.source(mailbox, world.another_process()).get_token()
    assert (await health_of(world, mailbox)).health is MailboxHealth.ACTIVE


async def test_an_answer_cut_short_is_repaired_by_the_former_refresh_token(world, provider, leave):
    mailbox = await world.connected(provider)
    await leave(SOON)
    world.sim.fault("cut", provider=provider, endpoint="*token", times=1)
    await world.source(mailbox, world.another_process()).get_token()
    await world.remote(mailbox).check()


async def test_a_process_that_lost_its_lease_writes_nothing_over_the_reconnect(world, owner, leave):
    address = world.person(ProviderName.OUTLOOK)
    mailbox = (await world.login(ProviderName.OUTLOOK, address)).mailbox
    await leave(SOON)
    world.sim.fault("stall", provider="outlook", endpoint="token", seconds=2, times=1)
    slow = asyncio.create_task(world.source(mailbox, world.another_process()).get_token())
    await wait_for_refresh(owner)
    await world.login(ProviderName.OUTLOOK, address)
    stored = await access_of(owner)
    token = await slow
    assert await access_of(owner) == stored
    assert token == await world.source(mailbox, world.another_process()).get_token()


@dataclass
class ExternalVault:
    """A vault outside the database: what is stored there is not undone by a transaction."""

    values: dict[str, Secret] = field(default_factory=dict)

    async def store(self, location, secret):
        self.values[location.context] = secret
        return SsmParameter(location.context)

    async def fetch(self, location, stored):
        return self.values[stored.name]

    async def delete(self, location, stored):
        self.values.pop(stored.name, None)


async def test_a_stale_refresh_does_not_overwrite_an_external_vault(world, owner, leave):
    """The lease was taken over while the provider's answer was on its way: its new grant is not stored."""
    mailbox = await world.connected(ProviderName.OUTLOOK)
    vault = ExternalVault()
    location = SecretLocation(mailbox.organization, mailbox.id, "grant")
    async with world.database.transaction(world.organization) as connection:
        credential = await credentials.load(connection, mailbox.id)
    kept = await vault.store(location, await world.connect_context.vault.fetch(location, credential.grant))
    await owner.execute(
        "UPDATE credentials SET sealed_grant = NULL, grant_key_id = NULL, ssm_parameter = %s", [kept.name]
    )
    await leave(SOON)
    world.sim.fault("stall", provider="outlook", endpoint="token", seconds=1, times=1)
    tokens = replace(world.another_process(), vault=vault)
    slow = asyncio.create_task(world.source(mailbox, tokens).get_token())
    await wait_for_refresh(owner)
    newer = vault.values[kept.name] = Secret("the grant of a reconnect")
    await owner.execute(
        "UPDATE credentials SET lease_token = NULL, leased_until = NULL,"
        " access_expires_at = postroom_now() + interval '1 hour'"
    )
    await slow
    assert vault.values[kept.name] == newer


RECONNECT = [
    *(65001, 50173, 700082, 70008, 700084, 70043, 70000, 50089),
    *(50076, 50079, 50074, 50072, 50078, 50158, 53000, 53001, 53002, 53003, 53004),
    *(50057, 50034),
]
OPERATOR = [7000215, 7000222, 700027, 700016, 7000112, 900144, 9002313, 90002, 70011, 54005]
TRY_AGAIN = [90033, 50033, 90024, 90006, 50196]


async def lost(world, mailbox):
    """The consequences of a lost grant."""
    world.sim.delete("requests")
    with pytest.raises(InvalidGrant):
        await world.source(mailbox, world.another_process()).get_token()
    found = await health_of(world, mailbox)
    assert found.health is MailboxHealth.TOKEN_REFRESH_FAILED
    assert found.last_error
    assert mailbox.address not in found.last_error
    assert (await world.ledger_events(mailbox))[-1] == "TOKEN_REFRESH_FAILED"
    with pytest.raises(InvalidGrant):
        await world.source(mailbox, world.another_process()).get_token()
    assert world.token_calls() == 1, "what was refused for good is not asked for again"


async def test_microsofts_refusals_that_only_the_owner_can_end(world, owner, leave):
    mailbox = await world.connected(ProviderName.OUTLOOK)
    await leave(SOON)
    for code in RECONNECT:
        world.sim.post("microsoft/refusals", code=code, times=1)
        await lost(world, mailbox)
        await owner.execute("UPDATE mailboxes SET health = 'active', last_error = NULL")


async def test_microsofts_refusals_that_the_operator_must_end_are_one_alert(world, leave):
    many = [await world.connected(ProviderName.OUTLOOK) for _ in range(3)]
    await leave(SOON)
    for code in OPERATOR:
        world.sim.post("microsoft/refusals", code=code)
        for mailbox in many:
            with pytest.raises(OperatorError, match=f"AADSTS{code}"):
                await world.source(mailbox, world.another_process()).get_token()
            assert (await health_of(world, mailbox)).health is MailboxHealth.ACTIVE
        world.sim.delete("microsoft/refusals")
    assert (await world.ledger_events()).count("APPLICATION_REFUSED") == 1
    for mailbox in many:
        await world.source(mailbox, world.another_process()).get_token()
    assert (await world.ledger_events())[-1] == "APPLICATION_ACCEPTED"


async def test_once_the_operator_has_acted_waiting_work_resumes(world, leave, owner, other_organization):
    """The first that gets through frees all that wait, and none of those that failed for another reason."""
    first = await world.connected(ProviderName.OUTLOOK)
    await world.connected(ProviderName.OUTLOOK, organization=other_organization)
    await leave(SOON)
    world.sim.post("microsoft/refusals", code=7000222)
    with pytest.raises(OperatorError):
        await world.source(first).get_token()
    await owner.execute(
        """
        UPDATE work SET due_at = postroom_now() + interval '1 hour', last_error = 'failed',
            attempts = CASE kind WHEN 'sync' THEN 3 ELSE 0 END,
            state = CASE kind WHEN 'sync' THEN 'waiting' ELSE 'waiting_for_operator' END
        """
    )
    world.sim.delete("microsoft/refusals")
    await world.source(first).get_token()
    cursor = await owner.execute(
        "SELECT kind, due_at <= postroom_now(), count(*) FROM work GROUP BY 1, 2 ORDER BY 1"
    )
    assert await cursor.fetchall() == [("subscribe", True, 2), ("sync", False, 2)]


async def test_the_providers_own_trouble_changes_nothing(world, provider, leave):
    mailbox = await world.connected(provider)
    before = await world.source(mailbox).get_token()
    world.sim.fault("error", provider=provider, endpoint="*token", status=503, retry_after=60)
    await leave(SOON)
    assert await world.source(mailbox, world.another_process()).get_token() == before, (
        "it holds for a while yet"
    )
    await leave(10)
    with pytest.raises(TransientError):
        await world.source(mailbox, world.another_process()).get_token()
    assert (await health_of(world, mailbox)).health is MailboxHealth.ACTIVE
    world.sim.delete("faults")
    assert await world.source(mailbox, world.another_process()).get_token() != before


async def test_microsofts_words_for_its_own_trouble_are_all_known(world, leave):
    mailbox = await world.connected(ProviderName.OUTLOOK)
    await leave(0)
    for code in TRY_AGAIN:
        world.sim.post("microsoft/refusals", code=code, times=1)
        await world.source(mailbox, world.another_process()).get_token()
        await leave(0)
    assert (await health_of(world, mailbox)).health is MailboxHealth.ACTIVE


async def test_a_proxy_that_refuses_in_place_of_the_provider_disconnects_no_mailbox(world, leave):
    mailbox = await world.connected(ProviderName.GMAIL)
    await leave(0)
    world.sim.fault("html", provider="gmail", endpoint="*token", status=407)
    with pytest.raises(TransientError, match="status 407"):
        await world.source(mailbox, world.another_process()).get_token()
    world.sim.delete("faults")
    assert (await health_of(world, mailbox)).health is MailboxHealth.ACTIVE
    await world.source(mailbox, world.another_process()).get_token()


@pytest.mark.parametrize("reason", ["consent", "password", "invalid_rapt", "account_deleted"])
async def test_googles_refusals_that_only_the_owner_can_end(world, reason, leave):
    mailbox = await world.connected(ProviderName.GMAIL)
    await leave(SOON)
    world.sim.post(f"mailboxes/{mailbox.address}/revoke", reason=reason)
    await lost(world, mailbox)


async def test_a_deleted_client_at_google_is_the_operators_fault(world, leave):
    mailbox = await world.connected(ProviderName.GMAIL)
    await leave(SOON)
    client = world.sim.ready["clients"]["gmail"]["client_id"]
    world.sim.post(f"google/clients/{client}", trouble="deleted")
    try:
        with pytest.raises(OperatorError):
            await world.source(mailbox, world.another_process()).get_token()
    finally:
        world.sim.post(f"google/clients/{client}", trouble="")
    assert (await health_of(world, mailbox)).health is MailboxHealth.ACTIVE
    assert (await world.ledger_events()).count("APPLICATION_REFUSED") == 1


async def test_after_a_reconnect_it_continues(world, provider):
    address = world.person(provider)
    mailbox = (await world.login(provider, address)).mailbox
    world.sim.post(f"mailboxes/{address}/revoke")
    with pytest.raises(InvalidGrant):
        await world.source(mailbox).replace_rejected(await world.source(mailbox).get_token())
    await world.login(provider, address)
    found = await health_of(world, mailbox)
    assert (found.health, found.last_error) == (MailboxHealth.ACTIVE, None)
    await world.remote(mailbox).check()


async def test_a_mailbox_that_is_not_connected_has_no_token(world, organization, make_mailbox):
    mailbox = await make_mailbox(organization)
    with pytest.raises(InvalidGrant, match="not connected"):
        await world.tokens.for_mailbox(organization, mailbox).get_token()
