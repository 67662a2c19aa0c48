"""A middleware that serves pages only under known host names, against DNS rebinding.

Allowed are the host of the public URL, this machine's own names, and any IP address, which cannot be rebound.
Endpoints for programs authenticate in other ways or reveal nothing, so they answer under any name.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from postroom.web import pages

UNCHECKED_PATHS: Final = (
    "/webhooks/gmail",
    "/webhooks/outlook",
    "/api/",
    "/healthz",
    "/readyz",
    "/metrics",
)


class AllowedHostsMiddleware:
    """Answers 421 under unknown host names. A trusted proxy has already checked the name."""

    def __init__(self, app: ASGIApp, url: str) -> None:
        self._app = app
        self._allowed = {"localhost", socket.gethostname().lower(), urlsplit(url).hostname}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_allowed(scope):
            await pages.problem_page(421)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        path: str = scope["path"]
        return path.startswith(UNCHECKED_PATHS) or "proxied" in scope or self._has_allowed_host(scope)

    def _has_allowed_host(self, scope: Scope) -> bool:
        values = [value for name, value in scope["headers"] if name == b"host"]
        try:
            host = urlsplit(f"//{values[0].decode('ascii')}").hostname if len(values) == 1 else None
        except ValueError:
            return False
        return host is not None and (host in self._allowed or _parse_ip_address(host) is not None)


def _parse_ip_address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
