"""Signs the assertions of a Google service account with the key of its JSON key file."""

import time
from collections.abc import Collection
from typing import Final

import jwt
import msgspec

from postroom.errors import SettingsError
from postroom.model import AppCredential, Secret
from postroom.providers.signing_keys import parse_signing_key

LIFETIME_SECONDS: Final = 600
_INVALID: Final = "The key file must be the JSON key file of a Google service account."


class _KeyFile(msgspec.Struct):
    client_email: str
    private_key: str
    private_key_id: str


def sign_assertion(credential: AppCredential, *, subject: str, scopes: Collection[str], audience: str) -> str:
    """A JWT that asks for a token of the subject, as RFC 7523 and Google's domain-wide delegation define."""
    now = int(time.time())
    key = _decode_key(credential.certificate or Secret(""))
    try:
        return jwt.encode(
            {
                "iss": key.client_email,
                "sub": subject,
                "scope": " ".join(sorted(scopes)),
                "aud": audience,
                "iat": now,
                "exp": now + LIFETIME_SECONDS,
            },
            parse_signing_key(Secret(key.private_key)),
            algorithm="RS256",
            headers={"kid": key.private_key_id},
        )
    except ValueError:
        raise SettingsError(_INVALID) from None


def read_address(key_file: Secret) -> str:
    """The address of the service account, whose own tokens name it as their subject."""
    return _decode_key(key_file).client_email


def _decode_key(key_file: Secret) -> _KeyFile:
    try:
        return msgspec.json.decode(key_file.reveal(), type=_KeyFile)
    except msgspec.DecodeError:
        raise SettingsError(_INVALID) from None
