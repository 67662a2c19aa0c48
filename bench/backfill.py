"""Messages per second of a first sync, beside two loops that do it by hand.

Without latency: beside a bare loop that downloads the same answers with the same client, takes them apart
(email, compat32) and COPYs the rows. With 50 ms of latency: beside the sequential way, one message asked for
and inserted after the other, measured on a few hundred. CPU seconds show which side was the limit. If lieer
is installed, its rate is printed next to ours: `--lieer` names a Python that has it.
"""

import argparse
import asyncio
import base64
import email
import json
import re
import sys
import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from email.message import Message
from typing import Any

import aiohttp
import psycopg
import uvloop

from postroom.store import roles
from sync_environment import (
    NO_QUOTA,
    SyncEnvironment,
    cpu_seconds,
    lieer,
    note_the_load,
    open_environment,
    verdict,
    worker,
)

MESSAGES, SEQUENTIAL, LATENCY_MS, BATCH, PARALLEL = 20_000, 300, 50, 50, 4
WANTED_RATIO, WANTED_TIMES, BUSY = 0.5, 40, 0.9
ADDRESS = "backfill@example.com"
_PART = re.compile(rb'\{"id":.*?\}(?=\r\n--)', re.DOTALL)
_TABLE = """
    CREATE TABLE bare (id text PRIMARY KEY, thread text, labels text[], internal_date bigint, size bigint,
        subject text, sender text, recipients text, message_id text, body text, attachments bigint)
"""


@dataclass(frozen=True)
class Took:
    messages: int
    seconds: float
    ours: float  # CPU seconds of the one who reads
    simulator: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    def show(self, name: str) -> None:
        print(
            f"{name:<32} {self.rate:>8,.0f} messages/s ({self.messages:,} in {self.seconds:.1f} s;"
            f" CPU: reader {self.ours:.1f} s, simulator {self.simulator:.1f} s)"
        )

    @property
    def simulator_busy(self) -> float:
        return self.simulator / self.seconds


class Bare:
    """Gmail read by hand."""

    def __init__(self, there: SyncEnvironment, client: aiohttp.ClientSession, token: str) -> None:
        self._url = there.sim.http
        self._client = client
        self._headers = {"Authorization": f"Bearer {token}"}

    async def ids(self) -> AsyncGenerator[str]:
        token: str | None = ""
        while token is not None:
            query = {"maxResults": "500", "includeSpamTrash": "true", "pageToken": token}
            page = json.loads(await self._get("messages", query))
            for each in page.get("messages", ()):
                yield each["id"]
            token = page.get("nextPageToken")

    async def message(self, key: str) -> dict[str, Any]:
        return json.loads(await self._get(f"messages/{key}", {"format": "raw"}))

    async def batch(self, keys: list[str]) -> list[dict[str, Any]]:
        body = "".join(
            f"--b\r\nContent-Type: application/http\r\nContent-ID: <{key}>\r\n\r\n"
            f"GET /gmail/v1/users/me/messages/{key}?format=raw&prettyPrint=false HTTP/1.1\r\n\r\n\r\n"
            for key in keys
        )
        headers = self._headers | {"Content-Type": "multipart/mixed; boundary=b"}
        async with self._client.post(
            f"{self._url}/batch/gmail/v1", data=f"{body}--b--", headers=headers
        ) as answer:
            found = [json.loads(part) for part in _PART.findall(await answer.read())]
        assert len(found) == len(keys), f"{len(found)} answers to {len(keys)} questions"
        return found

    async def _get(self, path: str, query: dict[str, str]) -> bytes:
        url = f"{self._url}/gmail/v1/users/me/{path}"
        async with self._client.get(url, params=query, headers=self._headers) as answer:
            assert answer.ok, await answer.text()
            return await answer.read()


def row(message_json: dict[str, Any]) -> tuple[object, ...]:
    message = email.message_from_bytes(base64.urlsafe_b64decode(message_json["raw"] + "=="))
    body, attached = "", 0
    for part in message.walk():
        if not part.is_multipart():
            content: Any = part.get_payload(decode=True)
            if part.get_content_type() == "text/plain" and not body:
                body = content.decode("utf-8", "replace").replace("\0", "")
            elif part.get_filename():
                attached += len(content)
    return (
        message_json["id"],
        message_json["threadId"],
        message_json["labelIds"],
        int(message_json["internalDate"]),
        message_json["sizeEstimate"],
        *_heads(message),
        body,
        attached,
    )


def _heads(message: Message) -> Iterable[str]:
    return [str(message.get(name, "")) for name in ("subject", "from", "to", "message-id")]


async def connected(url: str) -> psycopg.AsyncConnection[Any]:
    """Every statement commits."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    await roles.assume(connection)
    return connection


async def bare(reader: Bare, url: str) -> int:
    """Batches of 50, four at a time; each batch is one COPY and one commit."""
    keys = [key async for key in reader.ids()]
    batches = iter([keys[start : start + BATCH] for start in range(0, len(keys), BATCH)])

    async def read() -> None:
        async with await connected(url) as connection:
            for batch in batches:
                rows = [row(each) for each in await reader.batch(batch)]
                async with connection.cursor() as cursor, cursor.copy("COPY bare FROM STDIN") as copy:
                    for each in rows:
                        await copy.write_row(each)

    await asyncio.gather(*(read() for _ in range(PARALLEL)))
    return len(keys)


async def sequential(reader: Bare, url: str, most: int) -> int:
    """List, then get one message after the other, and insert row by row."""
    done = 0
    async with await connected(url) as connection:
        async for key in reader.ids():
            values = row(await reader.message(key))
            await connection.execute(
                "INSERT INTO bare VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", values
            )
            done += 1
            if done == most:
                break
    return done


async def by_hand(there: SyncEnvironment, most: int | None) -> Took:
    """The bare loop, or this many messages one after another."""
    token = there.sim.post("google/tokens", address=ADDRESS)["access_token"]
    await there.owner.execute(_TABLE)
    async with aiohttp.ClientSession() as client:
        reader = Bare(there, client, token)
        before, own, begin = cpu_seconds(there.sim.process.pid), time.process_time(), time.perf_counter()
        done = await (bare(reader, there.url) if most is None else sequential(reader, there.url, most))
        seconds = time.perf_counter() - begin
    own = time.process_time() - own
    return Took(done, seconds, own, cpu_seconds(there.sim.process.pid) - before)


async def ours(there: SyncEnvironment) -> Took:
    """From the moment the mailbox is connected until its last page is committed."""
    with worker(there.settings(gmail_quota=NO_QUOTA)) as process:
        pids = process.pid, there.sim.process.pid
        before = [cpu_seconds(pid) for pid in pids]
        await there.connect("gmail", [ADDRESS])
        begin = time.perf_counter()
        await there.until_backfilled(1)
        seconds = time.perf_counter() - begin
        used = [cpu_seconds(pid) - was for pid, was in zip(pids, before, strict=True)]
    return Took(await there.stored(), seconds, *used)


async def lieers(there: SyncEnvironment, python: str) -> Took:
    """A pull into an empty notmuch database."""
    token = there.sim.post("google/tokens", address=ADDRESS)["access_token"]
    simulator, used = there.sim.process.pid, 0.0
    before, begin = cpu_seconds(simulator), time.perf_counter()
    with lieer.pull(python, there.home, there.sim.http, ADDRESS, token) as process:
        while process.poll() is None:
            used = cpu_seconds(process.pid)
            await asyncio.sleep(0.05)
        assert process.returncode == 0, "lieer failed"
    seconds = time.perf_counter() - begin
    return Took(lieer.pulled(there.home), seconds, used, cpu_seconds(simulator) - before)


async def against_the_bare_loop(messages: int, python: str | None) -> bool:
    print(f"{messages:,} messages of 8 KB, a tenth with an attachment of 100 KB, no quota, no latency")
    async with open_environment("--quota", "off") as there:
        there.fill("gmail", ADDRESS, messages)
        hand = await by_hand(there, None)
        we = await ours(there)
        other = await lieers(there, python) if python else None
    hand.show("bare loop, compat32, COPY")
    we.show("postroom")
    if other is None:
        print("lieer is not installed here")
    else:
        other.show("lieer")
    assert we.messages == hand.messages == messages, "not every message was stored"
    print(f"  the simulator was busy for {hand.simulator_busy:.0%} and {we.simulator_busy:.0%} of the time")
    if max(hand.simulator_busy, we.simulator_busy) > BUSY:
        print("  so it was the limit, and the ratio flatters the slower one")
    print(f"  by the readers' CPU time alone the ratio is {hand.ours / we.ours:.2f}")
    ratio = we.rate / hand.rate
    return verdict(f"ratio {ratio:.2f} (wanted: {WANTED_RATIO} or better)", reached=ratio >= WANTED_RATIO)


async def against_the_sequential_way(messages: int, few: int) -> bool:
    print(f"the same with {LATENCY_MS} ms of latency, beside one message after the other")
    async with open_environment("--quota", "off", "--latency-ms", str(LATENCY_MS)) as there:
        there.fill("gmail", ADDRESS, messages)
        hand = await by_hand(there, few)
        we = await ours(there)
    hand.show("sequential")
    we.show("postroom")
    assert we.messages == messages, "not every message was stored"
    times = we.rate / hand.rate
    return verdict(f"{times:.0f} times (wanted: {WANTED_TIMES} or more)", reached=times >= WANTED_TIMES)


async def main(messages: int, few: int, python: str | None) -> int:
    note_the_load()
    reached = [await against_the_bare_loop(messages, python), await against_the_sequential_way(messages, few)]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--sequential", type=int, default=SEQUENTIAL, help="messages of the sequential way")
    parser.add_argument("--lieer", metavar="PYTHON", help="a Python in which lieer is installed")
    given = parser.parse_args()
    python = lieer.python_with_lieer(given.lieer)
    sys.exit(uvloop.run(main(given.messages, given.sequential, python)))
