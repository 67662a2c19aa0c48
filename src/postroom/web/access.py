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
from postroom.web.sessions import Gate, guarded, visitor_of


def routes(gate: Gate) -> list[Route]:
    posts = {
        "/keys/create": create_key,
        "/keys/revoke": revoke_key,
        "/members/add": add_member,
        "/members/{member:uuid}/role": change_role,
        "/members/{member:uuid}/link": invite,
        "/members/{member:uuid}/remove": remove,
    }
    return [
        guarded(gate, "/keys", partial(keys, gate), Role.ADMIN),
        guarded(gate, "/members", partial(members, gate), Role.ADMIN),
        *(
            guarded(gate, path, partial(act, gate), Role.ADMIN, methods=["POST"])
            for path, act in posts.items()
        ),
    ]


async def keys(gate: Gate, request: Request, made: Secret | None = None, words: str = "") -> Response:
    async with gate.database.transaction(visitor_of(request).organization) as connection:
        found = await api_keys.every(connection)
    return pages.page(
        "keys.html", 400 if words else 200, keys=found, made=made, words=words, scopes=list(Scope),
        now=datetime.now(UTC),
    )  # fmt: skip


async def create_key(gate: Gate, request: Request) -> Response:
    """The key is in this answer, and nowhere else."""
    given, visitor = await forms.read(request), visitor_of(request)
    scopes = frozenset(each for each in Scope if f"scope-{each}" in given)
    typed = given.get("days", "").strip()
    days = forms.number(typed)
    if not given.get("name", "").strip() or not scopes:
        return await keys(gate, request, words="A key needs a name, and at least one thing that it opens.")
    if typed and (days is None or not 0 < days <= 3650):
        return await keys(
            gate, request, words="A key is good for 1 to 3650 days, or for ever: leave it empty."
        )
    _, key = await flow_keys.create(
        gate.database,
        visitor.organization,
        given["name"],
        scopes,
        days=days,
        actor=visitor.actor,
    )
    return await keys(gate, request, made=key)


async def revoke_key(gate: Gate, request: Request) -> Response:
    given, visitor = await forms.read(request), visitor_of(request)
    await flow_keys.revoke(gate.database, visitor.organization, given.get("key", ""), actor=visitor.actor)
    return RedirectResponse("/keys", 303)


async def members(gate: Gate, request: Request, link: str | None = None, words: str = "") -> Response:
    async with gate.database.transaction(visitor_of(request).organization) as connection:
        found = await stored.every(connection)
    return pages.page(
        "members.html", 400 if words else 200, members=found, link=link, words=words, roles=list(Role),
        now=datetime.now(UTC),
    )  # fmt: skip


async def add_member(gate: Gate, request: Request) -> Response:
    given, visitor = await forms.read(request), visitor_of(request)
    try:
        made = await flow_members.add(
            gate.database,
            visitor.organization,
            given.get("address", ""),
            role=_role(given),
            actor=visitor.actor,
        )
    except PermanentError as error:
        return await members(gate, request, words=str(error))
    return await members(gate, request, link=await _link(gate, request, made))


async def change_role(gate: Gate, request: Request) -> Response:
    given, member = await forms.read(request), await _member(gate, request)
    try:
        await flow_members.set_role(gate.database, member, _role(given), actor=visitor_of(request).actor)
    except PermanentError as error:
        return await members(gate, request, words=str(error))
    return RedirectResponse("/members", 303)


async def invite(gate: Gate, request: Request) -> Response:
    return await members(gate, request, link=await _link(gate, request, await _member(gate, request)))


async def remove(gate: Gate, request: Request) -> Response:
    try:
        await flow_members.remove(
            gate.database, await _member(gate, request), actor=visitor_of(request).actor
        )
    except PermanentError as error:
        return await members(gate, request, words=str(error))
    return RedirectResponse("/members", 303)


async def _member(gate: Gate, request: Request) -> Member:
    wanted: UUID = request.path_params["member"]
    async with gate.database.transaction(visitor_of(request).organization) as connection:
        found = await stored.get(connection, MemberId(wanted))
    if found is None:
        raise HTTPException(404)
    return found


async def _link(gate: Gate, request: Request, member: Member) -> str:
    token = await sign_in.new_link(gate.database, member, actor=visitor_of(request).actor)
    return sign_in.link_url(gate.url, token)


def _role(given: dict[str, str]) -> Role:
    try:
        return Role(given.get("role", ""))
    except ValueError:
        raise HTTPException(400) from None
