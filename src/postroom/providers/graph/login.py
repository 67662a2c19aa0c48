"""Entra's OAuth: the consent page's address, the code's exchange, refresh, app-only tokens."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, urlencode
from uuid import uuid4

import jwt
import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from postroom.errors import (
    InvalidGrant,
    LoginRejected,
    NotFound,
    PermanentError,
    SettingsError,
    TransientError,
)
from postroom.model import Account, AppCredential, ContentPolicy, Grant, Login, Secret, Tokens
from postroom.providers import oauth
from postroom.providers.graph import wire
from postroom.providers.transport import HttpCall, Transport

_GRAPH: Final = "https://graph.microsoft.com/"
# What is asked for but never stands in the answer's list, or does not matter there.
_IDENTITY: Final = frozenset({"openid", "profile", "email", "offline_access"})
_GUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True)
class EntraLogin:
    transport: Transport
    api: Transport
    api_url: str
    login_url: str
    tenant: str
    client_id: str
    client_secret: Secret

    def scopes(self, policy: ContentPolicy) -> frozenset[str]:
        mail = "Mail.ReadBasic" if policy is ContentPolicy.METADATA else "Mail.Read"
        return _IDENTITY | {_GRAPH + mail}

    def authorization_url(self, login: Login) -> str:
        query = {
            "client_id": self.client_id,
            "response_type": "code",
            "redirect_uri": login.redirect_uri,
            "response_mode": "query",
            "scope": " ".join(sorted(self.scopes(login.policy))),
            "state": login.state.reveal(),
            "code_challenge": oauth.pkce_challenge(login.verifier),
            "code_challenge_method": "S256",
            "prompt": "consent" if login.force_consent else "select_account",
        } | ({"login_hint": login.login_hint} if login.login_hint else {})
        return f"{self.login_url}/{self.tenant}/oauth2/v2.0/authorize?{urlencode(query)}"

    async def exchange(self, login: Login, code: Secret) -> Grant:
        wanted = self.scopes(login.policy)
        try:
            answer = await self._token(
                self.tenant,
                {
                    "grant_type": "authorization_code",
                    "code": code.reveal(),
                    "redirect_uri": login.redirect_uri,
                    "code_verifier": login.verifier.reveal(),
                    "client_secret": self.client_secret.reveal(),
                },
                repeatable=False,
            )
        except InvalidGrant as error:
            raise LoginRejected(str(error)) from error
        if answer.id_token is None or answer.refresh_token is None:
            raise LoginRejected(
                "Microsoft did not grant lasting access. Start again and allow everything asked for."
            )
        told = oauth.read_claims(answer.id_token, audience=self.client_id)
        if not (told.get("tid") and told.get("oid")):
            raise LoginRejected("Microsoft's answer does not say who signed in")
        address = str(told.get("email") or told.get("preferred_username") or "").lower()
        granted = frozenset(answer.scope.split())
        missing = {scope for scope in wanted - _IDENTITY if not granted & {scope, scope.removeprefix(_GRAPH)}}
        tenant, user = str(told["tid"]), str(told["oid"])
        account = Account(f"{tenant}:{user}", user, address, f"{tenant}:{address}")
        return Grant(account, answer.tokens, granted, frozenset(missing))

    async def refresh(self, refresh: Secret, scopes: frozenset[str]) -> Tokens:
        del scopes  # left out, the answer has what was consented to
        answer = await self._token(
            self.tenant,
            {
                "grant_type": "refresh_token",
                "refresh_token": refresh.reveal(),
                "client_secret": self.client_secret.reveal(),
            },
        )
        return answer.tokens

    async def app_tokens(self, credential: AppCredential) -> Tokens:
        proof = (
            {"client_secret": credential.client_secret.reveal()}
            if credential.client_secret is not None
            else {"client_assertion_type": _ASSERTION, "client_assertion": self._assertion(credential)}
        )
        answer = await self._token(
            credential.tenant_id,
            {
                "client_id": credential.client_id,
                "grant_type": "client_credentials",
                "scope": _GRAPH + ".default",
                **proof,
            },
        )
        return answer.tokens

    async def app_account(self, credential: AppCredential, address: str) -> Account:
        """The user's immutable id; the address itself where the application may read mail but no users."""
        tokens = await self.app_tokens(credential)
        tenant = await self._tenant_id(credential.tenant_id)
        makeshift = f"{tenant}:{address}"
        call = HttpCall(
            "GET",
            f"{self.api_url}/v1.0/users/{quote(address)}?$select=id,mail,userPrincipalName",
            headers={"Authorization": f"Bearer {tokens.access.reveal()}"},
        )
        try:
            user = msgspec.convert((await self.api.send(call)).json(), wire.GraphUser)
        except PermanentError as error:
            if isinstance(error, NotFound):
                raise
            return Account(makeshift, address, address, makeshift)
        found = (user.mail or user.user_principal_name or address).lower()
        return Account(f"{tenant}:{user.id}", user.id, found, makeshift)

    async def _tenant_id(self, tenant: str) -> str:
        """Of a tenant that may be named by a domain: its own id, as it stands in who issues its tokens."""
        if _GUID.fullmatch(tenant):
            return tenant.lower()
        path = f"{tenant}/v2.0/.well-known/openid-configuration"
        answer = await self.transport.send(HttpCall("GET", f"{self.login_url}/{path}"))
        found = _GUID.search(str(answer.told().get("issuer", "")))
        if found is None:
            raise TransientError("Microsoft does not say which tenant this is")
        return found[0].lower()

    async def revoke(self, token: Secret) -> None:
        """Entra has no way for an application to take back one token; it ends when it is erased here."""

    async def _token(
        self, tenant: str, form: Mapping[str, str], *, repeatable: bool = True
    ) -> oauth.TokenResponse:
        answer = await self.transport.send(
            HttpCall(
                "POST",
                f"{self.login_url}/{tenant}/oauth2/v2.0/token",
                form={"client_id": self.client_id, **form},
                repeatable=repeatable,
            )
        )
        return oauth.read_tokens(answer)

    def _assertion(self, credential: AppCredential) -> str:
        """A token signed with the certificate's key says who we are, instead of a secret."""
        pem = (credential.certificate or Secret("")).reveal().encode()
        try:
            certificate = x509.load_pem_x509_certificate(pem)
        except ValueError as error:
            raise SettingsError(
                "The certificate file must hold a certificate and its private key in PEM."
            ) from error
        now = datetime.now(UTC)
        audience = f"{self.login_url}/{credential.tenant_id}/oauth2/v2.0/token"
        thumbprint = urlsafe_b64encode(certificate.fingerprint(hashes.SHA256())).rstrip(b"=").decode()
        return jwt.encode(
            {
                "aud": audience,
                "iss": credential.client_id,
                "sub": credential.client_id,
                "jti": str(uuid4()),
                "nbf": now,
                "exp": now + timedelta(minutes=10),
            },
            pem,
            algorithm="PS256",
            headers={"x5t#S256": thumbprint},
        )
