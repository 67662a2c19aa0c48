"""The work `sync_directory`: list a directory, and let its users join and leave.

    (new) ──▶ joining ──▶ connected ──(left, suspended, no longer selected)──▶ leaving
                 │  ▲                                                            │
                 │  └──────────────(selected again)────── paused, disconnected, kept
                 └──▶ skipped, for a reason; tried again after a day

A listing is applied in one transaction, or not at all. One that is empty, or would let too many users leave,
is not applied: it stops and asks a person. Joining and leaving are work of their own (`directory_user`),
spread over time, so that other work has its turn and the providers' quotas last.
"""

from typing import Final
from uuid import UUID

from postroom.errors import OperatorError, PermanentError
from postroom.flow.mailboxes import directories as flow_directories
from postroom.flow.mailboxes import directory_plan
from postroom.flow.mailboxes.directories import DirectoryContext, record_event
from postroom.flow.mailboxes.directory_plan import DirectoryChanges, ListedUser
from postroom.logs import Log
from postroom.model import DirectoryId, WorkKind
from postroom.ports import SecretLocation
from postroom.store import credentials, directories, directory_users, work
from postroom.store.connection import Connection
from postroom.store.directories import Directory
from postroom.store.directory_users import DirectoryUserState
from postroom.store.work import FinishedWork, Lease, WorkRequest

log = Log()

# Each user costs a few requests at the provider, and a first sync.
USERS_PER_SECOND: Final = 10.0
REMOVAL_SECONDS: Final = 10.0


async def run(context: DirectoryContext, lease: Lease) -> None:
    """List and apply. The last commit also finishes the lease."""
    async with context.database.transaction(lease.organization) as connection:
        directory = await directories.get(connection, DirectoryId(UUID(lease.subject)))
    if directory is None:
        async with work.fenced_transaction(context.database, lease) as connection:
            await work.finish(connection, [FinishedWork(lease)])
    elif directory.removed_at is not None:
        await _continue_removal(context, lease, directory)
    else:
        await _list_and_apply(context, lease, directory)


async def _list_and_apply(context: DirectoryContext, lease: Lease, directory: Directory) -> None:
    try:
        listed = await flow_directories.list_users(context, directory)
    except OperatorError as error:
        await _record_error(context, lease, directory, error)
        raise
    except PermanentError as error:  # a group is gone, for example: only a person can correct the selection
        await _record_error(context, lease, directory, error, finish=True)
        return
    async with work.fenced_transaction(context.database, lease) as connection:
        stored = await directory_users.list_by_directory(connection, directory.id)
        current = await directories.get(connection, directory.id) or directory
        changes, reason = directory_plan.plan(
            listed, stored, current.settings, confirmed_leavers=current.confirmed_leavers
        )
        if reason is not None:
            await _stop(connection, directory, reason)
        else:
            await _apply(connection, directory, listed, changes)
        await work.finish(connection, [FinishedWork(lease, context.sync_seconds)])
    log.info(
        "directory.listed",
        count=len(listed),
        state="stopped" if reason else "applied",
        organization=directory.organization,
    )


async def _record_error(
    context: DirectoryContext,
    lease: Lease,
    directory: Directory,
    error: OperatorError | PermanentError,
    *,
    finish: bool = False,
) -> None:
    async with work.fenced_transaction(context.database, lease) as connection:
        await directories.record_error(connection, directory.id, str(error))
        if finish:
            await work.finish(connection, [FinishedWork(lease, context.sync_seconds)])


async def _stop(connection: Connection, directory: Directory, reason: str) -> None:
    """Change nothing, and ask a person once."""
    if await directories.stop(connection, directory.id, reason):
        await record_event(connection, directory, "DIRECTORY_SYNC_STOPPED", _actor(directory), reason=reason)
        log.warning("directory.stopped", organization=directory.organization)


async def _apply(
    connection: Connection, directory: Directory, listed: list[ListedUser], changes: DirectoryChanges
) -> None:
    for accounts, reason in (
        (changes.joiners, directory_plan.JOINED),
        (changes.returners, directory_plan.RETURNED),
    ):
        await directory_users.set_joining(connection, directory.id, accounts, reason)
    await directory_users.set_leaving(connection, changes.leavers)
    await directories.record_listing(connection, directory.id, listed_users=len(listed))
    joining = [account.account_id for account in (*changes.returners, *changes.joiners)]
    due = [
        *(id_ for id_, _ in changes.leavers),
        *changes.pending,
        *(directory_users.derive_id(directory.id, account) for account in joining),
    ]
    await _schedule(connection, directory, due)
    if changes.joiners or changes.returners or changes.leavers:
        await record_event(
            connection,
            directory,
            "DIRECTORY_SYNCED",
            _actor(directory),
            listed=len(listed),
            joined=len(changes.joiners) + len(changes.returners),
            left=len(changes.leavers),
        )


async def _schedule(connection: Connection, directory: Directory, users: list[UUID]) -> None:
    """Spread the work of many users over time. Work that exists keeps its time."""
    await work.ensure_scheduled(
        connection,
        [
            WorkRequest(
                directory.organization,
                WorkKind.SYNC_DIRECTORY_USER,
                str(user),
                delay=place / USERS_PER_SECOND,
            )
            for place, user in enumerate(users)
        ],
    )


def _actor(directory: Directory) -> str:
    return f"directory:{directory.id}"


async def _continue_removal(context: DirectoryContext, lease: Lease, directory: Directory) -> None:
    """Let all users leave. Once no mailbox needs the credential, delete it and the directory."""
    async with work.fenced_transaction(context.database, lease) as connection:
        left = {DirectoryUserState.DISCONNECTED, DirectoryUserState.SKIPPED, DirectoryUserState.LEAVING}
        stored = await directory_users.list_by_directory(connection, directory.id)
        leavers = [(user.id, "the directory was removed") for user in stored if user.state not in left]
        await directory_users.set_leaving(connection, leavers)
        pending = [user.id for user in stored if user.state is DirectoryUserState.LEAVING]
        await _schedule(connection, directory, [*(id_ for id_, _ in leavers), *pending])
        is_used = await credentials.count_by_directory(connection, directory.id) > 0
        if leavers or pending or is_used:
            await work.finish(connection, [FinishedWork(lease, REMOVAL_SECONDS)])
            return
    # Before the row that names it is deleted: if this fails, the secret can still be found.
    location = SecretLocation(directory.organization, directory.id, "grant")
    await context.connect.vault.delete(location, directory.grant)
    async with work.fenced_transaction(context.database, lease) as connection:
        await directories.delete(connection, directory.id)
        await work.finish(connection, [FinishedWork(lease)])
