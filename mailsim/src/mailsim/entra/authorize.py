"""The authorize endpoint: checks the request, shows the consent page, sends the browser back.

Back means to the application, with a code or an error; only what cannot be trusted stays on a page here.
"""

import re
from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mailsim.entra import aadsts, pages, scopes
from mailsim.entra.aadsts import KINDS, EntraError
from mailsim.entra.directory import User
from mailsim.entra.grants import CODE_SECONDS, Code
from mailsim.entra.token import Entra, base_url, guid_or_new
from mailsim.world import Application

COOKIE = "ESTSAUTH"
Mode = Literal["query", "fragment", "form_post"]
PROMPTS = frozenset({"", "login", "none", "consent", "select_account", "create"})
_CHALLENGE = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_STATIC = ["User.Read", "Mail.Read"]  # what `.default` asks a user for


@dataclass(frozen=True, slots=True)
class Asked:
    """A request whose client and redirect URI are right: from here on, errors go back to the application."""

    application: Application
    tenant: str
    redirect_uri: str
    spa: bool
    mode: Mode
    state: str
    form: dict[str, str]


async def authorize(entra: Entra, request: Request) -> Response:
    """GET shows the page (or answers at once), POST is the page's own form, or a request by form."""
    form = _pairs(request.url.query)
    decision: dict[str, str] = {}
    if request.method == "POST":
        decision = _pairs((await request.body())[:65536].decode("utf-8", "replace"))
        form = form or decision
    try:
        asked = _known(entra, request.path_params["tenant"], form)
    except EntraError as error:
        return _error_page(entra, request, error)
    try:
        return _answer(entra, request, asked, decision)
    except EntraError as error:
        return _back(entra, asked, _refusal(entra, request, error))


def _pairs(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, max_num_fields=100))
    except ValueError:
        return {}


def _known(entra: Entra, tenant_name: str, form: dict[str, str]) -> Asked:
    tenant = entra.directory.check_tenant(tenant_name)
    if not form.get("client_id"):
        raise EntraError(900144, parameter="client_id")
    application = entra.directory.application(form["client_id"], tenant)
    uri = form.get("redirect_uri") or next(iter(application.redirect_uris), "")
    kind = entra.directory.redirect_kind(application, uri)
    if kind is None:
        raise EntraError(50011, uri=uri, app=application.client_id)
    mode = form.get("response_mode") or "query"
    checked = cast("Mode", mode) if mode in {"query", "fragment", "form_post"} else "query"
    return Asked(application, tenant, uri, kind == "spa", checked, form.get("state", ""), form)


def _answer(entra: Entra, request: Request, asked: Asked, decision: dict[str, str]) -> Response:
    wanted = _check(asked)
    entra.directory.refuse(
        "authorize", asked.application, entra.directory.find(asked.form.get("login_hint", ""))
    )
    session = entra.directory.find(entra.directory.sessions.get(request.cookies.get(COOKIE, ""), ""))
    signed_in = session if session and entra.directory.admits(asked.tenant, session) else None
    if decision.get("decision") == "deny":
        raise EntraError(65004)
    if decision.get("decision") == "allow":
        chosen = entra.directory.find(decision.get("account", ""))
        if chosen is None or not entra.directory.admits(asked.tenant, chosen):
            raise EntraError(50034, user=decision.get("account", ""), tenant=asked.tenant)
        return _granted(entra, request, asked, wanted, chosen)
    prompt = asked.form.get("prompt", "")
    if signed_in and prompt in {"", "none"} and _agreed(entra, asked, signed_in, wanted):
        return _granted(entra, request, asked, wanted, signed_in)
    if entra.options.auto_consent and prompt != "none" and (chosen := _by_itself(entra, asked)):
        return _granted(entra, request, asked, wanted, chosen)
    if prompt == "none":
        raise EntraError(50058 if signed_in is None else 65001, app=asked.application.client_id)
    page = pages.consent(
        application=asked.application.name,
        users=entra.directory.users(asked.tenant),
        chosen=asked.form.get("login_hint", "") or (signed_in.upn if signed_in else ""),
        permissions=wanted,
        fields=asked.form,
    )
    return HTMLResponse(page, headers={"cache-control": "no-store"})


def _check(asked: Asked) -> list[str]:
    """The permissions asked for, once everything else of the request is right."""
    form = asked.form
    if not form.get("response_type"):
        raise EntraError(900144, parameter="response_type")
    if form["response_type"] != "code":
        raise EntraError(700054, type=form["response_type"])
    if form.get("response_mode", "query") != asked.mode:
        raise EntraError(90023, parameter="response_mode")
    if form.get("prompt", "") not in PROMPTS:
        raise EntraError(90023, parameter="prompt")
    challenge = form.get("code_challenge", "")
    if form.get("code_challenge_method", "plain") not in {"plain", "S256"}:
        raise EntraError(90023, parameter="code_challenge_method")
    if challenge and not _CHALLENGE.fullmatch(challenge):
        raise EntraError(90023, parameter="code_challenge")
    if asked.spa and not challenge:
        raise EntraError(9002325)
    wanted = scopes.asked(form.get("scope", ""))
    return list(dict.fromkeys(name for one in wanted for name in (_STATIC if one == ".default" else [one])))


def _by_itself(entra: Entra, asked: Asked) -> User | None:
    """Whose consent is given without a page: the named account's, or the first one's."""
    users = entra.directory.users(asked.tenant)
    hint = asked.form.get("login_hint", "").lower()
    return next((user for user in users if user.upn.lower() == hint), users[0] if users else None)


def _agreed(entra: Entra, asked: Asked, user: User, wanted: list[str]) -> bool:
    return entra.directory.consented(user, asked.application.client_id).issuperset(wanted)


def _granted(entra: Entra, request: Request, asked: Asked, wanted: list[str], user: User) -> Response:
    entra.directory.refuse("authorize", asked.application, user)
    if user.oid in entra.directory.disabled:
        raise EntraError(50057)
    entra.directory.consented(user, asked.application.client_id).update(wanted)
    code = Code(
        application=asked.application,
        user=user,
        tenant=asked.tenant,
        redirect_uri=asked.redirect_uri,
        scopes=wanted,
        challenge=asked.form.get("code_challenge", ""),
        challenge_method=asked.form.get("code_challenge_method", "plain"),
        nonce=asked.form.get("nonce", ""),
        expires=entra.sim.clock.time() + CODE_SECONDS,
        spa=asked.spa,
    )
    response = _back(entra, asked, {"code": entra.grants.new_code(code)})
    if request.cookies.get(COOKIE) not in entra.directory.sessions:
        response.set_cookie(COOKIE, entra.directory.sign_in(user), httponly=True, samesite="lax")
    else:
        entra.directory.sessions[request.cookies[COOKIE]] = user.oid
    return response


def _back(entra: Entra, asked: Asked, values: dict[str, str]) -> Response:
    """Send the browser to the application in the way it asked for."""
    if asked.state:
        values["state"] = asked.state
    if "code" in values:
        values["session_state"] = entra.sim.world.new_guid("session")
    if asked.mode == "form_post":
        return HTMLResponse(
            pages.form_post(asked.redirect_uri, values), headers={"cache-control": "no-store"}
        )
    mark = "#" if asked.mode == "fragment" else "&" if urlsplit(asked.redirect_uri).query else "?"
    return RedirectResponse(f"{asked.redirect_uri}{mark}{urlencode(values)}", 302)


def _refusal(entra: Entra, request: Request, error: EntraError) -> dict[str, str]:
    kind = KINDS[error.code]
    name = "interaction_required" if error.code == 65001 else kind.error
    values = {
        "error": name,
        "error_description": _described(entra, request, error),
        "error_uri": f"{base_url(request)}/error?code={error.code}",
    }
    return values | ({"error_subcode": "cancel"} if error.code == 65004 else {})


def _described(entra: Entra, request: Request, error: EntraError) -> str:
    correlation = guid_or_new(entra, request.headers.get("client-request-id"))
    return aadsts.describe(
        error, now=entra.sim.clock.time(), trace=guid_or_new(entra), correlation=correlation
    )


def _error_page(entra: Entra, request: Request, error: EntraError) -> Response:
    return HTMLResponse(pages.refusal(_described(entra, request, error)), 400, {"cache-control": "no-store"})


async def admin_consent(entra: Entra, request: Request) -> Response:
    """An administrator agrees, for the whole tenant, to what an application may do without a user."""
    form = _pairs(request.url.query)
    decision = (
        _pairs((await request.body())[:65536].decode("utf-8", "replace")) if request.method == "POST" else {}
    )
    try:
        asked = _known(entra, request.path_params["tenant"], form)
    except EntraError as error:
        return _error_page(entra, request, error)
    settings = entra.directory.settings(asked.application)
    if decision.get("decision") == "deny":
        error = EntraError(65004)
        values = {"error": "access_denied", "error_description": _described(entra, request, error)}
        return _back(entra, asked, values)
    users = entra.directory.users(asked.tenant)
    if decision.get("decision") == "allow":
        admin = entra.directory.find(decision.get("account", ""))
        tid = admin.tid if admin else asked.tenant
        if settings.consented is not None:
            settings.consented.add(tid)
        scope = {"scope": form["scope"]} if form.get("scope") else {}
        return _back(entra, asked, {"admin_consent": "True", "tenant": tid, **scope})
    page = pages.consent(
        application=asked.application.name,
        users=users,
        chosen="",
        permissions=[f"{role} (every mailbox of the organization)" for role in settings.roles],
        fields=form,
    )
    return HTMLResponse(page, headers={"cache-control": "no-store"})
