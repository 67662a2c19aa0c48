"""OAuth at Entra: consent URL, code exchange, token refresh, app-only tokens and accounts."""

import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from postroom.model import (
    Account,
    AppCredential,
    ContentPolicy,
    Grant,
    Login,
    RevocationResult,
    Secret,
    Tokens,
)
from postroom.providers import oauth
from postroom.providers.graph import wire
from postroom.providers.signing_keys import parse_signing_key
from postroom.providers.transport import HttpRequest, Transport

_GRAPH: Final = "https://graph.microsoft.com/"
# Requested, but not always listed among the granted scopes.
_IDENTITY: Final = frozenset({"openid", "profile", "email", "offline_access"})
_GUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
SHARED_SECONDS: Final = 60.0  # how long an app-only token serves other mailboxes
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
    # App-only tokens with the time of their request, by credential.
    recent_tokens: dict[AppCredential, tuple[float, Tokens]] = field(
        default_factory=dict[AppCredential, tuple[float, Tokens]]
    )

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
            response = await self._token(
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
        if response.id_token is None or response.refresh_token is None:
            raise LoginRejected(
                "Microsoft did not grant offline access. Start again and allow all requested permissions."
            )
        claims = oauth.read_claims(response.id_token, audience=self.client_id)
        if not (claims.get("tid") and claims.get("oid")):
            raise LoginRejected("Microsoft's ID token does not identify the user. Start again.")
        address = str(claims.get("email") or claims.get("preferred_username") or "").lower()
        granted = frozenset(response.scope.split())
        missing = {scope for scope in wanted - _IDENTITY if not granted & {scope, scope.removeprefix(_GRAPH)}}
        tenant, user = str(claims["tid"]), str(claims["oid"])
        account = Account(f"{tenant}:{user}", user, address, f"{tenant}:{address}")
        return Grant(account, response.tokens, granted, frozenset(missing))

    async def refresh(self, refresh: Secret, scopes: frozenset[str]) -> Tokens:
        del scopes  # without them, Entra returns a token for everything that was consented to
        response = await self._token(
            self.tenant,
            {
                "grant_type": "refresh_token",
                "refresh_token": refresh.reveal(),
                "client_secret": self.client_secret.reveal(),
            },
        )
        return response.tokens

    def app_scopes(self, policy: ContentPolicy) -> frozenset[str]:
        del policy  # an administrator's consent fixes the permissions of the application
        return frozenset()

    async def app_tokens(
        self,
        credential: AppCredential,
        user_id: str,
        scopes: frozenset[str],
        *,
        replacing: Secret | None = None,
    ) -> Tokens:
        """One token opens all mailboxes of the tenant: a fresh one serves all that ask at about that time.

        Entra throttles clients that request the same token again and again (AADSTS50196).
        """
        del user_id, scopes
        requested_at, tokens = self.recent_tokens.get(credential, (0.0, None))
        age = time.monotonic() - requested_at
        if tokens is None or age > SHARED_SECONDS or tokens.access == replacing:
            requested_at, age = time.monotonic(), 0.0
            tokens = await self._get_app_tokens(credential)
            self.recent_tokens[credential] = requested_at, tokens
        return replace(tokens, expires_in_seconds=tokens.expires_in_seconds - age)

    async def _get_app_tokens(self, credential: AppCredential) -> Tokens:
        proof = (
            {"client_secret": credential.client_secret.reveal()}
            if credential.client_secret is not None
            else {"client_assertion_type": _ASSERTION, "client_assertion": self._assertion(credential)}
        )
        response = await self._token(
            credential.tenant_id or "",
            {
                "client_id": credential.client_id,
                "grant_type": "client_credentials",
                "scope": _GRAPH + ".default",
                **proof,
            },
        )
        return response.tokens

    async def app_account(self, credential: AppCredential, address: str) -> Account:
        """The account by its immutable user id, or by its address if the application may not read users."""
        tokens = await self._get_app_tokens(credential)
        tenant = await self.get_tenant_id(credential.tenant_id or "")
        by_address = f"{tenant}:{address}"
        request = HttpRequest(
            "GET",
            f"{self.api_url}/v1.0/users/{quote(address)}?$select=id,mail,userPrincipalName",
            headers={"Authorization": f"Bearer {tokens.access.reveal()}"},
        )
        try:
            user = msgspec.convert((await self.api.send(request)).json(), wire.GraphUser)
        except PermanentError as error:
            if isinstance(error, NotFound):
                raise
            return Account(by_address, address, address, by_address)
        found = (user.mail or user.user_principal_name or address).lower()
        return Account(f"{tenant}:{user.id}", user.id, found, by_address)

    async def get_tenant_id(self, tenant: str) -> str:
        """The ID of a tenant that may be given as a domain; the issuer of its tokens contains it."""
        if _GUID.fullmatch(tenant):
            return tenant.lower()
        path = f"{tenant}/v2.0/.well-known/openid-configuration"
        response = await self.transport.send(HttpRequest("GET", f"{self.login_url}/{path}"))
        found = _GUID.search(str(response.error_body().get("issuer", "")))
        if found is None:
            raise TransientError("Microsoft's OpenID configuration does not contain the tenant ID")
        return found[0].lower()

    async def revoke(self, token: Secret) -> RevocationResult:
        """Entra cannot revoke a single token: it ends when we delete it."""
        del token
        return RevocationResult.NOT_SUPPORTED

    async def _token(
        self, tenant: str, form: Mapping[str, str], *, repeatable: bool = True
    ) -> oauth.TokenResponse:
        response = await self.transport.send(
            HttpRequest(
                "POST",
                f"{self.login_url}/{tenant}/oauth2/v2.0/token",
                form={"client_id": self.client_id, **form},
                repeatable=repeatable,
            )
        )
        return oauth.read_tokens(response)

    def _assertion(self, credential: AppCredential) -> str:
        """A JWT signed with the certificate's key, which replaces the application's secret."""
        pem = credential.certificate or Secret("")
        try:
            certificate = x509.load_pem_x509_certificate(pem.reveal().encode())
            key = parse_signing_key(pem)
        except ValueError as error:
            raise SettingsError(
                "The certificate file must contain a certificate and its private key in PEM format."
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
            key,
            algorithm="PS256",
            headers={"x5t#S256": thumbprint},
        )
