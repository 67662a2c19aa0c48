"""Refuse requests that other sites make a browser send: under a rebound host name, or from another origin.

The control API needs no secret, so a web page that a developer visits must not reach it. Programs send no
`Origin`, and name the simulator by an IP address or by a name that it knows.
"""

import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mailsim.control.endpoint import problem_response
from mailsim.tls import NAMES

_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def refuse_foreign_requests(app: ASGIApp, hosts: Collection[str] = ()) -> ASGIApp:
    """Wrap an app. `hosts` are names beside loopback's, this machine's and the providers' own."""
    known = {name.lower() for name in (*NAMES, socket.gethostname(), *hosts)}

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if not _is_known_host(headers.get("host", "localhost"), known):
            response = problem_response(421, "unknown host name; allow it with --allow-host")
            await response(scope, receive, send)
        elif scope["method"] not in _READ_METHODS and _is_from_another_origin(headers, scope["scheme"]):
            response = problem_response(403, "request from another origin")
            await response(scope, receive, send)
        else:
            await app(scope, receive, send)

    return serve


def _is_known_host(value: str, known: Collection[str]) -> bool:
    try:
        host = urlsplit(f"//{value}").hostname or ""
    except ValueError:
        return False
    if host in known or host.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True  # an IP address cannot be rebound


def _is_from_another_origin(headers: Headers, scheme: str) -> bool:
    """Trust `Sec-Fetch-Site`, which scripts cannot set; browsers send it to trustworthy hosts only."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site not in {"same-origin", "none"}
    return origin is not None and origin.lower() != f"{scheme}://{headers.get('host', '')}".lower()
