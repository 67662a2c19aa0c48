"""OpenID Connect with any provider that publishes its configuration: where to send a browser, who came back.

The id token is checked in full: signature, issuer, audience, time, nonce, the access token it belongs to.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlencode, urlsplit

import msgspec
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet
from joserfc.jws import JWSRegistry

from postroom.errors import LoginRejected, OperatorError, PostroomError, TransientError
from postroom.model import Secret
from postroom.ports import IdentityRequest, OpenIdIdentity
from postroom.providers import oauth
from postroom.providers.transport import HttpAnswer, HttpCall, Transport

LEEWAY_SECONDS: Final = 120
# Signed with the provider's private key: never with ours, never with none.
_ALGORITHMS: Final = [
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
]


class _OpenIdConfiguration(msgspec.Struct):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


@dataclass
class OpenIdConnect:
    transport: Transport
    issuer: str
    client_id: str
    client_secret: Secret
    trust_addresses: bool = False
    _found: dict[str, _OpenIdConfiguration] = field(default_factory=dict[str, _OpenIdConfiguration])
    _keys: dict[str, KeySet] = field(default_factory=dict[str, KeySet])

    @property
    def name(self) -> str:
        return urlsplit(self.issuer).hostname or self.issuer

    async def authorization_url(self, asked: IdentityRequest) -> str:
        query = {
            "client_id": self.client_id,
            "redirect_uri": asked.redirect_uri,
            "response_type": "code",
            "scope": "openid email profile",
            "state": asked.state.reveal(),
            "nonce": asked.nonce.reveal(),
            "code_challenge": oauth.pkce_challenge(asked.verifier),
            "code_challenge_method": "S256",
        }
        where = (await self._configuration()).authorization_endpoint
        return f"{where}{'&' if '?' in where else '?'}{urlencode(query)}"

    async def identity(self, asked: IdentityRequest, code: Secret) -> OpenIdIdentity:
        configuration = await self._configuration()
        form = {
            "grant_type": "authorization_code",
            "code": code.reveal(),
            "redirect_uri": asked.redirect_uri,
            "code_verifier": asked.verifier.reveal(),
            "client_id": self.client_id,
            "client_secret": self.client_secret.reveal(),
        }
        answer = await self.transport.send(
            HttpCall("POST", configuration.token_endpoint, form=form, repeatable=False)
        )
        told = oauth.read_tokens(answer)
        if told.id_token is None:
            raise LoginRejected("the provider's answer does not say who signed in")
        claims = await self._claims(configuration, told.id_token, told.access_token, asked.nonce)
        verified = claims.get("email_verified") is True
        address = claims.get("email")
        if self.trust_addresses and claims.get("email_verified") is not False:
            verified, address = True, address or claims.get("preferred_username")
        return OpenIdIdentity(self.issuer, str(claims["sub"]), str(address or "").lower() or None, verified)

    async def _configuration(self) -> _OpenIdConfiguration:
        if self.issuer not in self._found:
            url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
            answer = await self.transport.send(HttpCall("GET", url))
            try:
                found = msgspec.convert(answer.json(), _OpenIdConfiguration)
            except msgspec.ValidationError as error:
                raise OperatorError(
                    "The OpenID provider's configuration lacks what a sign-in needs."
                    " Check POSTROOM_OIDC_ISSUER."
                ) from error
            if found.issuer.rstrip("/") != self.issuer.rstrip("/"):
                raise OperatorError(
                    "The OpenID provider calls itself by another name than POSTROOM_OIDC_ISSUER."
                    " Give the name that its configuration has."
                )
            self._found[self.issuer] = found
        return self._found[self.issuer]

    async def _claims(
        self, configuration: _OpenIdConfiguration, id_token: str, access_token: str, nonce: Secret
    ) -> Any:
        for fresh in (False, True):
            keys = await self._key_set(configuration, fresh=fresh)
            try:
                registry = JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
                token = jwt.decode(id_token, keys, registry=registry)
                claims: Any = CodeIDToken(
                    token.claims,
                    token.header,
                    {
                        "iss": {"essential": True, "values": [configuration.issuer]},
                        "aud": {"essential": True},
                    },
                    {"nonce": nonce.reveal(), "client_id": self.client_id, "access_token": access_token},
                )
                claims.validate(leeway=LEEWAY_SECONDS)
            except (JoseError, ValueError) as error:
                if fresh:
                    raise LoginRejected("the provider's word on who signed in is not valid") from error
            else:
                if self.client_id not in _audience(claims):
                    raise LoginRejected("the provider's word on who signed in is for another application")
                return claims
        raise AssertionError("the second time ends it")

    async def _key_set(self, configuration: _OpenIdConfiguration, *, fresh: bool) -> KeySet:
        if fresh or self.issuer not in self._keys:
            answer = await self.transport.send(HttpCall("GET", configuration.jwks_uri))
            self._keys[self.issuer] = _key_set(answer.json())
        return self._keys[self.issuer]


def _key_set(told: Any) -> KeySet:
    """The keys that are understood here: a provider may publish newer kinds beside them."""
    listed = cast("dict[str, Any]", told).get("keys") if isinstance(told, dict) else None
    keys: list[Key] = []
    for each in cast("list[Any]", listed) if isinstance(listed, list) else ():
        with suppress(JoseError, ValueError, KeyError, TypeError, AttributeError):
            keys.append(JWKRegistry.import_key(each))
    if not keys:
        raise OperatorError(
            "The OpenID provider publishes no key that Postroom understands: nobody can sign in with it."
        )
    return KeySet(keys)


def _audience(claims: Any) -> list[Any]:
    given = claims.get("aud")
    return cast("list[Any]", given) if isinstance(given, list) else [given]


def to_error(answer: HttpAnswer) -> PostroomError | None:
    """What an OpenID provider's status means."""
    if answer.status == 200:
        return None
    if answer.status == 429 or answer.status >= 500:
        return TransientError("the OpenID provider has trouble")
    if answer.told().get("error") in {"invalid_client", "unauthorized_client"}:
        return OperatorError(
            "The OpenID provider does not accept POSTROOM_OIDC_CLIENT_ID and POSTROOM_OIDC_CLIENT_SECRET."
        )
    if answer.status == 404:
        return OperatorError("There is no OpenID provider at POSTROOM_OIDC_ISSUER.")
    return LoginRejected("the OpenID provider did not accept this sign-in")
