"""The organization page: the names by which suppliers address the organization. For admins."""

from functools import partial

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import PermanentError
from postroom.flow.access import organization_names as flow
from postroom.model import Role
from postroom.store import organizations
from postroom.web import forms, pages
from postroom.web.sessions import SiteContext, get_visitor, member_route


def routes(site: SiteContext) -> list[Route]:
    return [
        member_route(site, "/organization", partial(organization_page, site), Role.ADMIN),
        member_route(site, "/organization/names", partial(set_names, site), Role.ADMIN, methods=["POST"]),
    ]


async def organization_page(
    site: SiteContext, request: Request, text: str | None = None, error: str = ""
) -> Response:
    """Show the names, or after an error what was entered."""
    if text is None:
        async with site.database.transaction(get_visitor(request).organization) as connection:
            text = "\n".join(await organizations.list_names(connection))
    return pages.render_page(request, "organization.html", 400 if error else 200, text=text, error=error)


async def set_names(site: SiteContext, request: Request) -> Response:
    visitor, text = get_visitor(request), (await forms.read(request)).get("names", "")
    names = [line for line in text.splitlines() if line.strip()]
    try:
        async with site.database.transaction(visitor.organization) as connection:
            await flow.set_names(connection, visitor.organization, names, actor=visitor.actor)
    except PermanentError as error:
        return await organization_page(site, request, text, str(error))
    return RedirectResponse("/organization", 303)
