"""The members page: list, add and remove members, change roles, create sign-in links. For admins."""

from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import PermanentError
from postroom.flow.access import members as flow
from postroom.flow.access import sign_in
from postroom.model import MemberId, Role
from postroom.store import members
from postroom.store.members import Member
from postroom.web import forms, pages
from postroom.web.sessions import SiteContext, get_visitor, member_route


def routes(site: SiteContext) -> list[Route]:
    actions = {
        "/members/add": add_member,
        "/members/{member:uuid}/role": change_role,
        "/members/{member:uuid}/link": create_link,
        "/members/{member:uuid}/remove": remove,
    }
    return [
        member_route(site, "/members", partial(members_page, site), Role.ADMIN),
        *(
            member_route(site, path, partial(action, site), Role.ADMIN, methods=["POST"])
            for path, action in actions.items()
        ),
    ]


async def members_page(
    site: SiteContext, request: Request, link: str | None = None, error: str = "", invited: str = ""
) -> Response:
    """Show the members; after a link was created, the link and the address of its member."""
    async with site.database.transaction(get_visitor(request).organization) as connection:
        listed = await members.list_all(connection)
    return pages.render_page(
        request,
        "members.html", 400 if error else 200, members=listed, link=link, error=error, invited=invited,
        roles=list(Role), now=datetime.now(UTC),
    )  # fmt: skip


async def add_member(site: SiteContext, request: Request) -> Response:
    form, visitor = await forms.read(request), get_visitor(request)
    try:
        member = await flow.add(
            site.database,
            visitor.organization,
            form.get("address", ""),
            role=_read_role(form),
            actor=visitor.actor,
        )
    except PermanentError as error:
        return await members_page(site, request, error=str(error))
    return await _show_link(site, request, member)


async def change_role(site: SiteContext, request: Request) -> Response:
    form, member = await forms.read(request), await _get_member(site, request)
    try:
        await flow.set_role(site.database, member, _read_role(form), actor=get_visitor(request).actor)
    except PermanentError as error:
        return await members_page(site, request, error=str(error))
    return RedirectResponse("/members", 303)


async def create_link(site: SiteContext, request: Request) -> Response:
    return await _show_link(site, request, await _get_member(site, request))


async def remove(site: SiteContext, request: Request) -> Response:
    try:
        await flow.remove(site.database, await _get_member(site, request), actor=get_visitor(request).actor)
    except PermanentError as error:
        return await members_page(site, request, error=str(error))
    return RedirectResponse("/members", 303)


async def _get_member(site: SiteContext, request: Request) -> Member:
    member_id: UUID = request.path_params["member"]
    async with site.database.transaction(get_visitor(request).organization) as connection:
        member = await members.get(connection, MemberId(member_id))
    if member is None:
        raise HTTPException(404)
    return member


async def _show_link(site: SiteContext, request: Request, member: Member) -> Response:
    token = await sign_in.create_link(site.database, member, actor=get_visitor(request).actor)
    link = sign_in.build_link_url(site.url, token)
    return await members_page(site, request, link, invited=member.address)


def _read_role(form: dict[str, str]) -> Role:
    try:
        return Role(form.get("role", ""))
    except ValueError:
        raise HTTPException(400) from None
