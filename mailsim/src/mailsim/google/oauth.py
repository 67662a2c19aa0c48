"""The endpoints of sign-in that programs call: token, revoke, keys, discovery, userinfo, tokeninfo."""

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
from mailsim.google.clients import GoogleClient
from mailsim.google.context import GoogleContext
from mailsim.google.grants import GoogleAccessToken, GoogleAccount, IssuedTokens, OAuthError
from mailsim.google.signing_keys import at_hash

ISSUER = "https://accounts.google.com"
MAX_FORM = 64 * 1024
ID_SECONDS = 3600
_FORM = "application/x-www-form-urlencoded"
_NO_STORE = {"cache-control": "no-cache, no-store, max-age=0, must-revalidate", "pragma": "no-cache"}
_KEYS_CACHE = {"cache-control": "public, max-age=21600, must-revalidate, no-transform"}
_EMAIL = frozenset({"email", "https://www.googleapis.com/auth/userinfo.email"})
_PROFILE = frozenset({"profile", "https://www.googleapis.com/auth/userinfo.profile"})
# What a `token_error` fault may name, as the endpoint says it.
ERRORS: dict[str, tuple[int, str, str, str]] = {
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


def routes(realm: GoogleContext) -> list[Route]:
    def route(path: str, function: "Endpoint", name: str, *methods: str) -> Route:
        async def answer(request: Request) -> Response:
            return await function(realm, request)

        return Route(path, answer, methods=list(methods or ("GET",)), name=name)

    return [
        route("/o/oauth2/v2/auth", consent_page.authorize, "oauth.authorize", "GET", "POST"),
        route("/o/oauth2/auth", consent_page.authorize, "oauth.authorize", "GET", "POST"),
        route("/token", token, "oauth.token", "POST"),
        route("/oauth2/v4/token", token, "oauth.token", "POST"),
        route("/o/oauth2/token", token, "oauth.token", "POST"),
        route("/revoke", revoke, "oauth.revoke", "GET", "POST"),
        route("/o/oauth2/revoke", revoke, "oauth.revoke", "GET", "POST"),
        route("/oauth2/v1/certs", certificates, "oauth.certs"),
        route("/oauth2/v3/certs", jwks, "oauth.certs"),
        route("/.well-known/openid-configuration", discovery, "oauth.discovery"),
        route("/oauth2/v3/userinfo", userinfo, "oauth.userinfo", "GET", "POST"),
        route("/oauth2/v2/userinfo", userinfo_v2, "oauth.userinfo", "GET", "POST"),
        route("/oauth2/v1/userinfo", userinfo_v2, "oauth.userinfo", "GET", "POST"),
        route("/v1/userinfo", userinfo, "oauth.userinfo", "GET", "POST"),
        route("/tokeninfo", tokeninfo, "oauth.tokeninfo", "GET", "POST"),
        route("/oauth2/v3/tokeninfo", tokeninfo, "oauth.tokeninfo", "GET", "POST"),
    ]


Endpoint = Callable[[GoogleContext, Request], Awaitable[Response]]


async def token(realm: GoogleContext, request: Request) -> Response:
    try:
        form = await read_form(request)
        client = _authenticated(realm, request, form)
        issued = _issued(realm, request, client, form)
    except OAuthError as refused:
        return answer_json(refused.body, refused.status, _NO_STORE)
    return answer_json(token_body(realm, client, issued), 200, _NO_STORE)


def _issued(
    realm: GoogleContext, request: Request, client: GoogleClient, form: Mapping[str, str]
) -> IssuedTokens:
    grant_type, now = form.get("grant_type", ""), realm.now()
    if grant_type == "authorization_code":
        code = form.get("code", "")
        if not code:
            raise OAuthError(400, "invalid_request", "Missing required parameter: code")
        issued = realm.grants.exchange(code, client, form, now)
    elif grant_type == "refresh_token":
        value = form.get("refresh_token", "")
        if not value:
            raise OAuthError(400, "invalid_request", "Missing required parameter: refresh_token")
        _faults(realm, request, value)
        issued = realm.grants.refresh(value, client, form.get("scope", "").split(), now)
    elif not grant_type:
        raise OAuthError(400, "invalid_request", "Required parameter is missing: grant_type")
    else:
        raise OAuthError(400, "unsupported_grant_type", f"Invalid grant_type: {grant_type[:100]}")
    request.scope["mailsim.exchange"].mailbox = issued.access.account.email
    return issued


def _faults(realm: GoogleContext, request: Request, refresh_token: str) -> None:
    """What was ordered to happen to this account's refresh."""
    known = realm.grants.refreshes.get(refresh_token)
    if known is None:
        return
    email = known.account.email
    request.scope["mailsim.exchange"].mailbox = email
    if realm.sim.faults.take("consent_revoked", email, "oauth.token", "gmail"):
        realm.grants.end_grant(known.account.sub, known.project)
    fault = realm.sim.faults.take("token_error", email, "oauth.token", "gmail")
    if fault is not None:
        status, error, description, subtype = ERRORS.get(fault.code, ERRORS["invalid_grant"])
        raise OAuthError(fault.status or status, error, description, subtype)


def _authenticated(realm: GoogleContext, request: Request, form: Mapping[str, str]) -> GoogleClient:
    client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        client_id, secret = _basic(value)
    if not client_id:
        raise OAuthError(400, "invalid_request", "Could not determine client ID from request.")
    client = realm.client(client_id)
    if client is None:
        raise OAuthError(401, "invalid_client", "The OAuth client was not found.")
    if client.trouble == "deleted":
        raise OAuthError(401, "deleted_client", "The OAuth client was deleted.")
    if not secret:
        raise OAuthError(400, "invalid_request", "client_secret is missing.")
    if secret != client.secret:
        raise OAuthError(401, "invalid_client", "Unauthorized")
    return client


def _basic(value: str) -> tuple[str, str]:
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise OAuthError(401, "invalid_client", "Unauthorized") from error
    return unquote_plus(user), unquote_plus(password)


def token_body(realm: GoogleContext, client: GoogleClient, issued: IssuedTokens) -> dict[str, Any]:
    access, refresh = issued.access, issued.refresh
    body: dict[str, Any] = {
        "access_token": access.value,
        "expires_in": int(access.expires - access.issued),
        "scope": " ".join(access.asked),
        "token_type": "Bearer",
    }
    if refresh is not None:
        body["refresh_token"] = refresh.value
        if refresh.announced and refresh.expires is not None:
            body["refresh_token_expires_in"] = int(refresh.expires - refresh.issued) - 1
    if "openid" in access.scopes:
        body["id_token"] = id_token(realm, client, access, issued.nonce)
    return body


def id_token(realm: GoogleContext, client: GoogleClient, access: GoogleAccessToken, nonce: str) -> str:
    now = int(realm.now())
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "azp": client.id,
        "aud": client.id,
        **_person(access.account, access.scopes),
        "at_hash": at_hash(access.value),
        "iat": now,
        "exp": now + ID_SECONDS,
    }
    if nonce:
        claims["nonce"] = nonce
    return realm.keys.current.sign(claims)


def _person(account: GoogleAccount, scopes: frozenset[str]) -> dict[str, Any]:
    domain = account.email.partition("@")[2]
    claims: dict[str, Any] = {"sub": account.sub}
    if domain not in {"gmail.com", "googlemail.com"}:
        claims["hd"] = domain
    if scopes & _EMAIL:
        claims |= {"email": account.email, "email_verified": True}
    if scopes & _PROFILE:
        given, _, family = account.name.partition(" ")
        claims |= {"name": account.name, "picture": "https://lh3.example/photo.jpg", "given_name": given}
        if family:
            claims["family_name"] = family
    return claims


async def revoke(realm: GoogleContext, request: Request) -> Response:
    try:
        form = await read_form(request) if request.method == "POST" else {}
        realm.grants.revoke(request.query_params.get("token", "") or form.get("token", ""))
    except OAuthError as refused:
        return answer_json(refused.body, refused.status, _NO_STORE)
    return answer_json({}, 200, _NO_STORE)


async def certificates(realm: GoogleContext, _request: Request) -> Response:
    return answer_json(realm.keys.certificates(), 200, _KEYS_CACHE)


async def jwks(realm: GoogleContext, _request: Request) -> Response:
    return answer_json(realm.keys.jwks(), 200, _KEYS_CACHE)


async def discovery(_realm: GoogleContext, request: Request) -> Response:
    """The issuer is Google's own; the endpoints are where this request came in."""
    base = f"{request.url.scheme}://{request.url.netloc}"
    body = {
        "issuer": ISSUER,
        "authorization_endpoint": f"{base}/o/oauth2/v2/auth",
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
        "grant_types_supported": ["authorization_code", "refresh_token"],
    }
    return answer_json(body, 200)


async def userinfo(realm: GoogleContext, request: Request) -> Response:
    access = _bearer(realm, request)
    if access is None:
        return _unauthorized()
    return answer_json(_person(access.account, access.scopes), 200, _NO_STORE)


async def userinfo_v2(realm: GoogleContext, request: Request) -> Response:
    """The older shape: `id` and `verified_email`."""
    access = _bearer(realm, request)
    if access is None:
        return _unauthorized()
    claims = _person(access.account, access.scopes)
    claims["id"] = claims.pop("sub")
    if "email_verified" in claims:
        claims["verified_email"] = claims.pop("email_verified")
    return answer_json(claims, 200, _NO_STORE)


def _bearer(realm: GoogleContext, request: Request) -> GoogleAccessToken | None:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        value = request.query_params.get("access_token", "")
    return realm.grants.access(value.strip(), realm.now())


def _unauthorized() -> Response:
    headers = {"www-authenticate": 'Bearer realm="https://accounts.google.com/", error="invalid_token"'}
    return answer_json({"error": "invalid_request", "error_description": "Invalid Credentials"}, 401, headers)


async def tokeninfo(realm: GoogleContext, request: Request) -> Response:
    try:
        form = await read_form(request) if request.method == "POST" else {}
    except OAuthError as refused:
        return answer_json(refused.body, refused.status)
    asked = {**form, **request.query_params}
    now = realm.now()
    if shown := asked.get("id_token"):
        return _id_token_info(realm, shown, now)
    access = realm.grants.access(asked.get("access_token", ""), now)
    if access is None:
        return answer_json({"error": "invalid_token", "error_description": "Invalid Value"}, 400)
    left = int(access.expires - now)
    body = {
        "azp": access.client_id,
        "aud": access.client_id,
        "sub": access.account.sub,
        "scope": " ".join(access.asked),
        "exp": str(int(access.expires)),
        "expires_in": str(left),
        "access_type": "offline" if access.refresh else "online",
    }
    if access.scopes & _EMAIL:
        body |= {"email": access.account.email, "email_verified": "true"}
    return answer_json(body, 200)


def _id_token_info(realm: GoogleContext, shown: str, now: float) -> Response:
    """The claims as texts, if one of the published keys signed them and they still hold."""
    for key in (realm.keys.current, realm.keys.previous):
        try:
            claims = jwt.decode(
                shown,
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
            return answer_json(texts | {"alg": "RS256", "kid": key.kid, "typ": "JWT"}, 200)
    return answer_json({"error": "invalid_token", "error_description": "Invalid Value"}, 400)


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; of a repeated one the last. Google also takes them from JSON."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise OAuthError(400, "invalid_request", "Request is too large.")
    kind = request.headers.get("content-type", _FORM).partition(";")[0].strip().lower()
    if kind == "application/json":
        return _json_form(bytes(body))
    if kind not in {_FORM, ""}:
        raise OAuthError(400, "invalid_request", f"Bad content type. Must be {_FORM}.")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise OAuthError(400, "invalid_request", "Malformed form.") from error
    return dict(pairs)


def _json_form(body: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(body, type=dict[str, str])
    except (msgspec.DecodeError, RecursionError) as error:
        raise OAuthError(400, "invalid_request", "Malformed JSON.") from error


def answer_json(body: Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None) -> Response:
    content = msgspec.json.format(msgspec.json.encode(body), indent=2)
    return Response(content, status, headers, media_type="application/json; charset=utf-8")
