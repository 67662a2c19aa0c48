"""Whether more stored mail makes a sync slower, and whether a long first sync makes the worker larger.

The same changes (new mail, read marks, deletions) are synced in turns on a store of 1,000 messages and on one
of 1,000,000, of which all but the first 1,000 were inserted by SQL. Then the memory of a worker process is
watched over a first sync of 100,000 messages.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import uvloop

from postroom import logs
from postroom.flow.mail import sync
from postroom.flow.mail.sync import SyncContext
from postroom.model import MailboxId, ProviderName, WorkKind
from postroom.store import work
from postroom.store.database import Database, open_database
from postroom.store.embedded.stale_processes import find_server_processes
from postroom.store.work import WorkRequest
from postroom.wiring import secrets
from postroom.wiring.engine import build_engine
from sync_environment import (
    NO_QUOTA,
    SyncEnvironment,
    cpu_seconds,
    memory_megabytes,
    open_environment,
    open_world,
    settings,
    verdict,
    worker,
)

SMALL, LARGE, ROUNDS, BACKFILLED = 1_000, 1_000_000, 60, 100_000
NEW, MARKED, DELETED = 5, 4, 1  # of one round
WANTED_RATIO, SETTLED_MESSAGES, WANTED_GROWTH, WANTED_MEGABYTES = 1.3, 5_000, 50, 250
ADDRESS = "growth@example.com"
_CHUNK = 50_000
_FILL = (
    """
    INSERT INTO threads (organization_id, mailbox_id, provider_thread_id, subject, message_count,
        first_message_at, last_message_at)
    SELECT %(organization)s, %(mailbox)s, 'filled' || number, 'Subject ' || number, 1, moment, moment
    FROM (SELECT number, now() - interval '40 days' - number * interval '1 minute' AS moment
        FROM generate_series(%(first)s::bigint, %(last)s) AS number) AS given
    """,
    """
    INSERT INTO messages (organization_id, mailbox_id, provider_message_id, thread_id, version, labels,
        from_address, subject, snippet, received_at, size)
    SELECT organization_id, mailbox_id, provider_thread_id, id, '1', '{INBOX,CATEGORY_PERSONAL}',
        'ann@example.org', subject, subject, last_message_at, 8000
    FROM threads WHERE id > %(thread)s
    """,
    """
    INSERT INTO message_contents (organization_id, message_id, body_plain, search)
    SELECT organization_id, id, repeat(subject || ' is described once more. ', 5),
        message_search(subject, from_address, subject || ' is described once more. ' || md5(id::text))
    FROM messages WHERE id > %(message)s
    """,
    """
    INSERT INTO mail_events (organization_id, mailbox_id, message_id, kind, version)
    SELECT organization_id, mailbox_id, id, 'created', '1' FROM messages WHERE id > %(message)s
    """,
    # Below every position that is given to an entry later.
    """
    INSERT INTO ledger (organization_id, position, event_type, entity_type, entity_id, sha256, mac)
    SELECT organization_id, -id, 'MESSAGE_STORED', 'message', id::text, sha256(id::text::bytea),
        sha256(id::text::bytea) || '12345678'
    FROM messages WHERE id > %(message)s
    """,
    """
    INSERT INTO events (organization_id, position, kind, entity_type, entity_id)
    SELECT organization_id, -id, 'message.created', 'message', id::text FROM messages WHERE id > %(message)s
    """,
)


@dataclass
class Store:
    """A mailbox that is synced in this process."""

    there: SyncEnvironment
    parts: SyncContext
    database: Database
    mailbox: MailboxId
    seconds: list[float]
    database_cpu: float = 0.0

    async def sync(self) -> float:
        """Seconds of one claim and its step."""
        async with self.database.engine() as connection:
            await work.enqueue(
                connection, [WorkRequest(self.there.organization, WorkKind.SYNC, str(self.mailbox))]
            )
        begin = time.perf_counter()
        async with self.database.engine() as connection:
            claim = await work.claim(connection, [WorkKind.SYNC], batch=1, lease_seconds=300)
        [lease] = claim.leases
        await sync.run(self.parts, lease)
        return time.perf_counter() - begin

    async def fill(self, messages: int) -> None:
        """So many messages more, as if they had been synced once."""
        for first in range(1, messages + 1, _CHUNK):
            given = {
                "organization": self.there.organization,
                "mailbox": self.mailbox,
                "first": first,
                "last": min(first + _CHUNK - 1, messages),
                "thread": await self.there.one("SELECT coalesce(max(id), 0) FROM threads"),
                "message": await self.there.one("SELECT coalesce(max(id), 0) FROM messages"),
            }
            for statement in _FILL:
                await self.there.owner.execute(statement, given)
        await self.there.owner.execute("VACUUM ANALYZE")

    def change(self) -> None:
        """What happens in a mailbox in a while, the same in every round."""
        new = self.there.sim.post(
            f"mailboxes/{ADDRESS}/messages", kind="plain", size=8_000, count=NEW + DELETED
        )["messages"]
        for each in new[:MARKED]:
            self.there.sim.act(ADDRESS, each["number"], "mark", read=True)
        for each in new[NEW:]:
            self.there.sim.delete(f"mailboxes/{ADDRESS}/messages/{each['number']}")

    async def measure(self) -> None:
        self.change()
        before = self._database_cpu()
        self.seconds.append(await self.sync())
        self.database_cpu += self._database_cpu() - before

    def _database_cpu(self) -> float:
        return sum(map(cpu_seconds, find_server_processes(self.there.home.parent / "server/postgres/data")))


@asynccontextmanager
async def store(messages: int, more: int) -> AsyncGenerator[Store]:
    """A store with this many synced and inserted messages."""
    async with (
        open_environment("--quota", "off") as there,
        open_database(
            there.url,
            pool_size=8,
            name="bench",
            entry_macs=secrets.build_entry_macs(settings(there.sim, there.home)),
        ) as database,
        open_world(there.sim, database, there.organization, there.home, gmail_quota=NO_QUOTA) as made,
    ):
        there.sim.create("gmail", ADDRESS, messages=messages, days=20, kinds=["plain"])
        done = await made.login(ProviderName.GMAIL, ADDRESS)
        engine = build_engine(settings(there.sim, there.home), database, made.engine.client)
        parts = replace(engine.sync, remote=made.remote)
        found = Store(there, parts, database, done.mailbox.id, [])
        await found.sync()
        await found.fill(more)
        yield found


async def incremental(small: int, large: int, rounds: int) -> bool:
    print(f"{NEW} new messages, {MARKED} marks, {DELETED} come and gone, {rounds} times, in turns")
    async with store(small, 0) as few, store(small, large - small) as many:
        for _ in range(5):  # warm
            for each in (few, many):
                await each.measure()
        for each in (few, many):
            each.seconds, each.database_cpu = [], 0.0
        for _ in range(rounds):
            for each in (few, many):
                await each.measure()
        counts = [await each.there.stored() for each in (few, many)]
    for each, count in zip((few, many), counts, strict=True):
        milliseconds = statistics.median(each.seconds) * 1000
        cpu = each.database_cpu / rounds * 1000
        print(f"  {count:>9,} messages: {milliseconds:.1f} ms a sync, database CPU {cpu:.1f} ms")
    ratio = statistics.median(many.seconds) / statistics.median(few.seconds)
    print(f"  database CPU alone: ratio {many.database_cpu / max(few.database_cpu, 0.01):.2f}")
    return verdict(f"ratio {ratio:.2f} (wanted: {WANTED_RATIO} or less)", reached=ratio <= WANTED_RATIO)


async def memory(messages: int) -> bool:
    print(f"memory of a worker over a first sync of {messages:,} messages, a tenth with 100 KB attached")
    settled, largest, shown = 0.0, 0.0, 0
    first = min(SETTLED_MESSAGES, messages // 2)
    async with open_environment("--quota", "off") as there:
        there.fill("gmail", ADDRESS, messages)
        with worker(there.settings(gmail_quota=NO_QUOTA)) as process:
            await there.connect("gmail", [ADDRESS])
            done = asyncio.create_task(there.until_backfilled(1))
            while not done.done():
                await asyncio.sleep(0.5)
                now, stored = memory_megabytes(process.pid), await there.stored()
                largest = max(largest, now)
                if stored <= first:
                    settled = max(settled, now)
                if stored >= shown:
                    print(f"  {stored:>9,} messages: {now:.0f} MB")
                    shown += messages // 5
            await done
        assert await there.stored() == messages, "not every message was stored"
    growth = largest - settled
    return all(
        [
            verdict(
                f"{growth:.0f} MB more after the first {first:,} (wanted: under {WANTED_GROWTH})",
                reached=growth < WANTED_GROWTH,
            ),
            verdict(
                f"{largest:.0f} MB at most (wanted: under {WANTED_MEGABYTES})",
                reached=largest < WANTED_MEGABYTES,
            ),
        ]
    )


async def main(small: int, large: int, rounds: int, backfilled: int) -> int:
    reached = [await incremental(small, large, rounds), await memory(backfilled)]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=SMALL, help="messages of the small store")
    parser.add_argument("--large", type=int, default=LARGE, help="messages of the large store")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--messages", type=int, default=BACKFILLED, help="of the first sync")
    given = parser.parse_args()
    logs.configure("worker", level="error")
    sys.exit(uvloop.run(main(given.small, given.large, given.rounds, given.messages)))
