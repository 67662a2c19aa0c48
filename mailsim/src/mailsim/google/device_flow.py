"""Google's sign-in for devices without a browser: device codes, their exchange, and the page of the user.

It follows Google's guide "OAuth 2.0 for TV and Limited-Input Device Applications". Only the scopes that the
guide lists are allowed, so a device cannot ask for mail.
"""

import html
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from mailsim.device_codes import DeviceSignIn
from mailsim.google.clients import GoogleClient
from mailsim.google.consent_page import (
    ConsentPageError,
    read_parameters,
    render_account,
    render_error,
    render_html,
    render_scope,
)
from mailsim.google.context import GoogleContext
from mailsim.google.grants import (
    IDENTITY_SCOPES,
    AuthorizedRequest,
    IssuedTokens,
    OAuthError,
    parse_scopes,
)

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
DEVICE_SECONDS = 1800
INTERVAL = 5
_AUTH = "https://www.googleapis.com/auth/"
_ALLOWED = IDENTITY_SCOPES | {
    f"{_AUTH}drive.appdata",
    f"{_AUTH}drive.file",
    f"{_AUTH}youtube",
    f"{_AUTH}youtube.readonly",
}


def start_sign_in(google: GoogleContext, form: Mapping[str, str], base_url: str) -> dict[str, str | int]:
    """Return the response of the device endpoint. With `auto_consent`, the first account approves at once."""
    client_id, scopes = form.get("client_id", ""), parse_scopes(form.get("scope", ""))
    if not client_id:
        raise OAuthError(400, "invalid_request", "Missing required parameter: client_id")
    client = google.find_client(client_id)
    if client is None or client.problem == "deleted":
        raise OAuthError(401, "invalid_client", "The OAuth client was not found.")
    if not scopes:
        raise OAuthError(400, "invalid_request", "Missing required parameter: scope")
    refused = [scope for scope in scopes if scope not in _ALLOWED]
    if refused:
        raise OAuthError(400, "invalid_scope", f"Invalid device flow scope: {refused[0][:200]}")
    sign_in = google.sim.device_codes.start(
        "gmail", client_id, scopes, seconds=DEVICE_SECONDS, interval=INTERVAL
    )
    if google.options.auto_consent and (accounts := google.list_accounts()):
        sign_in.address = accounts[0].email
    return {
        "device_code": sign_in.device_code,
        "user_code": sign_in.user_code,
        "expires_in": DEVICE_SECONDS,
        "interval": INTERVAL,
        "verification_url": f"{base_url}/device",
    }


def exchange_device_code(
    google: GoogleContext, client: GoogleClient, form: Mapping[str, str], now: float
) -> IssuedTokens:
    """Issue the tokens of an approved sign-in, or raise the error for the device."""
    device_code = form.get("device_code", "")
    if not device_code:
        raise OAuthError(400, "invalid_request", "Missing required parameter: device_code")
    sign_in = google.sim.device_codes.find_polled("gmail", device_code, client.id)
    if sign_in is None:
        raise OAuthError(400, "invalid_grant", "Bad Request")
    if now >= sign_in.expires:
        raise OAuthError(400, "expired_token", "Bad Request")
    if sign_in.declined:
        raise OAuthError(403, "access_denied", "Forbidden")
    account = google.find_account(sign_in.address)
    if account is None:
        if sign_in.record_poll(now):
            raise OAuthError(403, "slow_down", "Forbidden")
        raise OAuthError(428, "authorization_pending", "Precondition Required")
    google.sim.device_codes.finish(sign_in)
    authorized = AuthorizedRequest(client, "", sign_in.scopes, offline=True, consent_forced=True)
    return google.grants.grant_tokens(account, authorized, now)


async def show_device_page(google: GoogleContext, request: Request) -> Response:
    """Let the user enter the code, then choose an account and decide.

    A program posts `user_code`, `account` and `decision` (`allow` or `deny`) at once.
    """
    try:
        form = dict(await read_parameters(request))
    except ConsentPageError as error:
        return render_error(error)
    user_code, decision = form.get("user_code", ""), form.get("decision", "")
    sign_in = google.sim.device_codes.find_open(user_code, "gmail") if user_code else None
    if sign_in is None:
        return _render_code_form(user_code)
    account = google.find_account(form.get("account", ""))
    if decision == "deny":
        sign_in.declined = True
        return render_html("Access denied (simulated)", "<h1>You denied access</h1>")
    if decision == "allow" and account is not None:
        sign_in.address = account.email
        return render_html(
            "Device connected (simulated)", "<h1>Success</h1><p>You can return to your device.</p>"
        )
    return _render_decision(google, sign_in)


def _render_code_form(user_code: str) -> Response:
    problem = "<p role=alert>This code is unknown, used or expired.</p>" if user_code else ""
    body = (
        f"<h1>Connect a device</h1>{problem}<p>Enter the code displayed on your device</p>"
        f'<form method="post"><input name="user_code" aria-label="Code" value="{html.escape(user_code)}" '
        "required autofocus><nav><button>Continue</button></nav></form>"
    )
    return render_html("Connect a device (simulated)", body, 400 if user_code else 200)


def _render_decision(google: GoogleContext, sign_in: DeviceSignIn) -> Response:
    client = google.find_client(sign_in.client_id)
    name = client.name if client else sign_in.client_id
    accounts = google.list_accounts()
    rows = "".join(render_account(account, chosen=account is accounts[0]) for account in accounts)
    scopes = "".join(render_scope(scope) for scope in sign_in.scopes if scope not in IDENTITY_SCOPES)
    body = f"""<h1>{html.escape(name)} wants to access your account</h1>
<form method="post"><input type="hidden" name="user_code" value="{html.escape(sign_in.user_code)}">
<fieldset><legend>Choose an account</legend>
{rows or "<p>There is no Gmail account yet. Create a mailbox first.</p>"}</fieldset>{scopes}
<nav><button name="decision" value="deny" formnovalidate>Cancel</button>
<button name="decision" value="allow">Allow</button></nav></form>"""
    return render_html("Connect a device (simulated)", body)
