"""Under which names pages answer. A stranger's site that points a name of its own at this machine gets none.

Good are the public address's name, this machine's own, and any address in figures, which nobody can redirect.
What programs call is proven otherwise or shows nothing, and may come under any name.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from postroom.web import pages

UNCHECKED_PATHS: Final = ("/webhooks/", "/api/", "/healthz", "/readyz", "/metrics")


class AllowedHostsMiddleware:
    """Answers pages under known names only. A trusted proxy has chosen by the name already."""

    def __init__(self, app: ASGIApp, url: str) -> None:
        self._app = app
        self._known = {"localhost", socket.gethostname().lower(), urlsplit(url).hostname}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_good(scope):
            await pages.problem_page(421)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_good(self, scope: Scope) -> bool:
        path: str = scope["path"]
        return path.startswith(UNCHECKED_PATHS) or "proxied" in scope or self._is_known(scope)

    def _is_known(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"host"]
        try:
            host = urlsplit(f"//{given[0].decode('ascii')}").hostname if len(given) == 1 else None
        except ValueError:
            return False
        return host is not None and (host in self._known or _parse_ip_address(host) is not None)


def _parse_ip_address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
