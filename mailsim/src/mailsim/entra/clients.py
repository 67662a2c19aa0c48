"""How an application proves who it is at the token endpoint: secret, HTTP Basic, or a signed assertion."""

import base64
import binascii
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from mailsim.entra.aadsts import EntraError
from mailsim.entra.directory import Directory
from mailsim.entra.signing import open_assertion
from mailsim.world import Application

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
SKEW_SECONDS = 300


def with_basic(form: dict[str, str], authorization: str) -> dict[str, str]:
    """The form, completed by the credentials of an HTTP Basic header."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return form
    try:
        client_id, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError) as error:
        raise EntraError(9002313) from error
    return {"client_id": unquote(client_id), "client_secret": unquote(secret), **form}


def authenticate(
    directory: Directory,
    application: Application,
    form: Mapping[str, str],
    audiences: set[str],
    now: float,
    *,
    needed: bool,
) -> None:
    """Raise unless the form holds what this application must show.

    `needed`: the grant is never one for public clients.
    """
    known = {"app": application.client_id}
    secret, assertion = form.get("client_secret"), form.get("client_assertion")
    if directory.settings(application).public and not needed:
        if secret or assertion:
            raise EntraError(700025, **known)
        return
    if assertion:
        if form.get("client_assertion_type") != ASSERTION_TYPE:
            raise EntraError(900144, parameter="client_assertion_type")
        _check_assertion(directory, application, assertion, audiences, now)
        return
    if not secret:
        raise EntraError(7000218, **known)
    expiry = directory.secret_expiry(application, secret)
    if expiry is None:
        raise EntraError(7000215, **known)
    if expiry <= now:
        raise EntraError(7000222, **known)


def _check_assertion(
    directory: Directory, application: Application, assertion: str, audiences: set[str], now: float
) -> None:
    try:
        claims = open_assertion(assertion, directory.certificates(application))
    except ValueError as error:
        raise EntraError(700027, why=str(error)) from error
    if claims.get("iss") != application.client_id or claims.get("sub") != application.client_id:
        raise EntraError(700027, why="Reason - 'iss' and 'sub' must be the application.")
    if str(claims.get("aud", "")).rstrip("/") not in audiences:
        raise EntraError(700023)
    # Clients sign with the machine's clock, which the simulator's may have left behind.
    if not any(_within(claims, moment) for moment in (now, time.time())):
        raise EntraError(700024)


def _within(claims: Mapping[str, Any], now: float) -> bool:
    ends, starts = claims.get("exp"), claims.get("nbf", claims.get("iat", 0))
    if not isinstance(ends, int | float) or not isinstance(starts, int | float):
        return False
    return starts - SKEW_SECONDS <= now <= ends + SKEW_SECONDS
