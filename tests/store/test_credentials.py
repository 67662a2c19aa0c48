"""Credentials are saved, replaced, deleted and resealed without losing a concurrent write."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from postroom.model import CredentialKind
from postroom.ports import SealedSecret, SsmParameter
from postroom.store import credentials, token_refreshes
from postroom.store.credentials import OutdatedSecrets

GRANT, ACCESS = SealedSecret("k1", b"grant"), SealedSecret("k2", b"access")


@pytest.fixture
async def mailbox(make_mailbox, organization):
    return await make_mailbox(organization)


@pytest.fixture
async def connection(database, organization):
    async with database.transaction(organization) as connection:
        yield connection


async def save(connection, mailbox, *, grant=GRANT, **given):
    await credentials.save(connection, mailbox, kind=CredentialKind.DELEGATED, grant=grant, **given)


async def one(connection, statement, *parameters):
    [row] = await (await connection.execute(statement.encode(), parameters)).fetchall()
    return row[0] if len(row) == 1 else row


async def test_saved_credential_is_loaded(connection, mailbox):
    await save(connection, mailbox, scopes={"b", "a"}, access=ACCESS, access_seconds=3600)
    found = await credentials.load(connection, mailbox)
    assert (found.kind, found.grant, found.access) == ("delegated", GRANT, ACCESS)
    assert found.scopes == {"a", "b"}
    assert (found.tenant_id, found.client_id) == (None, None)
    now = await one(connection, "SELECT postroom_now()")
    assert timedelta(minutes=59) < found.access_expires_at - now < timedelta(minutes=61)


async def test_an_applications_own_credential_names_tenant_and_client(connection, mailbox):
    kind = CredentialKind.APP_CERTIFICATE
    await credentials.save(
        connection, mailbox, kind=kind, grant=SsmParameter("/p/x"), tenant_id="t", client_id="c"
    )
    found = await credentials.load(connection, mailbox)
    assert (found.kind, found.tenant_id, found.client_id) == (kind, "t", "c")
    assert (found.grant, found.access, found.access_expires_at) == (SsmParameter("/p/x"), None, None)


async def test_saving_again_replaces_the_credential_and_ends_a_refresh_lease(connection, mailbox, owner):
    await save(connection, mailbox, scopes={"a"}, access=ACCESS, access_seconds=60)
    await connection.execute(
        "UPDATE credentials SET lease_token = gen_random_uuid(), leased_until = postroom_now()"
    )
    await save(connection, mailbox, grant=SsmParameter("/p/x"))
    found = await credentials.load(connection, mailbox)
    assert found == credentials.Credential(CredentialKind.DELEGATED, SsmParameter("/p/x"), frozenset())
    assert await one(connection, "SELECT lease_token IS NULL AND leased_until IS NULL FROM credentials")


async def test_a_refresh_that_lost_its_lease_stores_nothing(connection, mailbox):
    """Also if the lease was taken over right before: the vault is written between the check and this."""
    await save(connection, mailbox, access=ACCESS, access_seconds=60)
    stale, current = uuid4(), uuid4()
    assert await token_refreshes.claim_lease(connection, mailbox, stale, seconds=0)
    assert await token_refreshes.claim_lease(connection, mailbox, current, seconds=60)
    refreshed = {"access": SealedSecret("k2", b"refreshed"), "seconds": 3600, "grant": SsmParameter("/p/x")}
    assert not await token_refreshes.store_token(connection, mailbox, stale, **refreshed)
    found = await credentials.load(connection, mailbox)
    assert (found.grant, found.access) == (GRANT, ACCESS)
    assert await token_refreshes.store_token(connection, mailbox, current, **refreshed)
    found = await credentials.load(connection, mailbox)
    assert (found.grant, found.access) == (refreshed["grant"], refreshed["access"])


async def test_a_refresh_is_leased_to_one_process_until_its_lease_ends(connection, mailbox):
    await save(connection, mailbox, access=ACCESS, access_seconds=60)
    assert await token_refreshes.claim_lease(connection, mailbox, uuid4(), seconds=60)
    assert not await token_refreshes.claim_lease(connection, mailbox, uuid4(), seconds=60)
    await connection.execute("UPDATE credentials SET leased_until = postroom_now()")
    assert await token_refreshes.claim_lease(connection, mailbox, uuid4(), seconds=60)


async def test_delete_returns_the_credential_once(connection, mailbox):
    await save(connection, mailbox, grant=SsmParameter("/p/x"))
    erased = await credentials.delete(connection, mailbox)
    assert erased.grant == SsmParameter("/p/x")
    assert await credentials.delete(connection, mailbox) is None
    assert await credentials.load(connection, mailbox) is None


async def test_another_organization_sees_and_changes_nothing(
    database, organization, make_organization, mailbox
):
    async with database.transaction(organization) as connection:
        await save(connection, mailbox)
    other = await make_organization()
    async with database.transaction(other) as connection:
        assert await credentials.load(connection, mailbox) is None
        assert await credentials.delete(connection, mailbox) is None
        assert await credentials.list_outdated(connection, "k9", after=None, limit=9) == []
        assert not await credentials.reseal_grant(connection, mailbox, GRANT, SealedSecret("k9", b"x"))
        assert await credentials.count_by_key(connection) == {}
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        async with database.transaction(other) as connection:
            await save(connection, mailbox)
    async with database.transaction(organization) as connection:
        assert (await credentials.load(connection, mailbox)).grant == GRANT


async def test_outdated_secrets_are_listed_in_pages(connection, make_mailbox, organization):
    boxes = sorted([await make_mailbox(organization) for _ in range(5)])
    for mailbox, grant, access in zip(
        boxes, ["old", "new", "new", None, "old"], ["old", "old", "new", "old", None], strict=True
    ):
        await save(
            connection,
            mailbox,
            grant=SealedSecret(grant, b"g") if grant else SsmParameter("/p/x"),
            access=SealedSecret(access, b"a") if access else None,
        )
    g, a = SealedSecret("old", b"g"), SealedSecret("old", b"a")
    first = await credentials.list_outdated(connection, "new", after=None, limit=2)
    assert first == [OutdatedSecrets(boxes[0], g, a), OutdatedSecrets(boxes[1], None, a)]
    rest = await credentials.list_outdated(connection, "new", after=first[-1].mailbox, limit=9)
    assert rest == [OutdatedSecrets(boxes[3], None, a), OutdatedSecrets(boxes[4], g, None)]


@pytest.mark.parametrize(
    "reseal, held", [(credentials.reseal_grant, GRANT), (credentials.reseal_access, ACCESS)]
)
async def test_secret_is_resealed_only_if_unchanged(connection, mailbox, reseal, held):
    await save(connection, mailbox, access=ACCESS, access_seconds=60)
    before = await one(connection, "SELECT updated_at FROM credentials")
    new = SealedSecret("k9", b"anew")
    assert not await reseal(connection, mailbox, replace(held, value=b"older"), new)
    assert not await reseal(connection, mailbox, replace(held, key_id="k8"), new)
    assert not await reseal(connection, UUID(int=1), held, new)
    assert await reseal(connection, mailbox, held, new)
    assert not await reseal(connection, mailbox, held, new)
    found = await credentials.load(connection, mailbox)
    expected = (new, ACCESS) if held is GRANT else (GRANT, new)
    assert (found.grant, found.access) == expected
    assert await one(connection, "SELECT updated_at FROM credentials") == before


async def test_values_are_counted_by_key_without_expired_logins(
    connection, mailbox, make_mailbox, organization
):
    await save(connection, mailbox, access=ACCESS)
    await save(connection, await make_mailbox(organization), grant=SsmParameter("/p/x"), access=ACCESS)
    for digest, key, seconds in ((b"a" * 32, "k1", 60), (b"b" * 32, "k3", 60), (b"c" * 32, "k4", -1)):
        await connection.execute(
            """
            INSERT INTO oauth_states (organization_id, state_sha256, browser_sha256, provider, content_policy,
                key_id, sealed_verifier, expires_at)
            VALUES (current_organization(), %s, %s, 'gmail', 'full', %s, 'x',
                postroom_now() + %s * interval '1 second')
            """,
            [digest, digest, key, seconds],
        )
    assert await credentials.count_by_key(connection) == {"k1": 2, "k2": 2, "k3": 1}
    assert await credentials.count_parameters(connection) == 1
