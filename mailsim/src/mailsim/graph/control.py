"""Microsoft's own part of the control API: tokens without a browser, options, refusals on order, settings."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import msgspec

from mailsim.control.endpoint import Call, Endpoint, change_options
from mailsim.control.shapes import Done, Given
from mailsim.entra.aadsts import EntraError
from mailsim.entra.directory import Ordered, Refusal, User
from mailsim.entra.grants import Refresh
from mailsim.entra.scopes import APPLICATION, DELEGATED, IDENTITY
from mailsim.entra.signing import read_certificate
from mailsim.errors import Invalid, Unknown
from mailsim.graph.context import Graph
from mailsim.graph.options import MicrosoftOptions
from mailsim.world import Application

Tokens = dict[str, Any]  # as the token endpoint gives them
OptionChanges = dict[str, Any]  # some of the options, by name


class NewMicrosoftTokens(Given, frozen=True):
    """What a user would have agreed to, or with `roles` an admin for the whole tenant of the address.

    Without a client id: the application that is there from the start.
    """

    address: str
    scopes: tuple[str, ...] = ("openid", "profile", "email", "offline_access", "User.Read", "Mail.Read")
    roles: tuple[str, ...] = ()
    client_id: str = ""
    seconds: int | None = None


class RefusalOrder(Given, frozen=True):
    """An AADSTS code for whom it may concern. `times` None: until cancelled."""

    code: int
    mailbox: str = ""
    application: str = ""
    where: Literal["token", "authorize"] = "token"
    times: int | None = None


class RefusalShape(msgspec.Struct, frozen=True):
    number: int
    code: int
    mailbox: str
    application: str
    where: str
    left: int | None


class Secret(Given, frozen=True):
    secret: str
    seconds: float  # for how long it is good; 0 or less: it has expired


class ApplicationSettings(Given, frozen=True):
    """Only what is named changes.

    `consented`: tenants whose admin agreed to the roles. `mailboxes`: the application access policy.
    """

    roles: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    consented: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    mailboxes: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    spa_redirect_uris: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    secrets: tuple[Secret, ...] | msgspec.UnsetType = msgspec.UNSET
    certificates: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    public: bool | msgspec.UnsetType = msgspec.UNSET
    disabled: bool | msgspec.UnsetType = msgspec.UNSET


class AccountSettings(Given, frozen=True):
    """`challenge`: Graph asks for another sign-in before it takes the tokens issued so far."""

    disabled: bool | None = None
    mailbox: bool | None = None  # False: the mailbox is not in Exchange Online
    challenge: bool = False


@dataclass(frozen=True, slots=True)
class Control:
    graph: Graph

    def endpoints(self) -> tuple[Endpoint, ...]:
        at, options, refusals = "/microsoft", "/microsoft/options", "/microsoft/refusals"
        mint = "Tokens for an Outlook account, as if its user or its admin had agreed"
        order, configure = "Refuse sign-ins with an AADSTS code", "What Microsoft keeps about an application"
        decide = "What was decided about an account"
        clients, accounts = at + "/applications/{id}", at + "/accounts/{address}"
        return (
            Endpoint("POST", f"{at}/tokens", mint, self.mint_microsoft_tokens, Tokens, NewMicrosoftTokens,
                     status=201),
            Endpoint("GET", options, "How Microsoft behaves", self.microsoft_options, MicrosoftOptions),
            Endpoint("PATCH", options, "Change how Microsoft behaves", self.change_microsoft_options,
                     MicrosoftOptions, OptionChanges),
            Endpoint("GET", refusals, "Refusals on order", self.list_refusals, list[RefusalShape]),
            Endpoint("POST", refusals, order, self.order_refusal, RefusalShape, RefusalOrder, status=201),
            Endpoint("DELETE", refusals, "Cancel all refusals", self.clear_refusals),
            Endpoint("DELETE", refusals + "/{number}", "Cancel a refusal", self.cancel_refusal),
            Endpoint("PATCH", clients, configure, self.configure_application, Done, ApplicationSettings),
            Endpoint("POST", accounts, decide, self.configure_account, Done, AccountSettings),
        )  # fmt: skip

    async def mint_microsoft_tokens(self, call: Call) -> Tokens:
        order: NewMicrosoftTokens = call.body
        entra = self.graph.entra
        user, application = self._user(order.address), self._application(order.client_id)
        base = self.graph.sim.places.get("https", "")
        unknown = set(order.scopes) - {*DELEGATED, *IDENTITY} | set(order.roles) - set(APPLICATION)
        if unknown:
            raise Invalid(f"no permission {', '.join(sorted(unknown))}")
        if order.roles:
            access, seconds = entra.grants.new_access(
                application, user.tid, base, roles=order.roles, seconds=order.seconds
            )
            return {"token_type": "Bearer", "expires_in": seconds, "access_token": access}
        scopes = list(order.scopes)
        entra.directory.consented(user, application.client_id).update(scopes)
        refresh = Refresh(application, user, scopes, self.graph.sim.clock.time(), 0, spa=False)
        answer = entra.grants.answer(refresh, scopes, base, keep="offline_access" in scopes)
        if order.seconds is not None:
            access = entra.grants.accesses[answer["access_token"]]
            access.expires = access.issued + order.seconds
            answer["expires_in"] = order.seconds
        return answer

    async def microsoft_options(self, _call: Call) -> MicrosoftOptions:
        return self.graph.options

    async def change_microsoft_options(self, call: Call) -> MicrosoftOptions:
        return change_options(self.graph.options, call.body)

    async def list_refusals(self, _call: Call) -> list[RefusalShape]:
        return [_shape(ordered) for ordered in self.graph.entra.directory.refusals.values()]

    async def order_refusal(self, call: Call) -> RefusalShape:
        given: RefusalOrder = call.body
        refusal = Refusal(given.code, given.mailbox, given.application, given.where)
        return _shape(self.graph.entra.directory.order(refusal, given.times))

    async def clear_refusals(self, _call: Call) -> None:
        self.graph.entra.directory.refusals.clear()

    async def cancel_refusal(self, call: Call) -> None:
        number = call.path["number"]
        self.graph.entra.directory.cancel(int(number) if number.isdecimal() else 0)

    async def configure_application(self, call: Call) -> Done:
        given: ApplicationSettings = call.body
        settings = self.graph.entra.directory.settings(self._application(call.path["id"]))
        now = self.graph.sim.clock.time()
        try:
            values: dict[str, Any] = {
                "roles": given.roles,
                "consented": _set_of(given.consented),
                "mailboxes": _set_of(given.mailboxes, lower=True),
                "spa_redirect_uris": given.spa_redirect_uris,
                "secrets": {one.secret: now + one.seconds for one in given.secrets or ()},
                "certificates": [read_certificate(pem) for pem in given.certificates or ()],
                "public": given.public,
                "disabled": given.disabled,
            }
        except ValueError as error:
            raise Invalid(f"the certificate is not right: {error}") from error
        named = [name for name in values if getattr(given, name) is not msgspec.UNSET]
        for name in named:
            setattr(settings, name, values[name])
        return Done(len(named))

    async def configure_account(self, call: Call) -> Done:
        given: AccountSettings = call.body
        user = self._user(call.path["address"])
        if given.disabled is not None:
            (self._disabled.add if given.disabled else self._disabled.discard)(user.oid)
        if given.mailbox is not None:
            elsewhere = self.graph.without_mailbox
            (elsewhere.discard if given.mailbox else elsewhere.add)(user.upn.lower())
        return Done(self.graph.entra.grants.challenge(user) if given.challenge else 1)

    @property
    def _disabled(self) -> set[str]:
        return self.graph.entra.directory.disabled

    def _user(self, address: str) -> User:
        user = self.graph.entra.directory.find(address)
        if user is None:
            raise Unknown(f"no Outlook mailbox {address}")
        return user

    def _application(self, client_id: str) -> Application:
        world = self.graph.sim.world
        if not client_id:
            return next(app for app in world.applications.values() if app.provider == "outlook")
        try:
            return self.graph.entra.directory.application(client_id, "")
        except EntraError as error:
            found = world.application(client_id, "outlook")
            if found is None:
                raise Unknown(f"no Outlook application {client_id}") from error
            return found


def _set_of(names: tuple[str, ...] | msgspec.UnsetType | None, *, lower: bool = False) -> set[str] | None:
    if not isinstance(names, tuple):
        return None
    return {name.lower() if lower else name for name in names}


def _shape(ordered: Ordered) -> RefusalShape:
    return RefusalShape(number=ordered.number, left=ordered.left, **asdict(ordered.refusal))
