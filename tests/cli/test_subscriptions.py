"""`postroom subscriptions`: creation by hand, with clear messages about what is wrong (S4)."""

import asyncio
import json
from contextlib import contextmanager

import pytest

import databases
from flow.mailboxes.subscribe.subscribed_mailbox import insert_mailbox
from postroom.model import CredentialKind, ProviderName
from postroom.ports import SecretLocation
from postroom.store import credentials
from postroom.vault import KeyFile, LocalVault, Sealer
from providers.conftest import TOPIC, contract, gmail, graph, shared, sim
from scenarios.postroom_process import PostroomProcess
from scenarios.worker_pool import until

__all__ = ["contract", "shared", "sim"]  # fixtures


@pytest.fixture
def settings(sim, database_url, organization, tmp_path):
    clients = sim.ready["clients"]
    names = (
        "GOOGLE_ACCOUNTS_URL", "GOOGLE_TOKEN_URL", "GOOGLE_CERTS_URL", "GMAIL_URL", "MICROSOFT_LOGIN_URL",
        "GRAPH_URL",
    )  # fmt: skip
    return {
        **databases.login_settings(database_url),
        "POSTROOM_HOME": str(tmp_path / "home"),
        "POSTROOM_ORGANIZATION": str(organization),
        "POSTROOM_GOOGLE_CLIENT_ID": clients["gmail"]["client_id"],
        "POSTROOM_GOOGLE_CLIENT_SECRET": clients["gmail"]["client_secret"],
        "POSTROOM_PUBSUB_TOPIC": TOPIC,
        "POSTROOM_PUBSUB_TOKEN": "only-we-know-this",
        "POSTROOM_MICROSOFT_CLIENT_ID": clients["outlook"]["client_id"],
        "POSTROOM_MICROSOFT_CLIENT_SECRET": clients["outlook"]["client_secret"],
        **{f"POSTROOM_{name}": sim.http for name in names},
    }


@pytest.fixture
async def mailbox(contract, database_url, organization, owner, tmp_path):
    """A connected mailbox, as a login leaves it."""
    grant, _, _ = await contract.connect()
    mailbox = await insert_mailbox(owner, organization, contract.provider.name, grant.account)
    vault = LocalVault(Sealer(KeyFile(tmp_path / "home")))
    kept = await vault.store(SecretLocation(organization, mailbox, "grant"), grant.tokens.refresh)
    async with (
        databases.open_pools(
            databases.to_service(database_url), entry_macs=databases.build_home_macs(tmp_path / "home")
        ) as database,
        database.transaction(organization) as connection,
    ):
        scopes = contract.provider.login.scopes("full")
        kind = CredentialKind.DELEGATED
        await credentials.save(connection, mailbox, kind=kind, grant=kept, scopes=scopes)
    return mailbox


@pytest.fixture
def web(settings, tmp_path):
    """The URL of a running web process."""
    program = PostroomProcess(tmp_path, "serve", "--port", "0", **settings)
    try:
        yield program.line("Postroom: ")
    finally:
        program.end()


@pytest.fixture
def subscriptions(postroom, settings):
    async def run(*arguments, **more):
        done = await asyncio.to_thread(postroom, "subscriptions", *arguments, **settings | more)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    return run


async def test_subscriptions_are_created_listed_checked_and_renewed(contract, mailbox, web, subscriptions):
    code, said = await subscriptions("create", POSTROOM_PUBLIC_URL=web)
    assert (code, "Success: 1 of 1" in said) == (0, True), said
    assert "ok    handshake" in said
    [subscription] = contract.sim.get(f"mailboxes/{contract.address}")["subscriptions"]
    code, said = await subscriptions("create", POSTROOM_PUBLIC_URL=web)
    assert (code, "exists already" in said) == (0, True), said
    code, said = await subscriptions("list", "--json")
    [row] = json.loads(said)
    assert (code, row["mailbox"], row["status"]) == (0, str(mailbox), "active")
    assert row["provider_subscription_id"] == subscription.get("id")
    code, said = await subscriptions("renew", contract.address, POSTROOM_PUBLIC_URL=web)
    assert (code, "renewed" in said) == (0, True), said
    with pushing_to(contract, web):
        code, said = await subscriptions("check", "--json", POSTROOM_PUBLIC_URL=web)
    assert (code, json.loads(said)["mailboxes"][0]["ok"]) == (0, True), said
    assert "verified" in json.loads(said)["mailboxes"][0]["words"]
    if contract.provider.name is ProviderName.OUTLOOK:
        contract.sim.post(f"mailboxes/{contract.address}/lifecycle", event="subscriptionRemoved")
        code, said = await subscriptions("check", POSTROOM_PUBLIC_URL=web)
        assert (code, "no longer exists at the provider" in said) == (1, True), said
        code, said = await subscriptions("renew", POSTROOM_PUBLIC_URL=web)
        assert (code, "Success" in said) == (0, True), said
        assert len(contract.sim.get(f"mailboxes/{contract.address}")["subscriptions"]) == 1


@pytest.mark.parametrize("contract", [graph], indirect=True, ids=["graph"])
async def test_worker_subscribes_and_reacts_to_lifecycle_notifications(
    contract, mailbox, web, settings, owner, tmp_path
):
    """S3, from the provider's event over our web process and a worker back to the provider."""
    program = PostroomProcess(tmp_path, "work", **settings | {"POSTROOM_PUBLIC_URL": web})
    one_live = """
        SELECT count(*) = %s AND count(*) FILTER (WHERE confirmed_at IS NOT NULL AND replaced_at IS NULL) = 1
        FROM subscriptions
    """
    try:
        await until(owner, one_live, 1)
        send_lifecycle_event(contract, "subscriptionRemoved")
        await until(owner, one_live, 2)
        renewed = "SELECT count(*) > %s FROM ledger WHERE event_type = 'SUBSCRIPTION_RENEWED'"
        await owner.execute("UPDATE subscriptions SET last_renewed_at = last_renewed_at - interval '1 hour'")
        send_lifecycle_event(contract, "reauthorizationRequired")
        await until(owner, renewed, 0)
    finally:
        assert program.end() == 0, "".join(program.said)
    cursor = await owner.execute("SELECT status FROM subscriptions ORDER BY created_at")
    assert [row[0] for row in await cursor.fetchall()] == ["removed", "active"]
    assert len(contract.sim.get(f"mailboxes/{contract.address}")["subscriptions"]) == 1


def send_lifecycle_event(contract, event):
    contract.sim.post(f"mailboxes/{contract.address}/lifecycle", event=event)
    contract.sim.move_clock(2)


@contextmanager
def pushing_to(contract, web, token="only-we-know-this"):
    """A Pub/Sub subscription that pushes to our web process. Graph needs none."""
    if contract.provider.name is ProviderName.OUTLOOK:
        yield
        return
    name = "projects/mailsim/subscriptions/check"
    endpoint = f"{web}/webhooks/gmail?token={token}"
    contract.sim.post("google/subscriptions", name=name, topic=TOPIC, push_endpoint=endpoint)
    try:
        yield
    finally:
        contract.sim.control.delete("google/subscriptions", params={"name": name})


@pytest.mark.parametrize("contract", [gmail], indirect=True, ids=["gmail"])
async def test_check_notices_that_gmail_pushes_are_rejected(contract, mailbox, web, subscriptions):
    code, said = await subscriptions("create", POSTROOM_PUBLIC_URL=web)
    assert code == 0, said
    with pushing_to(contract, web, token="another"):
        code, said = await subscriptions("check", POSTROOM_PUBLIC_URL=web)
    assert (code, "no push arrived" in said) == (1, True), said
    code, said = await subscriptions("check", POSTROOM_PUBLIC_URL=web, POSTROOM_PUBSUB_TOKEN="")
    assert (code, "fail  push proof" in said, "403" in said) == (1, True, True), said


@pytest.mark.parametrize("contract", [graph], indirect=True, ids=["graph"])
async def test_check_notices_a_web_process_with_another_database(
    contract, mailbox, web, subscriptions, settings, tmp_path, database_server
):
    code, said = await subscriptions("create", POSTROOM_PUBLIC_URL=web)
    assert code == 0, said
    url = database_server.create()
    other = PostroomProcess(tmp_path, "serve", "--port", "0", **settings | {"POSTROOM_DATABASE_URL": url})
    try:
        code, said = await subscriptions("check", POSTROOM_PUBLIC_URL=other.line("Postroom: "))
    finally:
        other.end()
        database_server.drop(url)
    assert (code, "another database" in said) == (1, True), said


async def test_create_without_mailboxes_succeeds(subscriptions, web):
    code, said = await subscriptions("create", POSTROOM_PUBLIC_URL=web)
    assert (code, "no mailbox is connected" in said) == (0, True), said


async def test_unreachable_public_url_is_reported_before_any_provider_request(subscriptions, sim):
    code, said = await subscriptions("create")
    assert (code, "POSTROOM_PUBLIC_URL" in said) == (1, True), said
    code, said = await subscriptions("create", POSTROOM_PUBLIC_URL="http://127.0.0.1:9")
    assert (code, "cannot be reached" in said) == (1, True), said
    code, said = await subscriptions("create", POSTROOM_PUBLIC_URL=sim.http)
    assert (code, "instead of 200" in said) == (1, True), said
    code, said = await subscriptions("create", POSTROOM_PUBLIC_URL="http://post.example.org")
    assert (code, "https" in said) == (2, True), said


async def test_revoked_grant_and_unknown_mailbox_are_reported(
    contract,
    mailbox,
    web,
    subscriptions,
):
    contract.sim.post(f"mailboxes/{contract.address}/revoke")
    code, said = await subscriptions("create", POSTROOM_PUBLIC_URL=web)
    assert (code, "Connect the mailbox again" in said, "FAILED" in said) == (1, True, True), said
    code, said = await subscriptions("create", "nobody@example.org", POSTROOM_PUBLIC_URL=web)
    assert (code, "No such mailbox" in said) == (1, True), said
