"""Members' sign-in with any OpenID Connect provider that publishes its configuration.

The id token is verified in full: signature, issuer, audience, times, nonce, and `at_hash`, if present. Starts
no session, and gives no access to a mailbox.
"""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import new as new_hash
from typing import Any, Final, cast
from urllib.parse import urlencode, urlsplit

import jwt
import msgspec

from postroom.errors import LoginRejected, OperatorError, PostroomError, TransientError
from postroom.model import Secret
from postroom.ports import IdentityRequest, OpenIdIdentity
from postroom.providers import oauth
from postroom.providers.transport import HttpRequest, HttpResponse, Transport

LEEWAY_SECONDS: Final = 120
# The provider signs with its private key. HMAC with our client secret and "none" are not accepted.
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
_REQUIRED_CLAIMS: Final = ["iss", "sub", "aud", "exp", "iat"]


class _OpenIdConfiguration(msgspec.Struct):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


@dataclass(frozen=True, slots=True)
class _PublishedKey:
    """A public key of the provider. Without `algorithm` it verifies every algorithm of its key type."""

    id: str | None
    algorithm: str | None
    key: Any


@dataclass
class OpenIdConnect:
    transport: Transport
    issuer: str
    client_id: str
    client_secret: Secret
    trust_addresses: bool = False
    _configurations: dict[str, _OpenIdConfiguration] = field(default_factory=dict[str, _OpenIdConfiguration])
    _keys: dict[str, Sequence[_PublishedKey]] = field(default_factory=dict[str, Sequence[_PublishedKey]])

    @property
    def name(self) -> str:
        return urlsplit(self.issuer).hostname or self.issuer

    async def authorization_url(self, request: IdentityRequest) -> str:
        query = {
            "client_id": self.client_id,
            "redirect_uri": request.redirect_uri,
            "response_type": "code",
            "scope": "openid email profile",
            "state": request.state.reveal(),
            "nonce": request.nonce.reveal(),
            "code_challenge": oauth.pkce_challenge(request.verifier),
            "code_challenge_method": "S256",
        }
        endpoint = (await self._get_configuration()).authorization_endpoint
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def identity(self, request: IdentityRequest, code: Secret) -> OpenIdIdentity:
        configuration = await self._get_configuration()
        form = {
            "grant_type": "authorization_code",
            "code": code.reveal(),
            "redirect_uri": request.redirect_uri,
            "code_verifier": request.verifier.reveal(),
            "client_id": self.client_id,
            "client_secret": self.client_secret.reveal(),
        }
        response = await self.transport.send(
            HttpRequest("POST", configuration.token_endpoint, form=form, repeatable=False)
        )
        tokens = oauth.read_tokens(response)
        if tokens.id_token is None:
            raise LoginRejected("The OpenID provider's response has no ID token. Start again.")
        claims = await self._verify(configuration, tokens.id_token, tokens.access_token, request.nonce)
        verified = claims.get("email_verified") is True
        address = claims.get("email")
        if self.trust_addresses and claims.get("email_verified") is not False:
            verified, address = True, address or claims.get("preferred_username")
        return OpenIdIdentity(self.issuer, str(claims["sub"]), str(address or "").lower() or None, verified)

    async def _get_configuration(self) -> _OpenIdConfiguration:
        if self.issuer not in self._configurations:
            url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
            response = await self.transport.send(HttpRequest("GET", url))
            try:
                configuration = msgspec.convert(response.json(), _OpenIdConfiguration)
            except msgspec.ValidationError as error:
                raise OperatorError(
                    "The OpenID provider's configuration lacks endpoints that sign-in needs."
                    " Check POSTROOM_OIDC_ISSUER."
                ) from error
            if configuration.issuer.rstrip("/") != self.issuer.rstrip("/"):
                raise OperatorError(
                    "The OpenID provider's configuration names a different issuer than POSTROOM_OIDC_ISSUER."
                    " Set POSTROOM_OIDC_ISSUER to the `issuer` of that configuration."
                )
            self._configurations[self.issuer] = configuration
        return self._configurations[self.issuer]

    async def _verify(
        self, configuration: _OpenIdConfiguration, id_token: str, access_token: str, nonce: Secret
    ) -> Mapping[str, Any]:
        """The claims of a valid id token. Keys may have been rotated: a failure fetches them once more."""
        keys = await self._get_keys(configuration, refresh=False)
        with suppress(jwt.PyJWTError, ValueError):
            return self._read_claims(configuration, keys, id_token, access_token, nonce)
        keys = await self._get_keys(configuration, refresh=True)
        try:
            return self._read_claims(configuration, keys, id_token, access_token, nonce)
        except (jwt.PyJWTError, ValueError) as error:
            raise LoginRejected(
                "The OpenID provider's ID token is not valid for this sign-in. Start again."
            ) from error

    def _read_claims(
        self,
        configuration: _OpenIdConfiguration,
        keys: Sequence[_PublishedKey],
        id_token: str,
        access_token: str,
        nonce: Secret,
    ) -> Mapping[str, Any]:
        header = jwt.get_unverified_header(id_token)
        claims = jwt.decode(
            id_token,
            _find_key(keys, header),
            algorithms=_ALGORITHMS,
            audience=self.client_id,
            issuer=configuration.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": _REQUIRED_CLAIMS, "verify_sub": False, "verify_jti": False},
        )
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.reveal().encode()):
            raise jwt.InvalidTokenError("nonce")
        is_only_audience = claims["aud"] in (self.client_id, [self.client_id])
        if claims.get("azp") != self.client_id and (claims.get("azp") or not is_only_audience):
            raise jwt.InvalidTokenError("azp")
        _check_access_token_hash(claims.get("at_hash"), access_token, str(header["alg"]))
        return claims

    async def _get_keys(
        self, configuration: _OpenIdConfiguration, *, refresh: bool
    ) -> Sequence[_PublishedKey]:
        if refresh or self.issuer not in self._keys:
            response = await self.transport.send(HttpRequest("GET", configuration.jwks_uri))
            self._keys[self.issuer] = _parse_keys(response.json())
        return self._keys[self.issuer]


def _parse_keys(published: Any) -> Sequence[_PublishedKey]:
    """The signing keys of a supported type; a provider may publish newer types beside them."""
    entries = cast("dict[str, Any]", published).get("keys") if isinstance(published, dict) else None
    keys: list[_PublishedKey] = []
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else ():
        with suppress(jwt.PyJWTError, ValueError, KeyError, TypeError, AttributeError):
            if entry["kty"] in {"RSA", "EC", "OKP"} and entry.get("use", "sig") == "sig":
                keys.append(_PublishedKey(entry.get("kid"), entry.get("alg"), jwt.PyJWK(entry).key))
    if not keys:
        raise OperatorError(
            "The OpenID provider publishes no key of a type that Postroom supports, so sign-in with it is"
            " impossible."
        )
    return keys


def _find_key(keys: Sequence[_PublishedKey], header: Mapping[str, Any]) -> Any:
    """The key that a token's header names. Only a provider with a single key may leave the name out."""
    matching = [key for key in keys if key.id == header["kid"]] if "kid" in header else keys
    if not matching or ("kid" not in header and len(matching) > 1):
        raise jwt.InvalidKeyError("kid")
    if matching[0].algorithm not in {None, header.get("alg")}:
        raise jwt.InvalidAlgorithmError("alg")
    return matching[0].key


def _check_access_token_hash(expected: object, access_token: str, algorithm: str) -> None:
    """Require that `at_hash`, if present, is the left half of the access token's hash.

    By OpenID Connect Core 3.1.3.6. Not defined for EdDSA, whose name does not say which hash.
    """
    if not expected or algorithm == "EdDSA":
        return
    digest = new_hash(f"sha{algorithm[2:]}", access_token.encode()).digest()
    actual = urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=")
    if not hmac.compare_digest(actual, str(expected).encode()):
        raise jwt.InvalidTokenError("at_hash")


def to_error(response: HttpResponse) -> PostroomError | None:
    """The error that a response of an OpenID provider means; None for success."""
    if response.status == 200:
        return None
    if response.status == 429 or response.status >= 500:
        return TransientError("the OpenID provider returned a server error")
    if response.error_body().get("error") in {"invalid_client", "unauthorized_client"}:
        return OperatorError(
            "The OpenID provider rejects this client."
            " Check POSTROOM_OIDC_CLIENT_ID and POSTROOM_OIDC_CLIENT_SECRET."
        )
    if response.status == 404:
        return OperatorError("There is no OpenID provider at POSTROOM_OIDC_ISSUER. Correct the URL.")
    return LoginRejected("The OpenID provider rejected this sign-in. Start again.")
