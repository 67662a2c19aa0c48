"""Sign a member in by one-time link, password or OpenID identity, and sign them out.

Also creates the links. Each method starts a session or fails; the client never learns why. A wrong password
is recorded in the ledger. The pages are in `web.sign_in`, the OpenID protocol in `providers.openid`.
"""

from dataclasses import dataclass
from secrets import token_urlsafe
from typing import Final, Literal

from postroom.flow.access import passwords
from postroom.model import MemberId, OrganizationId, Secret
from postroom.ports import OpenIdIdentity
from postroom.store import ledger, members, sessions, sign_in_failures
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.members import Member
from postroom.store.sessions import TokenAccount

LINK_SECONDS: Final = 3600
# One address may be a member of several organizations. The limit bounds the time of a sign-in.
_MAX_ORGANIZATIONS: Final = 3
_RECORDED_FAILURES: Final = 100  # of one member, in a day

SignInMethod = Literal["link", "password", "openid"]


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that was just started, with its token."""

    organization: OrganizationId
    member: MemberId
    session: Secret


async def create_link(
    database: Database, member: Member, *, seconds: float = LINK_SECONDS, actor: str | None = None
) -> Secret:
    """Create a token that signs this member in once. `actor` requested it."""
    token = Secret(token_urlsafe(32))
    async with database.transaction(member.organization) as connection:
        await sessions.begin(connection, member.id, token, kind="link", seconds=seconds)
        entry = NewLedgerEntry("SIGN_IN_LINK_MADE", "member", str(member.id), actor)
        await ledger.append_entries(connection, member.organization, [entry])
    return token


def build_link_url(url: str, token: Secret, *, next_path: str = "") -> str:
    """Build the sign-in link. `next_path` is the path to open after sign-in; default: the first page."""
    query = f"&next={next_path}" if next_path else ""
    return f"{url.rstrip('/')}/sign-in/link?token={token.reveal()}{query}"


async def find_account(
    database: Database, token: Secret | None, *, kind: Literal["session", "link"]
) -> TokenAccount | None:
    """Whose session or unused link this is."""
    if token is None:
        return None
    organization = await _find_organization(database, token)
    if organization is None:
        return None
    async with database.transaction(organization) as connection:
        return await sessions.find_account(connection, token, kind=kind)


async def sign_in_by_link(database: Database, token: Secret, *, seconds: float) -> NewSession | None:
    organization = await _find_organization(database, token)
    if organization is None:
        return None
    async with database.transaction(organization) as connection:
        member = await sessions.use_link(connection, token)
        return await _start_session(connection, organization, member, "link", seconds) if member else None


async def sign_in_by_password(
    database: Database, address: str, password: Secret, *, source: str, first: OrganizationId, seconds: float
) -> NewSession | None:
    """Sign in by password. A failure does not reveal whether address, password or a lock caused it.

    Wrong passwords lock the member for their `source` only.
    """
    async with database.engine() as engine:
        found = await members.list_organizations(engine, address)
    found.sort(key=lambda organization: organization != first)
    checked = False
    for organization in found[:_MAX_ORGANIZATIONS]:
        async with database.transaction(organization) as connection:
            member = await members.find_by_address(connection, address)
            attempt = await sign_in_failures.count_attempt(connection, member.id, source) if member else None
        if member is None or attempt is None:
            continue
        checked = True
        right = await passwords.verify_password(attempt.password_hash, password)
        async with database.transaction(organization) as connection:
            if right:
                await sign_in_failures.reset(connection, member.id, source)
                return await _start_session(connection, organization, member.id, "password", seconds)
            if _is_recorded(attempt.member_failures):
                payload = {"locked": attempt.locks_source, "failures": attempt.member_failures}
                entry = NewLedgerEntry("SIGN_IN_REFUSED", "member", str(member.id), payload=payload)
                await ledger.append_entries(connection, organization, [entry])
    if not checked:
        await passwords.verify_password(None, password)
    return None


def _is_recorded(failures: int) -> bool:
    """Whether the ledger records this failure of a member: of many, only each that doubles their number.

    The ledger is kept forever, and strangers can fail from as many sources as they have.
    """
    return failures <= _RECORDED_FAILURES or failures.bit_count() == 1


async def sign_in_by_identity(
    database: Database, identity: OpenIdIdentity, *, seconds: float
) -> NewSession | None:
    """Sign in the member bound to this identity."""
    async with database.engine() as engine:
        known = await members.find_by_openid(engine, identity.issuer, identity.subject)
    for organization, member in known:
        async with database.transaction(organization) as connection:
            return await _start_session(connection, organization, member, "openid", seconds)
    return None


async def list_bindable_accounts(
    database: Database, identity: OpenIdIdentity
) -> dict[OrganizationId, TokenAccount]:
    """The accounts with the verified address of an identity, if it is bound to none.

    The admins of any organization can add any address, so the person must choose.
    """
    if not identity.address or not identity.address_verified:
        return {}
    async with database.engine() as engine:
        if await members.find_by_openid(engine, identity.issuer, identity.subject):
            return {}
        candidates = await members.list_organizations(engine, identity.address)
    accounts: dict[OrganizationId, TokenAccount] = {}
    for organization in candidates:
        async with database.transaction(organization) as connection:
            account = await sessions.find_unbound_account(connection, identity.address)
        if account is not None:
            accounts[organization] = account
    return accounts


async def bind_identity(
    database: Database, identity: OpenIdIdentity, organization: OrganizationId, *, seconds: float
) -> NewSession | None:
    """Bind the identity to the account that the person chose, and sign in."""
    account = (await list_bindable_accounts(database, identity)).get(organization)
    if account is None:
        return None
    async with database.transaction(organization) as connection:
        if not await members.bind_openid(connection, account.member, identity.issuer, identity.subject):
            return None
        return await _start_session(connection, organization, account.member, "openid", seconds)


async def sign_out(database: Database, token: Secret) -> None:
    organization = await _find_organization(database, token)
    if organization is None:
        return
    async with database.transaction(organization) as connection:
        member = await sessions.end(connection, token)
        if member is not None:
            entry = NewLedgerEntry("MEMBER_SIGNED_OUT", "member", str(member), sessions.format_actor(member))
            await ledger.append_entries(connection, organization, [entry])


async def _find_organization(database: Database, token: Secret) -> OrganizationId | None:
    async with database.engine() as engine:
        return await sessions.find_organization(engine, token)


async def _start_session(
    connection: Connection,
    organization: OrganizationId,
    member: MemberId,
    method: SignInMethod,
    seconds: float,
) -> NewSession:
    token = Secret(token_urlsafe(32))
    await sessions.begin(connection, member, token, kind="session", seconds=seconds)
    entry = NewLedgerEntry(
        "MEMBER_SIGNED_IN", "member", str(member), sessions.format_actor(member), {"way": method}
    )
    await ledger.append_entries(connection, organization, [entry])
    return NewSession(organization, member, token)
