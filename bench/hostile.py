"""Time from delivery to committed row for one organization's mail, alone and while another gets hostile mail.

500 hostile messages and 500 hostile files arrive at two mailboxes of one organization. Messages of the other
arrive at ten mailboxes, before and during the attack. The web process and two workers are the real ones.
"""

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import cycle
from uuid import uuid4

import aiohttp
import uvloop

from latency import NOTIFY, TOKEN, Deliveries, create_push_subscription, until_subscribed
from postroom.model import OrganizationId
from sync_environment import (
    ROOT,
    SyncEnvironment,
    hostile_corpus,
    note_the_load,
    open_environment,
    percentile,
    verdict,
    web,
)

QUIET_MAILBOXES, WORKERS, SEED = 10, 2, 7
LATENCY_MS, PATIENCE_SECONDS = 40, 3600
WANTED = 2.0
HOSTILE = {"gmail": "gmail@bad.example", "outlook": "outlook@bad.example"}
_COUNT_LOST_LEASES = (
    "CREATE TABLE bench_lost_leases (kind text, subject text)",
    """
    CREATE FUNCTION bench_lost_lease() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO postroom.bench_lost_leases VALUES (NEW.kind, NEW.subject);
        RETURN NULL;
    END $$
    """,
    "GRANT EXECUTE ON FUNCTION bench_lost_lease() TO PUBLIC",
    """
    CREATE TRIGGER bench_lost_lease AFTER UPDATE ON work FOR EACH ROW
        WHEN (NEW.lost_leases > OLD.lost_leases) EXECUTE FUNCTION bench_lost_lease()
    """,
)


class QuietDeliveries(Deliveries):
    """One message a second, to one mailbox after the other: Gmail announces only one change a second."""

    async def deliver(self, seconds: float, per_second: float) -> None:
        mailboxes = cycle(self.addresses)
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as client,
            asyncio.TaskGroup() as tasks,
        ):
            for _ in range(int(seconds * per_second)):
                await asyncio.sleep(1 / per_second)
                tasks.create_task(self.deliver_one(client, next(mailboxes)))


@contextmanager
def postroom_workers(settings: dict[str, str]) -> Generator[list[subprocess.Popen[bytes]]]:
    """Real workers for the block."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
    given = kept | settings | {"PYTHONPATH": str(ROOT / "src"), "POSTROOM_LOG_LEVEL": "error"}
    command = [sys.executable, "-m", "postroom", "work"]
    processes = [subprocess.Popen(command, env=given) for _ in range(WORKERS)]
    try:
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


@asynccontextmanager
async def connected() -> AsyncGenerator[tuple[SyncEnvironment, list[str], OrganizationId]]:
    """The quiet organization's mailboxes, and those of a hostile one; web process and workers run."""
    async with open_environment("--quota", "off", "--latency-ms", str(LATENCY_MS)) as there:
        hostile = OrganizationId(uuid4())
        await there.owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'Hostile')", [hostile])
        quiet = {
            provider: [f"{provider}{number}@example.com" for number in range(QUIET_MAILBOXES // 2)]
            for provider in HOSTILE
        }
        for provider, addresses in quiet.items():
            for address in (*addresses, HOSTILE[provider]):
                there.sim.create(provider, address, messages=2)
            await there.connect(provider, addresses)
            await replace(there, organization=hostile).connect(provider, [HOSTILE[provider]])
        for statement in (*NOTIFY, *_COUNT_LOST_LEASES):
            await there.owner.execute(statement.encode())
        yield there, [address for addresses in quiet.values() for address in addresses], hostile


async def flood(there: SyncEnvironment, messages: Sequence[bytes], seconds: float) -> int:
    """Deliver the corpus within some seconds; returns how many messages the provider took."""
    accepted = 0
    addresses = cycle(HOSTILE.values())
    headers = {"content-type": "message/rfc822"}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as client:
        for raw in messages:
            url = f"{there.sim.ready['control']}/mailboxes/{next(addresses)}/messages"
            async with client.post(url, data=raw, headers=headers) as response:
                accepted += response.ok
            await asyncio.sleep(seconds / len(messages))
    return accepted


async def measure(there: SyncEnvironment, addresses: list[str], seconds: float) -> list[float]:
    deliveries, ready = QuietDeliveries(there, addresses), asyncio.Event()
    listening = asyncio.create_task(deliveries.listen(ready))
    try:
        await ready.wait()
        await deliveries.deliver(seconds, per_second=1)
        return await deliveries.latencies(PATIENCE_SECONDS)
    finally:
        listening.cancel()


async def until_processed(there: SyncEnvironment, hostile: OrganizationId, messages: int) -> None:
    """Wait until every hostile message is stored or an open failure, and no document waits."""
    query = """
        SELECT (SELECT count(*) FROM messages WHERE organization_id = %(hostile)s)
            + (SELECT count(*) FROM failures WHERE organization_id = %(hostile)s AND kind = 'message'
                AND resolved_at IS NULL) >= %(messages)s
            AND NOT EXISTS (SELECT FROM work WHERE organization_id = %(hostile)s
                AND state IN ('waiting', 'leased') AND kind <> 'audit' AND due_at <= postroom_now())
    """
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            cursor = await there.owner.execute(query, {"hostile": hostile, "messages": messages})
            row = await cursor.fetchone()
            if row and row[0]:
                return
            await asyncio.sleep(0.5)


async def show_outcomes(there: SyncEnvironment, hostile: OrganizationId) -> None:
    for title, query in {
        "documents": "SELECT state, count(*) FROM documents WHERE organization_id = %s GROUP BY 1",
        "open failures": "SELECT kind, count(*) FROM failures WHERE organization_id = %s GROUP BY 1",
    }.items():
        rows = await (await there.owner.execute(query.encode(), [hostile])).fetchall()
        print(f"  {title}: {', '.join(f'{count} {name}' for name, count in rows) or 'none'}")


def show(name: str, found: list[float]) -> float:
    p99 = percentile(found, 0.99)
    print(f"  {name:8} {len(found)} messages: p50 {percentile(found, 0.5):.3f} s, p99 {p99:.3f} s")
    return p99


async def main(count: int, seconds: float) -> int:
    note_the_load()
    files = hostile_corpus.write_files(SEED)[-count:]
    messages = [hostile_corpus.attach(number, file) for number, file in enumerate(files)]
    others = list(hostile_corpus.write_messages(SEED))[:count]
    pairs = zip(messages, others, strict=True)
    # Every second pair is reversed: messages alternate between the mailboxes, and each must get both kinds.
    corpus = [raw for number, pair in enumerate(pairs) for raw in (pair[::-1] if number % 2 else pair)]
    print(f"{len(corpus)} hostile messages, {sum(map(len, corpus)) / 1e6:.0f} MB, in {seconds:g} s")
    async with connected() as (there, addresses, hostile):
        secret = {"pubsub_token": TOKEN}
        with (
            web(there.settings(**secret)) as address,
            postroom_workers(there.settings(**secret, public_url=address)) as workers,
        ):
            create_push_subscription(there, address)
            mailboxes = len(addresses) + len(HOSTILE)
            await there.until_backfilled(mailboxes)
            await until_subscribed(there, mailboxes)
            idle = await measure(there, addresses, seconds)
            accepted, beside = await asyncio.gather(
                flood(there, corpus, seconds), measure(there, addresses, seconds)
            )
            await until_processed(there, hostile, accepted + 2 * len(HOSTILE))
            lost = [process.returncode for process in workers if process.poll() is not None]
        leases = await there.one("SELECT count(*) FROM bench_lost_leases")
        await show_outcomes(there, hostile)
    ratio = show("flood", beside) / show("idle", idle)
    print(f"  the provider took {accepted} of {len(corpus)} hostile messages")
    return (
        0
        if all(
            [
                verdict(f"ratio of p99 {ratio:.2f} (wanted: {WANTED} or less)", reached=ratio <= WANTED),
                verdict(f"{len(lost)} workers ended, {leases} leases lost", reached=not lost and not leases),
            ]
        )
        else 1
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=hostile_corpus.FILES, help="files, and messages")
    parser.add_argument("--seconds", type=float, default=120, help="duration of each measurement")
    given = parser.parse_args()
    sys.exit(uvloop.run(main(given.count, given.seconds)))
