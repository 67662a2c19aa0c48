"""How a mailbox comes in: a login at its provider, or an application's own credential.

    begin ──▶ the provider's consent page ──▶ complete ──▶ Connected
                                                 └──▶ Refused: why, in words, and nothing is stored

A login is one random state, used once, bound to the browser that began it and to the organization. Whose
mailbox it is, only the provider says; a reconnect finds its mailbox by the account's own id.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from secrets import token_urlsafe
from typing import Final
from uuid import UUID, uuid4

import msgspec

from postroom.errors import LoginRejected, OperatorError, PermanentError, PostroomError, TransientError
from postroom.flow.mail import policy as policies
from postroom.flow.mailboxes.tokens import application
from postroom.logs import Log
from postroom.model import (
    Account,
    AppCredential,
    ContentPolicy,
    CredentialKind,
    Grant,
    Login,
    MailboxId,
    OrganizationId,
    ProviderName,
    Secret,
    Tokens,
    WorkKind,
)
from postroom.ports import Place, Provider, Vault
from postroom.store import (
    alerts,
    credentials,
    cursors,
    feed,
    ledger,
    mailboxes,
    oauth_states,
    organizations,
    work,
)
from postroom.store.cursors import CursorKind
from postroom.store.database import Connection, Database
from postroom.store.ledger import Entry
from postroom.store.mailboxes import Mailbox
from postroom.store.oauth_states import Pending
from postroom.store.work import Wake
from postroom.vault import Sealer

log = Log()

LOGIN_SECONDS: Final = 600
INBOX: Final = "Inbox"
# What is to be done for a mailbox that came in.
FIRST_WORK: Final = (WorkKind.SUBSCRIBE, WorkKind.SYNC)


class Reason(StrEnum):
    """Why a login did not connect a mailbox."""

    UNKNOWN = "unknown"  # wrong, used, lapsed, or begun in another browser
    DENIED = "denied"  # the person said no
    NOT_ACCEPTED = "not_accepted"  # the provider refuses this login
    SCOPES_MISSING = "scopes_missing"  # the person allowed less than is needed
    OTHER_ACCOUNT = "other_account"  # somebody else signed in than was asked for
    NO_MAILBOX = "no_mailbox"  # the account cannot be read
    APPLICATION = "application"  # Postroom itself is not accepted by the provider
    TRY_AGAIN = "try_again"  # the provider has trouble


@dataclass(frozen=True, slots=True)
class Wish:
    """What a login is for: any account, one address, or a mailbox that is to be connected again.

    Without a policy a mailbox that is known keeps its own, and a new one is kept in full.
    """

    policy: ContentPolicy | None = None
    address: str | None = None
    mailbox: MailboxId | None = None
    ask_again: bool = False


@dataclass(frozen=True, slots=True)
class Connected:
    mailbox: Mailbox
    made: bool
    invited: bool = False  # by a link, without being a member


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was stored. The wish, where it is known, can be asked for again."""

    reason: Reason
    words: str
    wish: Wish | None = None
    invited: bool = False


@dataclass(frozen=True)
class ConnectContext:
    """What connecting needs. `url` is where browsers reach the web process."""

    database: Database
    providers: Mapping[ProviderName, Provider]
    sign_ins: frozenset[ProviderName]
    vault: Vault
    sealer: Sealer
    url: str

    def callback(self, provider: ProviderName) -> str:
        return f"{self.url}/oauth/{provider}/callback"


class _Kept(msgspec.Struct):
    """What is sealed with a login: the secret half of PKCE, and whom it is for."""

    verifier: str
    address: str | None
    mailbox: UUID | None
    policy: ContentPolicy | None  # as it was wished; the row has the one whose scopes were asked for


async def provide_organization(database: Database, organization: OrganizationId) -> None:
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization, f"Organization {organization}")


async def begin(
    desk: ConnectContext,
    organization: OrganizationId,
    provider: ProviderName,
    wish: Wish,
    *,
    browser: Secret,
    login_id: UUID,
    actor: str | None = None,
) -> str:
    """Where to send the browser. Raises LoginRefused where this cannot be connected by signing in."""
    if provider not in desk.sign_ins:
        raise LoginRejected(
            "Nobody can sign in there yet: this Postroom has no application at that provider."
        )
    wish, hint = await _hint(desk, organization, wish)
    state = Secret(f"{login_id.hex}.{token_urlsafe(32)}")
    verifier = Secret(token_urlsafe(48))
    kept = _Kept(verifier.reveal(), wish.address, wish.mailbox, wish.policy)
    policy = wish.policy or ContentPolicy.FULL
    sealed = desk.sealer.seal(_context(organization, state), Secret(msgspec.json.encode(kept).decode()))
    async with desk.database.transaction(organization) as connection:
        pending = Pending(provider, policy, sealed, actor)
        await oauth_states.begin(connection, pending, state=state, browser=browser, seconds=LOGIN_SECONDS)
    login = Login(state, verifier, desk.callback(provider), policy, hint, wish.ask_again)
    return desk.providers[provider].login.authorization_url(login)


async def _hint(desk: ConnectContext, organization: OrganizationId, wish: Wish) -> tuple[Wish, str | None]:
    if wish.mailbox is None:
        return wish, wish.address
    async with desk.database.transaction(organization) as connection:
        found = await mailboxes.get(connection, wish.mailbox)
    if found is None:
        raise LoginRejected("There is no such mailbox.")
    return replace(wish, policy=found.policy), found.address


async def complete(
    desk: ConnectContext,
    provider: ProviderName,
    *,
    state: Secret,
    browser: Secret | None,
    code: Secret | None,
    error: str | None,
) -> Connected | Refused:
    """What came of a login. Whatever the answer, its state is used up."""
    async with desk.database.engine() as engine:
        organization = await oauth_states.organization_of(engine, state)
    if organization is None:
        return unknown()
    async with desk.database.transaction(organization) as connection:
        pending = await oauth_states.take(connection, state, browser or Secret(""))
    if pending is None:
        return await _refused(desk, organization, state, None, unknown())
    if pending.provider is not provider:
        return await _refused(desk, organization, state, pending.actor_id, unknown())
    done = await _completed(desk, organization, pending, state, code, error)
    done = replace(done, invited=pending.actor_id is None)
    if isinstance(done, Refused):
        await _refused(desk, organization, state, pending.actor_id, done)
    return done


async def _completed(
    desk: ConnectContext,
    organization: OrganizationId,
    pending: Pending,
    state: Secret,
    code: Secret | None,
    error: str | None,
) -> Connected | Refused:
    kept = msgspec.json.decode(
        desk.sealer.open(_context(organization, state), pending.verifier).reveal(), type=_Kept
    )
    wish = Wish(kept.policy, kept.address, MailboxId(kept.mailbox) if kept.mailbox else None)
    if code is None or error is not None:
        return _denied(error, wish)
    provider = pending.provider
    login = Login(state, Secret(kept.verifier), desk.callback(provider), pending.policy)
    try:
        grant = await desk.providers[provider].login.exchange(login, code)
        problem = await _problem(desk, organization, provider, grant, wish)
    except PostroomError as fault:
        return await _failed(desk, organization, provider, fault, wish)
    return problem or await _connect(desk, organization, pending, grant, state, wish.policy)


def _context(organization: OrganizationId, state: Secret) -> str:
    return f"oauth_states/{organization}/{oauth_states.digest(state).hex()}"


def unknown() -> Refused:
    return Refused(
        Reason.UNKNOWN,
        "This sign-in is not known here: it was used already, took longer than ten minutes, or began in"
        " another browser.",
    )


def _denied(error: str | None, wish: Wish) -> Refused:
    """The provider's own words are not shown: anybody can write them into an address."""
    if error in {"access_denied", "consent_required"}:
        return Refused(Reason.DENIED, "You did not allow the access, so nothing was connected.", wish)
    if error in {"admin_policy_enforced", "org_internal", "unauthorized_client"}:
        return Refused(
            Reason.NOT_ACCEPTED, "The rules of your organization do not let this application in.", wish
        )
    return Refused(Reason.NOT_ACCEPTED, "The provider ended the sign-in without letting us in.", wish)


async def _failed(
    desk: ConnectContext,
    organization: OrganizationId,
    provider: ProviderName,
    fault: PostroomError,
    wish: Wish,
) -> Refused:
    match fault:
        case OperatorError():
            log.error("login.failed", error=fault, kind=provider)
            async with desk.database.transaction(organization) as connection:
                await alerts.set_to(connection, organization, application(provider, None), str(fault))
            return Refused(
                Reason.APPLICATION,
                "The provider does not accept this Postroom. Whoever runs it must act; the log says how.",
                wish,
            )
        case TransientError():
            log.warning("login.failed", error=fault, kind=provider)
            return Refused(Reason.TRY_AGAIN, "The provider did not answer as it should.", wish)
        case _:
            return Refused(Reason.NOT_ACCEPTED, f"{str(fault).rstrip('.')}.", wish)


async def _problem(
    desk: ConnectContext, organization: OrganizationId, provider: ProviderName, grant: Grant, wish: Wish
) -> Refused | None:
    """Why a grant is not good enough: too little is allowed, it is for another account, nothing opens."""
    if grant.missing_scopes:
        return Refused(
            Reason.SCOPES_MISSING,
            "Reading mail was not allowed: a box on the consent page was left empty. Postroom asks for"
            " nothing else than to read, and cannot do anything without it.",
            replace(wish, ask_again=True),
        )
    if wish.mailbox is not None:
        async with desk.database.transaction(organization) as connection:
            found = await mailboxes.get(connection, wish.mailbox)
        same = {grant.account.account_id, grant.account.makeshift_id}
        if found is None or found.account_id not in same:
            return Refused(
                Reason.OTHER_ACCOUNT,
                "You signed in with another account than the one of this mailbox. Sign in with the same one,"
                " or connect the other account as a mailbox of its own.",
                wish,
            )
    elif wish.address is not None and wish.address.lower() != grant.account.address:
        return Refused(
            Reason.OTHER_ACCOUNT,
            "The address asked for is not the one that signed in. A shared mailbox cannot be connected by a"
            " person's sign-in, because the provider would never notify us of its mail: connect it app-only"
            " (`postroom mailboxes connect outlook --app-only`), or sign in as that mailbox itself.",
            wish,
        )
    return await _unreadable(desk.providers[provider], grant.account, grant.tokens, wish)


async def _unreadable(provider: Provider, account: Account, tokens: Tokens, wish: Wish) -> Refused | None:
    try:
        await provider.mailbox(account.provider_user_id, GivenToken(tokens.access)).check()
    except TransientError:
        return None  # it may be read later
    except PermanentError as error:
        return Refused(Reason.NO_MAILBOX, str(error), wish)
    return None


@dataclass(frozen=True)
class GivenToken:
    """The token of a login just made; there is no other."""

    token: Secret

    async def current(self) -> Secret:
        return self.token

    async def instead_of(self, refused: Secret) -> Secret:
        return refused


async def _refused(
    desk: ConnectContext, organization: OrganizationId, state: Secret, actor: str | None, refused: Refused
) -> Refused:
    entry = Entry("LOGIN_REFUSED", "login", login_of(state), actor, {"reason": refused.reason})
    async with desk.database.transaction(organization) as connection:
        await ledger.append(connection, organization, [entry])
    return refused


def login_of(state: Secret) -> str:
    """The id of a login, which may be told; the rest of its state may not."""
    return str(UUID(hex=state.reveal().partition(".")[0]))


@dataclass(frozen=True, slots=True)
class _Opening:
    """What opens the mailbox from now on."""

    kind: CredentialKind
    grant: Secret
    tokens: Tokens
    scopes: frozenset[str] = frozenset()
    tenant_id: str | None = None
    client_id: str | None = None


async def _connect(
    desk: ConnectContext,
    organization: OrganizationId,
    pending: Pending,
    grant: Grant,
    state: Secret,
    policy: ContentPolicy | None,
) -> Connected:
    assert grant.tokens.refresh  # a login without one is refused by the exchange
    provider = pending.provider
    scopes = desk.providers[provider].login.scopes(pending.policy)
    opening = _Opening(CredentialKind.DELEGATED, grant.tokens.refresh, grant.tokens, scopes)
    done = Entry("LOGIN_COMPLETED", "login", login_of(state), pending.actor_id)
    return await _store(
        desk, organization, provider, grant.account, opening, policy=policy, folder=None, completed=done
    )


async def connect_app(
    desk: ConnectContext,
    organization: OrganizationId,
    credential: AppCredential,
    *,
    address: str,
    folder: str | None = None,
    policy: ContentPolicy | None = None,
) -> Connected:
    """Connect a mailbox of Microsoft 365 with an application's own credential (C2).

    A mailbox that is known keeps its folder and policy where none is given. Every mailbox here that the same
    application opens gets the credential: a new secret is given once.
    """
    provider = desk.providers[ProviderName.OUTLOOK]
    tokens = await provider.login.app_tokens(credential)
    account = await provider.login.app_account(credential, address)
    await provider.mailbox(account.provider_user_id, GivenToken(tokens.access)).check()
    grant = credential.client_secret or credential.certificate
    assert grant
    kind = CredentialKind.APP_SECRET if credential.client_secret else CredentialKind.APP_CERTIFICATE
    opening = _Opening(kind, grant, tokens, tenant_id=credential.tenant_id, client_id=credential.client_id)
    done = await _store(
        desk, organization, ProviderName.OUTLOOK, account, opening, policy=policy, folder=folder
    )
    await _spread(desk, done.mailbox, opening, credential.client_id)
    return done


async def _spread(desk: ConnectContext, from_: Mailbox, opening: _Opening, client_id: str) -> None:
    organization = from_.organization
    async with desk.database.transaction(organization) as connection:
        found = await credentials.of_application(connection, client_id)
    for mailbox in found:
        if mailbox == from_.id:
            continue
        kept = await desk.vault.keep(Place(organization, mailbox, "grant"), opening.grant)
        async with desk.database.transaction(organization) as connection:
            if await credentials.replace_grant(connection, mailbox, client_id, opening.kind, kept):
                await work.restart(
                    connection, [Wake(organization, kind, str(mailbox)) for kind in FIRST_WORK]
                )


async def _store(
    desk: ConnectContext,
    organization: OrganizationId,
    provider: ProviderName,
    account: Account,
    opening: _Opening,
    *,
    policy: ContentPolicy | None,
    folder: str | None,
    completed: Entry | None = None,
) -> Connected:
    """The vault first, since it may take a network's time; then everything in one transaction."""
    while True:
        async with desk.database.transaction(organization) as connection:
            account = await mailboxes.recognized(connection, provider, account)
            known = await mailboxes.of_account(connection, provider, account.account_id)
        expected = known.id if known else MailboxId(uuid4())
        wanted, inside = _wanted(known, policy, folder, opening.kind)
        place = Place(organization, expected, "grant")
        kept = await desk.vault.keep(place, opening.grant)
        access = desk.sealer.seal(replace(place, field="access").context, opening.tokens.access)
        async with desk.database.transaction(organization) as connection:
            before = known.policy if known else wanted
            await policies.hold(connection, organization, expected, before=before, after=wanted)
            found, made = await mailboxes.connect(
                connection, provider, account, new_id=expected, policy=wanted, folder=inside
            )
            if found.id == expected:
                if known is not None:
                    await _adjust(connection, known, found, completed)
                await credentials.save(
                    connection,
                    expected,
                    kind=opening.kind,
                    grant=kept,
                    scopes=opening.scopes,
                    tenant_id=opening.tenant_id,
                    client_id=opening.client_id,
                    access=access,
                    access_seconds=opening.tokens.expires_in_seconds,
                )
                await _tell(connection, found, opening, made=made, completed=completed)
        if found.id == expected:
            if policies.lowers(before, wanted):
                await policies.settle(desk.database, organization, expected)
            return Connected(found, made)
        # The same account was connected at the same time, under another id: what was kept belongs to that.
        await desk.vault.forget(place, kept)


def _wanted(
    known: Mailbox | None, policy: ContentPolicy | None, folder: str | None, kind: CredentialKind
) -> tuple[ContentPolicy, str | None]:
    """Policy and folder from now on: what nobody asked for stays as it is."""
    if known is not None:
        return policy or known.policy, folder or known.folder
    return policy or ContentPolicy.FULL, folder or (None if kind is CredentialKind.DELEGATED else INBOX)


async def _adjust(connection: Connection, before: Mailbox, after: Mailbox, completed: Entry | None) -> None:
    """What another folder or policy brings about."""
    if before.folder != after.folder:
        # What it watches cannot be changed: another is made.
        await mailboxes.end_channels(connection, after.id)
        await cursors.drop(connection, after.id, [(CursorKind.FOLDERS, "")])
    if before.policy is not after.policy:
        await policies.apply(
            connection, after.organization, after.id, before=before.policy, after=after.policy
        )
        actor, changed = completed.actor_id if completed else None, {"policy": after.policy}
        entry = Entry("MAILBOX_POLICY_CHANGED", "mailbox", str(after.id), actor, changed)
        await ledger.append(connection, after.organization, [entry])


async def _tell(
    connection: Connection, mailbox: Mailbox, opening: _Opening, *, made: bool, completed: Entry | None
) -> None:
    """Ledger and first work, in the transaction that connects."""
    connected = Entry(
        "MAILBOX_CONNECTED" if made else "MAILBOX_RECONNECTED",
        "mailbox",
        str(mailbox.id),
        completed.actor_id if completed else None,
        payload={"provider": mailbox.provider, "policy": mailbox.policy, "credential": opening.kind},
        personal={"address": mailbox.address},
    )
    also = [replace(completed, payload={"mailbox": str(mailbox.id)})] if completed else []
    await ledger.append(connection, mailbox.organization, [connected, *also])
    kind = "mailbox.connected" if made else "mailbox.reconnected"
    await feed.tell(connection, kind, "mailbox", str(mailbox.id), {"provider": mailbox.provider})
    if await alerts.set_to(
        connection, mailbox.organization, application(mailbox.provider, opening.client_id), None
    ):
        await work.resume_waiting(connection)
    wakes = [Wake(mailbox.organization, kind, str(mailbox.id)) for kind in FIRST_WORK]
    await work.restart(connection, wakes)
