"""Google's authorization endpoint: validates the request, shows the consent page and handles its form.

The page works in a browser without JavaScript. A program can post the same form: the fields are those of the
request, plus `account`, `duration` (seconds; empty: until revoked), `granted` (once per selected scope) and
`decision` (`allow` or `deny`).
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mailsim.google.clients import GoogleClient, is_redirect_allowed
from mailsim.google.context import GoogleContext
from mailsim.google.grants import IDENTITY_SCOPES, AuthorizedRequest, GoogleAccount, parse_scopes

MAX_FORM = 64 * 1024
_AUTH = "https://www.googleapis.com/auth/"
SCOPE_DESCRIPTIONS = {
    "openid": "Know who you are",
    "email": "See your address",
    "profile": "See your name and picture",
    f"{_AUTH}userinfo.email": "See your address",
    f"{_AUTH}userinfo.profile": "See your name and picture",
    "https://mail.google.com/": "Read, write, send and permanently delete all your mail",
    f"{_AUTH}gmail.modify": "Read, write and send mail",
    f"{_AUTH}gmail.readonly": "View your mail and settings",
    f"{_AUTH}gmail.metadata": "View metadata of your mail such as labels and headers, but not the body",
    f"{_AUTH}gmail.labels": "See and edit your labels",
    f"{_AUTH}gmail.insert": "Add mail to your mailbox",
    f"{_AUTH}gmail.compose": "Manage drafts and send mail",
    f"{_AUTH}gmail.send": "Send mail on your behalf",
    f"{_AUTH}gmail.settings.basic": "See and change your settings and filters",
    f"{_AUTH}gmail.settings.sharing": "Manage who may send on your behalf",
    f"{_AUTH}pubsub": "See and manage Pub/Sub topics and subscriptions",
}
# User agents of embedded browsers, which Google blocks.
_EMBEDDED = ("; wv)", "GSA/", "FBAN/", "FBAV/", "Instagram ")


class ConsentPageError(Exception):
    """An error shown as a page, because redirecting to the client is not safe."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(error)
        self.status, self.error, self.message = status, error, message


@dataclass(frozen=True, slots=True)
class _ConsentRequest:
    """A validated authorization request."""

    client: GoogleClient
    redirect_uri: str
    scopes: tuple[str, ...]
    state: str
    prompt: frozenset[str]
    login_hint: str
    offline: bool
    include_granted: bool
    nonce: str
    challenge: str
    challenge_method: str


async def authorize(google: GoogleContext, request: Request) -> Response:
    try:
        pairs = await read_parameters(request)
        consent_request = _parse_request(google, request, dict(pairs))
        if request.method == "POST":
            return _handle_decision(google, consent_request, pairs)
        return _show_page_or_redirect(google, consent_request, request.url.query)
    except ConsentPageError as error:
        return render_error(error)


async def read_parameters(request: Request) -> list[tuple[str, str]]:
    """Read the parameters of the query and then of the form, whose fields win."""
    query = request.url.query
    body = bytearray()
    if request.method == "POST":
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM:
                raise ConsentPageError(400, "invalid_request", "The form is too large.")
    try:
        form = bytes(body).decode()
        return [
            *parse_qsl(query, keep_blank_values=True, max_num_fields=100),
            *parse_qsl(form, keep_blank_values=True, max_num_fields=200),
        ]
    except ValueError as error:
        raise ConsentPageError(400, "invalid_request", "The request is malformed.") from error


def _parse_request(google: GoogleContext, request: Request, form: dict[str, str]) -> _ConsentRequest:
    if any(mark in request.headers.get("user-agent", "") for mark in _EMBEDDED):
        raise ConsentPageError(403, "disallowed_useragent", "This browser may not be used to sign in.")
    client = _find_client(google, form)
    uri = form.get("redirect_uri", "")
    if not uri:
        raise ConsentPageError(400, "invalid_request", "Missing required parameter: redirect_uri")
    if not is_redirect_allowed(client, uri):
        raise ConsentPageError(400, "redirect_uri_mismatch", f"{uri} is not registered for this client.")
    if form.get("response_type") != "code":
        word = (
            "Invalid response_type"
            if form.get("response_type")
            else "Required parameter is missing: response_type"
        )
        raise ConsentPageError(400, "invalid_request", word)
    challenge, method = (
        form.get("code_challenge", ""),
        form.get("code_challenge_method", "plain") or "plain",
    )
    if method not in {"S256", "plain"} or (challenge and not 43 <= len(challenge) <= 128):
        raise ConsentPageError(400, "invalid_request", "Invalid code_challenge or code_challenge_method")
    return _ConsentRequest(
        client=client,
        redirect_uri=uri,
        scopes=_check_scopes(form.get("scope", "")),
        state=form.get("state", ""),
        prompt=frozenset(form.get("prompt", "").split()),
        login_hint=form.get("login_hint", ""),
        offline=form.get("access_type") == "offline",
        include_granted=form.get("include_granted_scopes", "").lower() == "true",
        nonce=form.get("nonce", ""),
        challenge=challenge,
        challenge_method=method,
    )


def _find_client(google: GoogleContext, form: dict[str, str]) -> GoogleClient:
    if not form.get("client_id"):
        raise ConsentPageError(400, "invalid_request", "Missing required parameter: client_id")
    client = google.find_client(form["client_id"])
    if client is None:
        raise ConsentPageError(401, "invalid_client", "The OAuth client was not found.")
    if client.problem == "deleted":
        raise ConsentPageError(401, "deleted_client", "The OAuth client was deleted.")
    return client


def _check_scopes(text: str) -> tuple[str, ...]:
    asked = parse_scopes(text)
    if not asked:
        raise ConsentPageError(400, "invalid_request", "Missing required parameter: scope")
    unknown = [scope for scope in asked if scope not in SCOPE_DESCRIPTIONS and not _is_other_api_scope(scope)]
    if unknown:
        raise ConsentPageError(
            400, "invalid_scope", f"Some requested scopes were invalid: {', '.join(unknown)}"
        )
    return asked


def _is_other_api_scope(scope: str) -> bool:
    return scope.startswith(_AUTH) and not scope.startswith(f"{_AUTH}gmail.")


def _show_page_or_redirect(google: GoogleContext, consent_request: _ConsentRequest, query: str) -> Response:
    """Show the page, or redirect if there is nothing to ask or prompting is not allowed."""
    accounts = google.list_accounts()
    hinted = next(
        (account for account in accounts if consent_request.login_hint in {account.email, account.sub}), None
    )
    if google.options.auto_consent and accounts:
        return _allow_access(google, consent_request, hinted or accounts[0], consent_request.scopes)
    settled = hinted is not None and set(consent_request.scopes) <= google.grants.get_granted_scopes(
        hinted, consent_request.client.project
    )
    if hinted is not None and settled and not consent_request.prompt & {"consent", "select_account"}:
        return _allow_access(google, consent_request, hinted, consent_request.scopes)
    if "none" in consent_request.prompt:
        error = "login_required" if hinted is None else "consent_required"
        return _redirect_to_client(consent_request, {"error": error})
    return _render_page(consent_request, accounts, hinted, query)


def _handle_decision(
    google: GoogleContext, consent_request: _ConsentRequest, pairs: Sequence[tuple[str, str]]
) -> Response:
    form = dict(pairs)
    if form.get("decision") != "allow":
        return _redirect_to_client(consent_request, {"error": "access_denied"})
    account = google.find_account(form.get("account", ""))
    if account is None:
        raise ConsentPageError(400, "invalid_request", "Choose an account.")
    selected_scopes = {value for name, value in pairs if name == "granted"}
    # Users cannot deselect identity scopes, only the others.
    granted = tuple(
        scope for scope in consent_request.scopes if scope in selected_scopes or scope in IDENTITY_SCOPES
    )
    if not granted:
        return _redirect_to_client(consent_request, {"error": "access_denied"})
    duration = form.get("duration", "")
    if duration and not (
        duration.isascii() and duration.isdecimal() and 0 < int(duration[:12]) <= 366 * 86_400
    ):
        raise ConsentPageError(400, "invalid_request", "Choose a duration.")
    return _allow_access(google, consent_request, account, granted, int(duration) if duration else None)


def _allow_access(
    google: GoogleContext,
    consent_request: _ConsentRequest,
    account: GoogleAccount,
    granted: tuple[str, ...],
    seconds: int | None = None,
) -> Response:
    client = consent_request.client
    if google.grants.account_problems.get(account.sub) == "admin_policy_enforced":
        raise ConsentPageError(
            400, "admin_policy_enforced", "Your organization's administrator does not allow this app."
        )
    if client.problem == "org_internal" and account.email.partition("@")[2] != client.internal_domain:
        raise ConsentPageError(
            403, "org_internal", "This app is restricted to users within its organization."
        )
    scopes = list(granted)
    if consent_request.include_granted:
        scopes += sorted(google.grants.get_granted_scopes(account, client.project))
    authorized = AuthorizedRequest(
        client=client,
        redirect_uri=consent_request.redirect_uri,
        scopes=tuple(dict.fromkeys(scopes)),
        offline=consent_request.offline,
        consent_forced="consent" in consent_request.prompt,
        nonce=consent_request.nonce,
        challenge=consent_request.challenge,
        challenge_method=consent_request.challenge_method,
        grant_seconds=seconds,
    )
    code = google.grants.issue_code(account, authorized, google.now())
    response = {"code": code.value, "scope": " ".join(authorized.scopes), "authuser": "0"}
    domain = account.email.partition("@")[2]
    if domain not in {"gmail.com", "googlemail.com"}:
        response["hd"] = domain
    return _redirect_to_client(
        consent_request, response | {"prompt": " ".join(sorted(consent_request.prompt)) or "none"}
    )


def _redirect_to_client(consent_request: _ConsentRequest, response: dict[str, str]) -> Response:
    values = ({"state": consent_request.state} if consent_request.state else {}) | response
    glue = "&" if "?" in consent_request.redirect_uri else "?"
    return RedirectResponse(
        f"{consent_request.redirect_uri}{glue}{urlencode(values)}", 302, {"cache-control": "no-store"}
    )


_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;background:#f0f4f9;color:#1f1f1f;margin:0;
display:grid;place-items:center;min-height:100vh}main{background:#fff;border-radius:24px;padding:32px
40px;width:min(480px,92vw);
box-sizing:border-box}h1{font-size:24px;font-weight:400;margin:0 0 8px}
label{display:flex;gap:12px;padding:8px 0;
align-items:baseline}fieldset{border:0;border-top:1px solid #e0e3e7;margin:16px 0 0;padding:8px 0}
legend{color:#444746;font-size:14px;padding-right:8px}button{font:inherit;border-radius:20px;padding:8px 24px;
border:1px solid #747775;background:#fff;cursor:pointer}button[value=allow]{background:#0b57d0;color:#fff;
border-color:#0b57d0}nav{display:flex;gap:12px;justify-content:flex-end;margin-top:24px}small{color:#444746}
code{overflow-wrap:anywhere}
"""


_DURATION = """<fieldset><legend>Duration</legend><select name="duration" aria-label="Duration">
<option value="">Until I revoke it</option><option value="3600">1 hour</option>
<option value="604800">7 days</option>
</select></fieldset>"""


def _render_page(
    consent_request: _ConsentRequest,
    accounts: Sequence[GoogleAccount],
    hinted: GoogleAccount | None,
    query: str,
) -> Response:
    chosen = hinted or (accounts[0] if accounts else None)
    account_rows = "".join(render_account(account, chosen=account is chosen) for account in accounts)
    if not account_rows:
        account_rows = "<p>There is no Gmail account yet. Create a mailbox first.</p>"
    scope_rows = "".join(
        render_scope(scope) for scope in consent_request.scopes if scope not in IDENTITY_SCOPES
    )
    scope_fieldset = (
        f"<fieldset><legend>This app wants to</legend>{scope_rows}</fieldset>" if scope_rows else ""
    )
    body = f"""<h1>{html.escape(consent_request.client.name)} wants to access your account</h1>
<form method="post" action="?{html.escape(query)}">
<fieldset><legend>Choose an account</legend>{account_rows}</fieldset>
{scope_fieldset}{_DURATION}<nav><button name="decision" value="deny">Cancel</button>
<button name="decision" value="allow">Allow</button></nav></form>"""
    return render_html("Sign in with Google (simulated)", body)


def render_account(account: GoogleAccount, *, chosen: bool) -> str:
    email = html.escape(account.email)
    mark = " checked" if chosen else ""
    return (
        f'<label><input type="radio" name="account" value="{email}"{mark} required>'
        f"<span>{html.escape(account.name)}<br><small>{email}</small></span></label>"
    )


def render_scope(scope: str) -> str:
    description = html.escape(SCOPE_DESCRIPTIONS.get(scope, scope))
    return (
        f'<label><input type="checkbox" name="granted" value="{html.escape(scope)}" checked>'
        f"<span>{description}<br><small><code>{html.escape(scope)}</code></small></span></label>"
    )


def render_error(error: ConsentPageError) -> Response:
    body = (
        f"<h1>Access blocked</h1><p>{html.escape(error.message)}</p>"
        f"<p><small>Error {error.status}: {error.error}</small></p>"
    )
    return render_html("Access blocked (simulated)", body, error.status)


def render_html(title: str, body: str, status: int = 200) -> Response:
    page = (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style>"
        f"<main>{body}</main></html>"
    )
    return HTMLResponse(page, status, {"cache-control": "no-store"})
