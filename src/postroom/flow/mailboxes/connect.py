"""Connect a mailbox: by a login at its provider, or with an application's own credential.

    begin_login ──▶ the provider's consent page ──▶ complete_login ──▶ ConnectedMailbox
                                                          └──▶ LoginRefusal, and nothing is stored

A login is one random OAuth state. It is used once and bound to the browser that started it and to the
organization. Only the provider says whose mailbox it is; a reconnect finds the mailbox by the account's id.
The checks of a login are in `login_checks`, the endpoints in `web.connect`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from secrets import token_urlsafe
from typing import Final
from urllib.parse import urlencode
from uuid import UUID, uuid5

import msgspec

from postroom.documents.pipelines import Pipelines
from postroom.errors import (
    LoginRejected,
    NotFound,
    OperatorError,
    PermanentError,
    PostroomError,
    TransientError,
)
from postroom.flow.mail import policy as policies
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.flow.mailboxes.fixed_token import FixedToken
from postroom.flow.mailboxes.login_checks import (
    LoginRefusal,
    LoginRefusalReason,
    check_grant,
    refuse_denied_consent,
    refuse_unknown_login,
)
from postroom.flow.mailboxes.tokens import application_key, get_provider
from postroom.logs import Log
from postroom.model import (
    Account,
    AppCredential,
    ContentPolicy,
    CredentialKind,
    DirectoryId,
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
from postroom.store.connection import Connection
from postroom.store.cursors import CursorKind
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.mailboxes import Mailbox
from postroom.store.oauth_states import PendingLogin
from postroom.store.work import WorkRequest
from postroom.vault import Sealer

log = Log()

LOGIN_SECONDS: Final = 600
DEFAULT_APP_FOLDER: Final = "Inbox"
# The work that a newly connected mailbox needs.
INITIAL_WORK: Final = (WorkKind.SUBSCRIBE, WorkKind.SYNC)


@dataclass(frozen=True, slots=True)
class ConnectedMailbox:
    """The result of a successful login. `invited`: by a link, not by a member."""

    mailbox: Mailbox
    is_new: bool
    invited: bool = False


@dataclass(frozen=True)
class ConnectContext:
    """The dependencies of connecting. `url` is where browsers reach the web process."""

    database: Database
    providers: Mapping[ProviderName, Provider]
    sign_ins: frozenset[ProviderName]
    vault: Vault
    sealer: Sealer
    pipelines: Pipelines
    url: str

    def callback(self, provider: ProviderName) -> str:
        return f"{self.url}/oauth/{provider}/callback"

    def reconnect_url(self, mailbox: Mailbox, policy: ContentPolicy | None = None) -> str:
        """The link that reconnects a mailbox, with another policy if one is given."""
        return self.url + authorize_path(mailbox.provider, ConnectRequest(policy, mailbox=mailbox.id))


def authorize_path(provider: ProviderName, request: ConnectRequest) -> str:
    """The path of our site that starts this login."""
    query = {
        "policy": request.policy,
        "mailbox": request.mailbox and str(request.mailbox),
        "again": "1" if request.force_consent else None,
    }
    given = {name: value for name, value in query.items() if value is not None}
    return f"/oauth/{provider}/authorize?{urlencode(given)}"


class _SealedLogin(msgspec.Struct):
    """The encrypted part of a pending login: the PKCE verifier and the request."""

    verifier: str
    address: str | None
    mailbox: UUID | None
    policy: ContentPolicy | None  # as requested; the row holds the one whose scopes were requested


async def ensure_organization(database: Database, organization: OrganizationId) -> None:
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization)


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
    """Return the URL to send the browser to. Raises LoginRejected if sign-in is not possible."""
    if provider not in context.sign_ins:
        raise LoginRejected(
            "Sign-in at this provider is not configured: Postroom has no OAuth application there."
            " `postroom config show` lists the settings."
        )
    hint, policy = await _resolve_hint_and_policy(context, organization, request)
    state = Secret(f"{login_id.hex}.{token_urlsafe(32)}")
    verifier = Secret(token_urlsafe(48))
    details = _SealedLogin(verifier.reveal(), request.address, request.mailbox, request.policy)
    sealed = context.sealer.seal(
        _login_context(organization, state), Secret(msgspec.json.encode(details).decode())
    )
    async with context.database.transaction(organization) as connection:
        pending = PendingLogin(provider, policy, sealed, actor)
        await oauth_states.add(connection, pending, state=state, browser=browser, seconds=LOGIN_SECONDS)
    login = Login(state, verifier, context.callback(provider), policy, hint, request.force_consent)
    return context.providers[provider].login.authorization_url(login)


async def _resolve_hint_and_policy(
    context: ConnectContext, organization: OrganizationId, request: ConnectRequest
) -> tuple[str | None, ContentPolicy]:
    """The address to sign in with, and the policy whose scopes to request."""
    if request.mailbox is None:
        return request.address, request.policy or ContentPolicy.FULL
    async with context.database.transaction(organization) as connection:
        found = await mailboxes.get(connection, request.mailbox)
    if found is None:
        raise LoginRejected("There is no such mailbox.")
    return found.address, request.policy or found.policy


async def complete_login(
    context: ConnectContext,
    provider: ProviderName,
    *,
    state: Secret,
    browser: Secret | None,
    code: Secret | None,
    error: str | None,
) -> ConnectedMailbox | LoginRefusal:
    """Finish a login. Its state is used up whatever the result."""
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
    details = msgspec.json.decode(
        context.sealer.open(_login_context(organization, state), pending.verifier).reveal(), type=_SealedLogin
    )
    request = ConnectRequest(
        details.policy,
        details.address,
        MailboxId(details.mailbox) if details.mailbox else None,
    )
    if code is None or error is not None:
        return refuse_denied_consent(error, request)
    provider = pending.provider
    login = Login(state, Secret(details.verifier), context.callback(provider), pending.policy)
    try:
        grant = await context.providers[provider].login.exchange(login, code)
        problem = await check_grant(
            context.database, context.providers[provider], organization, grant, request
        )
    except PostroomError as failure:
        return await _refuse_failed_exchange(context, organization, provider, failure, request)
    return problem or await _connect_with_grant(context, organization, pending, grant, state, request.policy)


def _login_context(organization: OrganizationId, state: Secret) -> str:
    return f"oauth_states/{organization}/{oauth_states.digest(state).hex()}"


async def _refuse_failed_exchange(
    context: ConnectContext,
    organization: OrganizationId,
    provider: ProviderName,
    failure: PostroomError,
    request: ConnectRequest,
) -> LoginRefusal:
    match failure:
        case OperatorError():
            log.error("login.failed", error=failure, kind=provider)
            async with context.database.transaction(organization) as connection:
                await alerts.raise_or_clear(
                    connection, organization, application_key(provider, None), str(failure)
                )
            return LoginRefusal(
                LoginRefusalReason.APPLICATION,
                "The provider rejected Postroom's application. Ask the operator to check Postroom's log.",
                request,
            )
        case TransientError():
            log.warning("login.failed", error=failure, kind=provider)
            return LoginRefusal(
                LoginRefusalReason.TRY_AGAIN, "The provider is not responding correctly. Try again.", request
            )
        case _:
            return LoginRefusal(LoginRefusalReason.NOT_ACCEPTED, f"{str(failure).rstrip('.')}.", request)


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
    """Return the public id of a login. The rest of its state is secret."""
    return str(UUID(hex=state.reveal().partition(".")[0]))


@dataclass(frozen=True, slots=True)
class NewCredential:
    """The credential that a mailbox uses from now on."""

    kind: CredentialKind
    grant: Secret
    tokens: Tokens
    scopes: frozenset[str] = frozenset()
    tenant_id: str | None = None
    client_id: str | None = None
    directory: DirectoryId | None = None  # stores the grant for all of its mailboxes

    @property
    def actor(self) -> str | None:
        return f"directory:{self.directory}" if self.directory else None


async def _connect_with_grant(
    context: ConnectContext,
    organization: OrganizationId,
    pending: PendingLogin,
    grant: Grant,
    state: Secret,
    policy: ContentPolicy | None,
) -> ConnectedMailbox:
    assert grant.tokens.refresh  # `exchange` rejects a login without one
    provider = pending.provider
    scopes = context.providers[provider].login.scopes(pending.policy)
    credential = NewCredential(CredentialKind.DELEGATED, grant.tokens.refresh, grant.tokens, scopes)
    done = NewLedgerEntry("LOGIN_COMPLETED", "login", get_login_id(state), pending.actor_id)
    return await store_mailbox(
        context, organization, provider, grant.account, credential, policy=policy, folder=None, completed=done
    )


async def connect_app_only(
    context: ConnectContext,
    organization: OrganizationId,
    credential: AppCredential,
    *,
    address: str,
    provider: ProviderName = ProviderName.OUTLOOK,
    folder: str | None = None,
    policy: ContentPolicy | None = None,
) -> ConnectedMailbox:
    """Connect a mailbox with an application's own credential.

    A known mailbox keeps its folder and policy unless they are given. A folder that does not exist changes
    nothing. Every mailbox of the organization that uses the same application gets the new credential, so a
    rotated secret is entered once.
    """
    remote = get_provider(context.providers, provider)
    account = await remote.login.app_account(credential, address)
    async with context.database.transaction(organization) as connection:
        known = await mailboxes.find_by_account(connection, provider, account.account_id)
    scopes = remote.login.app_scopes(policy or (known.policy if known else ContentPolicy.FULL))
    tokens = await remote.login.app_tokens(credential, account.provider_user_id, scopes)
    try:
        await remote.mailbox(account.provider_user_id, FixedToken(tokens.access), folder).check()
    except NotFound as error:
        raise PermanentError(
            f"The mailbox has no folder {folder or DEFAULT_APP_FOLDER}. Nothing was changed."
            " Give a well-known name such as Inbox or Archive, or a folder ID."
        ) from error
    grant = credential.client_secret or credential.certificate
    assert grant
    kind = CredentialKind.APP_SECRET if credential.client_secret else CredentialKind.APP_CERTIFICATE
    new_credential = NewCredential(
        kind, grant, tokens, scopes, tenant_id=credential.tenant_id, client_id=credential.client_id
    )
    done = await store_mailbox(
        context, organization, provider, account, new_credential, policy=policy, folder=folder
    )
    await _replace_shared_credentials(context, done.mailbox, new_credential, credential.client_id)
    return done


async def _replace_shared_credentials(
    context: ConnectContext, from_: Mailbox, credential: NewCredential, client_id: str
) -> None:
    organization = from_.organization
    async with context.database.transaction(organization) as connection:
        found = await credentials.list_mailboxes_of_application(connection, client_id)
    for mailbox in found:
        if mailbox == from_.id:
            continue
        stored_grant = await context.vault.store(
            SecretLocation(organization, mailbox, "grant"), credential.grant
        )
        async with context.database.transaction(organization) as connection:
            if await credentials.replace_grant(connection, mailbox, client_id, credential.kind, stored_grant):
                await work.restart(
                    connection, [WorkRequest(organization, kind, str(mailbox)) for kind in INITIAL_WORK]
                )


async def store_mailbox(
    context: ConnectContext,
    organization: OrganizationId,
    provider: ProviderName,
    account: Account,
    credential: NewCredential,
    *,
    policy: ContentPolicy | None,
    folder: str | None,
    completed: NewLedgerEntry | None = None,
) -> ConnectedMailbox:
    """Store the grant in the vault, which may take a network call, then the rest in one transaction."""
    async with context.database.transaction(organization) as connection:
        account = await mailboxes.resolve_account(connection, provider, account)
        known = await mailboxes.find_by_account(connection, provider, account.account_id)
    id_ = known.id if known else _derive_mailbox_id(organization, provider, account)
    new_policy, new_folder = _choose_policy_and_folder(known, policy, folder, credential)
    before = known.policy if known else new_policy
    location = SecretLocation(organization, id_, "grant")
    stored_grant = None if credential.directory else await context.vault.store(location, credential.grant)
    access = context.sealer.seal(replace(location, field="access").context, credential.tokens.access)
    async with context.database.transaction(organization) as connection:
        await mailboxes.lock_account(connection, provider, account)
        await policies.block_commits(connection, organization, id_, before=before, after=new_policy)
        found, is_new = await mailboxes.connect(
            connection, provider, account, new_id=id_, policy=new_policy, folder=new_folder
        )
        if found.id != id_:  # an earlier version, which chose ids at random, connected it at the same time
            raise TransientError("Another process has just connected this account. Try again.")
        if known is not None:
            await _apply_changed_settings(connection, known, found, completed)
        await credentials.save(
            connection,
            id_,
            kind=credential.kind,
            grant=stored_grant,
            scopes=credential.scopes,
            tenant_id=credential.tenant_id,
            client_id=credential.client_id,
            access=access,
            access_seconds=credential.tokens.expires_in_seconds,
            directory=credential.directory,
        )
        await _record_connection(connection, found, credential, is_new=is_new, completed=completed)
    if policies.is_lowered(before, new_policy):
        await policies.remove_disallowed(context.database, context.pipelines, organization, id_)
    return ConnectedMailbox(found, is_new)


def _derive_mailbox_id(organization: OrganizationId, provider: ProviderName, account: Account) -> MailboxId:
    """The id of a new mailbox, the same at every attempt: the vault names grants by it.

    A login that is repeated after a crash overwrites the grant that the first one left in the vault.
    """
    return MailboxId(uuid5(organization, f"{provider}/{account.account_id}"))


def _choose_policy_and_folder(
    known: Mailbox | None, policy: ContentPolicy | None, folder: str | None, credential: NewCredential
) -> tuple[ContentPolicy, str | None]:
    """Keep what a known mailbox has, unless the request changes it.

    Only an application of a tenant is limited to a folder.
    """
    if known is not None:
        return policy or known.policy, folder or known.folder
    return policy or ContentPolicy.FULL, folder or (DEFAULT_APP_FOLDER if credential.tenant_id else None)


async def _apply_changed_settings(
    connection: Connection, before: Mailbox, after: Mailbox, completed: NewLedgerEntry | None
) -> None:
    """Replace what depends on the old folder or policy."""
    if before.folder != after.folder:
        # A subscription cannot switch to another folder: a new one is created.
        await mailboxes.remove_subscriptions(connection, after.id)
        await cursors.delete(connection, after.id, [(CursorKind.FOLDERS, "")])
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
    credential: NewCredential,
    *,
    is_new: bool,
    completed: NewLedgerEntry | None,
) -> None:
    """Append ledger entries and events, and schedule the first work, in the caller's transaction."""
    connected = NewLedgerEntry(
        "MAILBOX_CONNECTED" if is_new else "MAILBOX_RECONNECTED",
        "mailbox",
        str(mailbox.id),
        completed.actor_id if completed else credential.actor,
        payload={"provider": mailbox.provider, "policy": mailbox.policy, "credential": credential.kind},
        personal={"address": mailbox.address},
    )
    also = [replace(completed, payload={"mailbox": str(mailbox.id)})] if completed else []
    await ledger.append_entries(connection, mailbox.organization, [connected, *also])
    kind = "mailbox.connected" if is_new else "mailbox.reconnected"
    await feed.append_event(connection, kind, "mailbox", str(mailbox.id), {"provider": mailbox.provider})
    if await alerts.raise_or_clear(
        connection, mailbox.organization, application_key(mailbox.provider, credential.client_id), None
    ):
        await work.resume_waiting_for_operator(connection)
    requests = [WorkRequest(mailbox.organization, kind, str(mailbox.id)) for kind in INITIAL_WORK]
    await work.restart(connection, requests)
