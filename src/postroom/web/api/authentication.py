"""Who calls the API: a program with its key, or a member with a session; and how often they may."""

import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.model import Role, Scope, Secret
from postroom.store import api_keys
from postroom.store.api_keys import PREFIX, Bearer
from postroom.web import csrf, sessions
from postroom.web.api.operations import READ_METHODS, ApiCaller, ApiProblem
from postroom.web.sessions import SiteContext

# A key is looked up again after this long: so long may one that was revoked still be good.
CACHE_SECONDS: Final = 5.0
LAST_USED_SECONDS: Final = 60.0
MAX_CACHED: Final = 10_000
_SCOPES_BY_ROLE: Final = {
    Role.READER: frozenset({Scope.READ, Scope.LEDGER}),
    Role.REVIEWER: frozenset({Scope.READ, Scope.LEDGER, Scope.DOCUMENTS}),
    Role.ADMIN: frozenset(Scope),
}
_CHALLENGE: Final = {"www_authenticate": 'Bearer realm="postroom"'}


@dataclass
class _CachedCaller:
    caller: ApiCaller
    looked_at: float
    noted_at: float = 0.0


@dataclass
class CallAllowance:
    """A bucket that fills steadily: a minute's worth may be spent at once."""

    per_minute: float
    left: float
    at: float

    def spend(self, now: float) -> float:
        """Seconds to wait; 0 where the call is allowed."""
        self.left = min(self.per_minute, self.left + (now - self.at) * self.per_minute / 60)
        self.at = now
        if self.left < 1:
            return (1 - self.left) * 60 / self.per_minute
        self.left -= 1
        return 0.0


@dataclass
class ApiAuthenticator:
    site: SiteContext
    per_minute: float = 6000
    _known: OrderedDict[bytes, _CachedCaller] = field(default_factory=OrderedDict[bytes, _CachedCaller])
    _allowances: OrderedDict[str, CallAllowance] = field(default_factory=OrderedDict[str, CallAllowance])

    async def of(self, request: Request, needed: Scope) -> ApiCaller:
        """Raises a Problem where nobody is known, the scope is not theirs, or they call too often."""
        given = request.headers.get("authorization")
        caller = await self._by_key(given) if given else await self._by_session(request)
        if caller is None:
            raise ApiProblem(401, "unauthorized", "Show a key: `Authorization: Bearer pr_…`.", **_CHALLENGE)
        self._spend(caller)
        if needed not in caller.scopes:
            raise ApiProblem(403, "forbidden", f"This needs the scope `{needed}`.")
        return caller

    async def _by_key(self, given: str) -> ApiCaller | None:
        scheme, _, token = given.partition(" ")
        key = Secret(token.strip())
        if scheme.lower() != "bearer" or not token.startswith(PREFIX) or len(token) > 100:
            return None
        digest, now = api_keys.digest(key), time.monotonic()
        known = self._known.get(digest)
        if known is not None and now - known.looked_at < CACHE_SECONDS:
            return known.caller
        async with self.site.database.engine() as engine:
            found = await api_keys.bearer(engine, key)
        if found is None:
            self._known.pop(digest, None)
            return None
        caller = ApiCaller(found.organization, f"key:{found.id}", found.scopes)
        noted_at = known.noted_at if known else 0.0
        if now - noted_at > LAST_USED_SECONDS:
            noted_at = now
            await self._note(found)
        self._known[digest] = _CachedCaller(caller, now, noted_at)
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        return caller

    async def _note(self, found: Bearer) -> None:
        with suppress(DatabaseUnavailable, TransientError):
            async with self.site.database.transaction(found.organization) as connection:
                await api_keys.used(connection, found.id)

    async def _by_session(self, request: Request) -> ApiCaller | None:
        """A member's browser; what changes anything must come from a page of ours."""
        token = sessions.get_session_token(self.site, request)
        visitor = await sessions.find_visitor_by_token(self.site, token) if token else None
        if visitor is None:
            return None
        if request.method not in READ_METHODS and not csrf.is_same_origin(request, url=self.site.url):
            raise ApiProblem(403, "forbidden", "Only a page of this Postroom may do that in a browser.")
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
                429, "too-many", "Too many calls. Wait a moment.", retry_after=str(int(wait) + 1)
            )
