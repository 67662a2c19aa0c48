"""How much of what a provider allows is used, by several mailboxes at once: messages stored per minute and
mailbox at Gmail's quota of 2026, requests per 1,000 messages at Graph's limits, and the share of refusals.

Takes real minutes. Gmail lets a mailbox of a new project spend 6,000 units a minute, and a message costs 20:
300 messages a minute at most, before a single listing.
"""

import argparse
import asyncio
import sys
import time
from typing import Any

import uvloop

from sync_environment import SyncEnvironment, open_environment, verdict, worker

MAILBOXES, MINUTES, GRAPH_MESSAGES = 3, 4, 2_000
WANTED_PER_MINUTE, WANTED_REQUESTS, WANTED_REFUSED = 280, 250, 0.01
ALLOWED = 300  # messages a minute, if nothing else were asked
MESSAGE_BYTES = 2_000


async def stored_by_mailbox(there: SyncEnvironment) -> dict[Any, int]:
    rows = await there.owner.execute("SELECT mailbox_id, count(*) FROM messages GROUP BY mailbox_id")
    return dict(await rows.fetchall())


def refused_share(meters: list[dict[str, Any]]) -> float:
    calls = sum(sum(meter["calls"].values()) for meter in meters)
    return sum(meter["rejections"] for meter in meters) / max(calls, 1)


def meters_of(there: SyncEnvironment, addresses: list[str]) -> list[dict[str, Any]]:
    return [meter for meter in there.sim.get("meters") if meter["mailbox"] in addresses]


async def gmail(mailboxes: int, minutes: float) -> bool:
    print(f"Gmail, quota of 2026, {mailboxes} mailboxes at once, {minutes:g} minutes")
    addresses = [f"quota{number}@example.com" for number in range(mailboxes)]
    async with open_environment("--quota", "new") as there:
        for address in addresses:
            there.sim.create(
                "gmail", address, messages=int(ALLOWED * (minutes + 3)), size=MESSAGE_BYTES, kinds=["plain"]
            )
        with worker(there.settings()):
            await there.connect("gmail", addresses)
            rates = await per_minute(there, mailboxes, minutes)
        meters = meters_of(there, addresses)
    print(f"  stored per minute and mailbox: {', '.join(f'{rate:.0f}' for rate in rates)} of {ALLOWED}")
    slowest, share = min(rates), refused_share(meters)
    units = max(meter["units"] for meter in meters)
    print(f"  most units of one mailbox: {units:,}; most calls at a time: {max(m['peak'] for m in meters)}")
    return all(
        [
            verdict(
                f"{slowest:.0f} a minute in the slowest mailbox (wanted: {WANTED_PER_MINUTE} or more)",
                reached=slowest >= WANTED_PER_MINUTE,
            ),
            refusals(share),
        ]
    )


async def per_minute(there: SyncEnvironment, mailboxes: int, minutes: float) -> list[float]:
    """When the first window is over. A page is committed at once: from one commit to the last one."""
    while len(await stored_by_mailbox(there)) < mailboxes:  # noqa: ASYNC110  # another process does it
        await asyncio.sleep(0.1)
    await asyncio.sleep(60)
    commits: dict[Any, list[tuple[float, int]]] = {}
    known, until = await stored_by_mailbox(there), time.perf_counter() + minutes * 60
    while (now := time.perf_counter()) < until:
        for mailbox, count in (await stored_by_mailbox(there)).items():
            if count != known[mailbox]:
                commits.setdefault(mailbox, []).append((now, count))
                known[mailbox] = count
        await asyncio.sleep(0.25)
    spans = [(*each[0], *each[-1]) for each in commits.values()]
    return [(last - first) / max(end - begin, 1) * 60 for begin, first, end, last in spans]


async def graph(mailboxes: int, messages: int) -> bool:
    print(f"Graph's limits, {mailboxes} mailboxes at once, {messages:,} messages in each")
    addresses = [f"quota{number}@example.com" for number in range(mailboxes)]
    async with open_environment() as there:
        for address in addresses:
            there.sim.create("outlook", address, messages=messages, days=20)
        with worker(there.settings()):
            begin = time.perf_counter()
            await there.connect("outlook", addresses)
            await there.until_backfilled(mailboxes)
            seconds = time.perf_counter() - begin
        stored = await stored_by_mailbox(there)
        meters = meters_of(there, addresses)
    total = sum(stored.values())
    assert total == mailboxes * messages, f"{total} messages were stored"
    calls = sum(sum(meter["calls"].values()) for meter in meters)
    share = refused_share(meters)
    requests = calls / total * 1000
    print(f"  {total / seconds * 60 / mailboxes:,.0f} messages stored per minute and mailbox")
    for name in sorted({name for meter in meters for name in meter["calls"]}):
        print(f"    {name:<28} {sum(meter['calls'].get(name, 0) for meter in meters):>8,}")
    text = f"{requests:.0f} requests per 1,000 messages, parts of batches counted each"
    return all(
        [
            verdict(f"{text} (wanted: {WANTED_REQUESTS} or fewer)", reached=requests <= WANTED_REQUESTS),
            refusals(share),
        ]
    )


def refusals(share: float) -> bool:
    text = f"{share:.2%} of the calls were refused (wanted: {WANTED_REFUSED:.0%} or less)"
    return verdict(text, reached=share <= WANTED_REFUSED)


async def main(mailboxes: int, minutes: float, messages: int) -> int:
    reached = [await gmail(mailboxes, minutes), await graph(mailboxes, messages)]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mailboxes", type=int, default=MAILBOXES)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="that Gmail is measured")
    parser.add_argument("--messages", type=int, default=GRAPH_MESSAGES, help="in each mailbox at Graph")
    given = parser.parse_args()
    sys.exit(uvloop.run(main(given.mailboxes, given.minutes, given.messages)))
