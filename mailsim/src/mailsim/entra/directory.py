"""The Entra directory: users, groups, tenants, application settings, consents, sessions and planned refusals.

Users are the Outlook mailboxes of the registry; their IDs depend only on the seed. It issues no token;
`grants` does.
"""

import math
import secrets
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, urlsplit

import msgspec

from mailsim.entra.aadsts import ERRORS, EntraError
from mailsim.entra.scopes import APPLICATION
from mailsim.entra.signing import ClientCertificate, b64url, read_certificate
from mailsim.errors import InvalidRequest, NotFound
from mailsim.mailbox import Mailbox
from mailsim.registry import OAuthApplication, Registry, guid

PERSONAL_TENANT = "9188040d-6c67-4c5b-b112-36a304b66dad"
PERSONAL_DOMAINS = ("outlook.test", "hotmail.test", "live.test")
RefusingEndpoint = Literal["token", "authorize"]


@dataclass(frozen=True, slots=True)
class EntraUser:
    """An account that can sign in. `oid` is Graph's user ID, `tid` the home tenant."""

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
    def is_personal(self) -> bool:
        return self.tid == PERSONAL_TENANT


class EntraGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of the tenant of its domain; a member is the address of a user or of another group."""

    mail: str
    name: str = ""
    description: str = ""
    members: tuple[str, ...] = ()


@dataclass(slots=True)
class EntraApplicationSettings:
    """The settings of an application beyond its registration, changed over the control API.

    `consented` are the tenants whose admin consented to `roles`, None for all. `mailboxes` is the application
    access policy: the only addresses that app-only tokens can access, None for all.
    """

    roles: tuple[str, ...] = APPLICATION
    consented: set[str] | None = None
    mailboxes: set[str] | None = None
    spa_redirect_uris: tuple[str, ...] = ()
    secrets: dict[str, float] = field(default_factory=dict[str, float])
    certificates: list[ClientCertificate] = field(default_factory=list[ClientCertificate])
    public: bool = False
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class SignInRefusal:
    """An AADSTS error to return at one endpoint. An empty `mailbox` or `application` matches any."""

    code: int
    mailbox: str = ""
    application: str = ""
    where: RefusingEndpoint = "token"


@dataclass(slots=True)
class PlannedRefusal:
    """A refusal that is still to be returned `left` times."""

    number: int
    refusal: SignInRefusal
    left: int | None  # None: until cleared


class EntraDirectory:
    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.consents: dict[tuple[str, str], set[str]] = {}  # (oid, client ID) -> permissions
        self.sessions: dict[str, str] = {}  # browser cookie -> oid
        self.refusals: dict[int, PlannedRefusal] = {}
        self.disabled: set[str] = set()  # oids
        self.groups: dict[str, EntraGroup] = {}  # by address in lower case
        self._settings: dict[str, EntraApplicationSettings] = {}
        self._users: dict[str, EntraUser] = {}
        self._count = 0

    # Users and tenants

    def get_user(self, mailbox: Mailbox) -> EntraUser:
        key = mailbox.address.lower()
        user = self._users.get(key)
        if user is None or user.mailbox is not mailbox:
            personal = mailbox.account.domain.lower() in PERSONAL_DOMAINS
            tid = PERSONAL_TENANT if personal else self.registry.tenant_id(mailbox.account.domain)
            user = EntraUser(guid(self.registry.seed, "user", mailbox.account.key), tid, mailbox)
            self._users[key] = self._users[user.oid] = user
        return user

    def find_user(self, name: str) -> EntraUser | None:
        """Find a user by object ID or by address."""
        mailbox = self.registry.find_mailbox(name, "outlook")
        if mailbox is not None:
            return self.get_user(mailbox)
        if name.lower() not in self._users:
            for outlook_mailbox in self.registry.list_mailboxes("outlook"):
                self.get_user(outlook_mailbox)
        user = self._users.get(name.lower())
        return user if user and self.registry.find_mailbox(user.upn, "outlook") is user.mailbox else None

    def list_users(self, tenant: str) -> list[EntraUser]:
        """Return the users who may sign in through this tenant of a URL."""
        users = [self.get_user(mailbox) for mailbox in self.registry.list_mailboxes("outlook")]
        name = self.check_tenant(tenant)
        return [user for user in users if self._is_in(name, user)]

    def admits(self, tenant: str, user: EntraUser) -> bool:
        return self._is_in(self.check_tenant(tenant), user)

    def _is_in(self, name: str, user: EntraUser) -> bool:
        """Whether a user belongs to a tenant that `check_tenant` returned."""
        if name == "common":
            return True
        if name in {"organizations", "consumers"}:
            return user.is_personal == (name == "consumers")
        return user.tid == name

    def tenant_id(self, tenant: str) -> str:
        """Return the GUID of a tenant given as GUID or domain. Raises 90002 if it does not exist."""
        name = tenant.lower()
        domains = {mailbox.account.domain.lower() for mailbox in self.registry.list_mailboxes("outlook")}
        tenant_ids = {self.registry.tenant_id(domain) for domain in domains if domain not in PERSONAL_DOMAINS}
        tenant_ids |= {app.tenant for app in self.registry.applications.values() if app.tenant}
        if name in domains:
            return self.registry.tenant_id(name)
        if name in tenant_ids or name == PERSONAL_TENANT:
            return name
        raise EntraError(90002, tenant=tenant)

    def check_tenant(self, tenant: str) -> str:
        """Return the tenant's GUID, or `common`, `organizations`, `consumers` in lower case."""
        name = tenant.lower()
        return name if name in {"common", "organizations", "consumers"} else self.tenant_id(tenant)

    # Groups

    def list_groups(self, tid: str) -> list[EntraGroup]:
        return [group for group in self.groups.values() if self._get_group_tenant(group) == tid]

    def find_group(self, tid: str, name: str) -> EntraGroup | None:
        """Find a group by its ID."""
        return next((group for group in self.list_groups(tid) if self.get_group_id(group) == name), None)

    def get_group_id(self, group: EntraGroup) -> str:
        return guid(self.registry.seed, "group", group.mail.lower())

    def _get_group_tenant(self, group: EntraGroup) -> str:
        return self.registry.tenant_id(group.mail.rpartition("@")[2].lower())

    # Applications

    def get_application(self, client_id: str, tenant: str) -> OAuthApplication:
        find = self.registry.find_application
        application = find(client_id, "outlook") or find(client_id.lower(), "outlook")
        if application is None:
            raise EntraError(700016, app=client_id, tenant=tenant)
        if self.get_settings(application).disabled:
            raise EntraError(7000112, app=application.client_id, name=application.name)
        return application

    def get_settings(self, application: OAuthApplication) -> EntraApplicationSettings:
        settings = self._settings.get(application.client_id)
        if settings is None:
            settings = self._settings[application.client_id] = EntraApplicationSettings()
        return settings

    def service_principal(self, client_id: str, tid: str) -> str:
        return guid(self.registry.seed, "service principal", client_id, tid)

    def secret_expiry(self, application: OAuthApplication, secret: str) -> float | None:
        """Return when a client secret expires, or None if it does not belong to the application."""
        if application.client_secret and secrets.compare_digest(
            secret.encode(), application.client_secret.encode()
        ):
            return self.get_settings(application).secrets.get(secret, math.inf)
        return self.get_settings(application).secrets.get(secret)

    def list_certificates(self, application: OAuthApplication) -> list[ClientCertificate]:
        own = [read_certificate(application.certificate)] if application.certificate else []
        return [*own, *self.get_settings(application).certificates]

    def redirect_kind(self, application: OAuthApplication, uri: str) -> Literal["web", "spa"] | None:
        """Return how a redirect URI is registered. Entra ignores the port of loopback URIs."""
        try:
            parts = urlsplit(uri)
        except ValueError:
            return None
        if _is_registered(uri, parts, self.get_settings(application).spa_redirect_uris):
            return "spa"
        if not parts.scheme or (
            application.redirect_uris and not _is_registered(uri, parts, application.redirect_uris)
        ):
            return None
        return "web"

    # Consents

    def get_consent(self, user: EntraUser, client_id: str) -> set[str]:
        return self.consents.setdefault((user.oid, client_id), set())

    def revoke_consent(self, user: EntraUser, client_id: str = "") -> int:
        keys = [key for key in self.consents if key[0] == user.oid and client_id in {"", key[1]}]
        for key in keys:
            del self.consents[key]
        return len(keys)

    def sign_in(self, user: EntraUser) -> str:
        """Start a browser session and return its cookie value."""
        cookie = b64url(self.registry.new_bytes("cookie", 24))
        self.sessions[cookie] = user.oid
        return cookie

    # Planned refusals

    def plan_refusal(self, refusal: SignInRefusal, times: int | None) -> PlannedRefusal:
        if refusal.code not in ERRORS:
            raise InvalidRequest(
                f"unknown AADSTS code {refusal.code}; use one of {', '.join(map(str, sorted(ERRORS)))}"
            )
        self._count += 1
        planned = self.refusals[self._count] = PlannedRefusal(self._count, refusal, times)
        return planned

    def cancel_refusal(self, number: int) -> None:
        if self.refusals.pop(number, None) is None:
            raise NotFound(f"refusal {number} does not exist")

    def raise_planned_refusal(
        self, where: RefusingEndpoint, application: OAuthApplication, user: EntraUser | None
    ) -> None:
        """Raise the error planned for this endpoint, application and user, if any."""
        for planned in list(self.refusals.values()):
            refusal = planned.refusal
            if refusal.where != where or refusal.application.lower() not in {
                "",
                application.client_id.lower(),
            }:
                continue
            if refusal.mailbox and (user is None or user.upn.lower() != refusal.mailbox.lower()):
                continue
            if planned.left is not None:
                planned.left -= 1
                if planned.left <= 0:
                    del self.refusals[planned.number]
            raise EntraError(refusal.code, **error_facts(application, user))


def error_facts(application: OAuthApplication, user: EntraUser | None) -> dict[str, str]:
    """Return the values for the placeholders of an AADSTS message."""
    facts = {"app": application.client_id, "name": application.name, "idle": "90.00:00:00"}
    if user is not None:
        facts |= {"user": user.upn, "tenant": user.tid}
    return facts


def _is_registered(uri: str, parts: SplitResult, registered: tuple[str, ...]) -> bool:
    if uri in registered:
        return True
    if parts.scheme != "http" or parts.hostname not in {"localhost", "127.0.0.1"}:
        return False
    portless = {url for url in map(_without_port, registered) if url is not None}
    return _without_port(uri) in portless


def _without_port(uri: str) -> tuple[str | None, str] | None:
    """Return host and path of an http URL, or None for any other or malformed URL."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    return (parts.hostname, parts.path) if parts.scheme == "http" else None
