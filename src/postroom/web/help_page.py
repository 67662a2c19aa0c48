"""The help page: what each page is for, its states and keys, with links to the documentation."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.web import documentation, pages
from postroom.web.sessions import SiteContext, member_route


def routes(site: SiteContext) -> list[Route]:
    return [member_route(site, "/help", help_page), *documentation.routes(site)]


async def help_page(request: Request) -> Response:
    return pages.render_page(request, "help.html", title_of=documentation.read_title)
