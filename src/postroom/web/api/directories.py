"""API operations on directories: list, add, preview, sync and remove them, and list their users."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal
from uuid import UUID

import msgspec

from postroom.api_types import RequestAccepted, ResultPage
from postroom.api_types.directories import (
    DirectoryDefinition,
    DirectoryPreviewResource,
    DirectoryResource,
    DirectorySyncRequest,
    DirectoryUserResource,
    PreviewedUserResource,
)
from postroom.errors import DatabaseUnavailable, OperatorError
from postroom.flow.mailboxes import directories as flow
from postroom.flow.mailboxes import directory_input
from postroom.flow.mailboxes.app_credential_input import CredentialInput
from postroom.flow.mailboxes.directories import DirectoryPreview, NewDirectory
from postroom.model import ContentPolicy, DirectoryId, ProviderName, Scope
from postroom.store import directories as stored
from postroom.store import directory_users
from postroom.store.directories import Directory, DirectorySettings, LeaverAction, UserSelection
from postroom.store.directory_users import DirectoryUserState, StoredDirectoryUser
from postroom.web.api import paging
from postroom.web.api.operations import (
    ApiCall,
    ApiProblem,
    NoParameters,
    Operation,
    PageQuery,
    require_found,
)


class DirectoryPath(msgspec.Struct, frozen=True):
    directory: UUID


class DirectoryUsersQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    state: Literal["joining", "connected", "leaving", "paused", "disconnected", "kept", "skipped"] | None = (
        None
    )


async def list_directories(call: ApiCall[NoParameters, NoParameters, None]) -> ResultPage[DirectoryResource]:
    """List directories with the number of their users by state."""
    async with call.transaction() as connection:
        found = await stored.list_all(connection)
        counts = await directory_users.count_states(connection)
    return ResultPage([_to_resource(directory, counts.get(directory.id, {})) for directory in found], None)


async def get_directory(call: ApiCall[DirectoryPath, NoParameters, None]) -> DirectoryResource:
    """Get a directory with the number of its users by state."""
    return await _load_resource(call, call.path.directory)


async def add_directory(call: ApiCall[NoParameters, NoParameters, DirectoryDefinition]) -> DirectoryResource:
    """Add a directory, or change the one with this name. Workers connect its users."""
    async with _refusing():
        directory = await flow.add(
            call.context.directories,
            call.caller.organization,
            _to_new_directory(call.body),
            actor=call.caller.actor,
        )
    return await _load_resource(call, directory.id)


async def preview_new_directory(
    call: ApiCall[NoParameters, NoParameters, DirectoryDefinition],
) -> DirectoryPreviewResource:
    """List the users of a directory at its provider without adding it. Stores nothing."""
    wanted = _to_new_directory(call.body)
    async with _refusing():
        found = await flow.preview_wanted(call.context.directories, call.caller.organization, wanted)
    return _to_preview(found)


async def preview_directory(call: ApiCall[DirectoryPath, NoParameters, None]) -> DirectoryPreviewResource:
    """List the users of a directory at its provider, and return what a sync would do. Changes nothing."""
    directory = await _get_directory(call, call.path.directory)
    async with _refusing():
        return _to_preview(await flow.preview(call.context.directories, directory))


async def sync_directory(call: ApiCall[DirectoryPath, NoParameters, DirectorySyncRequest]) -> RequestAccepted:
    """Sync a directory now. A worker runs the sync."""
    directory = await _get_directory(call, call.path.directory)
    await flow.request_sync(
        call.context.directories,
        directory,
        confirmed_leavers=call.body.confirmed_leavers,
        actor=call.caller.actor,
    )
    return RequestAccepted()


async def remove_directory(call: ApiCall[DirectoryPath, NoParameters, None]) -> RequestAccepted:
    """Disconnect all mailboxes of a directory, and delete it with its credential. Stored mail stays."""
    directory = await _get_directory(call, call.path.directory)
    await flow.remove(call.context.directories, directory, actor=call.caller.actor)
    return RequestAccepted()


async def list_directory_users(
    call: ApiCall[DirectoryPath, DirectoryUsersQuery, None],
) -> ResultPage[DirectoryUserResource]:
    """List the users that a directory selected, by address."""
    after = (paging.parse_cursor(call.query, str) or "").replace("\0", "")
    state = DirectoryUserState(call.query.state) if call.query.state else None
    directory = await _get_directory(call, call.path.directory)
    async with call.transaction() as connection:
        rows = await directory_users.list_page(
            connection, directory.id, state=state, after=after, limit=call.query.limit + 1
        )
    return paging.build_page([_to_user(row) for row in rows], call.query, lambda row: row.address)


@asynccontextmanager
async def _refusing() -> AsyncGenerator[None]:
    """Show the caller what must be changed at the provider: the application is the caller's own."""
    try:
        yield
    except DatabaseUnavailable:
        raise
    except OperatorError as error:
        raise ApiProblem(409, "refused", str(error)) from None


def _to_new_directory(body: DirectoryDefinition) -> NewDirectory:
    credential = CredentialInput(
        body.key, body.tenant_id, body.client_id, body.client_secret, body.certificate
    )
    selection = UserSelection(
        tuple(body.groups), tuple(body.domains), tuple(body.patterns), tuple(body.excluded_patterns)
    )
    settings = DirectorySettings(
        selection,
        ContentPolicy(body.content_policy),
        body.folder,
        LeaverAction(body.leaver_action),
        body.max_leaver_percent,
    )
    return directory_input.build_directory(
        body.name, ProviderName(body.provider), credential, body.admin_address, settings
    )


async def _get_directory(call: ApiCall[Any, Any, Any], directory: UUID) -> Directory:
    async with call.transaction() as connection:
        return require_found(await stored.get(connection, DirectoryId(directory)), "directory")


async def _load_resource(call: ApiCall[Any, Any, Any], id_: UUID) -> DirectoryResource:
    directory = await _get_directory(call, id_)
    async with call.transaction() as connection:
        counts = await directory_users.count_states(connection)
    return _to_resource(directory, counts.get(directory.id, {}))


def _to_resource(directory: Directory, counts: dict[str, int]) -> DirectoryResource:
    settings, selection = directory.settings, directory.settings.selection
    return DirectoryResource(
        id=directory.id,
        name=directory.name,
        provider=directory.provider,
        tenant_id=directory.tenant_id,
        client_id=directory.client_id,
        admin_address=directory.admin_address,
        groups=list(selection.groups),
        domains=list(selection.domains),
        patterns=list(selection.patterns),
        excluded_patterns=list(selection.excluded_patterns),
        content_policy=settings.policy,
        folder=settings.folder,
        leaver_action=settings.leaver_action,
        max_leaver_percent=settings.max_leaver_percent,
        added_at=directory.added_at,
        listed_at=directory.listed_at,
        listed_users=directory.listed_users,
        stopped_at=directory.stopped_at,
        stop_reason=directory.stop_reason,
        last_error=directory.last_error,
        removed_at=directory.removed_at,
        users=counts,
    )


def _to_user(user: StoredDirectoryUser) -> DirectoryUserResource:
    return DirectoryUserResource(
        user.id, user.address, user.state, user.reason, user.mailbox, user.changed_at
    )


def _to_preview(found: DirectoryPreview) -> DirectoryPreviewResource:
    users = [PreviewedUserResource(user.address, user.outcome, user.reason) for user in found.users]
    counts = Counter(str(user.outcome) for user in found.users)
    return DirectoryPreviewResource(dict(counts), found.stop_reason, users)


OPERATIONS = [
    Operation("GET", "/directories", list_directories, Scope.READ, "Mailboxes"),
    Operation("POST", "/directories", add_directory, Scope.MAILBOXES, "Mailboxes", 201, secret_body=True),
    Operation(
        "POST",
        "/directories/preview",
        preview_new_directory,
        Scope.MAILBOXES,
        "Mailboxes",
        secret_body=True,
    ),
    Operation("GET", "/directories/{directory}", get_directory, Scope.READ, "Mailboxes"),
    Operation("DELETE", "/directories/{directory}", remove_directory, Scope.MAILBOXES, "Mailboxes", 202),
    Operation("GET", "/directories/{directory}/users", list_directory_users, Scope.READ, "Mailboxes"),
    Operation("POST", "/directories/{directory}/preview", preview_directory, Scope.MAILBOXES, "Mailboxes"),
    Operation("POST", "/directories/{directory}/sync", sync_directory, Scope.MAILBOXES, "Mailboxes", 202),
]
