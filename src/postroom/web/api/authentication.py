"""Authentication of API calls, by API key or session, with scopes and a rate limit per caller."""

import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.flow.access.api_keys import ACTOR_PREFIX
from postroom.model import Role, Scope, Secret
from postroom.store import api_keys
from postroom.store.api_keys import PREFIX, ApiKeyBearer
from postroom.web import csrf, sessions
from postroom.web.api.operations import READ_METHODS, ApiCaller, ApiProblem
from postroom.web.sessions import SiteContext

# A looked-up key is cached this long, so a revoked key may stay valid for as long.
CACHE_SECONDS: Final = 5.0
LAST_USED_SECONDS: Final = 60.0
MAX_CACHED: Final = 10_000
_SCOPES_BY_ROLE: Final = {
    Role.READER: frozenset({Scope.READ, Scope.LEDGER}),
    Role.REVIEWER: frozenset({Scope.READ, Scope.LEDGER, Scope.DOCUMENTS}),
    Role.ADMIN: frozenset(Scope),
}
_CHALLENGE: Final = 'Bearer realm="postroom"'


@dataclass
class _CachedCaller:
    caller: ApiCaller
    looked_up_at: float
    last_used_at: float = 0.0


@dataclass
class CallAllowance:
    """A token bucket that holds up to one minute's calls."""

    per_minute: float
    left: float
    at: float
    is_exceeded: bool = False

    def spend(self, now: float) -> float:
        """Take one call from the bucket; the seconds to wait if it is empty, else 0."""
        self.left = min(self.per_minute, self.left + (now - self.at) * self.per_minute / 60)
        self.at = now
        self.is_exceeded = self.left < 1
        if self.is_exceeded:
            return (1 - self.left) * 60 / self.per_minute
        self.left -= 1
        return 0.0


@dataclass
class ApiAuthenticator:
    """Identifies callers and enforces their scopes and rate limits."""

    site: SiteContext
    per_minute: float = 6000
    _cache: OrderedDict[bytes, _CachedCaller] = field(default_factory=OrderedDict[bytes, _CachedCaller])
    _allowances: OrderedDict[str, CallAllowance] = field(default_factory=OrderedDict[str, CallAllowance])

    async def identify(self, request: Request) -> ApiCaller:
        """Identify the caller; raises ApiProblem for a missing or invalid key or session."""
        authorization = request.headers.get("authorization")
        caller = (
            await self._find_by_key(authorization) if authorization else await self._find_by_session(request)
        )
        if caller is None:
            raise ApiProblem(
                401,
                "unauthorized",
                "Missing or invalid API key. Send `Authorization: Bearer pr_…`.",
                www_authenticate=_CHALLENGE,
            )
        return caller

    def admit(self, caller: ApiCaller, needed: Scope) -> None:
        """Raise ApiProblem after too many calls, or if the caller lacks the scope."""
        self._spend(caller)
        if needed not in caller.scopes:
            raise ApiProblem(403, "forbidden", f"The API key lacks the scope `{needed}`.")

    def is_over_limit(self, caller: ApiCaller) -> bool:
        """Whether the rate limit rejected the caller's last call."""
        allowance = self._allowances.get(caller.actor)
        return allowance is not None and allowance.is_exceeded

    async def _find_by_key(self, authorization: str) -> ApiCaller | None:
        scheme, _, token = authorization.partition(" ")
        key = Secret(token.strip())
        if scheme.lower() != "bearer" or not token.startswith(PREFIX) or len(token) > 100:
            return None
        digest, now = api_keys.digest(key), time.monotonic()
        cached = self._cache.get(digest)
        if cached is not None and now - cached.looked_up_at < CACHE_SECONDS:
            return cached.caller
        async with self.site.database.engine() as engine:
            found = await api_keys.find_bearer(engine, key)
        if found is None:
            self._cache.pop(digest, None)
            return None
        caller = ApiCaller(
            found.organization, f"{ACTOR_PREFIX}{found.id}", found.scopes, records_calls=found.records_calls
        )
        last_used_at = cached.last_used_at if cached else 0.0
        if now - last_used_at > LAST_USED_SECONDS:
            last_used_at = now
            await self._record_use(found)
        self._cache[digest] = _CachedCaller(caller, now, last_used_at)
        if len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)
        return caller

    async def _record_use(self, found: ApiKeyBearer) -> None:
        with suppress(DatabaseUnavailable, TransientError):
            async with self.site.database.transaction(found.organization) as connection:
                await api_keys.record_use(connection, found.id)

    async def _find_by_session(self, request: Request) -> ApiCaller | None:
        """Identify a member by the session cookie. Writes must come from our own origin."""
        token = sessions.get_session_token(self.site, request)
        visitor = await sessions.find_visitor_by_token(self.site, token) if token else None
        if visitor is None:
            return None
        if request.method not in READ_METHODS and not csrf.is_same_origin(request, url=self.site.url):
            raise ApiProblem(
                403,
                "forbidden",
                "Cross-origin request rejected. In a browser, only pages of this Postroom may write.",
            )
        return ApiCaller(visitor.organization, visitor.actor, _SCOPES_BY_ROLE[visitor.role])

    def _spend(self, caller: ApiCaller) -> None:
        now = time.monotonic()
        allowance = self._allowances.get(caller.actor)
        if allowance is None:
            allowance = self._allowances[caller.actor] = CallAllowance(self.per_minute, self.per_minute, now)
            if len(self._allowances) > MAX_CACHED:
                self._allowances.popitem(last=False)
        wait = allowance.spend(now)
        if wait > 0:
            raise ApiProblem(
                429,
                "rate-limited",
                "Rate limit exceeded. Retry after the delay in `Retry-After`.",
                retry_after=str(int(wait) + 1),
            )
