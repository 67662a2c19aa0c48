"""Pub/Sub pushes: who sent them (OIDC token, shared token, subscription), and whose mailbox changed."""

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
from postroom.providers.transport import HttpCall, Transport

ISSUERS: Final = ("https://accounts.google.com", "accounts.google.com")
LONGEST_ADDRESS: Final = 320
# How far the clocks of Google and of this machine may differ.
LEEWAY_SECONDS: Final = 60
_MOST_TOKENS: Final = 100
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
    """Checks what is configured: the token in the URL, the JWT, the subscription's path.

    Where neither token is configured, nothing can prove a push, and none is believed.
    """

    transport: Transport
    certs_url: str
    shared_token: Secret | None
    audience: str | None
    service_account: str | None
    subscription: str | None
    _keys: dict[str, Any] = field(default_factory=dict[str, Any])
    # Google uses a token for an hour; its signature is checked once.
    _checked: dict[str, float] = field(default_factory=dict[str, float])

    async def refresh_keys(self) -> None:
        if self.audience is None:
            return
        answer = await self.transport.send(HttpCall("GET", f"{self.certs_url}/oauth2/v3/certs"))
        self._keys = {
            key.key_id: key.key
            for key in jwt.PyJWKSet.from_dict(answer.json()).keys
            if key.key_id is not None
        }
        self._checked.clear()

    def read(self, push: PushRequest) -> Sequence[Notification]:
        if self.shared_token is None and self.audience is None:
            raise PushRejected("no token is set by which a Pub/Sub push could be proven")
        if self.shared_token is not None:
            given = push.query.get("token", "")
            if not hmac.compare_digest(given.encode(), self.shared_token.reveal().encode()):
                raise PushRejected("the shared token of a Pub/Sub push is wrong")
        if self.audience is not None:
            self._check_sender(push.authorization or "")
        address = self._address(push.body)
        return [Notification(address=address)] if address else []

    def _check_sender(self, authorization: str) -> None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise PushRejected("a Pub/Sub push has no token of its sender")
        if self._checked.get(token, 0) > time.time():
            return
        try:
            key = self._keys.get(jwt.get_unverified_header(token).get("kid", ""))
            if key is None:
                raise PushUnverifiable("the key that signed a Pub/Sub push is not known yet", retry_after=10)
            told = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=self.audience,
                issuer=ISSUERS,
                leeway=LEEWAY_SECONDS,
                options={"require": ["aud", "exp", "iat", "iss"]},
            )
        except (jwt.InvalidTokenError, ValueError) as error:
            raise PushRejected("the token of a Pub/Sub push is not valid") from error
        if told.get("email_verified") is not True or told.get("email") != self.service_account:
            raise PushRejected("a Pub/Sub push was sent by another service account")
        if len(self._checked) >= _MOST_TOKENS:
            self._checked.clear()
        self._checked[token] = float(told["exp"])

    def _address(self, body: bytes) -> str | None:
        """None where a proven push says nothing that can be read: sending it again would not help."""
        try:
            envelope = _envelope.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PushRejected("a Pub/Sub push cannot be read") from error
        if self.subscription is not None and envelope.subscription != self.subscription:
            raise PushRejected("a Pub/Sub push comes from another subscription")
        data = envelope.message.data.translate(_STANDARD)
        try:
            address = _data.decode(b64decode(data + "=" * (-len(data) % 4))).email_address
        except (msgspec.DecodeError, Base64Error, ValueError, RecursionError):
            return None
        plain = len(address) <= LONGEST_ADDRESS and address.isprintable()
        return address.lower() if address and plain else None
