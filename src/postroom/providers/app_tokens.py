"""The access token of an application's own credential, in memory: for requests that concern no mailbox.

Tokens of mailboxes are stored and shared between processes: see `flow.mailboxes.tokens`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from postroom.model import Secret, Tokens

REFRESH_EARLY_SECONDS: Final = 300.0  # before expiry


@dataclass
class AppTokens:
    """A `ports.TokenSource` that requests a token when the last one is about to expire."""

    request: Callable[[Secret | None], Awaitable[Tokens]]  # given the token to replace
    clock: Callable[[], float] = time.monotonic
    _token: Secret | None = None
    _fresh_until: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get_token(self) -> Secret:
        return await self._get_other_than(None)

    async def replace_rejected(self, rejected: Secret) -> Secret:
        return await self._get_other_than(rejected)

    async def find_newer(self, denied: Secret) -> Secret | None:
        return self._token if self._token != denied else None

    async def _get_other_than(self, rejected: Secret | None) -> Secret:
        async with self._lock:
            if self._token is None or self._token == rejected or self.clock() >= self._fresh_until:
                tokens = await self.request(self._token)
                self._token = tokens.access
                self._fresh_until = self.clock() + tokens.expires_in_seconds - REFRESH_EARLY_SECONDS
            return self._token
