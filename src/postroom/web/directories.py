"""The pages of directories: list, add, preview, sync and remove them, and show their users."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import DatabaseUnavailable, InvalidField, PostroomError
from postroom.flow.mailboxes import directories as flow
from postroom.flow.mailboxes import directory_input
from postroom.flow.mailboxes.app_credential_input import CredentialInput
from postroom.flow.mailboxes.directories import DirectoryContext, DirectoryPreview, NewDirectory
from postroom.model import ContentPolicy, DirectoryId, ProviderName, Role
from postroom.store import directories, directory_users
from postroom.store.directories import Directory, DirectorySettings, LeaverAction, UserSelection
from postroom.store.directory_users import DirectoryUserState
from postroom.web import forms, pages
from postroom.web.mailboxes import POLICY_NAMES
from postroom.web.sessions import SiteContext, get_visitor, member_route

USERS_PER_PAGE: Final = 100
# Two credentials in PEM or JSON, and the selection.
MAX_FORM_BYTES: Final = 256 * 1024
CREDENTIAL_FIELDS: Final = frozenset({"key", "client_secret", "certificate"})
PROVIDER_NAMES: Final[Mapping[ProviderName, str]] = {
    ProviderName.GMAIL: "Google Workspace",
    ProviderName.OUTLOOK: "Microsoft 365",
}
LEAVER_ACTIONS: Final[Mapping[LeaverAction, str]] = {
    LeaverAction.PAUSE: "Pause the mailbox",
    LeaverAction.DISCONNECT: "Disconnect the mailbox",
    LeaverAction.KEEP: "Keep the mailbox connected",
}


@dataclass(frozen=True)
class DirectoryPagesContext:
    """Collaborators of the pages."""

    site: SiteContext
    directories: DirectoryContext


@dataclass(frozen=True)
class DirectoryFormResult:
    """What went wrong with a form, and what was entered, without its credential."""

    error: str
    entered: Mapping[str, str]


def routes(context: DirectoryPagesContext) -> list[Route]:
    route = partial(member_route, context.site)
    one = "/directories/{directory:uuid}"
    return [
        route("/directories", partial(list_page, context)),
        route("/directories/add", partial(add, context), Role.ADMIN, methods=["POST"]),
        route("/directories/preview", partial(preview_new, context), Role.ADMIN, methods=["POST"]),
        route(one, partial(directory_page, context)),
        route(f"{one}/preview", partial(preview, context), Role.ADMIN, methods=["POST"]),
        route(f"{one}/sync", partial(sync, context), Role.ADMIN, methods=["POST"]),
        route(f"{one}/remove", partial(remove, context), Role.ADMIN, methods=["POST"]),
    ]


async def list_page(
    context: DirectoryPagesContext, request: Request, result: DirectoryFormResult | None = None
) -> Response:
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await directories.list_all(connection)
        counts = await directory_users.count_states(connection)
    return pages.render_page(
        request,
        "directories.html",
        400 if result else 200,
        directories=[(directory, counts.get(directory.id, {})) for directory in found],
        providers=PROVIDER_NAMES,
        policies=POLICY_NAMES,
        leaver_actions=LEAVER_ACTIONS,
        result=result,
        entered=defaultdict(str, result.entered if result else {}),
        now=datetime.now(UTC),
    )


async def directory_page(context: DirectoryPagesContext, request: Request) -> Response:
    directory = await _find(context, request)
    wanted = request.query_params.get("state")
    state = DirectoryUserState(wanted) if wanted in set(DirectoryUserState) else None
    after = request.query_params.get("after", "").replace("\0", "")
    async with context.site.database.transaction(directory.organization) as connection:
        users = await directory_users.list_page(
            connection, directory.id, state=state, after=after, limit=USERS_PER_PAGE + 1
        )
        counts = await directory_users.count_states(connection)
    return pages.render_page(
        request,
        "directory.html",
        directory=directory,
        counts=counts.get(directory.id, {}),
        state=state,
        users=users[:USERS_PER_PAGE],
        next=users[USERS_PER_PAGE - 1].address if len(users) > USERS_PER_PAGE else None,
        providers=PROVIDER_NAMES,
        policies=POLICY_NAMES,
        leaver_actions=LEAVER_ACTIONS,
        now=datetime.now(UTC),
    )


async def add(context: DirectoryPagesContext, request: Request) -> Response:
    form, visitor = await forms.read(request, max_bytes=MAX_FORM_BYTES), get_visitor(request)
    try:
        wanted = _parse(form)
        # A credential that cannot list the directory is not stored.
        await flow.list_wanted(context.directories, wanted)
        directory = await flow.add(context.directories, visitor.organization, wanted, actor=visitor.actor)
    except DatabaseUnavailable:
        raise
    except PostroomError as error:
        return await list_page(context, request, _explain(error, form))
    return RedirectResponse(f"/directories/{directory.id}", 303)


async def preview_new(context: DirectoryPagesContext, request: Request) -> Response:
    form, visitor = await forms.read(request, max_bytes=MAX_FORM_BYTES), get_visitor(request)
    try:
        wanted = _parse(form)
        found = await flow.preview_wanted(context.directories, visitor.organization, wanted)
    except DatabaseUnavailable:
        raise
    except PostroomError as error:
        return await list_page(context, request, _explain(error, form))
    return _render_preview(request, wanted.name, None, found)


async def preview(context: DirectoryPagesContext, request: Request) -> Response:
    directory = await _find(context, request)
    try:
        found = await flow.preview(context.directories, directory)
    except DatabaseUnavailable:
        raise
    except PostroomError as error:
        return _render_preview(request, directory.name, directory, DirectoryPreview([], None), str(error))
    return _render_preview(request, directory.name, directory, found)


async def sync(context: DirectoryPagesContext, request: Request) -> Response:
    form, directory = await forms.read(request), await _find(context, request)
    confirmed = forms.parse_number(form.get("confirmed_leavers"))
    if form.get("confirmed_leavers") and not confirmed:
        raise HTTPException(400)
    await flow.request_sync(
        context.directories, directory, confirmed_leavers=confirmed, actor=get_visitor(request).actor
    )
    return RedirectResponse(f"/directories/{directory.id}", 303)


async def remove(context: DirectoryPagesContext, request: Request) -> Response:
    directory = await _find(context, request)
    await flow.remove(context.directories, directory, actor=get_visitor(request).actor)
    return RedirectResponse("/directories", 303)


def _render_preview(
    request: Request, name: str, directory: Directory | None, found: DirectoryPreview, error: str = ""
) -> Response:
    return pages.render_page(
        request,
        "directory_preview.html",
        409 if error else 200,
        name=name,
        directory=directory,
        preview=found,
        counts=Counter(user.outcome for user in found.users),
        shown=found.users[: USERS_PER_PAGE * 10],
        error=error,
    )


async def _find(context: DirectoryPagesContext, request: Request) -> Directory:
    id_: UUID = request.path_params["directory"]
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await directories.get(connection, DirectoryId(id_))
    if found is None:
        raise HTTPException(404)
    return found


def _explain(error: PostroomError, form: Mapping[str, str]) -> DirectoryFormResult:
    entered = {name: value for name, value in form.items() if name not in CREDENTIAL_FIELDS}
    return DirectoryFormResult(str(error), entered)


def _parse(form: Mapping[str, str]) -> NewDirectory:
    """The directory that was entered. Selectors are separated by commas or spaces."""

    def get(name: str) -> str | None:
        return form.get(name, "").strip() or None

    def split(name: str) -> tuple[str, ...]:
        return tuple(form.get(name, "").replace(",", " ").split())

    try:
        provider = ProviderName(form.get("provider", ""))
        policy, action = ContentPolicy(form.get("policy", "")), LeaverAction(form.get("leaver_action", ""))
    except ValueError:
        raise HTTPException(400) from None
    percent = forms.parse_number(form.get("max_leaver_percent"))
    if percent is None:
        raise InvalidField("The limit of users who may leave must be a number.", field="max_leaver_percent")
    selection = UserSelection(
        split("groups"), split("domains"), split("patterns"), split("excluded_patterns")
    )
    return directory_input.build_directory(
        form.get("name", "").strip(),
        provider,
        CredentialInput(
            get("key"), get("tenant_id"), get("client_id"), get("client_secret"), get("certificate")
        ),
        get("admin_address"),
        DirectorySettings(selection, policy, get("folder"), action, percent),
    )
