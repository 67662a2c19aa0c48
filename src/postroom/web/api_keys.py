"""Who may in (W6): API keys for programs and members of the organization. For admins."""

from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import PermanentError
from postroom.flow.access import api_keys as flow_keys
from postroom.flow.access import members as flow_members
from postroom.flow.access import sign_in
from postroom.model import MemberId, Role, Scope, Secret
from postroom.store import api_keys
from postroom.store import members as stored
from postroom.store.members import Member
from postroom.web import forms, pages
from postroom.web.sessions import SiteContext, get_visitor, member_route


def routes(site: SiteContext) -> list[Route]:
    posts = {
        "/keys/create": create_key,
        "/keys/revoke": revoke_key,
        "/members/add": add_member,
        "/members/{member:uuid}/role": change_role,
        "/members/{member:uuid}/link": invite,
        "/members/{member:uuid}/remove": remove,
    }
    return [
        member_route(site, "/keys", partial(keys, site), Role.ADMIN),
        member_route(site, "/members", partial(members, site), Role.ADMIN),
        *(
            member_route(site, path, partial(act, site), Role.ADMIN, methods=["POST"])
            for path, act in posts.items()
        ),
    ]


async def keys(site: SiteContext, request: Request, made: Secret | None = None, words: str = "") -> Response:
    async with site.database.transaction(get_visitor(request).organization) as connection:
        found = await api_keys.every(connection)
    return pages.render_page(
        "keys.html", 400 if words else 200, keys=found, made=made, words=words, scopes=list(Scope),
        now=datetime.now(UTC),
    )  # fmt: skip


async def create_key(site: SiteContext, request: Request) -> Response:
    """The key is in this answer, and nowhere else."""
    given, visitor = await forms.read(request), get_visitor(request)
    scopes = frozenset(each for each in Scope if f"scope-{each}" in given)
    typed = given.get("days", "").strip()
    days = forms.parse_number(typed)
    if not given.get("name", "").strip() or not scopes:
        return await keys(site, request, words="A key needs a name, and at least one thing that it opens.")
    if typed and (days is None or not 0 < days <= 3650):
        return await keys(
            site, request, words="A key is good for 1 to 3650 days, or for ever: leave it empty."
        )
    _, key = await flow_keys.create(
        site.database,
        visitor.organization,
        given["name"],
        scopes,
        days=days,
        actor=visitor.actor,
    )
    return await keys(site, request, made=key)


async def revoke_key(site: SiteContext, request: Request) -> Response:
    given, visitor = await forms.read(request), get_visitor(request)
    await flow_keys.revoke(site.database, visitor.organization, given.get("key", ""), actor=visitor.actor)
    return RedirectResponse("/keys", 303)


async def members(site: SiteContext, request: Request, link: str | None = None, words: str = "") -> Response:
    async with site.database.transaction(get_visitor(request).organization) as connection:
        found = await stored.every(connection)
    return pages.render_page(
        "members.html", 400 if words else 200, members=found, link=link, words=words, roles=list(Role),
        now=datetime.now(UTC),
    )  # fmt: skip


async def add_member(site: SiteContext, request: Request) -> Response:
    given, visitor = await forms.read(request), get_visitor(request)
    try:
        made = await flow_members.add(
            site.database,
            visitor.organization,
            given.get("address", ""),
            role=_role(given),
            actor=visitor.actor,
        )
    except PermanentError as error:
        return await members(site, request, words=str(error))
    return await members(site, request, link=await _link(site, request, made))


async def change_role(site: SiteContext, request: Request) -> Response:
    given, member = await forms.read(request), await _member(site, request)
    try:
        await flow_members.set_role(site.database, member, _role(given), actor=get_visitor(request).actor)
    except PermanentError as error:
        return await members(site, request, words=str(error))
    return RedirectResponse("/members", 303)


async def invite(site: SiteContext, request: Request) -> Response:
    return await members(site, request, link=await _link(site, request, await _member(site, request)))


async def remove(site: SiteContext, request: Request) -> Response:
    try:
        await flow_members.remove(
            site.database, await _member(site, request), actor=get_visitor(request).actor
        )
    except PermanentError as error:
        return await members(site, request, words=str(error))
    return RedirectResponse("/members", 303)


async def _member(site: SiteContext, request: Request) -> Member:
    wanted: UUID = request.path_params["member"]
    async with site.database.transaction(get_visitor(request).organization) as connection:
        found = await stored.get(connection, MemberId(wanted))
    if found is None:
        raise HTTPException(404)
    return found


async def _link(site: SiteContext, request: Request, member: Member) -> str:
    token = await sign_in.create_link(site.database, member, actor=get_visitor(request).actor)
    return sign_in.build_link_url(site.url, token)


def _role(given: dict[str, str]) -> Role:
    try:
        return Role(given.get("role", ""))
    except ValueError:
        raise HTTPException(400) from None
