"""The token endpoint of Entra, for codes, refresh tokens, client credentials and device codes.

Also the endpoint that starts the sign-in of a device. It checks the request; `grants` issues the tokens and
`client_authentication` checks the client.
"""

import base64
import hashlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mailsim.entra import aadsts, client_authentication, device_flow, scopes
from mailsim.entra.aadsts import ERRORS, EntraError
from mailsim.entra.context import EntraContext, base_url, guid_or_new
from mailsim.entra.directory import EntraUser
from mailsim.entra.grants import EntraRefreshToken
from mailsim.entra.signing import b64url
from mailsim.middleware import get_exchange
from mailsim.registry import OAuthApplication

MAX_FORM_BYTES = 256 * 1024


EntraHandler = Callable[[EntraContext, Request, dict[str, str]], Mapping[str, Any]]


async def token(entra: EntraContext, request: Request) -> Response:
    return await _respond_to_form(entra, request, _handle_grant)


async def device_code(entra: EntraContext, request: Request) -> Response:
    return await _respond_to_form(entra, request, device_flow.start_sign_in)


async def _respond_to_form(entra: EntraContext, request: Request, handle: EntraHandler) -> Response:
    trace = guid_or_new(entra)
    form: dict[str, str] = {}
    try:
        form = client_authentication.merge_basic_credentials(
            _parse_form(await _read_body(request)), request.headers.get("authorization", "")
        )
        response, status = handle(entra, request, form), 200
    except EntraError as error:
        correlation = guid_or_new(
            entra, request.headers.get("client-request-id") or form.get("client-request-id")
        )
        response = aadsts.error_body(
            error,
            now=entra.sim.clock.time(),
            trace=trace,
            correlation=correlation,
            base_url=base_url(request),
        )
        status = ERRORS[error.code].status
    headers = {
        "cache-control": "no-store, no-cache",
        "pragma": "no-cache",
        "x-ms-request-id": trace,
        "client-request-id": request.headers.get("client-request-id", trace),
    }
    return Response(msgspec.json.encode(response), status, headers, "application/json; charset=utf-8")


async def _read_body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise EntraError(9002313)
    return body


def _parse_form(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError as error:
        raise EntraError(9002313) from error
    if len({name for name, _ in pairs}) != len(pairs):
        raise EntraError(9002313)
    return {name: value for name, value in pairs if value}


def _require(form: dict[str, str], name: str) -> str:
    value = form.get(name)
    if not value:
        raise EntraError(900144, parameter=name)
    return value


def _handle_grant(entra: EntraContext, request: Request, form: dict[str, str]) -> dict[str, Any]:
    tenant = entra.directory.check_tenant(request.path_params["tenant"])
    client_id = _require(form, "client_id")
    grant_type = _require(form, "grant_type")
    application = entra.directory.get_application(client_id, tenant)
    if grant_type == "authorization_code":
        return _redeem_code(entra, request, tenant, application, form)
    if grant_type == "refresh_token":
        return _redeem_refresh_token(entra, request, tenant, application, form)
    if grant_type == "client_credentials":
        return _grant_client_credentials(entra, request, tenant, application, form)
    if grant_type in device_flow.DEVICE_GRANTS:
        return _redeem_device_code(entra, request, tenant, application, form)
    raise EntraError(70003, type=grant_type)


def _authenticate_client(
    entra: EntraContext,
    request: Request,
    tenant: str,
    application: OAuthApplication,
    form: dict[str, str],
    *,
    needed: bool = False,
) -> None:
    base = base_url(request)
    tenant_names = {tenant, request.path_params["tenant"]}
    audiences = {
        f"{base}/{name}{tail}"
        for name in tenant_names
        for tail in ("/oauth2/v2.0/token", "/v2.0", "/oauth2/token")
    }
    now = entra.sim.clock.time()
    client_authentication.authenticate_client(
        entra.directory, application, form, audiences, now, needed=needed
    )


def _redeem_code(
    entra: EntraContext, request: Request, tenant: str, application: OAuthApplication, form: dict[str, str]
) -> dict[str, Any]:
    name, redirect = _require(form, "code"), _require(form, "redirect_uri")
    issued = entra.grants.codes.get(name)
    _log_mailbox(request, issued.user if issued else None)
    entra.directory.raise_planned_refusal("token", application, issued.user if issued else None)
    if not (issued and issued.spa):  # a single-page app has no secret
        _authenticate_client(entra, request, tenant, application, form)
    code = entra.grants.redeem_code(name, application)
    if redirect != code.redirect_uri:
        raise EntraError(500112, uri=redirect)
    if not entra.directory.admits(tenant, code.user):
        raise EntraError(700005)
    if not _matches_challenge(code.challenge, code.challenge_method, form.get("code_verifier", "")):
        raise EntraError(501481)
    selected = _select_scopes(form.get("scope"), code.scopes, application)
    code.redeemed = True
    refresh = EntraRefreshToken(application, code.user, code.scopes, entra.sim.clock.time(), 0, code.spa)
    if code.spa:
        refresh.expires = entra.sim.clock.time() + 86400
    response = entra.grants.token_response(
        refresh, selected, base_url(request), nonce=code.nonce, keep="offline_access" in code.scopes
    )
    return _add_client_info(response, form, code.user)


def _matches_challenge(challenge: str, method: str, verifier: str) -> bool:
    if not challenge:
        return not verifier
    if method == "S256":
        digest = hashlib.sha256(verifier.encode()).digest()
        verifier = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return secrets.compare_digest(verifier.encode(), challenge.encode())


def _redeem_refresh_token(
    entra: EntraContext, request: Request, tenant: str, application: OAuthApplication, form: dict[str, str]
) -> dict[str, Any]:
    name = _require(form, "refresh_token")
    issued = entra.grants.refresh_tokens.get(name)
    user = issued.user if issued else None
    _log_mailbox(request, user)
    _raise_planned_fault(entra, user)
    entra.directory.raise_planned_refusal("token", application, user)
    if not (issued and issued.spa):
        _authenticate_client(entra, request, tenant, application, form)
    refresh = entra.grants.get_refresh_token(name, application)
    if not entra.directory.admits(tenant, refresh.user):
        raise EntraError(50034, user=refresh.user.upn, tenant=tenant)
    consented = entra.directory.get_consent(refresh.user, application.client_id)
    if not consented.issuperset(refresh.scopes):
        raise EntraError(65001, app=application.client_id, name=application.name)
    selected = _select_scopes(form.get("scope"), refresh.scopes, application)
    response = entra.grants.token_response(refresh, selected, base_url(request), keep=True)
    return _add_client_info(response, form, refresh.user)


def _redeem_device_code(
    entra: EntraContext, request: Request, tenant: str, application: OAuthApplication, form: dict[str, str]
) -> dict[str, Any]:
    code = form.get("device_code") or _require(form, "code")  # older clients send `code`
    _authenticate_client(entra, request, tenant, application, form)
    user, granted = device_flow.redeem_device_code(entra, tenant, application, code)
    _log_mailbox(request, user)
    refresh = EntraRefreshToken(application, user, granted, entra.sim.clock.time(), 0, spa=False)
    response = entra.grants.token_response(
        refresh, granted, base_url(request), keep="offline_access" in granted
    )
    return _add_client_info(response, form, user)


def _log_mailbox(request: Request, user: EntraUser | None) -> None:
    """Attribute the token request to the user's mailbox in log and meters."""
    if user is not None:
        get_exchange(request).mailbox = user.upn


def _raise_planned_fault(entra: EntraContext, user: EntraUser | None) -> None:
    """Raise the scheduled consent_revoked or token_error fault as an AADSTS error."""
    address = user.upn if user else ""
    if user and entra.sim.faults.take("consent_revoked", address, "token", "outlook"):
        entra.directory.revoke_consent(user)
    fault = entra.sim.faults.take("token_error", address, "token", "outlook")
    if fault is not None:
        digits = fault.code.upper().removeprefix("AADSTS")
        code = int(digits) if digits.isdecimal() else 0
        raise EntraError(code if code in ERRORS else 50173)


def _grant_client_credentials(
    entra: EntraContext, request: Request, tenant: str, application: OAuthApplication, form: dict[str, str]
) -> dict[str, Any]:
    if tenant in {"common", "organizations", "consumers"}:
        raise EntraError(9001023)
    entra.directory.raise_planned_refusal("token", application, None)
    _raise_planned_fault(entra, None)
    _authenticate_client(entra, request, tenant, application, form, needed=True)
    if scopes.parse_scopes(_require(form, "scope")) != [".default"]:
        raise EntraError(70011, scope=form["scope"])
    settings = entra.directory.get_settings(application)
    if settings.consented is not None and tenant not in settings.consented and tenant != application.tenant:
        raise EntraError(700016, app=application.client_id, tenant=tenant)
    agreed = settings.consented is None or tenant in settings.consented
    access, seconds = entra.grants.issue_access_token(
        application, tenant, roles=settings.roles if agreed else ()
    )
    return {"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds, "access_token": access}


def _select_scopes(text: str | None, granted: list[str], application: OAuthApplication) -> list[str]:
    """Return the scopes of the new token: all granted ones, the requested first."""
    if not text:
        return granted
    selected = scopes.parse_scopes(text)
    if ".default" in selected:
        return granted
    allowed = {*granted, *scopes.IDENTITY}
    if not allowed.issuperset(selected):
        raise EntraError(65001, app=application.client_id, name=application.name)
    return [*(name for name in selected if name in granted), *(n for n in granted if n not in selected)]


def _add_client_info(response: dict[str, Any], form: dict[str, str], user: EntraUser) -> dict[str, Any]:
    """Add client_info if requested; MSAL uses it to distinguish accounts."""
    if form.get("client_info"):
        response["client_info"] = b64url(msgspec.json.encode({"uid": user.oid, "utid": user.tid}))
    return response
