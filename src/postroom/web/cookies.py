"""Cookies of this site: hidden from scripts, limited to this host, secure if the site uses https.

With the prefix `__Host-`, browsers reject a cookie that another host of the same domain, or plain http, sets.
"""

from starlette.responses import Response

from postroom.model import Secret


def cookie_name(name: str, *, url: str) -> str:
    return f"__Host-{name}" if url.startswith("https:") else name


def set_cookie(response: Response, name: str, value: Secret, *, url: str, max_age: int) -> None:
    """Set a cookie under its whole name, from `cookie_name`.

    SameSite=Lax: browsers send it on redirects back from a provider, but not with other sites' forms.
    """
    response.set_cookie(
        name,
        value.reveal(),
        max_age=max_age,
        path="/",
        secure=url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )


def clear_cookie(response: Response, name: str, *, url: str) -> None:
    set_cookie(response, name, Secret(""), url=url, max_age=0)
