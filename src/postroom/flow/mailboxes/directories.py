"""Add, preview, sync and remove directories: all users of a Workspace or tenant that a selection matches.

The work that follows is in `directory_sync` and `directory_user`, the comparison in `directory_plan`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from uuid import uuid5

from postroom.errors import OperatorError
from postroom.flow.mailboxes import directory_plan
from postroom.flow.mailboxes.connect import ConnectContext, ensure_organization
from postroom.flow.mailboxes.directory_plan import ListedUser
from postroom.flow.mailboxes.tokens import AccessTokens, build_app_credential, get_provider
from postroom.logs import Log
from postroom.model import (
    AppCredential,
    CredentialKind,
    DirectoryId,
    OrganizationId,
    ProviderName,
    WorkKind,
)
from postroom.ports import DirectoryUser, SecretLocation
from postroom.store import directories, directory_users, ledger, organizations, work
from postroom.store.connection import Connection
from postroom.store.database import Database, repeat_hourly
from postroom.store.directories import Directory, DirectorySettings
from postroom.store.directory_users import StoredDirectoryUser
from postroom.store.ledger import JsonValue, NewLedgerEntry
from postroom.store.work import WorkRequest

log = Log()

PreviewOutcome = Literal["connect", "connected", "leave", "excluded"]


@dataclass(frozen=True)
class DirectoryContext:
    """The dependencies of directories. `sync_seconds`: between two listings."""

    connect: ConnectContext
    tokens: AccessTokens
    sync_seconds: float

    @property
    def database(self) -> Database:
        return self.connect.database


@dataclass(frozen=True, slots=True)
class PreviewedUser:
    address: str
    outcome: PreviewOutcome
    reason: str


@dataclass(frozen=True, slots=True)
class DirectoryPreview:
    """What a sync would do. With a stop reason, it would do nothing and ask a person."""

    users: Sequence[PreviewedUser]
    stop_reason: str | None


@dataclass(frozen=True, slots=True)
class NewDirectory:
    """A directory to add, or to change if one with this name exists."""

    name: str
    provider: ProviderName
    credential: AppCredential
    admin_address: str | None
    settings: DirectorySettings


async def add(
    context: DirectoryContext, organization: OrganizationId, wanted: NewDirectory, *, actor: str | None = None
) -> Directory:
    """Store a directory and its credential, and enqueue its first sync. The same name changes it."""
    await ensure_organization(context.database, organization)
    async with context.database.transaction(organization) as connection:
        known = await directories.find(connection, wanted.name)
    if known is not None and known.provider is not wanted.provider:
        raise OperatorError(
            f"A directory {wanted.name} of {known.provider} already exists. Choose another name."
        )
    id_ = known.id if known else DirectoryId(uuid5(organization, f"directory/{wanted.name}"))
    secret = wanted.credential.client_secret or wanted.credential.certificate
    assert secret
    grant = await context.connect.vault.store(SecretLocation(organization, id_, "grant"), secret)
    kind = CredentialKind.APP_SECRET if wanted.credential.client_secret else CredentialKind.APP_CERTIFICATE
    directory = Directory(
        id=id_,
        organization=organization,
        name=wanted.name,
        provider=wanted.provider,
        kind=kind,
        tenant_id=wanted.credential.tenant_id,
        client_id=wanted.credential.client_id,
        admin_address=wanted.admin_address,
        settings=wanted.settings,
        grant=grant,
        added_at=datetime.now(UTC),
        listed_at=None,
        listed_users=None,
        stopped_at=None,
        stop_reason=None,
        confirmed_leavers=None,
        last_error=None,
        removed_at=None,
    )
    async with context.database.transaction(organization) as connection:
        is_new = await directories.save(connection, directory)
        event = "DIRECTORY_ADDED" if is_new else "DIRECTORY_CHANGED"
        await record_event(connection, directory, event, actor, **_describe(directory))
        await work.restart(connection, [WorkRequest(organization, WorkKind.SYNC_DIRECTORY, str(id_))])
    return directory


def _describe(directory: Directory) -> dict[str, JsonValue]:
    selection = directory.settings.selection
    return {
        "name": directory.name,
        "provider": directory.provider,
        "groups": len(selection.groups),
        "domains": list(selection.domains),
        "leavers": directory.settings.leaver_action,
        "policy": directory.settings.policy,
    }


async def list_users(context: DirectoryContext, directory: Directory) -> list[ListedUser]:
    """List a directory at its provider and apply the selection. Stores nothing."""
    wanted = NewDirectory(
        directory.name,
        directory.provider,
        await open_credential(context, directory),
        directory.admin_address,
        directory.settings,
    )
    return await list_wanted(context, wanted)


async def list_wanted(context: DirectoryContext, wanted: NewDirectory) -> list[ListedUser]:
    """List a directory that need not be stored yet."""
    remote = get_provider(context.connect.providers, wanted.provider).directory(
        wanted.credential, wanted.admin_address
    )
    users: list[DirectoryUser] = []
    async for page in remote.list_users(wanted.settings.selection.groups):
        users.extend(page)
    return directory_plan.select_users(users, wanted.settings.selection)


async def open_credential(context: DirectoryContext, directory: Directory) -> AppCredential:
    location = SecretLocation(directory.organization, directory.id, "grant")
    secret = await context.connect.vault.fetch(location, directory.grant)
    return build_app_credential(directory.kind, directory.tenant_id, directory.client_id, secret)


async def preview(context: DirectoryContext, directory: Directory) -> DirectoryPreview:
    """What a sync would do now. Changes nothing."""
    listed = await list_users(context, directory)
    return await _preview_listed(context, directory, listed, directory.settings)


async def preview_wanted(
    context: DirectoryContext, organization: OrganizationId, wanted: NewDirectory
) -> DirectoryPreview:
    """What the first sync of a directory would do, or the next one of that with its name."""
    listed = await list_wanted(context, wanted)
    async with context.database.transaction(organization) as connection:
        known = await directories.find(connection, wanted.name)
    return await _preview_listed(context, known, listed, wanted.settings)


async def _preview_listed(
    context: DirectoryContext,
    directory: Directory | None,
    listed: Sequence[ListedUser],
    settings: DirectorySettings,
) -> DirectoryPreview:
    stored: list[StoredDirectoryUser] = []
    confirmed = directory.confirmed_leavers if directory else None
    if directory is not None:
        async with context.database.transaction(directory.organization) as connection:
            stored = await directory_users.list_by_directory(connection, directory.id)
    changes, stop_reason = directory_plan.plan(listed, stored, settings, confirmed_leavers=confirmed)
    joining = {account.account_id for account in (*changes.joiners, *changes.returners)}
    skipped = {user.account_id: user.reason for user in stored if user.state == "skipped"}
    leaving = dict(changes.leavers)
    gone = [PreviewedUser(user.address, "leave", leaving[user.id]) for user in stored if user.id in leaving]
    left = {user.address for user in gone}
    users = [_preview_user(user, joining, skipped) for user in listed if user.account.address not in left]
    return DirectoryPreview(users + gone, stop_reason)


def _preview_user(user: ListedUser, joining: Collection[str], skipped: Mapping[str, str]) -> PreviewedUser:
    id_, address = user.account.account_id, user.account.address
    if user.excluded_reason is not None:
        return PreviewedUser(address, "excluded", user.excluded_reason)
    if id_ in joining:
        return PreviewedUser(address, "connect", directory_plan.JOINED)
    if id_ in skipped:
        return PreviewedUser(address, "excluded", skipped[id_])
    return PreviewedUser(address, "connected", directory_plan.JOINED)


async def request_sync(
    context: DirectoryContext,
    directory: Directory,
    *,
    confirmed_leavers: int | None,
    actor: str | None = None,
) -> None:
    """Make the sync due now. With a number, a person allows that many users to leave."""
    async with context.database.transaction(directory.organization) as connection:
        if confirmed_leavers is not None:
            await directories.confirm_leavers(connection, directory.id, confirmed_leavers)
            await record_event(
                connection, directory, "DIRECTORY_LEAVERS_CONFIRMED", actor, leavers=confirmed_leavers
            )
        request = WorkRequest(directory.organization, WorkKind.SYNC_DIRECTORY, str(directory.id))
        await work.restart(connection, [request])


async def remove(context: DirectoryContext, directory: Directory, *, actor: str | None = None) -> None:
    """Disconnect all mailboxes of a directory, then delete it and its credential. Stored mail stays."""
    async with context.database.transaction(directory.organization) as connection:
        if await directories.mark_removed(connection, directory.id):
            await record_event(connection, directory, "DIRECTORY_REMOVED", actor, name=directory.name)
        request = WorkRequest(directory.organization, WorkKind.SYNC_DIRECTORY, str(directory.id))
        await work.restart(connection, [request])


async def record_event(
    connection: Connection, directory: Directory, event: str, actor: str | None, **payload: JsonValue
) -> None:
    entry = NewLedgerEntry(event, "directory", str(directory.id), actor, payload)
    await ledger.append_entries(connection, directory.organization, [entry])


async def _schedule_missing(connection: Connection, organization: OrganizationId) -> None:
    requests = [
        WorkRequest(organization, WorkKind.SYNC_DIRECTORY, str(directory.id))
        for directory in await directories.list_all(connection)
    ]
    if requests and (count := await work.ensure_scheduled(connection, requests)):
        log.info("directory.scheduled", count=count)


async def keep_scheduled(database: Database) -> None:
    """Schedule the sync of every directory, forever, so that lost work is recreated."""

    async def schedule() -> None:
        async with database.engine() as engine:
            found = await organizations.list_ids(engine)
        for organization in found:
            async with database.transaction(organization) as connection:
                await _schedule_missing(connection, organization)

    await repeat_hourly(schedule)
