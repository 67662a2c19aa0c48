"""Microsoft's own endpoints of the control API: tokens without a browser, options, refusals, settings.

It holds their handlers and request bodies. The other endpoints are in `mailsim.control`.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import msgspec

from mailsim.control.endpoint import ControlCall, ControlEndpoint, change_options
from mailsim.control.schemas import AffectedCount, ControlInput
from mailsim.entra.aadsts import EntraError
from mailsim.entra.directory import EntraGroup, EntraUser, PlannedRefusal, SignInRefusal
from mailsim.entra.grants import EntraRefreshToken
from mailsim.entra.scopes import APPLICATION, DELEGATED, IDENTITY
from mailsim.entra.signing import read_certificate
from mailsim.errors import InvalidRequest, NotFound
from mailsim.graph.context import GraphContext
from mailsim.graph.options import MicrosoftOptions
from mailsim.registry import OAuthApplication

Tokens = dict[str, Any]  # as returned by the token endpoint
OptionChanges = dict[str, Any]  # options to change, by name


class NewMicrosoftTokens(ControlInput, frozen=True):
    """Tokens to issue: for a user's consent, or with `roles` for an admin's consent in the user's tenant.

    Without a client ID, they are issued to the default application.
    """

    address: str
    scopes: tuple[str, ...] = ("openid", "profile", "email", "offline_access", "User.Read", "Mail.Read")
    roles: tuple[str, ...] = ()
    client_id: str = ""
    seconds: int | None = None


class NewRefusal(ControlInput, frozen=True):
    """An AADSTS error to return on sign-in. `times` null means until cancelled."""

    code: int
    mailbox: str = ""
    application: str = ""
    where: Literal["token", "authorize"] = "token"
    times: int | None = None


class RefusalInfo(msgspec.Struct, frozen=True):
    number: int
    code: int
    mailbox: str
    application: str
    where: str
    left: int | None


class NewClientSecret(ControlInput, frozen=True):
    secret: str
    seconds: float  # lifetime; 0 or less: already expired


class ApplicationSettingsChange(ControlInput, frozen=True):
    """Settings to change; missing ones stay the same.

    `consented` lists the tenants whose admin consented to the roles. `mailboxes` is the application access
    policy.
    """

    roles: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    consented: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    mailboxes: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    spa_redirect_uris: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    secrets: tuple[NewClientSecret, ...] | msgspec.UnsetType = msgspec.UNSET
    certificates: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    public: bool | msgspec.UnsetType = msgspec.UNSET
    disabled: bool | msgspec.UnsetType = msgspec.UNSET


class GroupAddress(ControlInput, frozen=True):
    mail: str


class AccountSettingsChange(ControlInput, frozen=True):
    """Account state to change. With `challenge`, Graph rejects the tokens issued so far."""

    disabled: bool | None = None
    mailbox: bool | None = None  # false: the mailbox is not in Exchange Online
    challenge: bool = False


@dataclass(frozen=True, slots=True)
class MicrosoftControl:
    graph: GraphContext

    def endpoints(self) -> tuple[ControlEndpoint, ...]:
        return (
            *self._token_endpoints(),
            *self._refusal_endpoints(),
            *self._settings_endpoints(),
            *self._group_endpoints(),
        )

    def _token_endpoints(self) -> tuple[ControlEndpoint, ...]:
        options = "/microsoft/options"
        mint = "Issue tokens for an Outlook account, as if its user or its admin had consented"
        show, change = "Show the options of simulated Microsoft", "Change the options of simulated Microsoft"
        return (
            ControlEndpoint(
                "POST",
                "/microsoft/tokens",
                mint,
                self.mint_microsoft_tokens,
                Tokens,
                NewMicrosoftTokens,
                status=201,
            ),
            ControlEndpoint("GET", options, show, self.microsoft_options, MicrosoftOptions),
            ControlEndpoint(
                "PATCH", options, change, self.change_microsoft_options, MicrosoftOptions, OptionChanges
            ),
        )

    def _refusal_endpoints(self) -> tuple[ControlEndpoint, ...]:
        path, plan = "/microsoft/refusals", "Refuse sign-ins with an AADSTS error"
        return (
            ControlEndpoint("GET", path, "List planned refusals", self.list_refusals, list[RefusalInfo]),
            ControlEndpoint("POST", path, plan, self.order_refusal, RefusalInfo, NewRefusal, status=201),
            ControlEndpoint("DELETE", path, "Cancel all refusals", self.clear_refusals),
            ControlEndpoint("DELETE", path + "/{number}", "Cancel a refusal", self.cancel_refusal),
        )

    def _settings_endpoints(self) -> tuple[ControlEndpoint, ...]:
        return (
            ControlEndpoint(
                "PATCH",
                "/microsoft/applications/{id}",
                "Change the settings of an application",
                self.configure_application,
                AffectedCount,
                ApplicationSettingsChange,
            ),
            ControlEndpoint(
                "POST",
                "/microsoft/accounts/{address}",
                "Disable an account, remove its mailbox, or challenge its tokens",
                self.configure_account,
                AffectedCount,
                AccountSettingsChange,
            ),
        )

    def _group_endpoints(self) -> tuple[ControlEndpoint, ...]:
        path, add = "/microsoft/groups", "Create or replace a group of the tenant of its domain"
        return (
            ControlEndpoint("GET", path, "List groups", self.list_entra_groups, list[EntraGroup]),
            ControlEndpoint("POST", path, add, self.add_entra_group, EntraGroup, EntraGroup, status=201),
            ControlEndpoint("DELETE", path, "Delete a group", self.remove_entra_group, query=GroupAddress),
        )

    async def list_entra_groups(self, _call: ControlCall) -> list[EntraGroup]:
        return list(self.graph.entra.directory.groups.values())

    async def add_entra_group(self, call: ControlCall) -> EntraGroup:
        self.graph.entra.directory.groups[call.body.mail.lower()] = call.body
        return call.body

    async def remove_entra_group(self, call: ControlCall) -> None:
        if self.graph.entra.directory.groups.pop(call.query.mail.lower(), None) is None:
            raise NotFound(f"there is no group {call.query.mail}")

    async def mint_microsoft_tokens(self, call: ControlCall) -> Tokens:
        body: NewMicrosoftTokens = call.body
        entra = self.graph.entra
        user, application = self._get_user(body.address), self._get_application(body.client_id)
        base_url = self.graph.sim.base_urls.get("https", "")
        unknown = set(body.scopes) - {*DELEGATED, *IDENTITY} | set(body.roles) - set(APPLICATION)
        if unknown:
            raise InvalidRequest(f"unknown permissions {', '.join(sorted(unknown))}")
        if body.roles:
            access, seconds = entra.grants.issue_access_token(
                application, user.tid, roles=body.roles, seconds=body.seconds
            )
            return {"token_type": "Bearer", "expires_in": seconds, "access_token": access}
        scopes = list(body.scopes)
        entra.directory.get_consent(user, application.client_id).update(scopes)
        refresh = EntraRefreshToken(application, user, scopes, self.graph.sim.clock.time(), 0, spa=False)
        response = entra.grants.token_response(refresh, scopes, base_url, keep="offline_access" in scopes)
        if body.seconds is not None:
            access = entra.grants.access_tokens[response["access_token"]]
            access.expires = access.issued + body.seconds
            response["expires_in"] = body.seconds
        return response

    async def microsoft_options(self, _call: ControlCall) -> MicrosoftOptions:
        return self.graph.options

    async def change_microsoft_options(self, call: ControlCall) -> MicrosoftOptions:
        return change_options(self.graph.options, call.body)

    async def list_refusals(self, _call: ControlCall) -> list[RefusalInfo]:
        return [_refusal_info(planned) for planned in self.graph.entra.directory.refusals.values()]

    async def order_refusal(self, call: ControlCall) -> RefusalInfo:
        body: NewRefusal = call.body
        refusal = SignInRefusal(body.code, body.mailbox, body.application, body.where)
        return _refusal_info(self.graph.entra.directory.plan_refusal(refusal, body.times))

    async def clear_refusals(self, _call: ControlCall) -> None:
        self.graph.entra.directory.refusals.clear()

    async def cancel_refusal(self, call: ControlCall) -> None:
        number = call.path["number"]
        self.graph.entra.directory.cancel_refusal(int(number) if number.isdecimal() else 0)

    async def configure_application(self, call: ControlCall) -> AffectedCount:
        body: ApplicationSettingsChange = call.body
        settings = self.graph.entra.directory.get_settings(self._get_application(call.path["id"]))
        now = self.graph.sim.clock.time()
        try:
            values: dict[str, Any] = {
                "roles": body.roles,
                "consented": _to_set(body.consented),
                "mailboxes": _to_set(body.mailboxes, lower=True),
                "spa_redirect_uris": body.spa_redirect_uris,
                "secrets": {one.secret: now + one.seconds for one in body.secrets or ()},
                "certificates": [read_certificate(pem) for pem in body.certificates or ()],
                "public": body.public,
                "disabled": body.disabled,
            }
        except ValueError as error:
            raise InvalidRequest(f"invalid certificate: {error}") from error
        changed = [name for name in values if getattr(body, name) is not msgspec.UNSET]
        for name in changed:
            setattr(settings, name, values[name])
        return AffectedCount(len(changed))

    async def configure_account(self, call: ControlCall) -> AffectedCount:
        body: AccountSettingsChange = call.body
        user = self._get_user(call.path["address"])
        if body.disabled is not None:
            (self._disabled.add if body.disabled else self._disabled.discard)(user.oid)
        if body.mailbox is not None:
            without_mailbox = self.graph.without_mailbox
            (without_mailbox.discard if body.mailbox else without_mailbox.add)(user.upn.lower())
        return AffectedCount(self.graph.entra.grants.challenge_access_tokens(user) if body.challenge else 1)

    @property
    def _disabled(self) -> set[str]:
        return self.graph.entra.directory.disabled

    def _get_user(self, address: str) -> EntraUser:
        user = self.graph.entra.directory.find_user(address)
        if user is None:
            raise NotFound(f"Outlook mailbox {address} does not exist")
        return user

    def _get_application(self, client_id: str) -> OAuthApplication:
        registry = self.graph.sim.registry
        if not client_id:
            return next(app for app in registry.applications.values() if app.provider == "outlook")
        try:
            return self.graph.entra.directory.get_application(client_id, "")
        except EntraError as error:
            application = registry.find_application(client_id, "outlook")
            if application is None:
                raise NotFound(f"Outlook application {client_id} does not exist") from error
            return application


def _to_set(names: tuple[str, ...] | msgspec.UnsetType | None, *, lower: bool = False) -> set[str] | None:
    if not isinstance(names, tuple):
        return None
    return {name.lower() if lower else name for name in names}


def _refusal_info(planned: PlannedRefusal) -> RefusalInfo:
    return RefusalInfo(number=planned.number, left=planned.left, **asdict(planned.refusal))
