"""A middleware that takes the client's IP address and scheme from the headers of trusted proxies.

Only peers named in the setting are trusted; the same headers from any other peer are ignored.
"""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from postroom.config import Network

_SCHEMES: Final = {"http", "https"}


class TrustedProxiesMiddleware:
    """Replaces the proxy's own address and scheme with those that it forwards."""

    def __init__(self, app: ASGIApp, trusted: Sequence[Network]) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if scope["type"] == "http" and client and self._is_trusted(client[0]):
            scope = {
                **scope,
                "proxied": True,
                "client": (self._find_source(client[0], _read_header_values(scope, b"x-forwarded-for")), 0),
                "scheme": _read_scheme(scope),
            }
        await self._app(scope, receive, send)

    def _is_trusted(self, host: str) -> bool:
        try:
            address = ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._trusted)

    def _find_source(self, peer: str, forwarded: Sequence[str]) -> str:
        """The last forwarded address that is not a trusted proxy. The client can forge those before it."""
        source = peer
        for value in reversed(forwarded):
            host = _parse_host(value)
            if host is None:
                break
            source = host
            if not self._is_trusted(host):
                break
        return source


def _read_header_values(scope: Scope, name: bytes) -> list[str]:
    values = [value.decode("latin-1") for header, value in scope["headers"] if header == name]
    return [part.strip() for value in values for part in value.split(",")]


def _read_scheme(scope: Scope) -> str:
    values = _read_header_values(scope, b"x-forwarded-proto")
    forwarded = values[-1].lower() if values else ""
    return forwarded if forwarded in _SCHEMES else scope["scheme"]


def _parse_host(value: str) -> str | None:
    """The IP address in `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`."""
    if value.startswith("["):
        value = value[1:].partition("]")[0]
    elif value.count(":") == 1:
        value = value.partition(":")[0]
    try:
        return str(ip_address(value))
    except ValueError:
        return None
