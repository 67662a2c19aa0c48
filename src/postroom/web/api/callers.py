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
from postroom.web import origin, sessions
from postroom.web.api.operations import READS, Caller, Problem
from postroom.web.sessions import Gate

# A key is looked up again after this long: so long may one that was revoked still be good.
KNOWN_SECONDS: Final = 5.0
NOTED_SECONDS: Final = 60.0
MOST_KNOWN: Final = 10_000
_BY_ROLE: Final = {
    Role.READER: frozenset({Scope.READ, Scope.LEDGER}),
    Role.REVIEWER: frozenset({Scope.READ, Scope.LEDGER, Scope.DOCUMENTS}),
    Role.ADMIN: frozenset(Scope),
}
_ASKS: Final = {"www_authenticate": 'Bearer realm="postroom"'}


@dataclass
class _Known:
    caller: Caller
    looked_at: float
    noted_at: float = 0.0


@dataclass
class Allowance:
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
class Callers:
    gate: Gate
    per_minute: float = 6000
    _known: OrderedDict[bytes, _Known] = field(default_factory=OrderedDict[bytes, _Known])
    _allowances: OrderedDict[str, Allowance] = field(default_factory=OrderedDict[str, Allowance])

    async def of(self, request: Request, needed: Scope) -> Caller:
        """Raises a Problem where nobody is known, the scope is not theirs, or they call too often."""
        given = request.headers.get("authorization")
        caller = await self._by_key(given) if given else await self._by_session(request)
        if caller is None:
            raise Problem(401, "unauthorized", "Show a key: `Authorization: Bearer pr_…`.", **_ASKS)
        self._spend(caller)
        if needed not in caller.scopes:
            raise Problem(403, "forbidden", f"This needs the scope `{needed}`.")
        return caller

    async def _by_key(self, given: str) -> Caller | None:
        scheme, _, token = given.partition(" ")
        key = Secret(token.strip())
        if scheme.lower() != "bearer" or not token.startswith(PREFIX) or len(token) > 100:
            return None
        digest, now = api_keys.digest(key), time.monotonic()
        known = self._known.get(digest)
        if known is not None and now - known.looked_at < KNOWN_SECONDS:
            return known.caller
        async with self.gate.database.engine() as engine:
            found = await api_keys.bearer(engine, key)
        if found is None:
            self._known.pop(digest, None)
            return None
        caller = Caller(found.organization, f"key:{found.id}", found.scopes)
        noted_at = known.noted_at if known else 0.0
        if now - noted_at > NOTED_SECONDS:
            noted_at = now
            await self._note(found)
        self._known[digest] = _Known(caller, now, noted_at)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return caller

    async def _note(self, found: Bearer) -> None:
        with suppress(DatabaseUnavailable, TransientError):
            async with self.gate.database.transaction(found.organization) as connection:
                await api_keys.used(connection, found.id)

    async def _by_session(self, request: Request) -> Caller | None:
        """A member's browser; what changes anything must come from a page of ours."""
        token = sessions.token_of(self.gate, request)
        visitor = await sessions.look_up(self.gate, token) if token else None
        if visitor is None:
            return None
        if request.method not in READS and not origin.is_same(request, url=self.gate.url):
            raise Problem(403, "forbidden", "Only a page of this Postroom may do that in a browser.")
        return Caller(visitor.organization, visitor.actor, _BY_ROLE[visitor.role])

    def _spend(self, caller: Caller) -> None:
        now = time.monotonic()
        allowance = self._allowances.get(caller.actor)
        if allowance is None:
            allowance = self._allowances[caller.actor] = Allowance(self.per_minute, self.per_minute, now)
            if len(self._allowances) > MOST_KNOWN:
                self._allowances.popitem(last=False)
        wait = allowance.spend(now)
        if wait > 0:
            raise Problem(429, "too-many", "Too many calls. Wait a moment.", retry_after=str(int(wait) + 1))
