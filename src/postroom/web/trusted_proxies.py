"""Who really asks, when a proxy of ours stands in front (N7): source address and scheme.

Only a peer that the setting names is believed; whatever anybody else writes into these headers means nothing.
"""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from postroom.config import Network

_SCHEMES: Final = {"http", "https"}


class TrustedProxiesMiddleware:
    """Puts the source and scheme that trusted proxies report in the place of the proxy's own."""

    def __init__(self, app: ASGIApp, trusted: Sequence[Network]) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if scope["type"] == "http" and client and self._is_trusted(client[0]):
            scope = {
                **scope,
                "proxied": True,
                "client": (self._source(client[0], _read_header_values(scope, b"x-forwarded-for")), 0),
                "scheme": _read_scheme(scope),
            }
        await self._app(scope, receive, send)

    def _is_trusted(self, host: str) -> bool:
        try:
            address = ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._trusted)

    def _source(self, peer: str, forwarded: Sequence[str]) -> str:
        """The last address that no proxy of ours has. What stands before it is its sender's own claim."""
        source = peer
        for given in reversed(forwarded):
            host = _parse_host(given)
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
    given = _read_header_values(scope, b"x-forwarded-proto")
    told = given[-1].lower() if given else ""
    return told if told in _SCHEMES else scope["scheme"]


def _parse_host(given: str) -> str | None:
    """The address of `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`."""
    if given.startswith("["):
        given = given[1:].partition("]")[0]
    elif given.count(":") == 1:
        given = given.partition(":")[0]
    try:
        return str(ip_address(given))
    except ValueError:
        return None
