"""The settings page: the effective settings of this web process, with secrets masked.

For admins of the operator's organization only: other organizations share this server, not its configuration.
"""

from collections.abc import Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.config import SettingView
from postroom.model import Role
from postroom.web import pages
from postroom.web.sessions import SiteContext, member_route, require_operator


def routes(site: SiteContext, settings: Sequence[SettingView]) -> list[Route]:
    endpoint = require_operator(partial(settings_page, settings))
    return [member_route(site, "/settings", endpoint, Role.ADMIN)]


async def settings_page(settings: Sequence[SettingView], request: Request) -> Response:
    return pages.render_page(request, "settings.html", settings=settings)
