"""Authorization codes, refresh, access and ID tokens of Entra: issue, look up, expire, revoke.

No HTTP; consents are in `directory`.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from mailsim.clock import Clock
from mailsim.entra.aadsts import EntraError, format_timestamp
from mailsim.entra.directory import EntraDirectory, EntraUser, error_facts
from mailsim.entra.scopes import GRAPH_APP_ID, IDENTITY, format_scopes
from mailsim.entra.signing import EntraSigner, b64url, new_signer
from mailsim.registry import OAuthApplication, guid

CODE_SECONDS = 600
REFRESH_SECONDS = 90 * 86400
SPA_REFRESH_SECONDS = 86400
CLEANUP_INTERVAL = 5000  # tokens issued between two removals of old ones


@dataclass(slots=True)
class EntraAuthorizationCode:
    application: OAuthApplication
    user: EntraUser
    tenant: str
    redirect_uri: str
    scopes: list[str]
    challenge: str
    challenge_method: str
    nonce: str
    expires: float
    spa: bool
    redeemed: bool = False


@dataclass(slots=True)
class EntraRefreshToken:
    application: OAuthApplication
    user: EntraUser
    scopes: list[str]
    issued: float
    expires: float
    spa: bool
    revoked: int = 0  # AADSTS code of the refusal; 0: not revoked


@dataclass(slots=True)
class EntraAccessToken:
    """What a bearer token allows: `scopes` with a user, `roles` if it is app-only."""

    application: OAuthApplication
    tid: str
    user: EntraUser | None
    scopes: frozenset[str]
    roles: frozenset[str]
    issued: float
    expires: float
    challenged: bool = False  # continuous access evaluation requires a new sign-in


@dataclass(slots=True)
class EntraGrants:
    directory: EntraDirectory
    clock: Clock
    random: random.Random
    codes: dict[str, EntraAuthorizationCode] = field(default_factory=dict[str, EntraAuthorizationCode])
    refresh_tokens: dict[str, EntraRefreshToken] = field(default_factory=dict[str, EntraRefreshToken])
    access_tokens: dict[str, EntraAccessToken] = field(default_factory=dict[str, EntraAccessToken])
    _signer: EntraSigner | None = None

    @property
    def signer(self) -> EntraSigner:
        """Return the signing key, generated on first use because many simulations never sign anything."""
        if self._signer is None:
            self._signer = new_signer()
        return self._signer

    # Issuing

    def draw_token(self, purpose: str, size: int) -> str:
        return b64url(self.directory.registry.new_bytes(purpose, size))

    def issue_code(self, code: EntraAuthorizationCode) -> str:
        name = f"1.{self.draw_token('code', 96)}"
        self.codes[name] = code
        return name

    def issue_refresh_token(
        self,
        application: OAuthApplication,
        user: EntraUser,
        scopes: list[str],
        *,
        spa: bool,
        until: float | None = None,
    ) -> str:
        """Issue a refresh token. `until` keeps the expiry of a single-page app's first token."""
        name = f"1.{self.draw_token('refresh token', 150)}"
        now = self.clock.time()
        expires = until or now + (SPA_REFRESH_SECONDS if spa else REFRESH_SECONDS)
        self.refresh_tokens[name] = EntraRefreshToken(application, user, scopes, now, expires, spa)
        return name

    def issue_access_token(
        self,
        application: OAuthApplication,
        tid: str,
        *,
        user: EntraUser | None = None,
        scopes: list[str] | None = None,
        roles: tuple[str, ...] = (),
        seconds: float | None = None,
    ) -> tuple[str, int]:
        """Issue a signed access token for Graph and return it with its lifetime in seconds."""
        now = self.clock.time()
        # Entra draws the lifetime of a user's token at random, between 60 and 90 minutes.
        lifetime = seconds if seconds is not None else self.random.randint(3600, 5399) if user else 3599
        allowed = [name for name in scopes or [] if name not in IDENTITY]
        access = EntraAccessToken(
            application, tid, user, frozenset(allowed), frozenset(roles), now, now + lifetime
        )
        token = self.signer.sign(_access_claims(access, self.directory))
        self.access_tokens[token] = access
        if len(self.access_tokens) % CLEANUP_INTERVAL == 0:
            self._forget_old()
        return token, int(lifetime)

    def _forget_old(self) -> None:
        """Remove tokens that expired a day ago; from then on they are rejected as unknown."""
        limit = self.clock.time() - 86400
        tokens = self.access_tokens.items()
        self.access_tokens = {token: access for token, access in tokens if access.expires > limit}

    def id_token(
        self, application: OAuthApplication, user: EntraUser, scopes: list[str], base_url: str, nonce: str
    ) -> str:
        now = int(self.clock.time())
        claims: dict[str, Any] = {
            "aud": application.client_id,
            "iss": f"{base_url}/{user.tid}/v2.0",
            "iat": now,
            "nbf": now,
            "exp": now + 3600,
            "aio": self.draw_token("aio", 36),
            "rh": f"1.{self.draw_token('rh', 36)}.",
            "sub": pairwise_subject(self.directory, application, user),
            "tid": user.tid,
            "uti": self.draw_token("uti", 16),
            "ver": "2.0",
        }
        if "profile" in scopes:
            claims |= {"oid": user.oid, "name": user.name, "preferred_username": user.upn}
        if "email" in scopes:
            claims["email"] = user.upn
        if nonce:
            claims["nonce"] = nonce
        return self.signer.sign(claims)

    def token_response(
        self,
        refresh: EntraRefreshToken,
        scopes: list[str],
        base_url: str,
        *,
        nonce: str = "",
        keep: bool = False,
    ) -> dict[str, Any]:
        """Return the JSON of a user's successful token request, with a new refresh token if `keep`."""
        application, user = refresh.application, refresh.user
        access, seconds = self.issue_access_token(application, user.tid, user=user, scopes=scopes)
        response: dict[str, Any] = {
            "token_type": "Bearer",
            "scope": format_scopes(scopes),
            "expires_in": seconds,
            "ext_expires_in": seconds,
            "access_token": access,
        }
        if keep:
            until = refresh.expires if refresh.spa else None
            response["refresh_token"] = self.issue_refresh_token(
                application, user, refresh.scopes, spa=refresh.spa, until=until
            )
            if refresh.spa:
                response["refresh_token_expires_in"] = int(refresh.expires - self.clock.time())
        if "openid" in scopes:
            response["id_token"] = self.id_token(application, user, scopes, base_url, nonce)
        return response

    # Looking up

    def redeem_code(self, name: str, application: OAuthApplication) -> EntraAuthorizationCode:
        """Return a code's grant. A code is valid once, for its application, for ten minutes."""
        code = self.codes.get(name)
        if code is None or code.application.client_id != application.client_id:
            raise EntraError(70000)
        if code.redeemed:
            raise EntraError(54005)
        if code.expires <= self.clock.time():
            raise EntraError(70008)
        return code

    def get_refresh_token(self, name: str, application: OAuthApplication) -> EntraRefreshToken:
        """Return a valid refresh token. Use does not end it: the old token stays valid beside the new."""
        refresh = self.refresh_tokens.get(name)
        if refresh is None or refresh.application.client_id != application.client_id:
            raise EntraError(70000)
        facts = {**error_facts(application, refresh.user), "issued": format_timestamp(refresh.issued)}
        if refresh.user.oid in self.directory.disabled:
            raise EntraError(50057, **facts)
        if self.directory.find_user(refresh.user.oid) is None:
            raise EntraError(50034, **facts)
        if refresh.revoked:
            raise EntraError(refresh.revoked, **facts)
        if refresh.expires <= self.clock.time():
            raise EntraError(700084 if refresh.spa else 700082, **facts)
        return refresh

    def find_access_token(self, token: str) -> EntraAccessToken | None:
        return self.access_tokens.get(token)

    # Ending

    def revoke(self, user: EntraUser, code: int, client_id: str = "") -> int:
        """Refuse every refresh token of a user from now on with this AADSTS code."""
        count = 0
        for refresh in self.refresh_tokens.values():
            if refresh.user.oid == user.oid and client_id in {"", refresh.application.client_id}:
                refresh.revoked = code
                count += 1
        return count

    def expire_access_tokens(self, user: EntraUser) -> int:
        """Expire the user's access tokens and the tenant's app-only tokens now."""
        now = self.clock.time()
        ending = [
            token
            for token in self.access_tokens.values()
            if self._reaches(token, user) and token.expires > now
        ]
        for access in ending:
            access.expires = now
        return len(ending)

    def challenge_access_tokens(self, user: EntraUser) -> int:
        """Make Graph refuse the tokens issued so far with an insufficient_claims challenge."""
        tokens = [token for token in self.access_tokens.values() if self._reaches(token, user)]
        for token in tokens:
            token.challenged = True
        return len(tokens)

    def _reaches(self, access: EntraAccessToken, user: EntraUser) -> bool:
        return access.tid == user.tid and (access.user is None or access.user.oid == user.oid)


def pairwise_subject(directory: EntraDirectory, application: OAuthApplication, user: EntraUser) -> str:
    return b64url((guid(directory.registry.seed, application.client_id, user.oid) + user.oid[:4]).encode())[
        :43
    ]


def _access_claims(access: EntraAccessToken, directory: EntraDirectory) -> dict[str, Any]:
    application, user = access.application, access.user
    claims: dict[str, Any] = {
        "aud": GRAPH_APP_ID,
        "iss": f"https://sts.windows.net/{access.tid}/",  # Graph accepts tokens of version 1.0
        "iat": int(access.issued),
        "nbf": int(access.issued),
        "exp": int(access.expires),
        "app_displayname": application.name,
        "appid": application.client_id,
        "appidacr": "1",
        "idtyp": "user" if user else "app",
        "tid": access.tid,
        "uti": b64url(directory.registry.new_bytes("uti", 16)),
        "ver": "1.0",
    }
    if user is None:
        principal = directory.service_principal(application.client_id, access.tid)
        return claims | {"oid": principal, "sub": principal, "roles": sorted(access.roles)}
    return claims | {
        "oid": user.oid,
        "sub": pairwise_subject(directory, application, user),
        "name": user.name,
        "upn": user.upn,
        "unique_name": user.upn,
        "scp": " ".join(sorted(access.scopes)),
    }
