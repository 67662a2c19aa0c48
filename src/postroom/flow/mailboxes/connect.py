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
from postroom.flow.mailboxes.tokens import application_key
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
from postroom.ports import Provider, SecretLocation, Vault
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
from postroom.store.ledger import NewLedgerEntry
from postroom.store.mailboxes import Mailbox
from postroom.store.oauth_states import PendingLogin
from postroom.store.work import WorkRequest
from postroom.vault import Sealer

log = Log()

LOGIN_SECONDS: Final = 600
DEFAULT_APP_FOLDER: Final = "Inbox"
# What is to be done for a mailbox that came in.
INITIAL_WORK: Final = (WorkKind.SUBSCRIBE, WorkKind.SYNC)


class LoginRefusalReason(StrEnum):
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
class ConnectRequest:
    """What a login is for: any account, one address, or a mailbox that is to be connected again.

    Without a policy a mailbox that is known keeps its own, and a new one is kept in full.
    """

    policy: ContentPolicy | None = None
    address: str | None = None
    mailbox: MailboxId | None = None
    force_consent: bool = False


@dataclass(frozen=True, slots=True)
class ConnectedMailbox:
    mailbox: Mailbox
    is_new: bool
    invited: bool = False  # by a link, without being a member


@dataclass(frozen=True, slots=True)
class LoginRefusal:
    """Nothing was stored. The wish, where it is known, can be asked for again."""

    reason: LoginRefusalReason
    message: str
    request: ConnectRequest | None = None
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


class _SealedLogin(msgspec.Struct):
    """What is sealed with a login: the secret half of PKCE, and whom it is for."""

    verifier: str
    address: str | None
    mailbox: UUID | None
    policy: ContentPolicy | None  # as it was wished; the row has the one whose scopes were asked for


async def ensure_organization(database: Database, organization: OrganizationId) -> None:
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization, f"Organization {organization}")


async def begin_login(
    context: ConnectContext,
    organization: OrganizationId,
    provider: ProviderName,
    request: ConnectRequest,
    *,
    browser: Secret,
    login_id: UUID,
    actor: str | None = None,
) -> str:
    """Where to send the browser. Raises LoginRefused where this cannot be connected by signing in."""
    if provider not in context.sign_ins:
        raise LoginRejected(
            "Nobody can sign in there yet: this Postroom has no application at that provider."
        )
    request, hint = await _resolve_hint(context, organization, request)
    state = Secret(f"{login_id.hex}.{token_urlsafe(32)}")
    verifier = Secret(token_urlsafe(48))
    kept = _SealedLogin(verifier.reveal(), request.address, request.mailbox, request.policy)
    policy = request.policy or ContentPolicy.FULL
    sealed = context.sealer.seal(
        _login_context(organization, state), Secret(msgspec.json.encode(kept).decode())
    )
    async with context.database.transaction(organization) as connection:
        pending = PendingLogin(provider, policy, sealed, actor)
        await oauth_states.add(connection, pending, state=state, browser=browser, seconds=LOGIN_SECONDS)
    login = Login(state, verifier, context.callback(provider), policy, hint, request.force_consent)
    return context.providers[provider].login.authorization_url(login)


async def _resolve_hint(
    context: ConnectContext, organization: OrganizationId, request: ConnectRequest
) -> tuple[ConnectRequest, str | None]:
    if request.mailbox is None:
        return request, request.address
    async with context.database.transaction(organization) as connection:
        found = await mailboxes.get(connection, request.mailbox)
    if found is None:
        raise LoginRejected("There is no such mailbox.")
    return replace(request, policy=found.policy), found.address


async def complete_login(
    context: ConnectContext,
    provider: ProviderName,
    *,
    state: Secret,
    browser: Secret | None,
    code: Secret | None,
    error: str | None,
) -> ConnectedMailbox | LoginRefusal:
    """What came of a login. Whatever the answer, its state is used up."""
    async with context.database.engine() as engine:
        organization = await oauth_states.find_organization(engine, state)
    if organization is None:
        return refuse_unknown_login()
    async with context.database.transaction(organization) as connection:
        pending = await oauth_states.consume(connection, state, browser or Secret(""))
    if pending is None:
        return await _record_refusal(context, organization, state, None, refuse_unknown_login())
    if pending.provider is not provider:
        return await _record_refusal(context, organization, state, pending.actor_id, refuse_unknown_login())
    done = await _exchange_code(context, organization, pending, state, code, error)
    done = replace(done, invited=pending.actor_id is None)
    if isinstance(done, LoginRefusal):
        await _record_refusal(context, organization, state, pending.actor_id, done)
    return done


async def _exchange_code(
    context: ConnectContext,
    organization: OrganizationId,
    pending: PendingLogin,
    state: Secret,
    code: Secret | None,
    error: str | None,
) -> ConnectedMailbox | LoginRefusal:
    kept = msgspec.json.decode(
        context.sealer.open(_login_context(organization, state), pending.verifier).reveal(), type=_SealedLogin
    )
    request = ConnectRequest(kept.policy, kept.address, MailboxId(kept.mailbox) if kept.mailbox else None)
    if code is None or error is not None:
        return _refuse_denied_consent(error, request)
    provider = pending.provider
    login = Login(state, Secret(kept.verifier), context.callback(provider), pending.policy)
    try:
        grant = await context.providers[provider].login.exchange(login, code)
        problem = await _find_problem(context, organization, provider, grant, request)
    except PostroomError as fault:
        return await _refuse_failed_exchange(context, organization, provider, fault, request)
    return problem or await _connect_with_grant(context, organization, pending, grant, state, request.policy)


def _login_context(organization: OrganizationId, state: Secret) -> str:
    return f"oauth_states/{organization}/{oauth_states.digest(state).hex()}"


def refuse_unknown_login() -> LoginRefusal:
    return LoginRefusal(
        LoginRefusalReason.UNKNOWN,
        "This sign-in is not known here: it was used already, took longer than ten minutes, or began in"
        " another browser.",
    )


def _refuse_denied_consent(error: str | None, request: ConnectRequest) -> LoginRefusal:
    """The provider's own words are not shown: anybody can write them into an address."""
    if error in {"access_denied", "consent_required"}:
        return LoginRefusal(
            LoginRefusalReason.DENIED, "You did not allow the access, so nothing was connected.", request
        )
    if error in {"admin_policy_enforced", "org_internal", "unauthorized_client"}:
        return LoginRefusal(
            LoginRefusalReason.NOT_ACCEPTED,
            "The rules of your organization do not let this application in.",
            request,
        )
    return LoginRefusal(
        LoginRefusalReason.NOT_ACCEPTED, "The provider ended the sign-in without letting us in.", request
    )


async def _refuse_failed_exchange(
    context: ConnectContext,
    organization: OrganizationId,
    provider: ProviderName,
    fault: PostroomError,
    request: ConnectRequest,
) -> LoginRefusal:
    match fault:
        case OperatorError():
            log.error("login.failed", error=fault, kind=provider)
            async with context.database.transaction(organization) as connection:
                await alerts.raise_or_clear(
                    connection, organization, application_key(provider, None), str(fault)
                )
            return LoginRefusal(
                LoginRefusalReason.APPLICATION,
                "The provider does not accept this Postroom. Whoever runs it must act; the log says how.",
                request,
            )
        case TransientError():
            log.warning("login.failed", error=fault, kind=provider)
            return LoginRefusal(
                LoginRefusalReason.TRY_AGAIN, "The provider did not answer as it should.", request
            )
        case _:
            return LoginRefusal(LoginRefusalReason.NOT_ACCEPTED, f"{str(fault).rstrip('.')}.", request)


async def _find_problem(
    context: ConnectContext,
    organization: OrganizationId,
    provider: ProviderName,
    grant: Grant,
    request: ConnectRequest,
) -> LoginRefusal | None:
    """Why a grant is not good enough: too little is allowed, it is for another account, nothing opens."""
    if grant.missing_scopes:
        return LoginRefusal(
            LoginRefusalReason.SCOPES_MISSING,
            "Reading mail was not allowed: a box on the consent page was left empty. Postroom asks for"
            " nothing else than to read, and cannot do anything without it.",
            replace(request, force_consent=True),
        )
    if request.mailbox is not None:
        async with context.database.transaction(organization) as connection:
            found = await mailboxes.get(connection, request.mailbox)
        same = {grant.account.account_id, grant.account.substitute_id}
        if found is None or found.account_id not in same:
            return LoginRefusal(
                LoginRefusalReason.OTHER_ACCOUNT,
                "You signed in with another account than the one of this mailbox. Sign in with the same one,"
                " or connect the other account as a mailbox of its own.",
                request,
            )
    elif request.address is not None and request.address.lower() != grant.account.address:
        return LoginRefusal(
            LoginRefusalReason.OTHER_ACCOUNT,
            "The address asked for is not the one that signed in. A shared mailbox cannot be connected by a"
            " person's sign-in, because the provider would never notify us of its mail: connect it app-only"
            " (`postroom mailboxes connect outlook --app-only`), or sign in as that mailbox itself.",
            request,
        )
    return await _find_read_problem(context.providers[provider], grant.account, grant.tokens, request)


async def _find_read_problem(
    provider: Provider, account: Account, tokens: Tokens, request: ConnectRequest
) -> LoginRefusal | None:
    try:
        await provider.mailbox(account.provider_user_id, FixedToken(tokens.access)).check()
    except TransientError:
        return None  # it may be read later
    except PermanentError as error:
        return LoginRefusal(LoginRefusalReason.NO_MAILBOX, str(error), request)
    return None


@dataclass(frozen=True)
class FixedToken:
    """The token of a login just made; there is no other."""

    token: Secret

    async def get_token(self) -> Secret:
        return self.token

    async def replace_rejected(self, refused: Secret) -> Secret:
        return refused


async def _record_refusal(
    context: ConnectContext,
    organization: OrganizationId,
    state: Secret,
    actor: str | None,
    refused: LoginRefusal,
) -> LoginRefusal:
    entry = NewLedgerEntry("LOGIN_REFUSED", "login", get_login_id(state), actor, {"reason": refused.reason})
    async with context.database.transaction(organization) as connection:
        await ledger.append_entries(connection, organization, [entry])
    return refused


def get_login_id(state: Secret) -> str:
    """The id of a login, which may be told; the rest of its state may not."""
    return str(UUID(hex=state.reveal().partition(".")[0]))


@dataclass(frozen=True, slots=True)
class _NewCredential:
    """What opens the mailbox from now on."""

    kind: CredentialKind
    grant: Secret
    tokens: Tokens
    scopes: frozenset[str] = frozenset()
    tenant_id: str | None = None
    client_id: str | None = None


async def _connect_with_grant(
    context: ConnectContext,
    organization: OrganizationId,
    pending: PendingLogin,
    grant: Grant,
    state: Secret,
    policy: ContentPolicy | None,
) -> ConnectedMailbox:
    assert grant.tokens.refresh  # a login without one is refused by the exchange
    provider = pending.provider
    scopes = context.providers[provider].login.scopes(pending.policy)
    opening = _NewCredential(CredentialKind.DELEGATED, grant.tokens.refresh, grant.tokens, scopes)
    done = NewLedgerEntry("LOGIN_COMPLETED", "login", get_login_id(state), pending.actor_id)
    return await _store_mailbox(
        context, organization, provider, grant.account, opening, policy=policy, folder=None, completed=done
    )


async def connect_app_only(
    context: ConnectContext,
    organization: OrganizationId,
    credential: AppCredential,
    *,
    address: str,
    folder: str | None = None,
    policy: ContentPolicy | None = None,
) -> ConnectedMailbox:
    """Connect a mailbox of Microsoft 365 with an application's own credential (C2).

    A mailbox that is known keeps its folder and policy where none is given. Every mailbox here that the same
    application opens gets the credential: a new secret is given once.
    """
    provider = context.providers[ProviderName.OUTLOOK]
    tokens = await provider.login.app_tokens(credential)
    account = await provider.login.app_account(credential, address)
    await provider.mailbox(account.provider_user_id, FixedToken(tokens.access)).check()
    grant = credential.client_secret or credential.certificate
    assert grant
    kind = CredentialKind.APP_SECRET if credential.client_secret else CredentialKind.APP_CERTIFICATE
    opening = _NewCredential(
        kind, grant, tokens, tenant_id=credential.tenant_id, client_id=credential.client_id
    )
    done = await _store_mailbox(
        context, organization, ProviderName.OUTLOOK, account, opening, policy=policy, folder=folder
    )
    await _replace_shared_credentials(context, done.mailbox, opening, credential.client_id)
    return done


async def _replace_shared_credentials(
    context: ConnectContext, from_: Mailbox, opening: _NewCredential, client_id: str
) -> None:
    organization = from_.organization
    async with context.database.transaction(organization) as connection:
        found = await credentials.of_application(connection, client_id)
    for mailbox in found:
        if mailbox == from_.id:
            continue
        kept = await context.vault.store(SecretLocation(organization, mailbox, "grant"), opening.grant)
        async with context.database.transaction(organization) as connection:
            if await credentials.replace_grant(connection, mailbox, client_id, opening.kind, kept):
                await work.restart(
                    connection, [WorkRequest(organization, kind, str(mailbox)) for kind in INITIAL_WORK]
                )


async def _store_mailbox(
    context: ConnectContext,
    organization: OrganizationId,
    provider: ProviderName,
    account: Account,
    opening: _NewCredential,
    *,
    policy: ContentPolicy | None,
    folder: str | None,
    completed: NewLedgerEntry | None = None,
) -> ConnectedMailbox:
    """The vault first, since it may take a network's time; then everything in one transaction."""
    while True:
        async with context.database.transaction(organization) as connection:
            account = await mailboxes.resolve_account(connection, provider, account)
            known = await mailboxes.find_by_account(connection, provider, account.account_id)
        expected = known.id if known else MailboxId(uuid4())
        wanted, inside = _choose_policy_and_folder(known, policy, folder, opening.kind)
        location = SecretLocation(organization, expected, "grant")
        kept = await context.vault.store(location, opening.grant)
        access = context.sealer.seal(replace(location, field="access").context, opening.tokens.access)
        async with context.database.transaction(organization) as connection:
            before = known.policy if known else wanted
            await policies.block_commits(connection, organization, expected, before=before, after=wanted)
            found, is_new = await mailboxes.connect(
                connection, provider, account, new_id=expected, policy=wanted, folder=inside
            )
            if found.id == expected:
                if known is not None:
                    await _apply_changed_settings(connection, known, found, completed)
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
                await _record_connection(connection, found, opening, is_new=is_new, completed=completed)
        if found.id == expected:
            if policies.is_lowered(before, wanted):
                await policies.remove_disallowed(context.database, organization, expected)
            return ConnectedMailbox(found, is_new)
        # The same account was connected at the same time, under another id: what was kept belongs to that.
        await context.vault.delete(location, kept)


def _choose_policy_and_folder(
    known: Mailbox | None, policy: ContentPolicy | None, folder: str | None, kind: CredentialKind
) -> tuple[ContentPolicy, str | None]:
    """Policy and folder from now on: what nobody asked for stays as it is."""
    if known is not None:
        return policy or known.policy, folder or known.folder
    return policy or ContentPolicy.FULL, folder or (
        None if kind is CredentialKind.DELEGATED else DEFAULT_APP_FOLDER
    )


async def _apply_changed_settings(
    connection: Connection, before: Mailbox, after: Mailbox, completed: NewLedgerEntry | None
) -> None:
    """What another folder or policy brings about."""
    if before.folder != after.folder:
        # What it watches cannot be changed: another is made.
        await mailboxes.remove_subscriptions(connection, after.id)
        await cursors.drop(connection, after.id, [(CursorKind.FOLDERS, "")])
    if before.policy is not after.policy:
        await policies.schedule_refill(
            connection, after.organization, after.id, before=before.policy, after=after.policy
        )
        actor, changed = completed.actor_id if completed else None, {"policy": after.policy}
        entry = NewLedgerEntry("MAILBOX_POLICY_CHANGED", "mailbox", str(after.id), actor, changed)
        await ledger.append_entries(connection, after.organization, [entry])


async def _record_connection(
    connection: Connection,
    mailbox: Mailbox,
    opening: _NewCredential,
    *,
    is_new: bool,
    completed: NewLedgerEntry | None,
) -> None:
    """Ledger and first work, in the transaction that connects."""
    connected = NewLedgerEntry(
        "MAILBOX_CONNECTED" if is_new else "MAILBOX_RECONNECTED",
        "mailbox",
        str(mailbox.id),
        completed.actor_id if completed else None,
        payload={"provider": mailbox.provider, "policy": mailbox.policy, "credential": opening.kind},
        personal={"address": mailbox.address},
    )
    also = [replace(completed, payload={"mailbox": str(mailbox.id)})] if completed else []
    await ledger.append_entries(connection, mailbox.organization, [connected, *also])
    kind = "mailbox.connected" if is_new else "mailbox.reconnected"
    await feed.append_event(connection, kind, "mailbox", str(mailbox.id), {"provider": mailbox.provider})
    if await alerts.raise_or_clear(
        connection, mailbox.organization, application_key(mailbox.provider, opening.client_id), None
    ):
        await work.resume_waiting_for_operator(connection)
    wakes = [WorkRequest(mailbox.organization, kind, str(mailbox.id)) for kind in INITIAL_WORK]
    await work.restart(connection, wakes)
