"""Codes, refresh tokens and access tokens: issued, looked up, ended, all by the simulator's clock."""

import random
from dataclasses import dataclass, field
from typing import Any

from mailsim.clock import Clock
from mailsim.entra.aadsts import EntraError, stamp
from mailsim.entra.directory import Directory, User, facts
from mailsim.entra.scopes import GRAPH_APP_ID, IDENTITY, spoken
from mailsim.entra.signing import Signer, b64url, new_signer
from mailsim.world import Application, guid

CODE_SECONDS = 600
REFRESH_SECONDS = 90 * 86400
SPA_REFRESH_SECONDS = 86400
KEPT_TOKENS = 5000  # each time so many have been issued, old ones are forgotten


@dataclass(slots=True)
class Code:
    application: Application
    user: User
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
class Refresh:
    application: Application
    user: User
    scopes: list[str]
    issued: float
    expires: float
    spa: bool
    revoked: int = 0  # the AADSTS code by which it is refused


@dataclass(slots=True)
class Access:
    """What a bearer token allows. Without a user it is app-only and `roles` count, else `scopes`."""

    application: Application
    tid: str
    user: User | None
    scopes: frozenset[str]
    roles: frozenset[str]
    issued: float
    expires: float
    challenged: bool = False  # continuous access evaluation asks for another sign-in


@dataclass(slots=True)
class Grants:
    directory: Directory
    clock: Clock
    random: random.Random
    codes: dict[str, Code] = field(default_factory=dict[str, Code])
    refreshes: dict[str, Refresh] = field(default_factory=dict[str, Refresh])
    accesses: dict[str, Access] = field(default_factory=dict[str, Access])
    _signer: Signer | None = None

    @property
    def signer(self) -> Signer:
        """Made when first needed: many simulations never sign anything."""
        if self._signer is None:
            self._signer = new_signer()
        return self._signer

    # Issuing

    def draw(self, purpose: str, size: int) -> str:
        return b64url(self.directory.world.new_bytes(purpose, size))

    def new_code(self, code: Code) -> str:
        name = f"1.{self.draw('code', 96)}"
        self.codes[name] = code
        return name

    def new_refresh(
        self,
        application: Application,
        user: User,
        scopes: list[str],
        *,
        spa: bool,
        until: float | None = None,
    ) -> str:
        """`until`: a single-page app's tokens end when its first one would have."""
        name = f"1.{self.draw('refresh token', 150)}"
        now = self.clock.time()
        expires = until or now + (SPA_REFRESH_SECONDS if spa else REFRESH_SECONDS)
        self.refreshes[name] = Refresh(application, user, scopes, now, expires, spa)
        return name

    def new_access(
        self,
        application: Application,
        tid: str,
        base_url: str,
        *,
        user: User | None = None,
        scopes: list[str] | None = None,
        roles: tuple[str, ...] = (),
        seconds: float | None = None,
    ) -> tuple[str, int]:
        """A signed access token for Graph, and for how many seconds it is good."""
        now = self.clock.time()
        # An hour, give or take: Entra draws the lifetime of a user's token.
        life = seconds if seconds is not None else self.random.randint(3600, 5399) if user else 3599
        allowed = [name for name in scopes or [] if name not in IDENTITY]
        access = Access(application, tid, user, frozenset(allowed), frozenset(roles), now, now + life)
        token = self.signer.sign(_access_claims(access, base_url, self.directory))
        self.accesses[token] = access
        if len(self.accesses) % KEPT_TOKENS == 0:
            self._forget_old()
        return token, int(life)

    def _forget_old(self) -> None:
        """A token that ended a day ago is refused as an unknown one is."""
        limit = self.clock.time() - 86400
        self.accesses = {token: one for token, one in self.accesses.items() if one.expires > limit}

    def id_token(
        self, application: Application, user: User, scopes: list[str], base_url: str, nonce: str
    ) -> str:
        now = int(self.clock.time())
        claims: dict[str, Any] = {
            "aud": application.client_id,
            "iss": f"{base_url}/{user.tid}/v2.0",
            "iat": now,
            "nbf": now,
            "exp": now + 3600,
            "aio": self.draw("aio", 36),
            "rh": f"1.{self.draw('rh', 36)}.",
            "sub": pairwise(self.directory, application, user),
            "tid": user.tid,
            "uti": self.draw("uti", 16),
            "ver": "2.0",
        }
        if "profile" in scopes:
            claims |= {"oid": user.oid, "name": user.name, "preferred_username": user.upn}
        if "email" in scopes:
            claims["email"] = user.upn
        if nonce:
            claims["nonce"] = nonce
        return self.signer.sign(claims)

    def answer(
        self, refresh: Refresh, scopes: list[str], base_url: str, *, nonce: str = "", keep: bool = False
    ) -> dict[str, Any]:
        """The JSON of a successful token request of a user, with a new refresh token if `keep`."""
        application, user = refresh.application, refresh.user
        access, seconds = self.new_access(application, user.tid, base_url, user=user, scopes=scopes)
        answer: dict[str, Any] = {
            "token_type": "Bearer",
            "scope": spoken(scopes),
            "expires_in": seconds,
            "ext_expires_in": seconds,
            "access_token": access,
        }
        if keep:
            until = refresh.expires if refresh.spa else None
            answer["refresh_token"] = self.new_refresh(
                application, user, refresh.scopes, spa=refresh.spa, until=until
            )
            if refresh.spa:
                answer["refresh_token_expires_in"] = int(refresh.expires - self.clock.time())
        if "openid" in scopes:
            answer["id_token"] = self.id_token(application, user, scopes, base_url, nonce)
        return answer

    # Looking up

    def redeem(self, name: str, application: Application) -> Code:
        """A code is good once, for the application that asked for it, for ten minutes."""
        code = self.codes.get(name)
        if code is None or code.application.client_id != application.client_id:
            raise EntraError(70000)
        if code.redeemed:
            raise EntraError(54005)
        if code.expires <= self.clock.time():
            raise EntraError(70008)
        return code

    def use_refresh(self, name: str, application: Application) -> Refresh:
        """Use does not end a refresh token: the old one stays good beside the new one."""
        refresh = self.refreshes.get(name)
        if refresh is None or refresh.application.client_id != application.client_id:
            raise EntraError(70000)
        known = {**facts(application, refresh.user), "issued": stamp(refresh.issued)}
        if refresh.user.oid in self.directory.disabled:
            raise EntraError(50057, **known)
        if self.directory.find(refresh.user.oid) is None:
            raise EntraError(50034, **known)
        if refresh.revoked:
            raise EntraError(refresh.revoked, **known)
        if refresh.expires <= self.clock.time():
            raise EntraError(700084 if refresh.spa else 700082, **known)
        return refresh

    def find_access(self, token: str) -> Access | None:
        return self.accesses.get(token)

    # Ending

    def revoke(self, user: User, code: int, client_id: str = "") -> int:
        """Every refresh token of a user is refused from now on with this AADSTS code."""
        count = 0
        for refresh in self.refreshes.values():
            if refresh.user.oid == user.oid and client_id in {"", refresh.application.client_id}:
                refresh.revoked = code
                count += 1
        return count

    def expire_accesses(self, user: User) -> int:
        """The user's access tokens, and the app-only ones of the tenant, end now."""
        now = self.clock.time()
        ending = [one for one in self.accesses.values() if self._reaches(one, user) and one.expires > now]
        for access in ending:
            access.expires = now
        return len(ending)

    def challenge(self, user: User) -> int:
        """Graph refuses the tokens issued so far with an insufficient_claims challenge."""
        known = [one for one in self.accesses.values() if self._reaches(one, user)]
        for access in known:
            access.challenged = True
        return len(known)

    def _reaches(self, access: Access, user: User) -> bool:
        return access.tid == user.tid and (access.user is None or access.user.oid == user.oid)


def pairwise(directory: Directory, application: Application, user: User) -> str:
    return b64url((guid(directory.world.seed, application.client_id, user.oid) + user.oid[:4]).encode())[:43]


def _access_claims(access: Access, base_url: str, directory: Directory) -> dict[str, Any]:
    application, user = access.application, access.user
    claims: dict[str, Any] = {
        "aud": GRAPH_APP_ID,
        "iss": f"{base_url}/{access.tid}/v2.0",
        "iat": int(access.issued),
        "nbf": int(access.issued),
        "exp": int(access.expires),
        "app_displayname": application.name,
        "appid": application.client_id,
        "appidacr": "1",
        "idtyp": "user" if user else "app",
        "tid": access.tid,
        "uti": b64url(directory.world.new_bytes("uti", 16)),
        "ver": "1.0",
    }
    if user is None:
        principal = directory.service_principal(application.client_id, access.tid)
        return claims | {"oid": principal, "sub": principal, "roles": sorted(access.roles)}
    return claims | {
        "oid": user.oid,
        "sub": pairwise(directory, application, user),
        "name": user.name,
        "upn": user.upn,
        "unique_name": user.upn,
        "scp": " ".join(sorted(access.scopes)),
    }
