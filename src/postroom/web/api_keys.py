"""The API keys page: list, create and revoke keys. For admins.

A call's key is checked in `api.authentication`.
"""

from datetime import UTC, datetime
from functools import partial

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.flow.access import api_keys as flow
from postroom.model import Role, Scope, Secret
from postroom.store import api_keys
from postroom.web import forms, pages
from postroom.web.sessions import SiteContext, get_visitor, member_route


def routes(site: SiteContext) -> list[Route]:
    return [
        member_route(site, "/api-keys", partial(api_keys_page, site), Role.ADMIN),
        member_route(site, "/api-keys/create", partial(create_key, site), Role.ADMIN, methods=["POST"]),
        member_route(site, "/api-keys/revoke", partial(revoke_key, site), Role.ADMIN, methods=["POST"]),
    ]


async def api_keys_page(
    site: SiteContext, request: Request, new_key: Secret | None = None, error: str = ""
) -> Response:
    async with site.database.transaction(get_visitor(request).organization) as connection:
        keys = await api_keys.list_all(connection)
    return pages.render_page(
        request,
        "api_keys.html", 400 if error else 200, keys=keys, new_key=new_key, error=error, scopes=list(Scope),
        now=datetime.now(UTC),
    )  # fmt: skip


async def create_key(site: SiteContext, request: Request) -> Response:
    """Create a key and show it. Only its digest is stored, so this is the only time."""
    form, visitor = await forms.read(request), get_visitor(request)
    scopes = frozenset(scope for scope in Scope if f"scope-{scope}" in form)
    days_text = form.get("days", "").strip()
    days = forms.parse_number(days_text)
    if not form.get("name", "").strip() or not scopes:
        return await api_keys_page(site, request, error="Enter a name and select at least one scope.")
    if days_text and (days is None or not 0 < days <= 3650):
        return await api_keys_page(
            site,
            request,
            error="Enter 1 to 3650 days, or leave the field empty for a key that does not expire.",
        )
    _, key = await flow.create(
        site.database,
        visitor.organization,
        form["name"],
        scopes,
        days=days,
        actor=visitor.actor,
        records_calls="record-calls" in form,
    )
    return await api_keys_page(site, request, new_key=key)


async def revoke_key(site: SiteContext, request: Request) -> Response:
    form, visitor = await forms.read(request), get_visitor(request)
    await flow.revoke(site.database, visitor.organization, form.get("key", ""), actor=visitor.actor)
    return RedirectResponse("/api-keys", 303)
