"""The parts of OAuth that all providers share: token responses, id token claims, PKCE. No I/O."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast

import jwt
import msgspec

from postroom.errors import LoginRejected, ProviderServerError
from postroom.model import Secret, Tokens
from postroom.providers.transport import HttpResponse


class TokenResponse(msgspec.Struct):
    access_token: str
    expires_in: float = 3600
    refresh_token: str | None = None
    scope: str = ""
    id_token: str | None = None

    @property
    def tokens(self) -> Tokens:
        refresh = Secret(self.refresh_token) if self.refresh_token else None
        return Tokens(Secret(self.access_token), self.expires_in, refresh)


def read_tokens(response: HttpResponse) -> TokenResponse:
    try:
        return msgspec.convert(response.json(), TokenResponse)
    except msgspec.ValidationError as error:
        raise ProviderServerError("The provider's token endpoint returned no tokens.") from error


def intermediary_error(response: HttpResponse) -> ProviderServerError:
    """For an error response without an OAuth error: it comes from a proxy and not from the token endpoint."""
    return ProviderServerError(
        f"A proxy in front of the provider's token endpoint returned status {response.status}."
    )


def read_claims(id_token: str, *, audience: str) -> Mapping[str, Any]:
    """The claims of an id token that was received directly from the token endpoint.

    Its signature is not verified: OpenID Connect Core 3.1.3.7 allows to rely on TLS for such a token.
    A token from any other source must never be passed in here.
    """
    try:
        found = jwt.decode(
            id_token,
            audience=audience,
            options={
                "verify_signature": False,
                "verify_aud": True,
                "verify_exp": True,
                "require": ["aud", "sub"],
            },
            leeway=300,
        )
    except jwt.InvalidTokenError as error:
        raise LoginRejected("The provider's ID token is not valid. Start again.") from error
    return cast("Mapping[str, Any]", found)


def pkce_challenge(verifier: Secret) -> str:
    """The PKCE code challenge (RFC 7636), which binds a code to the process that began the login."""
    return urlsafe_b64encode(sha256(verifier.reveal().encode()).digest()).rstrip(b"=").decode()
