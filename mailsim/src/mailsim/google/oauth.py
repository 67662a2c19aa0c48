"""Google's OAuth endpoints for programs: token, device codes, revoke, keys, discovery, userinfo, tokeninfo.

Also ID tokens, and the table of all OAuth routes. The consent page is in `consent_page`.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

import jwt
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mailsim.google import consent_page
from mailsim.google.clients import CONSUMER_DOMAINS, GoogleClient
from mailsim.google.context import GoogleContext
from mailsim.google.device_flow import (
    DEVICE_GRANT,
    exchange_device_code,
    show_device_page,
    start_sign_in,
)
from mailsim.google.grants import GoogleAccessToken, GoogleAccount, IssuedTokens, OAuthError
from mailsim.google.jwt_bearer import JWT_BEARER, exchange_assertion
from mailsim.google.service_accounts import is_service_account
from mailsim.google.signing_keys import compute_at_hash

ISSUER = "https://accounts.google.com"
MAX_FORM = 64 * 1024
ID_SECONDS = 3600
_FORM = "application/x-www-form-urlencoded"
_NO_STORE = {"cache-control": "no-cache, no-store, max-age=0, must-revalidate", "pragma": "no-cache"}
_KEYS_CACHE = {"cache-control": "public, max-age=21600, must-revalidate, no-transform"}
_EMAIL = frozenset({"email", "https://www.googleapis.com/auth/userinfo.email"})
_PROFILE = frozenset({"profile", "https://www.googleapis.com/auth/userinfo.profile"})
# The codes of a `token_error` fault and their responses: status, error, description, subtype.
FAULT_ERRORS: dict[str, tuple[int, str, str, str]] = {
    "invalid_grant": (400, "invalid_grant", "Token has been expired or revoked.", ""),
    "bad_request": (400, "invalid_grant", "Bad Request", ""),
    "invalid_rapt": (400, "invalid_grant", "reauth related error (invalid_rapt)", "invalid_rapt"),
    "admin_policy_enforced": (
        400,
        "admin_policy_enforced",
        "Access blocked by the administrator's policy.",
        "",
    ),
    "invalid_client": (401, "invalid_client", "Unauthorized", ""),
    "deleted_client": (401, "deleted_client", "The OAuth client was deleted.", ""),
    "internal_failure": (500, "internal_failure", "Backend Error", ""),
    "temporarily_unavailable": (503, "temporarily_unavailable", "Try again later.", ""),
}


def routes(google: GoogleContext) -> list[Route]:
    def route(path: str, function: "OAuthHandler", name: str, *methods: str) -> Route:
        async def respond(request: Request) -> Response:
            return await function(google, request)

        return Route(path, respond, methods=list(methods or ("GET",)), name=name)

    return [
        route("/o/oauth2/v2/auth", consent_page.authorize, "oauth.authorize", "GET", "POST"),
        route("/o/oauth2/auth", consent_page.authorize, "oauth.authorize", "GET", "POST"),
        route("/token", token, "oauth.token", "POST"),
        route("/oauth2/v4/token", token, "oauth.token", "POST"),
        route("/o/oauth2/token", token, "oauth.token", "POST"),
        route("/device/code", device_code, "oauth.device_code", "POST"),
        route("/o/oauth2/device/code", device_code, "oauth.device_code", "POST"),
        route("/device", show_device_page, "oauth.device", "GET", "POST"),
        route("/revoke", revoke, "oauth.revoke", "GET", "POST"),
        route("/o/oauth2/revoke", revoke, "oauth.revoke", "GET", "POST"),
        route("/oauth2/v1/certs", certificates, "oauth.certs"),
        route("/oauth2/v3/certs", jwks, "oauth.certs"),
        route("/.well-known/openid-configuration", discovery, "oauth.discovery"),
        route("/oauth2/v3/userinfo", userinfo, "oauth.userinfo", "GET", "POST"),
        route("/oauth2/v2/userinfo", userinfo_v2, "oauth.userinfo", "GET", "POST"),
        route("/oauth2/v1/userinfo", userinfo_v2, "oauth.userinfo", "GET", "POST"),
        route("/userinfo/v2/me", userinfo_v2, "oauth.userinfo"),
        route("/v1/userinfo", userinfo, "oauth.userinfo", "GET", "POST"),
        route("/tokeninfo", tokeninfo, "oauth.tokeninfo", "GET", "POST"),
        route("/oauth2/v3/tokeninfo", tokeninfo, "oauth.tokeninfo", "GET", "POST"),
        route("/oauth2/v2/tokeninfo", tokeninfo_v2, "oauth.tokeninfo", "GET", "POST"),
        route("/oauth2/v1/tokeninfo", tokeninfo_v2, "oauth.tokeninfo", "GET", "POST"),
    ]


OAuthHandler = Callable[[GoogleContext, Request], Awaitable[Response]]


async def token(google: GoogleContext, request: Request) -> Response:
    try:
        form = await read_form(request)
        if form.get("grant_type") == JWT_BEARER:
            client, issued = _issue_delegated_token(google, request, form)
        else:
            client = _authenticate_client(google, request, form)
            issued = _issue_tokens(google, request, client, form)
    except OAuthError as error:
        return json_response(error.body, error.status, _NO_STORE)
    return json_response(to_token_json(google, client, issued), 200, _NO_STORE)


async def device_code(google: GoogleContext, request: Request) -> Response:
    try:
        started = start_sign_in(google, await read_form(request), _get_base_url(request))
    except OAuthError as error:
        return json_response(error.body, error.status, _NO_STORE)
    return json_response(started, 200, _NO_STORE)


def _get_base_url(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"


def _issue_delegated_token(
    google: GoogleContext, request: Request, form: Mapping[str, str]
) -> tuple[GoogleClient, IssuedTokens]:
    assertion = form.get("assertion", "")
    if not assertion:
        raise OAuthError(400, "invalid_request", "Missing required parameter: assertion")
    token_url = f"{_get_base_url(request)}{request.url.path}"
    client, issued = exchange_assertion(google, assertion, token_url, google.now())
    request.scope["mailsim.exchange"].mailbox = issued.access.account.email
    _take_token_error(google, issued.access.account.email)
    return client, issued


def _issue_tokens(
    google: GoogleContext, request: Request, client: GoogleClient, form: Mapping[str, str]
) -> IssuedTokens:
    grant_type, now = form.get("grant_type", ""), google.now()
    if grant_type == "authorization_code":
        code = form.get("code", "")
        if not code:
            raise OAuthError(400, "invalid_request", "Missing required parameter: code")
        issued = google.grants.exchange_code(code, client, form, now)
    elif grant_type == "refresh_token":
        value = form.get("refresh_token", "")
        if not value:
            raise OAuthError(400, "invalid_request", "Missing required parameter: refresh_token")
        _apply_faults(google, request, value)
        issued = google.grants.refresh_access(value, client, form.get("scope", "").split(), now)
    elif grant_type == DEVICE_GRANT:
        issued = exchange_device_code(google, client, form, now)
    elif not grant_type:
        raise OAuthError(400, "invalid_request", "Required parameter is missing: grant_type")
    else:
        raise OAuthError(400, "unsupported_grant_type", f"Invalid grant_type: {grant_type[:100]}")
    request.scope["mailsim.exchange"].mailbox = issued.access.account.email
    return issued


def _apply_faults(google: GoogleContext, request: Request, refresh_token: str) -> None:
    """Apply the faults that are scheduled for refreshes of this account."""
    token = google.grants.refresh_tokens.get(refresh_token)
    if token is None:
        return
    email = token.account.email
    request.scope["mailsim.exchange"].mailbox = email
    if google.sim.faults.take("consent_revoked", email, "oauth.token", "gmail"):
        google.grants.end_grant(token.account.sub, token.project)
    _take_token_error(google, email)


def _take_token_error(google: GoogleContext, email: str) -> None:
    fault = google.sim.faults.take("token_error", email, "oauth.token", "gmail")
    if fault is not None:
        status, error, description, subtype = FAULT_ERRORS.get(fault.code, FAULT_ERRORS["invalid_grant"])
        raise OAuthError(fault.status or status, error, description, subtype)


def _authenticate_client(google: GoogleContext, request: Request, form: Mapping[str, str]) -> GoogleClient:
    client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        client_id, secret = _parse_basic_auth(value)
    if not client_id:
        raise OAuthError(400, "invalid_request", "Could not determine client ID from request.")
    client = google.find_client(client_id)
    if client is None:
        raise OAuthError(401, "invalid_client", "The OAuth client was not found.")
    if client.problem == "deleted":
        raise OAuthError(401, "deleted_client", "The OAuth client was deleted.")
    if not secret:
        raise OAuthError(400, "invalid_request", "client_secret is missing.")
    if secret != client.secret:
        raise OAuthError(401, "invalid_client", "Unauthorized")
    return client


def _parse_basic_auth(value: str) -> tuple[str, str]:
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise OAuthError(401, "invalid_client", "Unauthorized") from error
    return unquote_plus(user), unquote_plus(password)


def to_token_json(google: GoogleContext, client: GoogleClient, issued: IssuedTokens) -> dict[str, Any]:
    access, refresh = issued.access, issued.refresh
    body: dict[str, Any] = {
        "access_token": access.value,
        "expires_in": int(access.expires - access.issued),
        "scope": " ".join(access.requested_scopes),
        "token_type": "Bearer",
    }
    if refresh is not None:
        body["refresh_token"] = refresh.value
        if refresh.expiry_announced and refresh.expires is not None:
            body["refresh_token_expires_in"] = int(refresh.expires - refresh.issued) - 1
    if "openid" in access.scopes:
        body["id_token"] = make_id_token(google, client, access, issued.nonce)
    return body


def make_id_token(google: GoogleContext, client: GoogleClient, access: GoogleAccessToken, nonce: str) -> str:
    now = int(google.now())
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "azp": client.id,
        "aud": client.id,
        **_make_user_claims(access.account, access.scopes),
        "at_hash": compute_at_hash(access.value),
        "iat": now,
        "exp": now + ID_SECONDS,
    }
    if nonce:
        claims["nonce"] = nonce
    return google.keys.current.sign(claims)


def _make_user_claims(account: GoogleAccount, scopes: frozenset[str]) -> dict[str, Any]:
    domain = account.email.partition("@")[2]
    claims: dict[str, Any] = {"sub": account.sub}
    if domain not in CONSUMER_DOMAINS and not is_service_account(account.email):
        claims["hd"] = domain
    if scopes & _EMAIL:
        claims |= {"email": account.email, "email_verified": True}
    if scopes & _PROFILE:
        given, _, family = account.name.partition(" ")
        claims |= {"name": account.name, "picture": "https://lh3.example/photo.jpg", "given_name": given}
        if family:
            claims["family_name"] = family
    return claims


async def revoke(google: GoogleContext, request: Request) -> Response:
    try:
        form = await read_form(request) if request.method == "POST" else {}
        google.grants.revoke_token(request.query_params.get("token", "") or form.get("token", ""))
    except OAuthError as error:
        return json_response(error.body, error.status, _NO_STORE)
    return json_response({}, 200, _NO_STORE)


async def certificates(google: GoogleContext, _request: Request) -> Response:
    return json_response(google.keys.list_certificates(), 200, _KEYS_CACHE)


async def jwks(google: GoogleContext, _request: Request) -> Response:
    return json_response(google.keys.to_jwks(), 200, _KEYS_CACHE)


async def discovery(_realm: GoogleContext, request: Request) -> Response:
    """Return the discovery document: Google's own issuer, endpoints at the host of the request."""
    base = _get_base_url(request)
    body = {
        "issuer": ISSUER,
        "authorization_endpoint": f"{base}/o/oauth2/v2/auth",
        "device_authorization_endpoint": f"{base}/device/code",
        "token_endpoint": f"{base}/token",
        "userinfo_endpoint": f"{base}/v1/userinfo",
        "revocation_endpoint": f"{base}/revoke",
        "jwks_uri": f"{base}/oauth2/v3/certs",
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "scopes_supported": ["openid", "email", "profile"],
        "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        "claims_supported": [
            "aud",
            "email",
            "email_verified",
            "exp",
            "family_name",
            "given_name",
            "iat",
            "iss",
            "name",
            "picture",
            "sub",
        ],
        "code_challenge_methods_supported": ["plain", "S256"],
        "grant_types_supported": ["authorization_code", "refresh_token", DEVICE_GRANT, JWT_BEARER],
    }
    return json_response(body, 200)


async def userinfo(google: GoogleContext, request: Request) -> Response:
    access = _find_bearer_token(google, request)
    if access is None:
        return _make_unauthorized_response()
    return json_response(_make_user_claims(access.account, access.scopes), 200, _NO_STORE)


async def userinfo_v2(google: GoogleContext, request: Request) -> Response:
    """Return the older format, with `id` and `verified_email`."""
    access = _find_bearer_token(google, request)
    if access is None:
        return _make_unauthorized_response()
    claims = _make_user_claims(access.account, access.scopes)
    claims["id"] = claims.pop("sub")
    if "email_verified" in claims:
        claims["verified_email"] = claims.pop("email_verified")
    return json_response(claims, 200, _NO_STORE)


def _find_bearer_token(google: GoogleContext, request: Request) -> GoogleAccessToken | None:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        value = request.query_params.get("access_token", "")
    return google.grants.find_access_token(value.strip(), google.now())


def _make_unauthorized_response() -> Response:
    headers = {"www-authenticate": 'Bearer realm="https://accounts.google.com/", error="invalid_token"'}
    return json_response(
        {"error": "invalid_request", "error_description": "Invalid Credentials"}, 401, headers
    )


async def tokeninfo(google: GoogleContext, request: Request) -> Response:
    try:
        return json_response(await _describe_token(google, request), 200)
    except OAuthError as error:
        return json_response(error.body, error.status)


async def tokeninfo_v2(google: GoogleContext, request: Request) -> Response:
    """Return the older format, with `issued_to`, `user_id` and numbers."""
    try:
        info = await _describe_token(google, request)
    except OAuthError as error:
        return json_response(error.body, error.status)
    body: dict[str, Any] = {
        "issued_to": info["azp"],
        "audience": info["aud"],
        "user_id": info["sub"],
        "expires_in": int(info["exp"]) - int(google.now()),
    }
    body |= {name: info[name] for name in ("scope", "email") if name in info}
    if "email_verified" in info:
        body["verified_email"] = info["email_verified"] == "true"
    return json_response(body, 200)


async def _describe_token(google: GoogleContext, request: Request) -> dict[str, str]:
    """Describe the ID token or access token of a request."""
    form = await read_form(request) if request.method == "POST" else {}
    fields = {**form, **request.query_params}
    now = google.now()
    if id_token := fields.get("id_token"):
        return _describe_id_token(google, id_token, now)
    given = fields.get("access_token", "")
    access = google.grants.find_access_token(given, now) if given else _find_bearer_token(google, request)
    if access is None:
        raise OAuthError(400, "invalid_token", "Invalid Value")
    left = int(access.expires - now)
    body = {
        "azp": access.client_id,
        "aud": access.client_id,
        "sub": access.account.sub,
        "scope": " ".join(access.requested_scopes),
        "exp": str(int(access.expires)),
        "expires_in": str(left),
        "access_type": "offline" if access.refresh else "online",
    }
    if access.scopes & _EMAIL:
        body |= {"email": access.account.email, "email_verified": "true"}
    return body


def _describe_id_token(google: GoogleContext, id_token: str, now: float) -> dict[str, str]:
    """Return the claims as strings if a published key signed them and they have not expired."""
    for key in (google.keys.current, google.keys.previous):
        try:
            claims = jwt.decode(
                id_token,
                key.private.public_key(),
                algorithms=["RS256"],
                options={"verify_aud": False, "verify_exp": False, "verify_iat": False},
            )
        except jwt.PyJWTError:
            continue
        if claims.get("exp", 0) > now:
            texts = {
                name: str(value).lower() if isinstance(value, bool) else str(value)
                for name, value in claims.items()
            }
            return texts | {"alg": "RS256", "kid": key.kid, "typ": "JWT"}
    raise OAuthError(400, "invalid_token", "Invalid Value")


async def read_form(request: Request) -> dict[str, str]:
    """Read the fields of a form; the last of a repeated field wins.

    Google also accepts JSON.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise OAuthError(400, "invalid_request", "Request is too large.")
    kind = request.headers.get("content-type", _FORM).partition(";")[0].strip().lower()
    if kind == "application/json":
        return _parse_json_form(bytes(body))
    if kind not in {_FORM, ""}:
        raise OAuthError(400, "invalid_request", f"Bad content type. Must be {_FORM}.")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise OAuthError(400, "invalid_request", "Malformed form.") from error
    return dict(pairs)


def _parse_json_form(body: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(body, type=dict[str, str])
    except (msgspec.DecodeError, RecursionError) as error:
        raise OAuthError(400, "invalid_request", "Malformed JSON.") from error


def json_response(body: Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None) -> Response:
    content = msgspec.json.format(msgspec.json.encode(body), indent=2)
    return Response(content, status, headers, media_type="application/json; charset=utf-8")
