"""What the token endpoint says about who signed in."""

from collections.abc import Mapping
from typing import Any, cast

import jwt

from postroom.errors import LoginRefused


def claims(id_token: str, *, audience: str) -> Mapping[str, Any]:
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
        raise LoginRefused("the provider's answer does not say who signed in") from error
    return cast("Mapping[str, Any]", found)
