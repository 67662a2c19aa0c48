"""Sends the notifications of committed transactions, a few for many commits.

A transaction that contains NOTIFY holds a lock of the whole server while it commits, so such commits queue
behind each other's disk writes. Transactions therefore only collect notifications. A process sends them after
the commit, at most once in `PAUSE_SECONDS`. If it dies in between, listeners find the change when they poll.
"""

import asyncio
from collections.abc import Set as AbstractSet
from typing import Final, LiteralString

from psycopg_pool import AsyncConnectionPool

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.store.connection import Connection
from postroom.store.database_errors import translate_errors

# Due work, without payload. New events and ledger entries; the payload is the organization.
WORK_CHANNEL: LiteralString = "postroom_work"
FEED_CHANNEL: LiteralString = "postroom_feed"
PAUSE_SECONDS: Final = 0.005
CLOSE_SECONDS: Final = 1.0


class Notifier:
    """The notifications of one process that wait to be sent. The first one is sent at once."""

    def __init__(self, pool: AsyncConnectionPool[Connection]) -> None:
        self._pool = pool
        self._waiting: set[tuple[str, str]] = set()
        self._sending: asyncio.Task[None] | None = None

    def add(self, notifications: AbstractSet[tuple[str, str]]) -> None:
        """Send notifications, each a channel and a payload; equal ones that wait together, once."""
        self._waiting |= notifications
        if self._waiting and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._send_all())

    async def close(self) -> None:
        """Send what waits; but an unavailable database delays the end of the process only briefly."""
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=CLOSE_SECONDS)
            self._sending.cancel()

    async def _send_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, set()
            try:
                await self._send(batch)
            except (DatabaseUnavailable, TransientError):  # listeners poll
                return
            await asyncio.sleep(PAUSE_SECONDS)

    async def _send(self, batch: AbstractSet[tuple[str, str]]) -> None:
        with translate_errors():
            async with self._pool.connection() as connection:
                # Nothing is lost if this transaction is: what it announces is on disk.
                await connection.execute(
                    """
                    SELECT set_config('synchronous_commit', 'off', true), pg_notify(channel, payload)
                    FROM unnest(%s::text[], %s::text[]) AS waiting (channel, payload)
                    """,
                    [[channel for channel, _ in batch], [payload for _, payload in batch]],
                )
