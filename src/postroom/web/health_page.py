"""The health page: the state of the server, its processes and the work; a script refreshes its parts.

The values come from the `HealthMonitor` in `health`.
"""

import time
from datetime import UTC, datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.web import pages
from postroom.web.health import HealthMonitor
from postroom.web.sessions import SiteContext, member_route

_STARTED: Final = time.monotonic()


def routes(site: SiteContext) -> list[Route]:
    return [
        member_route(site, "/health", health_page),
        member_route(site, "/health/parts", health_fragments),
    ]


async def health_page(request: Request) -> Response:
    return await _render_health(request, "health.html")


async def health_fragments(request: Request) -> Response:
    """Render the parts of the health page that change; a script replaces them in place."""
    return await _render_health(request, "health_fragments.html")


async def _render_health(request: Request, template: str) -> Response:
    monitor: HealthMonitor = request.app.state.health_monitor
    return pages.render_page(
        request,
        template,
        health=await monitor.report_for(request.state.visitor),
        uptime_seconds=time.monotonic() - _STARTED,
        now=datetime.now(UTC),
    )
