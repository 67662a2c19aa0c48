"""Who exists in the simulated Entra: users, tenants, applications, consents, sessions, refusals.

Users are the Outlook mailboxes of the world; ids depend on the seed only. Issues no tokens.
"""

import math
import secrets
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from mailsim.entra.aadsts import KINDS, EntraError
from mailsim.entra.scopes import APPLICATION
from mailsim.entra.signing import Certificate, b64url, read_certificate
from mailsim.errors import Invalid, Unknown
from mailsim.mailbox import Mailbox
from mailsim.world import Application, World, guid

PERSONAL_TENANT = "9188040d-6c67-4c5b-b112-36a304b66dad"
PERSONAL_DOMAINS = ("outlook.test", "hotmail.test", "live.test")
Place = Literal["token", "authorize"]


@dataclass(frozen=True, slots=True)
class User:
    """An account that can sign in: `oid` is Graph's user id, `tid` its home tenant."""

    oid: str
    tid: str
    mailbox: Mailbox

    @property
    def upn(self) -> str:
        return self.mailbox.address

    @property
    def name(self) -> str:
        return self.mailbox.account.name

    @property
    def personal(self) -> bool:
        return self.tid == PERSONAL_TENANT


@dataclass(slots=True)
class Settings:
    """What Microsoft keeps about an application besides its registration; set through the control.

    `consented`: tenants whose admin agreed to `roles`, None for all. `mailboxes`: the application access
    policy, the only addresses that app-only tokens reach, None for all.
    """

    roles: tuple[str, ...] = APPLICATION
    consented: set[str] | None = None
    mailboxes: set[str] | None = None
    spa_redirect_uris: tuple[str, ...] = ()
    secrets: dict[str, float] = field(default_factory=dict[str, float])
    certificates: list[Certificate] = field(default_factory=list[Certificate])
    public: bool = False
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """An AADSTS code on order. Empty `mailbox` or `application`: any. `where`: which endpoint says it."""

    code: int
    mailbox: str = ""
    application: str = ""
    where: Place = "token"


@dataclass(slots=True)
class Ordered:
    number: int
    refusal: Refusal
    left: int | None  # None: until cleared


class Directory:
    def __init__(self, world: World) -> None:
        self.world = world
        self.consents: dict[tuple[str, str], set[str]] = {}  # (oid, client id) -> permissions
        self.sessions: dict[str, str] = {}  # browser cookie -> oid
        self.refusals: dict[int, Ordered] = {}
        self.disabled: set[str] = set()  # oids
        self._settings: dict[str, Settings] = {}
        self._users: dict[str, User] = {}
        self._count = 0

    # Users and tenants

    def user(self, mailbox: Mailbox) -> User:
        key = mailbox.address.lower()
        found = self._users.get(key)
        if found is None or found.mailbox is not mailbox:
            personal = mailbox.account.domain.lower() in PERSONAL_DOMAINS
            tid = PERSONAL_TENANT if personal else self.world.tenant(mailbox.account.domain)
            found = User(guid(self.world.seed, "user", mailbox.account.key), tid, mailbox)
            self._users[key] = self._users[found.oid] = found
        return found

    def find(self, name: str) -> User | None:
        """By object id or by address."""
        mailbox = self.world.find(name, "outlook")
        if mailbox is not None:
            return self.user(mailbox)
        for each in self.world.of("outlook") if name.lower() not in self._users else ():
            self.user(each)
        found = self._users.get(name.lower())
        return found if found and self.world.find(found.upn, "outlook") is found.mailbox else None

    def users(self, tenant: str) -> list[User]:
        """Everybody who may sign in through that tenant of a URL."""
        everybody = [self.user(mailbox) for mailbox in self.world.of("outlook")]
        return [user for user in everybody if self.admits(tenant, user)]

    def admits(self, tenant: str, user: User) -> bool:
        name = tenant.lower()
        if name == "common":
            return True
        if name in {"organizations", "consumers"}:
            return user.personal == (name == "consumers")
        return user.tid == self.tenant_id(tenant)

    def tenant_id(self, tenant: str) -> str:
        """The GUID of a concrete tenant named by GUID or domain. Raises 90002 when there is none."""
        name = tenant.lower()
        domains = {mailbox.account.domain.lower() for mailbox in self.world.of("outlook")}
        known = {self.world.tenant(domain) for domain in domains if domain not in PERSONAL_DOMAINS}
        known |= {app.tenant for app in self.world.applications.values() if app.tenant}
        if name in domains:
            return self.world.tenant(name)
        if name in known or name == PERSONAL_TENANT:
            return name
        raise EntraError(90002, tenant=tenant)

    def check_tenant(self, tenant: str) -> str:
        """The GUID, or `common`, `organizations`, `consumers` in lower case."""
        name = tenant.lower()
        return name if name in {"common", "organizations", "consumers"} else self.tenant_id(tenant)

    # Applications

    def application(self, client_id: str, tenant: str) -> Application:
        known = self.world.application
        found = known(client_id, "outlook") or known(client_id.lower(), "outlook")
        if found is None:
            raise EntraError(700016, app=client_id, tenant=tenant)
        if self.settings(found).disabled:
            raise EntraError(7000112, app=found.client_id, name=found.name)
        return found

    def settings(self, application: Application) -> Settings:
        found = self._settings.get(application.client_id)
        if found is None:
            found = self._settings[application.client_id] = Settings()
        return found

    def service_principal(self, client_id: str, tid: str) -> str:
        return guid(self.world.seed, "service principal", client_id, tid)

    def secret_expiry(self, application: Application, secret: str) -> float | None:
        """When a client secret ends; None when it is none of this application's."""
        if application.client_secret and secrets.compare_digest(
            secret.encode(), application.client_secret.encode()
        ):
            return self.settings(application).secrets.get(secret, math.inf)
        return self.settings(application).secrets.get(secret)

    def certificates(self, application: Application) -> list[Certificate]:
        own = [read_certificate(application.certificate)] if application.certificate else []
        return [*own, *self.settings(application).certificates]

    def redirect_kind(self, application: Application, uri: str) -> Literal["web", "spa"] | None:
        """How a redirect URI is registered; a loopback one matches whatever its port, as Entra has it."""
        try:
            parts = urlsplit(uri)
        except ValueError:
            return None
        if _registered(uri, parts, self.settings(application).spa_redirect_uris):
            return "spa"
        if not parts.scheme or (
            application.redirect_uris and not _registered(uri, parts, application.redirect_uris)
        ):
            return None
        return "web"

    # Consents

    def consented(self, user: User, client_id: str) -> set[str]:
        return self.consents.setdefault((user.oid, client_id), set())

    def revoke_consent(self, user: User, client_id: str = "") -> int:
        keys = [key for key in self.consents if key[0] == user.oid and client_id in {"", key[1]}]
        for key in keys:
            del self.consents[key]
        return len(keys)

    def sign_in(self, user: User) -> str:
        """A new browser session; returns the cookie's value."""
        cookie = b64url(self.world.new_bytes("cookie", 24))
        self.sessions[cookie] = user.oid
        return cookie

    # Refusals on order

    def order(self, refusal: Refusal, times: int | None) -> Ordered:
        if refusal.code not in KINDS:
            raise Invalid(f"no AADSTS code {refusal.code}; there are {', '.join(map(str, sorted(KINDS)))}")
        self._count += 1
        ordered = self.refusals[self._count] = Ordered(self._count, refusal, times)
        return ordered

    def cancel(self, number: int) -> None:
        if self.refusals.pop(number, None) is None:
            raise Unknown(f"no refusal number {number}")

    def refuse(self, where: Place, application: Application, user: User | None) -> None:
        """Raise what was ordered for this application and account, if anything."""
        for ordered in list(self.refusals.values()):
            wanted = ordered.refusal
            if wanted.where != where or wanted.application.lower() not in {"", application.client_id.lower()}:
                continue
            if wanted.mailbox and (user is None or user.upn.lower() != wanted.mailbox.lower()):
                continue
            if ordered.left is not None:
                ordered.left -= 1
                if ordered.left <= 0:
                    del self.refusals[ordered.number]
            raise EntraError(wanted.code, **facts(application, user))


def facts(application: Application, user: User | None) -> dict[str, str]:
    """The words that fill the text of a refusal."""
    known = {"app": application.client_id, "name": application.name, "idle": "90.00:00:00"}
    if user is not None:
        known |= {"user": user.upn, "tenant": user.tid}
    return known


def _registered(uri: str, parts: SplitResult, known: tuple[str, ...]) -> bool:
    if uri in known:
        return True
    if parts.scheme != "http" or parts.hostname not in {"localhost", "127.0.0.1"}:
        return False
    portless = {one for one in map(_portless, known) if one is not None}
    return _portless(uri) in portless


def _portless(uri: str) -> tuple[str | None, str] | None:
    """Host and path of an http address; None of anything else, also of what cannot be read."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    return (parts.hostname, parts.path) if parts.scheme == "http" else None
