"""Client authentication at Entra's token endpoint: client secret, HTTP Basic, or signed assertion.

It raises EntraError or returns; `token` issues the tokens.
"""

import base64
import binascii
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from mailsim.entra.aadsts import EntraError
from mailsim.entra.directory import EntraDirectory
from mailsim.entra.signing import verify_assertion
from mailsim.registry import OAuthApplication

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
SKEW_SECONDS = 300


def merge_basic_credentials(form: dict[str, str], authorization: str) -> dict[str, str]:
    """Return the form, completed by the credentials of an HTTP Basic header."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return form
    try:
        client_id, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError) as error:
        raise EntraError(9002313) from error
    return {"client_id": unquote(client_id), "client_secret": unquote(secret), **form}


def authenticate_client(
    directory: EntraDirectory,
    application: OAuthApplication,
    form: Mapping[str, str],
    audiences: set[str],
    now: float,
    *,
    needed: bool,
) -> None:
    """Raise unless the form contains valid credentials of this application.

    With `needed`, the grant type is not available to public clients.
    """
    facts = {"app": application.client_id}
    secret, assertion = form.get("client_secret"), form.get("client_assertion")
    if directory.get_settings(application).public and not needed:
        if secret or assertion:
            raise EntraError(700025, **facts)
        return
    if assertion:
        if form.get("client_assertion_type") != ASSERTION_TYPE:
            raise EntraError(900144, parameter="client_assertion_type")
        _check_assertion(directory, application, assertion, audiences, now)
        return
    if not secret:
        raise EntraError(7000218, **facts)
    expiry = directory.secret_expiry(application, secret)
    if expiry is None:
        raise EntraError(7000215, **facts)
    if expiry <= now:
        raise EntraError(7000222, **facts)


def _check_assertion(
    directory: EntraDirectory, application: OAuthApplication, assertion: str, audiences: set[str], now: float
) -> None:
    try:
        claims = verify_assertion(assertion, directory.list_certificates(application))
    except ValueError as error:
        raise EntraError(700027, why=str(error)) from error
    if claims.get("iss") != application.client_id or claims.get("sub") != application.client_id:
        raise EntraError(700027, why="Reason - 'iss' and 'sub' must be the application.")
    if str(claims.get("aud", "")).rstrip("/") not in audiences:
        raise EntraError(700023)
    # Clients sign with the machine's clock, which the simulator's clock may be ahead of.
    if not any(_is_valid_at(claims, moment) for moment in (now, time.time())):
        raise EntraError(700024)


def _is_valid_at(claims: Mapping[str, Any], now: float) -> bool:
    expires, valid_from = claims.get("exp"), claims.get("nbf", claims.get("iat", 0))
    if not isinstance(expires, int | float) or not isinstance(valid_from, int | float):
        return False
    return valid_from - SKEW_SECONDS <= now <= expires + SKEW_SECONDS
