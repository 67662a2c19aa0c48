"""Protection against cross-site request forgery: the browser cookie and the check of a form's origin.

A form is accepted only from our own origin. The cookie ties a login at a provider to one browser.
"""

import re
from secrets import token_urlsafe
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from postroom.model import Secret
from postroom.web import cookies

COOKIE: Final = "postroom_browser"
_VALUE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


def get_browser_secret(request: Request, *, url: str) -> Secret | None:
    """The secret in this browser's cookie, if it has one."""
    value = request.cookies.get(cookies.cookie_name(COOKIE, url=url), "")
    return Secret(value) if _VALUE.fullmatch(value) else None


def new_browser_secret() -> Secret:
    return Secret(token_urlsafe(32))


def set_browser_cookie(response: Response, browser: Secret, *, url: str) -> None:
    cookies.set_cookie(response, cookies.cookie_name(COOKIE, url=url), browser, url=url, max_age=365 * 86400)


def is_same_origin(request: Request, *, url: str) -> bool:
    """Whether one of our pages sent the form; `Sec-Fetch-Site` counts where a browser sends no `Origin`."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site") == "same-origin"
    return origin in _list_origins(url)


def _list_origins(url: str) -> frozenset[str]:
    """The origin of the public URL as browsers write it; for loopback, under all its names."""
    split = urlsplit(url.lower())
    host = f"[{split.hostname}]" if ":" in (split.hostname or "") else split.hostname or ""
    port = "" if split.port in {None, _DEFAULT_PORTS.get(split.scheme)} else f":{split.port}"
    names = _LOOPBACK if host in _LOOPBACK else (host,)
    return frozenset(f"{split.scheme}://{name}{port}" for name in names)
