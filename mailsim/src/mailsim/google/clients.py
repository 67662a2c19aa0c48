"""OAuth clients as a developer registers them in Google's console, and which redirect URIs they may use."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

from mailsim.registry import OAuthApplication

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# What an operator can do to a client besides registering it.
ClientProblem = Literal["", "deleted", "api_disabled", "daily_limit", "org_internal"]


@dataclass(frozen=True, slots=True)
class GoogleClient:
    """`org_internal`: only accounts of `internal_domain` may use it."""

    id: str
    secret: str
    name: str
    project: str
    redirect_uris: tuple[str, ...] = ()
    testing: bool = False
    trouble: ClientProblem = ""
    internal_domain: str = ""

    @property
    def project_number(self) -> str:
        number = self.id.partition("-")[0]
        return number if number.isdigit() else "100000000001"


@lru_cache(maxsize=256)
def client_of(
    application: OAuthApplication, trouble: ClientProblem = "", internal_domain: str = ""
) -> GoogleClient:
    return GoogleClient(
        id=application.client_id,
        secret=application.client_secret,
        name=application.name,
        project=application.project or "mailsim",
        redirect_uris=application.redirect_uris,
        testing=application.testing,
        trouble=trouble,
        internal_domain=internal_domain,
    )


def redirect_allowed(client: GoogleClient, uri: str) -> bool:
    """Exact match; a registered loopback URI matches on every port, since programs pick a free one."""
    if uri in client.redirect_uris:
        return True
    if not client.redirect_uris:
        return uri.startswith(("http://", "https://")) and "#" not in uri
    wanted = _loopback(uri)
    return wanted is not None and any(_loopback(known) == wanted for known in client.redirect_uris)


def _loopback(uri: str) -> tuple[str, str] | None:
    """Host and path of a loopback URI, without its port."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname
        _ = parts.port  # raises for a port that is none
    except ValueError:
        return None
    if parts.scheme != "http" or host not in LOOPBACK or parts.fragment:
        return None
    return host or "", parts.path.rstrip("/")
