"""The jwt-bearer grant: exchanges the signed assertion of a service account for an access token.

Follows "Using OAuth 2.0 for Server to Server Applications": with `sub`, the token is for that user of a
Workspace whose administrator delegated the scopes; without, it is for the service account itself.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any

import jwt
from jwt.types import Options

from mailsim.google.clients import GoogleClient
from mailsim.google.context import GoogleContext
from mailsim.google.grants import GoogleAccount, IssuedTokens, OAuthError
from mailsim.google.service_accounts import ServiceAccount

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
AUDIENCE = "https://oauth2.googleapis.com/token"
MAX_SECONDS = 3600
SKEW_SECONDS = 300
_AUDIENCES = (
    AUDIENCE,
    "https://www.googleapis.com/oauth2/v4/token",
    "https://accounts.google.com/o/oauth2/token",
)
_LIFETIME_PROBLEM = (
    "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
    "Check your iat and exp values in the JWT claim."
)
_UNAUTHORIZED = (
    "Client is unauthorized to retrieve access tokens using this method, "
    "or client not authorized for any of the scopes requested."
)
_CHECKED_HERE: Options = {
    "verify_aud": False,
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
    "verify_sub": False,
    "verify_iss": False,
    "verify_jti": False,
}


def exchange_assertion(
    google: GoogleContext, assertion: str, token_url: str, now: float
) -> tuple[GoogleClient, IssuedTokens]:
    """Issue an access token. `token_url` is the endpoint's own URL, which is an audience too."""
    service_account = _find_issuer(google, assertion)
    claims = _verify_signature(service_account, assertion)
    _check_claims(claims, {token_url, *_AUDIENCES}, now)
    scopes = tuple(dict.fromkeys(str(claims.get("scope", "")).split()))
    if not scopes:
        raise OAuthError(400, "invalid_scope", "Empty or missing scope not allowed.")
    client = google.find_client(service_account.client_id)
    if client is None or client.problem == "deleted":
        raise OAuthError(401, "deleted_client", "The OAuth client was deleted.")
    account = _find_subject(google, service_account, claims, scopes)
    return client, google.grants.grant_delegated(account, client, scopes, now)


def _find_issuer(google: GoogleContext, assertion: str) -> ServiceAccount:
    try:
        claims: dict[str, Any] = jwt.decode(assertion, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise OAuthError(400, "invalid_grant", "Bad Request") from error
    account = google.service_accounts.accounts.get(str(claims.get("iss", "")))
    if account is None:
        raise OAuthError(400, "invalid_grant", "Invalid grant: account not found")
    return account


def _verify_signature(account: ServiceAccount, assertion: str) -> Mapping[str, Any]:
    """Verify the assertion with the key that its header names, or with any if it names none."""
    for known_id, key in account.keys.items():
        try:
            if jwt.get_unverified_header(assertion).get("kid") not in {None, known_id}:
                continue
            return jwt.decode(assertion, key.public_key(), algorithms=["RS256"], options=_CHECKED_HERE)
        except (jwt.PyJWTError, ValueError):
            continue
    raise OAuthError(400, "invalid_grant", "Invalid JWT Signature.")


def _check_claims(claims: Mapping[str, Any], audiences: Collection[str], now: float) -> None:
    if claims.get("aud") not in tuple(audiences):  # an array is not hashable
        text = f"Invalid JWT: Failed audience check. The right audience is {AUDIENCE}"
        raise OAuthError(400, "invalid_grant", text)
    # Clients sign with the machine's clock, which the simulator's clock may be ahead of.
    if not any(_is_valid_at(claims, moment) for moment in (now, time.time())):
        raise OAuthError(400, "invalid_grant", _LIFETIME_PROBLEM)


def _is_valid_at(claims: Mapping[str, Any], now: float) -> bool:
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(issued, int | float) or not isinstance(expires, int | float):
        return False
    return issued - SKEW_SECONDS <= now < expires + SKEW_SECONDS and 0 < expires - issued <= MAX_SECONDS


def _find_subject(
    google: GoogleContext, issuer: ServiceAccount, claims: Mapping[str, Any], scopes: tuple[str, ...]
) -> GoogleAccount:
    subject = str(claims.get("sub") or issuer.email)
    if subject == issuer.email:
        return GoogleAccount(issuer.client_id, issuer.email, issuer.email.partition("@")[0])
    if not google.service_accounts.is_delegated(issuer.client_id, subject.partition("@")[2], scopes):
        raise OAuthError(401, "unauthorized_client", _UNAUTHORIZED)
    account = google.find_account(subject)
    if account is None or google.grants.account_problems.get(account.sub) == "suspended":
        raise OAuthError(400, "invalid_grant", "Invalid email or User ID")
    return account
