"""Pub/Sub pushes: who sent them (OIDC token, shared token, subscription), and whose mailbox changed."""

import hmac
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
import msgspec

from postroom.errors import PushRefused, PushUnclear
from postroom.model import Notice, Secret
from postroom.ports import Push
from postroom.providers.transport import Call, Transport

ISSUERS: Final = ("https://accounts.google.com", "accounts.google.com")


class _Message(msgspec.Struct):
    data: str = ""


class _Envelope(msgspec.Struct):
    message: _Message
    subscription: str = ""


class _Data(msgspec.Struct, rename="camel"):
    email_address: str


@dataclass
class GmailPush:
    """Checks what is configured: the token in the URL, the JWT, the subscription's path; at least one is."""

    transport: Transport
    certs_url: str
    shared_token: Secret | None
    audience: str | None
    service_account: str | None
    subscription: str | None
    _keys: dict[str, Any] = field(default_factory=dict[str, Any])

    async def refresh_keys(self) -> None:
        if self.audience is None:
            return
        answer = await self.transport.send(Call("GET", f"{self.certs_url}/oauth2/v3/certs"))
        self._keys = {
            key.key_id: key.key
            for key in jwt.PyJWKSet.from_dict(answer.json()).keys
            if key.key_id is not None
        }

    def read(self, push: Push) -> Sequence[Notice]:
        if self.shared_token is not None:
            given = push.query.get("token", "")
            if not hmac.compare_digest(given.encode(), self.shared_token.reveal().encode()):
                raise PushRefused("the shared token of a Pub/Sub push is wrong")
        if self.audience is not None:
            self._check_sender(push.authorization or "")
        return [Notice(address=self._address(push.body))]

    def _check_sender(self, authorization: str) -> None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise PushRefused("a Pub/Sub push has no token of its sender")
        try:
            key_id = jwt.get_unverified_header(token).get("kid", "")
        except jwt.InvalidTokenError as error:
            raise PushRefused("the token of a Pub/Sub push cannot be read") from error
        key = self._keys.get(key_id)
        if key is None:
            raise PushUnclear("the key that signed a Pub/Sub push is not known yet", retry_after=10)
        try:
            told = jwt.decode(token, key, algorithms=["RS256"], audience=self.audience, issuer=ISSUERS)
        except jwt.InvalidTokenError as error:
            raise PushRefused("the token of a Pub/Sub push is not valid") from error
        if told.get("email_verified") is not True or told.get("email") != self.service_account:
            raise PushRefused("a Pub/Sub push was sent by another service account")

    def _address(self, body: bytes) -> str:
        try:
            envelope = msgspec.json.decode(body, type=_Envelope)
            data = envelope.message.data.translate(str.maketrans("-_", "+/"))
            told = msgspec.json.decode(b64decode(data + "=" * (-len(data) % 4)), type=_Data)
        except (msgspec.DecodeError, Base64Error, ValueError) as error:
            raise PushRefused("a Pub/Sub push has no readable message") from error
        if self.subscription is not None and envelope.subscription != self.subscription:
            raise PushRefused("a Pub/Sub push comes from another subscription")
        return told.email_address.lower()
