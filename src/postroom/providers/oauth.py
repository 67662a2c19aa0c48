"""What OAuth is the same for every provider: the token endpoint's answer, who signed in, PKCE."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast

import jwt
import msgspec

from postroom.errors import LoginRejected, TransientError
from postroom.model import Secret, Tokens
from postroom.providers.transport import HttpAnswer


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


def read_tokens(answer: HttpAnswer) -> TokenResponse:
    try:
        return msgspec.convert(answer.json(), TokenResponse)
    except msgspec.ValidationError as error:
        raise TransientError("the provider's sign-in answered with something else than tokens") from error


def intermediary_error(answer: HttpAnswer) -> TransientError:
    """A refusal without an error of OAuth's: a proxy or front end spoke, and the sign-in was not asked."""
    return TransientError(f"something before the provider's sign-in answered with status {answer.status}")


def read_claims(id_token: str, *, audience: str) -> Mapping[str, Any]:
    """The claims of an id token that came straight from the token endpoint.

    Its signature is not checked: OpenID Connect Core 3.1.3.7 lets TLS vouch for a token received this way.
    A token from anywhere else must never be passed in here.
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
        raise LoginRejected("the provider's answer does not say who signed in") from error
    return cast("Mapping[str, Any]", found)


def pkce_challenge(verifier: Secret) -> str:
    """RFC 7636: by it whoever began a login is known."""
    return urlsafe_b64encode(sha256(verifier.reveal().encode()).digest()).rstrip(b"=").decode()
