"""The token endpoint: authorization_code, refresh_token, client_credentials."""

import base64
import hashlib
import secrets
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mailsim.entra import aadsts, clients, scopes
from mailsim.entra.aadsts import KINDS, EntraError
from mailsim.entra.directory import Directory, User
from mailsim.entra.grants import Grants, Refresh
from mailsim.entra.signing import b64url
from mailsim.gate import exchange_of
from mailsim.graph.options import MicrosoftOptions
from mailsim.simulator import Simulator
from mailsim.world import Application

LONGEST_FORM = 256 * 1024


@dataclass(frozen=True, slots=True)
class Entra:
    """The simulated Entra: what it shares with the rest of the simulator, who exists, what was granted."""

    sim: Simulator
    directory: Directory
    grants: Grants
    options: MicrosoftOptions


def base_url(request: Request) -> str:
    """Answers name the host that was asked, so that redirected host names keep working."""
    return f"{request.url.scheme}://{request.headers.get('host') or request.url.netloc}"


def guid_or_new(entra: Entra, text: str | None = None) -> str:
    try:
        return str(uuid.UUID(text or ""))
    except ValueError:
        return entra.sim.world.new_guid("trace")


async def token(entra: Entra, request: Request) -> Response:
    trace = guid_or_new(entra)
    form: dict[str, str] = {}
    try:
        form = clients.with_basic(_form(await _body(request)), request.headers.get("authorization", ""))
        answer, status = _granted(entra, request, form), 200
    except EntraError as error:
        correlation = guid_or_new(
            entra, request.headers.get("client-request-id") or form.get("client-request-id")
        )
        answer = aadsts.body(
            error,
            now=entra.sim.clock.time(),
            trace=trace,
            correlation=correlation,
            base_url=base_url(request),
        )
        status = KINDS[error.code].status
    headers = {
        "cache-control": "no-store, no-cache",
        "pragma": "no-cache",
        "x-ms-request-id": trace,
        "client-request-id": request.headers.get("client-request-id", trace),
    }
    return Response(msgspec.json.encode(answer), status, headers, "application/json; charset=utf-8")


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            raise EntraError(9002313)
    return body


def _form(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError as error:
        raise EntraError(9002313) from error
    if len({name for name, _ in pairs}) != len(pairs):
        raise EntraError(9002313)
    return {name: value for name, value in pairs if value}


def _need(form: dict[str, str], name: str) -> str:
    value = form.get(name)
    if not value:
        raise EntraError(900144, parameter=name)
    return value


def _granted(entra: Entra, request: Request, form: dict[str, str]) -> dict[str, Any]:
    tenant = entra.directory.check_tenant(request.path_params["tenant"])
    client_id = _need(form, "client_id")
    grant_type = _need(form, "grant_type")
    application = entra.directory.application(client_id, tenant)
    if grant_type == "authorization_code":
        return _by_code(entra, request, tenant, application, form)
    if grant_type == "refresh_token":
        return _by_refresh(entra, request, tenant, application, form)
    if grant_type == "client_credentials":
        return _by_credentials(entra, request, tenant, application, form)
    raise EntraError(70003, type=grant_type)


def _prove(
    entra: Entra,
    request: Request,
    tenant: str,
    application: Application,
    form: dict[str, str],
    *,
    needed: bool = False,
) -> None:
    base = base_url(request)
    named = {tenant, request.path_params["tenant"]}
    audiences = {
        f"{base}/{name}{tail}" for name in named for tail in ("/oauth2/v2.0/token", "/v2.0", "/oauth2/token")
    }
    now = entra.sim.clock.time()
    clients.authenticate(entra.directory, application, form, audiences, now, needed=needed)


def _by_code(
    entra: Entra, request: Request, tenant: str, application: Application, form: dict[str, str]
) -> dict[str, Any]:
    name, redirect = _need(form, "code"), _need(form, "redirect_uri")
    known = entra.grants.codes.get(name)
    _name(request, known.user if known else None)
    entra.directory.refuse("token", application, known.user if known else None)
    if not (known and known.spa):  # a single-page app has no secret to show
        _prove(entra, request, tenant, application, form)
    code = entra.grants.redeem(name, application)
    if redirect != code.redirect_uri:
        raise EntraError(500112, uri=redirect)
    if not entra.directory.admits(tenant, code.user):
        raise EntraError(700005)
    if not _verified(code.challenge, code.challenge_method, form.get("code_verifier", "")):
        raise EntraError(501481)
    wanted = _subset(form.get("scope"), code.scopes, application)
    code.redeemed = True
    refresh = Refresh(application, code.user, code.scopes, entra.sim.clock.time(), 0, code.spa)
    if code.spa:
        refresh.expires = entra.sim.clock.time() + 86400
    answer = entra.grants.answer(
        refresh, wanted, base_url(request), nonce=code.nonce, keep="offline_access" in code.scopes
    )
    return _with_client_info(answer, form, code.user)


def _verified(challenge: str, method: str, verifier: str) -> bool:
    if not challenge:
        return not verifier
    if method == "S256":
        digest = hashlib.sha256(verifier.encode()).digest()
        verifier = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return secrets.compare_digest(verifier.encode(), challenge.encode())


def _by_refresh(
    entra: Entra, request: Request, tenant: str, application: Application, form: dict[str, str]
) -> dict[str, Any]:
    name = _need(form, "refresh_token")
    known = entra.grants.refreshes.get(name)
    user = known.user if known else None
    _name(request, user)
    _consult_faults(entra, user)
    entra.directory.refuse("token", application, user)
    if not (known and known.spa):
        _prove(entra, request, tenant, application, form)
    refresh = entra.grants.use_refresh(name, application)
    if not entra.directory.admits(tenant, refresh.user):
        raise EntraError(50034, user=refresh.user.upn, tenant=tenant)
    consented = entra.directory.consented(refresh.user, application.client_id)
    if not consented.issuperset(refresh.scopes):
        raise EntraError(65001, app=application.client_id, name=application.name)
    wanted = _subset(form.get("scope"), refresh.scopes, application)
    answer = entra.grants.answer(refresh, wanted, base_url(request), keep=True)
    return _with_client_info(answer, form, refresh.user)


def _name(request: Request, user: User | None) -> None:
    """Meters and log count a token request for the mailbox it is about."""
    if user is not None:
        exchange_of(request).mailbox = user.upn


def _consult_faults(entra: Entra, user: User | None) -> None:
    """The faults that every provider knows, in Entra's words."""
    address = user.upn if user else ""
    if user and entra.sim.faults.take("consent_revoked", address, "token", "outlook"):
        entra.directory.revoke_consent(user)
    fault = entra.sim.faults.take("token_error", address, "token", "outlook")
    if fault is not None:
        digits = fault.code.upper().removeprefix("AADSTS")
        code = int(digits) if digits.isdecimal() else 0
        raise EntraError(code if code in KINDS else 50173)


def _by_credentials(
    entra: Entra, request: Request, tenant: str, application: Application, form: dict[str, str]
) -> dict[str, Any]:
    if tenant in {"common", "organizations", "consumers"}:
        raise EntraError(9001023)
    entra.directory.refuse("token", application, None)
    _consult_faults(entra, None)
    _prove(entra, request, tenant, application, form, needed=True)
    if scopes.asked(_need(form, "scope")) != [".default"]:
        raise EntraError(70011, scope=form["scope"])
    settings = entra.directory.settings(application)
    if settings.consented is not None and tenant not in settings.consented and tenant != application.tenant:
        raise EntraError(700016, app=application.client_id, tenant=tenant)
    agreed = settings.consented is None or tenant in settings.consented
    access, seconds = entra.grants.new_access(
        application, tenant, base_url(request), roles=settings.roles if agreed else ()
    )
    return {"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds, "access_token": access}


def _subset(text: str | None, granted: list[str], application: Application) -> list[str]:
    """What this token shall carry: everything granted, or the part that is asked for."""
    if not text:
        return granted
    wanted = scopes.asked(text)
    if ".default" in wanted:
        return granted
    allowed = {*granted, *scopes.IDENTITY}
    if not allowed.issuperset(wanted):
        raise EntraError(65001, app=application.client_id, name=application.name)
    # The identity scopes of the grant stay, as Entra keeps answering with an id_token.
    return [
        *(name for name in wanted if name in granted),
        *(n for n in granted if n in scopes.IDENTITY and n not in wanted),
    ]


def _with_client_info(answer: dict[str, Any], form: dict[str, str], user: User) -> dict[str, Any]:
    """MSAL asks for this to tell accounts apart."""
    if form.get("client_info"):
        answer["client_info"] = b64url(msgspec.json.encode({"uid": user.oid, "utid": user.tid}))
    return answer
