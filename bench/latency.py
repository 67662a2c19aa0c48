"""From the delivery of a message at its provider to its committed row: 200 mailboxes, half at each provider,
mail arriving at random, 40 ms until the provider answers anything.

First with pushes to a web process, then without any, where the sweep must find the mail. A trigger in the
database announces every message when its transaction commits.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import psycopg
import uvloop

from sync_environment import (
    SyncEnvironment,
    note_the_load,
    open_environment,
    percentile,
    verdict,
    web,
    worker,
)

MAILBOXES, SECONDS, PER_SECOND, LATENCY_MS, SWEEP_MINUTES = 200, 120, 2.0, 40, 1
LONGEST_WAIT_SECONDS = 1000  # longer than the sweeps are apart, which find what no push announced
SWEPT_SECONDS = 10
ROUND_TRIPS, SLACK_SECONDS, TAIL_SECONDS = 3, 0.1, 1.0
TOPIC, TOKEN = "projects/mailsim/topics/gmail", "known-to-both-sides"
NOTIFY = (
    """
    CREATE FUNCTION bench_notify() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_notify('bench', NEW.internet_message_id);
        RETURN NULL;
    END $$
    """,
    "GRANT EXECUTE ON FUNCTION bench_notify() TO PUBLIC",
    "CREATE TRIGGER bench_notify AFTER INSERT ON messages FOR EACH ROW EXECUTE FUNCTION bench_notify()",
)


class Deliveries:
    """When each message was delivered, and when it was committed."""

    def __init__(self, there: SyncEnvironment, addresses: list[str]) -> None:
        self._there = there
        self.addresses = addresses
        self._chance = random.Random(7)
        self.delivered: dict[str, float] = {}
        self.stored: dict[str, float] = {}

    async def listen(self, ready: asyncio.Event) -> None:
        async with await psycopg.AsyncConnection.connect(self._there.url, autocommit=True) as connection:
            await connection.execute("LISTEN bench")
            ready.set()
            async for notification in connection.notifies():
                self.stored.setdefault(notification.payload, time.perf_counter())

    async def deliver(self, seconds: float, per_second: float) -> None:
        """At random moments to random mailboxes, whatever else happens."""
        async with aiohttp.ClientSession() as client, asyncio.TaskGroup() as tasks:
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                await asyncio.sleep(self._chance.expovariate(per_second))
                tasks.create_task(self.deliver_one(client, self._chance.choice(self.addresses)))

    async def deliver_one(self, client: aiohttp.ClientSession, address: str) -> None:
        key = f"<{self._chance.getrandbits(64):x}@bench.example>"
        raw = (
            f"Message-ID: {key}\r\nFrom: Ann <ann@example.org>\r\nTo: {address}\r\nSubject: A message\r\n"
            "Date: Mon, 05 Jan 2026 09:00:00 +0000\r\nContent-Type: text/plain\r\n\r\n"
        ) + "A line of a message without content.\r\n" * 100
        url = f"{self._there.sim.ready['control']}/mailboxes/{address}/messages"
        self.delivered[key] = time.perf_counter()
        headers = {"content-type": "message/rfc822"}
        async with client.post(url, data=raw.encode(), headers=headers) as answer:
            assert answer.ok, await answer.text()

    async def latencies(self, patience: float) -> list[float]:
        """Of all that were delivered, when all of them are stored."""
        async with asyncio.timeout(patience):
            while not self.delivered.keys() <= self.stored.keys():  # noqa: ASYNC110  # another process does it
                await asyncio.sleep(0.05)
        return [self.stored[key] - at for key, at in self.delivered.items()]


@asynccontextmanager
async def connected(mailboxes: int) -> AsyncGenerator[tuple[SyncEnvironment, list[str]]]:
    """So many mailboxes at the simulator, half at each provider, not yet connected."""
    half = mailboxes // 2
    names = {
        "gmail": [f"gmail{number}@example.com" for number in range(mailboxes - half)],
        "outlook": [f"outlook{number}@example.com" for number in range(half)],
    }
    async with open_environment("--quota", "off", "--latency-ms", str(LATENCY_MS)) as there:
        for provider, addresses in names.items():
            for address in addresses:
                there.sim.create(provider, address, messages=2)
            await there.connect(provider, addresses)
        for statement in NOTIFY:
            await there.owner.execute(statement)
        yield there, [address for addresses in names.values() for address in addresses]


async def measured(
    there: SyncEnvironment, addresses: list[str], seconds: float, per_second: float, patience: float
) -> list[float]:
    deliveries, ready = Deliveries(there, addresses), asyncio.Event()
    listening = asyncio.create_task(deliveries.listen(ready))
    try:
        await ready.wait()
        await deliveries.deliver(seconds, per_second)
        return await deliveries.latencies(patience)
    finally:
        listening.cancel()


def show(found: list[float]) -> tuple[float, float]:
    p50, p99 = percentile(found, 0.5), percentile(found, 0.99)
    print(f"  {len(found):,} messages: p50 {p50:.3f} s, p99 {p99:.3f} s, longest {max(found):.3f} s")
    return p50, p99


def create_push_subscription(there: SyncEnvironment, address: str) -> None:
    """Let the simulated Pub/Sub push Gmail's notifications to a web process."""
    there.sim.post("google/topics", name=TOPIC)
    there.sim.post(
        "google/subscriptions",
        name="projects/mailsim/subscriptions/bench",
        topic=TOPIC,
        push_endpoint=f"{address}/webhooks/gmail?token={TOKEN}",
    )


async def with_pushes(mailboxes: int, seconds: float, per_second: float) -> bool:
    print(f"{mailboxes} mailboxes, {per_second:g} messages a second, latency {LATENCY_MS} ms, with pushes")
    async with connected(mailboxes) as (there, addresses):
        secret = {"pubsub_token": TOKEN}
        with (
            web(there.settings(**secret)) as address,
            worker(there.settings(**secret, public_url=address)),
        ):
            create_push_subscription(there, address)
            await there.until_backfilled(mailboxes)
            await until_subscribed(there, mailboxes)
            found = await measured(there, addresses, seconds, per_second, LONGEST_WAIT_SECONDS)
            dropped = sum(meter["pushes_dropped"] for meter in there.sim.get("meters"))
    p50, p99 = show(found)
    swept = sum(each > SWEPT_SECONDS for each in found)
    print(f"  {dropped} pushes were dropped, as Gmail does with a mailbox's second change in a second")
    print(f"  {swept} messages waited for a sweep")
    wanted = ROUND_TRIPS * LATENCY_MS / 1000 + SLACK_SECONDS
    return all(
        [
            verdict(f"p50 {p50:.3f} s (wanted: {wanted:.2f} s or less)", reached=p50 <= wanted),
            verdict(
                f"p99 {p99:.3f} s (wanted: {wanted + TAIL_SECONDS:.2f} s or less)",
                reached=p99 <= wanted + TAIL_SECONDS,
            ),
        ]
    )


async def until_subscribed(there: SyncEnvironment, mailboxes: int) -> None:
    query = "SELECT count(DISTINCT mailbox_id) FROM subscriptions WHERE confirmed_at IS NOT NULL"
    async with asyncio.timeout(600):
        while await there.one(query) < mailboxes:  # noqa: ASYNC110  # another process does it
            await asyncio.sleep(0.1)


async def without_pushes(mailboxes: int, seconds: float, per_second: float) -> bool:
    interval = SWEEP_MINUTES * 60
    print(f"the same without pushes, a sweep every {interval} s")
    async with connected(mailboxes) as (there, addresses):
        sweeps = dict.fromkeys(("gmail_sweep_minutes", "outlook_sweep_minutes"), str(SWEEP_MINUTES))
        with worker(there.settings(**sweeps)):
            await there.until_backfilled(mailboxes)
            found = await measured(there, addresses, seconds, per_second, 3 * interval)
    show(found)
    wanted = interval + ROUND_TRIPS * LATENCY_MS / 1000 + TAIL_SECONDS
    return verdict(
        f"longest {max(found):.1f} s (wanted: {wanted:.1f} s or less)", reached=max(found) <= wanted
    )


async def main(mailboxes: int, seconds: float, per_second: float) -> int:
    note_the_load()
    reached = [
        await with_pushes(mailboxes, seconds, per_second),
        await without_pushes(mailboxes, seconds, per_second),
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mailboxes", type=int, default=MAILBOXES)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that mail arrives")
    parser.add_argument("--per-second", type=float, default=PER_SECOND, help="messages, over all mailboxes")
    given = parser.parse_args()
    sys.exit(uvloop.run(main(given.mailboxes, given.seconds, given.per_second)))
