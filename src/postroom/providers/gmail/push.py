"""Verify Pub/Sub pushes (OIDC token, shared token, subscription) and read whose mailbox changed.

Also fetches Google's signing keys. The HTTP endpoint is in `web.push`.
"""

import hmac
import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
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
_MAX_CHECKED_TOKENS: Final = 100
_STANDARD: Final = str.maketrans("-_", "+/")


class _PubSubMessage(msgspec.Struct):
    data: str = ""


class _PubSubEnvelope(msgspec.Struct):
    message: _PubSubMessage
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

    async def refresh_keys(self) -> None:
        if self.audience is None:
            return
        response = await self.transport.send(HttpRequest("GET", f"{self.certs_url}/oauth2/v3/certs"))
        self._keys = {
            key.key_id: key.key
            for key in jwt.PyJWKSet.from_dict(response.json()).keys
            if key.key_id is not None
        }
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
            key = self._keys.get(jwt.get_unverified_header(token).get("kid", ""))
            if key is None:
                raise PushUnverifiable(
                    "the key that signed a Pub/Sub push has not been fetched yet", retry_after=10
                )
            claims = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=self.audience,
                issuer=ISSUERS,
                leeway=LEEWAY_SECONDS,
                options={"require": ["aud", "exp", "iat", "iss"]},
            )
        except (jwt.InvalidTokenError, ValueError) as error:
            raise PushRejected("the bearer token of a Pub/Sub push is not valid") from error
        if claims.get("email_verified") is not True or claims.get("email") != self.service_account:
            raise PushRejected("a Pub/Sub push comes from another service account")
        if len(self._checked) >= _MAX_CHECKED_TOKENS:
            self._checked.clear()
        self._checked[token] = float(claims["exp"])

    def _address(self, body: bytes) -> str | None:
        """The address in a verified push; None if it cannot be read, since a redelivery would not help."""
        try:
            envelope = _envelope.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PushRejected("a Pub/Sub push cannot be parsed") from error
        if self.subscription is not None and envelope.subscription != self.subscription:
            raise PushRejected("a Pub/Sub push comes from another subscription")
        data = envelope.message.data.translate(_STANDARD)
        try:
            address = _data.decode(b64decode(data + "=" * (-len(data) % 4))).email_address
        except (msgspec.DecodeError, Base64Error, ValueError, RecursionError):
            return None
        plain = len(address) <= MAX_ADDRESS_CHARACTERS and address.isprintable()
        return address.lower() if address and plain else None
