"""Verify Pub/Sub pushes (OIDC token, shared token, subscription) and read whose mailbox changed.

Also fetches Google's signing keys. The HTTP endpoint is in `web.push`.
"""

import hmac
import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
import msgspec

from postroom.errors import PushRejected, PushUnverifiable
from postroom.model import Notification, Secret
from postroom.ports import PushRequest
from postroom.providers.transport import HttpRequest, Transport

ISSUERS: Final = ("https://accounts.google.com", "accounts.google.com")
MAX_ADDRESS_CHARACTERS: Final = 320
# Tolerated difference between the clocks of Google and this machine.
LEEWAY_SECONDS: Final = 60
# Google publishes a key long before it signs with it. Keys that are older may lack the newest one.
FRESH_KEYS_SECONDS: Final = 60
_MAX_CHECKED_TOKENS: Final = 100
_ALGORITHM: Final = "RS256"
# The library also lets errors of its parsers pass: of numbers out of range, of deeply nested JSON.
_INVALID_TOKEN: Final = (jwt.InvalidTokenError, ValueError, TypeError, OverflowError, RecursionError)
_STANDARD: Final = str.maketrans("-_", "+/")


class PubSubMessage(msgspec.Struct):
    """A message of Pub/Sub, pushed or pulled; `data` is base64."""

    data: str = ""


class _PubSubEnvelope(msgspec.Struct):
    message: PubSubMessage
    subscription: str = ""


class _GmailNotification(msgspec.Struct, rename="camel"):
    email_address: str


_envelope: Final = msgspec.json.Decoder(_PubSubEnvelope)
_data: Final = msgspec.json.Decoder(_GmailNotification)


@dataclass
class GmailPush:
    """Checks what is configured: the token in the URL, the JWT, the name of the subscription.

    If neither token is configured, no push can be verified and all are rejected.
    """

    transport: Transport
    certs_url: str
    shared_token: Secret | None
    audience: str | None
    service_account: str | None
    subscription: str | None
    _keys: dict[str, Any] = field(default_factory=dict[str, Any])
    # Google reuses a token for an hour; its signature is verified once.
    _checked: dict[str, float] = field(default_factory=dict[str, float])
    clock: Callable[[], float] = time.monotonic
    _fetched_at: float = float("-inf")

    async def refresh_keys(self) -> None:
        if self.audience is None:
            return
        began = self.clock()
        response = await self.transport.send(HttpRequest("GET", f"{self.certs_url}/oauth2/v3/certs"))
        self._keys = {
            key.key_id: key.key
            for key in jwt.PyJWKSet.from_dict(response.json()).keys
            if key.key_id is not None
        }
        self._fetched_at = began
        self._checked.clear()

    def read(self, push: PushRequest) -> Sequence[Notification]:
        if self.shared_token is None and self.audience is None:
            raise PushRejected("no token is configured to verify Pub/Sub pushes")
        if self.shared_token is not None:
            token = push.query.get("token", "")
            if not hmac.compare_digest(token.encode(), self.shared_token.reveal().encode()):
                raise PushRejected("the shared token of a Pub/Sub push is wrong")
        if self.audience is not None:
            self._check_sender(push.authorization or "")
        address = self._address(push.body)
        return [Notification(address=address)] if address else []

    def _check_sender(self, authorization: str) -> None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise PushRejected("a Pub/Sub push has no bearer token")
        if self._checked.get(token, 0) > time.time():
            return
        try:
            key = self._find_key(token)
            expires_at = self._check_claims(token, key)
        except _INVALID_TOKEN as error:
            raise PushRejected("the bearer token of a Pub/Sub push is not valid") from error
        if key is None:
            # Everything but the signature is right, so only our keys can be at fault.
            raise PushUnverifiable("the keys that sign Pub/Sub pushes are not up to date", retry_after=10)
        if len(self._checked) >= _MAX_CHECKED_TOKENS:
            self._checked.clear()
        self._checked[token] = expires_at

    def _find_key(self, token: str) -> Any | None:
        """The key that a token names. None if it may be newer than our keys."""
        header = jwt.get_unverified_header(token)
        key_id = header.get("kid")
        if header.get("alg") != _ALGORITHM or not key_id:
            raise PushRejected("the bearer token of a Pub/Sub push names no key or is not signed with RS256")
        if key_id not in self._keys and self.clock() - self._fetched_at < FRESH_KEYS_SECONDS:
            raise PushRejected("the bearer token of a Pub/Sub push is signed with an unknown key")
        return self._keys.get(key_id)

    def _check_claims(self, token: str, key: Any | None) -> float:
        """Check the claims, and the signature if there is a key. Returns when the token expires."""
        claims = jwt.decode(
            token,
            key or "",
            algorithms=[_ALGORITHM],
            audience=self.audience,
            issuer=ISSUERS,
            leeway=LEEWAY_SECONDS,
            options={
                "verify_signature": key is not None,
                "verify_aud": True,
                "verify_exp": True,
                "verify_iat": True,
                "verify_iss": True,
                "verify_nbf": True,
                "require": ["aud", "exp", "iat", "iss"],
            },
        )
        if claims.get("email_verified") is not True or claims.get("email") != self.service_account:
            raise PushRejected("a Pub/Sub push comes from another service account")
        return float(claims["exp"])

    def _address(self, body: bytes) -> str | None:
        """The address in a verified push; None if it cannot be read, since a redelivery would not help."""
        try:
            envelope = _envelope.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PushRejected("a Pub/Sub push cannot be parsed") from error
        if self.subscription is not None and envelope.subscription != self.subscription:
            raise PushRejected("a Pub/Sub push comes from another subscription")
        return read_address(envelope.message)


def read_address(message: PubSubMessage) -> str | None:
    """The address whose mailbox changed; None if it cannot be read."""
    data = message.data.translate(_STANDARD)
    try:
        address = _data.decode(b64decode(data + "=" * (-len(data) % 4))).email_address
    except (msgspec.DecodeError, Base64Error, ValueError, RecursionError):
        return None
    plain = len(address) <= MAX_ADDRESS_CHARACTERS and address.isprintable()
    return address.lower() if address and plain else None
