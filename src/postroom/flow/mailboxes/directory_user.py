"""The work `sync_directory_user`: connect the mailbox of one user of a directory, or let it leave.

Safe to run twice: a mailbox that the directory has connected is not connected again, and the actions on
leavers have no second effect. Stored mail is never deleted.
"""

from typing import assert_never
from uuid import UUID

from postroom.errors import PermanentError
from postroom.flow.mailboxes import connect, directory_plan, lifecycle
from postroom.flow.mailboxes.connect import NewCredential
from postroom.flow.mailboxes.directories import DirectoryContext, open_credential, record_event
from postroom.flow.mailboxes.fixed_token import FixedToken
from postroom.flow.mailboxes.tokens import get_provider
from postroom.model import Account, CredentialKind, MailboxId
from postroom.store import credentials, directories, directory_users, mailboxes, work
from postroom.store.credentials import Credential
from postroom.store.directories import Directory, LeaverAction
from postroom.store.directory_users import DirectoryUserState, StoredDirectoryUser
from postroom.store.mailboxes import Mailbox
from postroom.store.work import FinishedWork, Lease


async def run(context: DirectoryContext, lease: Lease) -> None:
    async with context.database.transaction(lease.organization) as connection:
        user = await directory_users.get(connection, UUID(lease.subject))
        directory = await directories.get(connection, user.directory) if user else None
    if user is None or directory is None:
        await _finish(context, lease)
    elif user.state is DirectoryUserState.JOINING and directory.removed_at is None:
        await _join(context, lease, directory, user)
    elif user.state is DirectoryUserState.LEAVING:
        await _leave(context, lease, directory, user)
    else:
        await _finish(context, lease)


async def _finish(context: DirectoryContext, lease: Lease) -> None:
    async with work.fenced_transaction(context.database, lease) as connection:
        await work.finish(connection, [FinishedWork(lease)])


async def _record(
    context: DirectoryContext,
    lease: Lease,
    directory: Directory,
    user: StoredDirectoryUser,
    state: DirectoryUserState,
    reason: str,
    *,
    mailbox: MailboxId | None = None,
) -> None:
    """Write the new state with its ledger entry, and finish, unless the user's state changed meanwhile."""
    events = {
        DirectoryUserState.CONNECTED: "DIRECTORY_USER_JOINED",
        DirectoryUserState.SKIPPED: "DIRECTORY_USER_SKIPPED",
    }
    async with work.fenced_transaction(context.database, lease) as connection:
        current = await directory_users.get(connection, user.id)
        if current is None or current.state is not user.state:
            # A listing decided otherwise while this ran: start over from there.
            await work.finish(connection, [FinishedWork(lease, 0.0)])
            return
        await directory_users.set_state(connection, user.id, state, reason, mailbox=mailbox)
        found = mailbox or user.mailbox
        await record_event(
            connection,
            directory,
            events.get(state, "DIRECTORY_USER_LEFT"),
            f"directory:{directory.id}",
            mailbox=str(found) if found else None,
            state=state,
            reason=reason,
        )
        await work.finish(connection, [FinishedWork(lease)])


async def _join(
    context: DirectoryContext, lease: Lease, directory: Directory, user: StoredDirectoryUser
) -> None:
    account = Account(user.account_id, user.provider_user_id, user.address)
    async with context.database.transaction(directory.organization) as connection:
        known = await mailboxes.find_by_account(connection, directory.provider, user.account_id)
        credential = await credentials.load(connection, known.id) if known else None
    returns = user.reason == directory_plan.RETURNED
    if reason := _find_skip_reason(directory, known, credential, returns=returns):
        await _record(context, lease, directory, user, DirectoryUserState.SKIPPED, reason)
        return
    if known is None or not _is_connected_by(directory, known, credential, account):
        try:
            known = await _connect(context, directory, account)
        except PermanentError as error:
            await _record(context, lease, directory, user, DirectoryUserState.SKIPPED, str(error))
            return
    if returns and user.mailbox == known.id:
        await lifecycle.resume(
            context.connect, directory.organization, known.id, actor=f"directory:{directory.id}"
        )
    await _record(
        context, lease, directory, user, DirectoryUserState.CONNECTED, user.reason, mailbox=known.id
    )


def _find_skip_reason(
    directory: Directory, known: Mailbox | None, credential: Credential | None, *, returns: bool
) -> str | None:
    """Why a mailbox that exists already is not connected by this directory."""
    if known is None:
        return None
    if known.disconnected_at is not None or credential is None:
        return None if returns else "its mailbox was disconnected by a person; connect it by hand"
    if credential.directory is not None:
        return None if credential.directory == directory.id else "its mailbox belongs to another directory"
    if credential.kind is CredentialKind.DELEGATED:
        return "its owner connected the mailbox by sign-in"
    if credential.client_id != directory.client_id:
        return "its mailbox is connected with another application"
    return None


def _is_connected_by(
    directory: Directory, known: Mailbox, credential: Credential | None, account: Account
) -> bool:
    return (
        known.disconnected_at is None
        and credential is not None
        and credential.directory == directory.id
        and (known.address, known.provider_user_id) == (account.address, account.provider_user_id)
    )


async def _connect(context: DirectoryContext, directory: Directory, account: Account) -> Mailbox:
    provider = get_provider(context.connect.providers, directory.provider)
    app_credential = await open_credential(context, directory)
    scopes = provider.login.app_scopes(directory.settings.policy)
    tokens = await provider.login.app_tokens(app_credential, account.provider_user_id, scopes)
    folder = directory.settings.folder
    await provider.mailbox(account.provider_user_id, FixedToken(tokens.access), folder).check()
    grant = app_credential.client_secret or app_credential.certificate
    assert grant
    credential = NewCredential(
        directory.kind,
        grant,
        tokens,
        scopes,
        tenant_id=directory.tenant_id,
        client_id=directory.client_id,
        directory=directory.id,
    )
    done = await connect.store_mailbox(
        context.connect,
        directory.organization,
        directory.provider,
        account,
        credential,
        policy=directory.settings.policy,
        folder=folder,
    )
    return done.mailbox


async def _leave(
    context: DirectoryContext, lease: Lease, directory: Directory, user: StoredDirectoryUser
) -> None:
    async with context.database.transaction(directory.organization) as connection:
        credential = await credentials.load(connection, user.mailbox) if user.mailbox else None
    if user.mailbox is None or credential is None:
        await _record(context, lease, directory, user, DirectoryUserState.DISCONNECTED, user.reason)
        return
    if credential.directory != directory.id:
        reason = f"{user.reason}; the mailbox is connected in another way"
        await _record(context, lease, directory, user, DirectoryUserState.KEPT, reason)
        return
    action = LeaverAction.DISCONNECT if directory.removed_at else directory.settings.leaver_action
    state = await _apply_action(context, directory, user.mailbox, action)
    await _record(context, lease, directory, user, state, user.reason)


async def _apply_action(
    context: DirectoryContext, directory: Directory, mailbox: MailboxId, action: LeaverAction
) -> DirectoryUserState:
    actor = f"directory:{directory.id}"
    match action:
        case LeaverAction.KEEP:
            return DirectoryUserState.KEPT
        case LeaverAction.PAUSE:
            changed = await lifecycle.pause(context.connect, directory.organization, mailbox, actor=actor)
            # One that a person paused stays paused when its user returns.
            return DirectoryUserState.PAUSED if changed else DirectoryUserState.KEPT
        case LeaverAction.DISCONNECT:
            await lifecycle.disconnect(
                context.connect, context.tokens, directory.organization, mailbox, purge=False, actor=actor
            )
            return DirectoryUserState.DISCONNECTED
        case _:
            assert_never(action)
