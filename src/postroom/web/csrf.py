"""Which browser asks, and from which page: what keeps other sites from acting in a visitor's name.

A form counts only with our cookies, which browsers send with no other site's form, and from our own origin.
"""

import re
from secrets import token_urlsafe
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from postroom.model import Secret

COOKIE: Final = "postroom_browser"
_VALUE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


def get_browser_secret(request: Request) -> Secret | None:
    """The secret that this browser was given, if it was."""
    value = request.cookies.get(COOKIE, "")
    return Secret(value) if _VALUE.fullmatch(value) else None


def new_browser_secret() -> Secret:
    return Secret(token_urlsafe(32))


def set_browser_cookie(response: Response, browser: Secret, *, url: str) -> None:
    """Lax, not strict: it must come along when a provider's page leads back here."""
    response.set_cookie(
        COOKIE,
        browser.reveal(),
        max_age=365 * 86400,
        path="/",
        secure=url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )


def is_same_origin(request: Request, *, url: str) -> bool:
    """Whether a form was sent by a page of ours. A browser that names no origin may still vouch for it."""
    given = request.headers.get("origin")
    if given is None:
        return request.headers.get("sec-fetch-site") == "same-origin"
    return given in _origins(url)


def _origins(url: str) -> frozenset[str]:
    """The public one, as browsers write it; on this machine also by its other names."""
    parts = urlsplit(url.lower())
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    port = "" if parts.port in {None, _DEFAULT_PORTS.get(parts.scheme)} else f":{parts.port}"
    names = _LOOPBACK if host in _LOOPBACK else (host,)
    return frozenset(f"{parts.scheme}://{name}{port}" for name in names)
