"""GoogleClient: an OAuth client as registered at Google, and the check of its redirect URIs."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

from mailsim.registry import OAuthApplication

CONSUMER_DOMAINS = frozenset({"gmail.com", "googlemail.com"})  # all others are Workspaces
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# States of a client that make requests fail.
ClientProblem = Literal["", "deleted", "api_disabled", "daily_limit", "org_internal"]


@dataclass(frozen=True, slots=True)
class GoogleClient:
    """An OAuth client.

    With the problem `org_internal`, only accounts of `internal_domain` may use it.
    """

    id: str
    secret: str
    name: str
    project: str
    redirect_uris: tuple[str, ...] = ()
    testing: bool = False
    problem: ClientProblem = ""
    internal_domain: str = ""

    @property
    def project_number(self) -> str:
        number = self.id.partition("-")[0]
        return number if number.isdigit() else "100000000001"


@lru_cache(maxsize=256)
def to_client(
    application: OAuthApplication, problem: ClientProblem = "", internal_domain: str = ""
) -> GoogleClient:
    return GoogleClient(
        id=application.client_id,
        secret=application.client_secret,
        name=application.name,
        project=application.project or "mailsim",
        redirect_uris=application.redirect_uris,
        testing=application.testing,
        problem=problem,
        internal_domain=internal_domain,
    )


def is_redirect_allowed(client: GoogleClient, uri: str) -> bool:
    """Whether a redirect URI matches exactly.

    Loopback URIs match on any port, as apps pick a free one.
    """
    if uri in client.redirect_uris:
        return True
    if not client.redirect_uris:
        return uri.startswith(("http://", "https://")) and "#" not in uri
    wanted = _parse_loopback(uri)
    return wanted is not None and any(
        _parse_loopback(registered) == wanted for registered in client.redirect_uris
    )


def _parse_loopback(uri: str) -> tuple[str, str] | None:
    """Return host and path of a loopback URI, without the port; None for other URIs."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError:
        return None
    if parts.scheme != "http" or host not in LOOPBACK or parts.fragment:
        return None
    return host or "", parts.path.rstrip("/")
