"""The authorization endpoint: the page on which a person chooses an account, ticks scopes, and allows or
refuses.

It works in a browser without scripts. A program can post the same form: the fields are those of the
request, plus `account`, `duration` (seconds; empty: until revoked), `granted` (once for each ticked scope)
and `decision` (`allow` or `deny`).
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mailsim.google.clients import GoogleClient, redirect_allowed
from mailsim.google.context import GoogleContext
from mailsim.google.grants import IDENTITY_SCOPES, AuthorizedRequest, GoogleAccount

MAX_FORM = 64 * 1024
_AUTH = "https://www.googleapis.com/auth/"
SCOPES = {
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
_LONG = {"email": f"{_AUTH}userinfo.email", "profile": f"{_AUTH}userinfo.profile"}
# Browsers that live inside another program.
_EMBEDDED = ("; wv)", "GSA/", "FBAN/", "FBAV/", "Instagram ")


class _ConsentPageError(Exception):
    """A page that is shown instead of a redirect: the client cannot be told."""

    def __init__(self, status: int, error: str, words: str) -> None:
        super().__init__(error)
        self.status, self.error, self.words = status, error, words


@dataclass(frozen=True, slots=True)
class _ConsentRequest:
    """A checked authorization request."""

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


async def authorize(realm: GoogleContext, request: Request) -> Response:
    try:
        pairs = await _pairs(request)
        wish = _wish(realm, request, dict(pairs))
        if request.method == "POST":
            return _decided(realm, wish, pairs)
        return _first_look(realm, wish, request.url.query)
    except _ConsentPageError as stopped:
        return _error_page(stopped)


async def _pairs(request: Request) -> list[tuple[str, str]]:
    """The request's parameters; in a form its fields come after those of the address and win."""
    query = request.url.query
    body = bytearray()
    if request.method == "POST":
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM:
                raise _ConsentPageError(400, "invalid_request", "The form is too large.")
    try:
        form = bytes(body).decode()
        return [
            *parse_qsl(query, keep_blank_values=True, max_num_fields=100),
            *parse_qsl(form, keep_blank_values=True, max_num_fields=200),
        ]
    except ValueError as error:
        raise _ConsentPageError(400, "invalid_request", "The request is malformed.") from error


def _wish(realm: GoogleContext, request: Request, given: dict[str, str]) -> _ConsentRequest:
    if any(mark in request.headers.get("user-agent", "") for mark in _EMBEDDED):
        raise _ConsentPageError(403, "disallowed_useragent", "This browser may not be used to sign in.")
    client = _client(realm, given)
    uri = given.get("redirect_uri", "")
    if not uri:
        raise _ConsentPageError(400, "invalid_request", "Missing required parameter: redirect_uri")
    if not redirect_allowed(client, uri):
        raise _ConsentPageError(400, "redirect_uri_mismatch", f"{uri} is not registered for this client.")
    if given.get("response_type") != "code":
        word = (
            "Invalid response_type"
            if given.get("response_type")
            else "Required parameter is missing: response_type"
        )
        raise _ConsentPageError(400, "invalid_request", word)
    challenge, method = (
        given.get("code_challenge", ""),
        given.get("code_challenge_method", "plain") or "plain",
    )
    if method not in {"S256", "plain"} or (challenge and not 43 <= len(challenge) <= 128):
        raise _ConsentPageError(400, "invalid_request", "Invalid code_challenge or code_challenge_method")
    return _ConsentRequest(
        client=client,
        redirect_uri=uri,
        scopes=_scopes(given.get("scope", "")),
        state=given.get("state", ""),
        prompt=frozenset(given.get("prompt", "").split()),
        login_hint=given.get("login_hint", ""),
        offline=given.get("access_type") == "offline",
        include_granted=given.get("include_granted_scopes", "").lower() == "true",
        nonce=given.get("nonce", ""),
        challenge=challenge,
        challenge_method=method,
    )


def _client(realm: GoogleContext, given: dict[str, str]) -> GoogleClient:
    if not given.get("client_id"):
        raise _ConsentPageError(400, "invalid_request", "Missing required parameter: client_id")
    client = realm.client(given["client_id"])
    if client is None:
        raise _ConsentPageError(401, "invalid_client", "The OAuth client was not found.")
    if client.trouble == "deleted":
        raise _ConsentPageError(401, "deleted_client", "The OAuth client was deleted.")
    return client


def _scopes(text: str) -> tuple[str, ...]:
    asked = tuple(dict.fromkeys(_LONG.get(scope, scope) for scope in text.split()))
    if not asked:
        raise _ConsentPageError(400, "invalid_request", "Missing required parameter: scope")
    unknown = [scope for scope in asked if scope not in SCOPES and not _of_another_api(scope)]
    if unknown:
        raise _ConsentPageError(
            400, "invalid_scope", f"Some requested scopes were invalid: {', '.join(unknown)}"
        )
    return asked


def _of_another_api(scope: str) -> bool:
    return scope.startswith(_AUTH) and not scope.startswith(f"{_AUTH}gmail.")


def _first_look(realm: GoogleContext, wish: _ConsentRequest, query: str) -> Response:
    """The page; or at once the redirect, when nothing is left to ask or nothing may be asked."""
    accounts = realm.accounts()
    hinted = next((each for each in accounts if wish.login_hint in {each.email, each.sub}), None)
    if realm.options.auto_consent and accounts:
        return _allowed(realm, wish, hinted or accounts[0], wish.scopes)
    settled = hinted is not None and set(wish.scopes) <= realm.grants.granted(hinted, wish.client.project)
    if hinted is not None and settled and not wish.prompt & {"consent", "select_account"}:
        return _allowed(realm, wish, hinted, wish.scopes)
    if "none" in wish.prompt:
        error = "login_required" if hinted is None else "consent_required"
        return _redirect(wish, {"error": error})
    return _page(wish, accounts, hinted, query)


def _decided(realm: GoogleContext, wish: _ConsentRequest, pairs: Sequence[tuple[str, str]]) -> Response:
    given = dict(pairs)
    if given.get("decision") != "allow":
        return _redirect(wish, {"error": "access_denied"})
    account = realm.account(given.get("account", ""))
    if account is None:
        raise _ConsentPageError(400, "invalid_request", "Choose an account.")
    ticked = {value for name, value in pairs if name == "granted"}
    # Who someone is cannot be unticked; mail scopes can, one by one.
    granted = tuple(scope for scope in wish.scopes if scope in ticked or scope in IDENTITY_SCOPES)
    if not granted:
        return _redirect(wish, {"error": "access_denied"})
    duration = given.get("duration", "")
    if duration and not (
        duration.isascii() and duration.isdecimal() and 0 < int(duration[:12]) <= 366 * 86_400
    ):
        raise _ConsentPageError(400, "invalid_request", "Choose for how long.")
    return _allowed(realm, wish, account, granted, int(duration) if duration else None)


def _allowed(
    realm: GoogleContext,
    wish: _ConsentRequest,
    account: GoogleAccount,
    granted: tuple[str, ...],
    seconds: int | None = None,
) -> Response:
    client = wish.client
    if realm.grants.trouble.get(account.sub) == "admin_policy_enforced":
        raise _ConsentPageError(
            400, "admin_policy_enforced", "Your organization's administrator does not allow this app."
        )
    if client.trouble == "org_internal" and account.email.partition("@")[2] != client.internal_domain:
        raise _ConsentPageError(
            403, "org_internal", "This app is restricted to users within its organization."
        )
    scopes = list(granted)
    if wish.include_granted:
        scopes += sorted(realm.grants.granted(account, client.project))
    ask = AuthorizedRequest(
        client=client,
        redirect_uri=wish.redirect_uri,
        scopes=tuple(dict.fromkeys(scopes)),
        offline=wish.offline,
        consented="consent" in wish.prompt,
        nonce=wish.nonce,
        challenge=wish.challenge,
        challenge_method=wish.challenge_method,
        grant_seconds=seconds,
    )
    code = realm.grants.issue_code(account, ask, realm.now())
    answer = {"code": code.value, "scope": " ".join(ask.scopes), "authuser": "0"}
    domain = account.email.partition("@")[2]
    if domain not in {"gmail.com", "googlemail.com"}:
        answer["hd"] = domain
    return _redirect(wish, answer | {"prompt": " ".join(sorted(wish.prompt)) or "none"})


def _redirect(wish: _ConsentRequest, answer: dict[str, str]) -> Response:
    values = ({"state": wish.state} if wish.state else {}) | answer
    glue = "&" if "?" in wish.redirect_uri else "?"
    return RedirectResponse(
        f"{wish.redirect_uri}{glue}{urlencode(values)}", 302, {"cache-control": "no-store"}
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


_DURATION = """<fieldset><legend>For how long</legend><select name="duration" aria-label="For how long">
<option value="">Until I revoke it</option><option value="3600">1 hour</option>
<option value="604800">7 days</option>
</select></fieldset>"""


def _page(
    wish: _ConsentRequest, accounts: Sequence[GoogleAccount], hinted: GoogleAccount | None, query: str
) -> Response:
    chosen = hinted or (accounts[0] if accounts else None)
    people = "".join(_choice(account, chosen=account is chosen) for account in accounts)
    if not people:
        people = "<p>There is no Gmail account yet. Create a mailbox first.</p>"
    ticks = "".join(_tick(scope) for scope in wish.scopes if scope not in IDENTITY_SCOPES)
    shown = f"<fieldset><legend>It asks to</legend>{ticks}</fieldset>" if ticks else ""
    body = f"""<h1>{html.escape(wish.client.name)} wants to access your account</h1>
<form method="post" action="?{html.escape(query)}">
<fieldset><legend>Choose an account</legend>{people}</fieldset>
{shown}{_DURATION}<nav><button name="decision" value="deny">Cancel</button>
<button name="decision" value="allow">Allow</button></nav></form>"""
    return _html("Sign in with Google (simulated)", body)


def _choice(account: GoogleAccount, *, chosen: bool) -> str:
    email = html.escape(account.email)
    mark = " checked" if chosen else ""
    return (
        f'<label><input type="radio" name="account" value="{email}"{mark} required>'
        f"<span>{html.escape(account.name)}<br><small>{email}</small></span></label>"
    )


def _tick(scope: str) -> str:
    words = html.escape(SCOPES.get(scope, scope))
    return (
        f'<label><input type="checkbox" name="granted" value="{html.escape(scope)}" checked>'
        f"<span>{words}<br><small><code>{html.escape(scope)}</code></small></span></label>"
    )


def _error_page(stopped: _ConsentPageError) -> Response:
    body = (
        f"<h1>Access blocked</h1><p>{html.escape(stopped.words)}</p>"
        f"<p><small>Error {stopped.status}: {stopped.error}</small></p>"
    )
    return _html("Access blocked (simulated)", body, stopped.status)


def _html(title: str, body: str, status: int = 200) -> Response:
    page = (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style>"
        f"<main>{body}</main></html>"
    )
    return HTMLResponse(page, status, {"cache-control": "no-store"})
