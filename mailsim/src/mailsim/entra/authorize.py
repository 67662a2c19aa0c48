"""The authorize and admin consent endpoints of Entra: check the request, show the page, redirect back.

The browser returns to the application with a code or an error. Only a request with an invalid client or
redirect URI ends on an error page here. The HTML is in `pages`, the token endpoint in `token`.
"""

import re
from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mailsim.entra import aadsts, pages, scopes
from mailsim.entra.aadsts import ERRORS, EntraError
from mailsim.entra.context import EntraContext, base_url, guid_or_new
from mailsim.entra.directory import EntraUser
from mailsim.entra.grants import CODE_SECONDS, EntraAuthorizationCode
from mailsim.registry import OAuthApplication

COOKIE = "ESTSAUTH"
ResponseMode = Literal["query", "fragment", "form_post"]
PROMPTS = frozenset({"", "login", "none", "consent", "select_account", "create"})
_CHALLENGE = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_MAX_FORM = 65_536


@dataclass(frozen=True, slots=True)
class EntraAuthorizationRequest:
    """A request with a valid client and redirect URI, so that errors can go back to the application."""

    application: OAuthApplication
    tenant: str
    redirect_uri: str
    spa: bool
    mode: ResponseMode
    state: str
    form: dict[str, str]


async def authorize(entra: EntraContext, request: Request) -> Response:
    """Handle GET, the decision posted by the consent page, and a request sent as a form."""
    decision = await read_form(request)
    form = parse_form(request.url.query) or decision
    try:
        parsed = _parse_request(entra, request.path_params["tenant"], form)
    except EntraError as error:
        return render_error_page(entra, request, error)
    try:
        return _decide(entra, request, parsed, decision)
    except EntraError as error:
        return _redirect_back(entra, parsed, _error_parameters(entra, request, error))


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a posted form; a GET has none."""
    body = (await request.body())[:_MAX_FORM] if request.method == "POST" else b""
    return parse_form(body.decode("utf-8", "replace"))


def parse_form(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, max_num_fields=100))
    except ValueError:
        return {}


def _parse_request(entra: EntraContext, tenant_name: str, form: dict[str, str]) -> EntraAuthorizationRequest:
    tenant = entra.directory.check_tenant(tenant_name)
    if not form.get("client_id"):
        raise EntraError(900144, parameter="client_id")
    application = entra.directory.get_application(form["client_id"], tenant)
    uri = form.get("redirect_uri") or next(iter(application.redirect_uris), "")
    kind = entra.directory.redirect_kind(application, uri)
    if kind is None:
        raise EntraError(50011, uri=uri, app=application.client_id)
    mode = form.get("response_mode") or "query"
    checked = cast("ResponseMode", mode) if mode in {"query", "fragment", "form_post"} else "query"
    return EntraAuthorizationRequest(
        application, tenant, uri, kind == "spa", checked, form.get("state", ""), form
    )


def _decide(
    entra: EntraContext, request: Request, parsed: EntraAuthorizationRequest, decision: dict[str, str]
) -> Response:
    permissions = _check_request(parsed)
    entra.directory.raise_planned_refusal(
        "authorize", parsed.application, entra.directory.find_user(parsed.form.get("login_hint", ""))
    )
    session = entra.directory.find_user(entra.directory.sessions.get(request.cookies.get(COOKIE, ""), ""))
    signed_in = session if session and entra.directory.admits(parsed.tenant, session) else None
    if decision.get("decision") == "deny":
        raise EntraError(65004)
    if decision.get("decision") == "allow":
        chosen = entra.directory.find_user(decision.get("account", ""))
        if chosen is None or not entra.directory.admits(parsed.tenant, chosen):
            raise EntraError(50034, user=decision.get("account", ""), tenant=parsed.tenant)
        return _grant_code(entra, request, parsed, permissions, chosen)
    prompt = parsed.form.get("prompt", "")
    if signed_in and prompt in {"", "none"} and _has_consented(entra, parsed, signed_in, permissions):
        return _grant_code(entra, request, parsed, permissions, signed_in)
    if entra.options.auto_consent and prompt != "none" and (chosen := _pick_consenting_user(entra, parsed)):
        return _grant_code(entra, request, parsed, permissions, chosen)
    if prompt == "none":
        raise EntraError(50058 if signed_in is None else 65001, app=parsed.application.client_id)
    page = pages.render_consent(
        application=parsed.application.name,
        users=entra.directory.list_users(parsed.tenant),
        chosen=parsed.form.get("login_hint", "") or (signed_in.upn if signed_in else ""),
        permissions=permissions,
        fields=parsed.form,
    )
    return HTMLResponse(page, headers={"cache-control": "no-store"})


def _check_request(parsed: EntraAuthorizationRequest) -> list[str]:
    """Validate the request and return the requested permissions."""
    form = parsed.form
    if not form.get("response_type"):
        raise EntraError(900144, parameter="response_type")
    if form["response_type"] != "code":
        raise EntraError(700054, type=form["response_type"])
    if form.get("response_mode", "query") != parsed.mode:
        raise EntraError(90023, parameter="response_mode")
    if form.get("prompt", "") not in PROMPTS:
        raise EntraError(90023, parameter="prompt")
    challenge = form.get("code_challenge", "")
    if form.get("code_challenge_method", "plain") not in {"plain", "S256"}:
        raise EntraError(90023, parameter="code_challenge_method")
    if challenge and not _CHALLENGE.fullmatch(challenge):
        raise EntraError(90023, parameter="code_challenge")
    if parsed.spa and not challenge:
        raise EntraError(9002325)
    return scopes.expand_default(scopes.parse_scopes(form.get("scope", "")))


def _pick_consenting_user(entra: EntraContext, parsed: EntraAuthorizationRequest) -> EntraUser | None:
    """Return the user who consents without a page: the one of `login_hint`, or the first."""
    users = entra.directory.list_users(parsed.tenant)
    hint = parsed.form.get("login_hint", "").lower()
    return next((user for user in users if user.upn.lower() == hint), users[0] if users else None)


def _has_consented(
    entra: EntraContext, parsed: EntraAuthorizationRequest, user: EntraUser, permissions: list[str]
) -> bool:
    return entra.directory.get_consent(user, parsed.application.client_id).issuperset(permissions)


def _grant_code(
    entra: EntraContext,
    request: Request,
    parsed: EntraAuthorizationRequest,
    permissions: list[str],
    user: EntraUser,
) -> Response:
    entra.directory.raise_planned_refusal("authorize", parsed.application, user)
    if user.oid in entra.directory.disabled:
        raise EntraError(50057)
    entra.directory.get_consent(user, parsed.application.client_id).update(permissions)
    code = EntraAuthorizationCode(
        application=parsed.application,
        user=user,
        tenant=parsed.tenant,
        redirect_uri=parsed.redirect_uri,
        scopes=permissions,
        challenge=parsed.form.get("code_challenge", ""),
        challenge_method=parsed.form.get("code_challenge_method", "plain"),
        nonce=parsed.form.get("nonce", ""),
        expires=entra.sim.clock.time() + CODE_SECONDS,
        spa=parsed.spa,
    )
    response = _redirect_back(entra, parsed, {"code": entra.grants.issue_code(code)})
    if request.cookies.get(COOKIE) not in entra.directory.sessions:
        response.set_cookie(COOKIE, entra.directory.sign_in(user), httponly=True, samesite="lax")
    else:
        entra.directory.sessions[request.cookies[COOKIE]] = user.oid
    return response


def _redirect_back(
    entra: EntraContext, parsed: EntraAuthorizationRequest, values: dict[str, str]
) -> Response:
    """Send the browser back to the application with the response mode it requested."""
    if parsed.state:
        values["state"] = parsed.state
    if "code" in values:
        values["session_state"] = entra.sim.registry.new_guid("session")
    if parsed.mode == "form_post":
        return HTMLResponse(
            pages.render_form_post(parsed.redirect_uri, values), headers={"cache-control": "no-store"}
        )
    separator = "#" if parsed.mode == "fragment" else "&" if urlsplit(parsed.redirect_uri).query else "?"
    return RedirectResponse(f"{parsed.redirect_uri}{separator}{urlencode(values)}", 302)


def _error_parameters(entra: EntraContext, request: Request, error: EntraError) -> dict[str, str]:
    kind = ERRORS[error.code]
    name = "interaction_required" if error.code == 65001 else kind.error
    values = {
        "error": name,
        "error_description": _describe_error(entra, request, error),
        "error_uri": f"{base_url(request)}/error?code={error.code}",
    }
    return values | ({"error_subcode": "cancel"} if error.code == 65004 else {})


def _describe_error(entra: EntraContext, request: Request, error: EntraError) -> str:
    correlation = guid_or_new(entra, request.headers.get("client-request-id"))
    return aadsts.describe_error(
        error, now=entra.sim.clock.time(), trace=guid_or_new(entra), correlation=correlation
    )


def render_error_page(entra: EntraContext, request: Request, error: EntraError) -> Response:
    return HTMLResponse(
        pages.render_error(_describe_error(entra, request, error)), 400, {"cache-control": "no-store"}
    )


async def admin_consent(entra: EntraContext, request: Request) -> Response:
    """Handle an administrator's consent to an application's roles in the whole tenant."""
    form = parse_form(request.url.query)
    decision = await read_form(request)
    try:
        parsed = _parse_request(entra, request.path_params["tenant"], form)
    except EntraError as error:
        return render_error_page(entra, request, error)
    settings = entra.directory.get_settings(parsed.application)
    if decision.get("decision") == "deny":
        error = EntraError(65004)
        values = {"error": "access_denied", "error_description": _describe_error(entra, request, error)}
        return _redirect_back(entra, parsed, values)
    users = entra.directory.list_users(parsed.tenant)
    if decision.get("decision") == "allow":
        admin = entra.directory.find_user(decision.get("account", ""))
        tid = admin.tid if admin else parsed.tenant
        if settings.consented is not None:
            settings.consented.add(tid)
        scope = {"scope": form["scope"]} if form.get("scope") else {}
        return _redirect_back(entra, parsed, {"admin_consent": "True", "tenant": tid, **scope})
    page = pages.render_consent(
        application=parsed.application.name,
        users=users,
        chosen="",
        permissions=[f"{role} (every mailbox of the organization)" for role in settings.roles],
        fields=form,
    )
    return HTMLResponse(page, headers={"cache-control": "no-store"})
