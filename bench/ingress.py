"""Notifications accepted durably, beside the same server without a database under the same load.

Then how even the answers are at half of the most it takes, whether all come in time at twice of it, and how
many come too late in a flood of 8,000 pushes per second, each due at its time whatever the answers do.
`--overload RATE` measures only a flood.
"""

import argparse
import asyncio
import contextlib
import http.client
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import uvloop

from postroom.store import roles, schema_migrations
from postroom.store.embedded import start_or_join

MAILBOXES, CONNECTIONS, MOST_CONNECTIONS = 500, 1000, 1000
ROUNDS, SECONDS = 3, 4.0
WANTED_RATIO, WANTED_SPREAD, WANTED_SECONDS = 0.5, 10.0, 3.0
FLOOD_RATE, FLOOD_SECONDS, WANTED_LATE_SHARE = 8000, 12.0, 0.001
SECRET = "the-same-for-every-one-of-them"  # what differs is the subscription


def provider_id(number: int) -> str:
    return str(UUID(int=number + 1))


def row_id(number: int) -> UUID:
    return UUID(int=(1 << 100) + number)


def request(number: int) -> bytes:
    """One genuine notification, as Graph sends it."""
    message = f"AAMkAGUwNjQ4ZjIxLTQ3Y2YtNDViMi1iZjc4LTMzNTM2{number:08}AAA="
    body = (
        f'{{"value":[{{"subscriptionId":"{provider_id(number)}",'
        '"subscriptionExpirationDateTime":"2026-11-20T18:23:45.9356913+00:00",'
        f'"clientState":"{SECRET}","changeType":"created","tenantId":"84bd8158-6d4d-4958-8b9f-9d6445542f95",'
        f'"resource":"Users/622eaaff-0683-4862-9de4-f2ec83c2bd98/Messages/{message}",'
        '"resourceData":{"@odata.type":"#Microsoft.Graph.Message",'
        f'"@odata.id":"Users/622eaaff-0683-4862-9de4-f2ec83c2bd98/Messages/{message}",'
        f'"@odata.etag":"W/\\"CQAAABYAAACQ2fKdhq8oSKEDSVrdi3lRAAGDUUXn\\"","id":"{message}"}}}}]}}'
    )
    return (
        f"POST /webhooks/outlook/{row_id(number)} HTTP/1.1\r\nHost: postroom.test\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


REQUESTS = [request(number) for number in range(MAILBOXES)]


async def fill(url: str) -> None:
    """Mailboxes and subscriptions of one organization."""
    organization = uuid4()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as owner:
        await roles.assume(owner)
        await owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'Bench')", [organization])
        for number in range(MAILBOXES):
            mailbox = uuid4()
            await owner.execute(
                """
                INSERT INTO mailboxes (organization_id, id, provider, account_id, provider_user_id, address,
                    content_policy)
                VALUES (%s, %s, 'outlook', %s, 'u', %s, 'full')
                """,
                [organization, mailbox, str(number), f"m{number}@example.org"],
            )
            await owner.execute(
                """
                INSERT INTO subscriptions (organization_id, id, mailbox_id, provider_subscription_id,
                    resource, notification_url, client_state_sha256)
                VALUES (%s, %s, %s, %s, 'users/u/messages', '', %s)
                """,
                [
                    organization,
                    row_id(number),
                    mailbox,
                    provider_id(number),
                    sha256(SECRET.encode()).digest(),
                ],
            )


# The server without a database: everything else is the same, the comparing of secrets too.


def serve_from_memory() -> None:
    from starlette.routing import Route

    from postroom import logs
    from postroom.model import ProviderName
    from postroom.providers.graph.push import GraphPush
    from postroom.web import app, push, server
    from postroom.web.sessions import SiteContext
    from postroom.web.throttle import Throttle

    async def run() -> None:
        reader = GraphPush()
        endpoint = push.PushEndpoint(
            ProviderName.OUTLOOK, reader, Memory(), Throttle(), push.SigningKeyRefresher(reader)
        )
        paths = push.ENDPOINT_RULES[ProviderName.OUTLOOK].paths
        routes = [Route(path, endpoint, methods=["POST"]) for path in paths]
        with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
            print(f"Postroom: http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
            site = SiteContext(None, None, "http://127.0.0.1", None)
            await server.run_server(app.create(site, push_routes=routes), listening, stop_seconds=1)

    logs.configure("web")
    uvloop.run(run())


class Memory:
    """Checks notifications as the flow does, against a table in memory, and stores nothing."""

    def __init__(self) -> None:
        from postroom.flow.mail import push
        from postroom.store.notifications import NotifiedMailbox, PushSubscription

        self._push = push
        mailbox = NotifiedMailbox(uuid4(), uuid4())
        digest = sha256(SECRET.encode()).digest()
        found = [
            PushSubscription(row_id(number), provider_id(number), digest, mailbox, (mailbox,))
            for number in range(MAILBOXES)
        ]
        self._subscriptions = push.SubscriptionIndex(
            {known.id: known for known in found},
            {known.provider_subscription_id: [known] for known in found},
        )

    async def accept(self, received):  # noqa: ANN001, ANN201  # as flow.mail.push.PushReceiver
        verdict, group = self._push.PushVerdict(), self._push.PushGroup()
        for notification in received.notifications:
            self._push.check_notification(received, notification, self._subscriptions, verdict, group)
        return verdict


@contextlib.contextmanager
def started(*command: str, **settings: str) -> Generator[int]:
    """A server in a process of its own: its port."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
    process = subprocess.Popen(
        [sys.executable, *command],
        env=kept | settings,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        wait_until_it_answers(port)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def wait_until_it_answers(port: int) -> None:
    """The address is announced when the socket is open; on a busy machine it answers seconds later."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()


# The load.


@dataclass
class Load:
    """What was sent and how it was answered. Latencies are from the moment a request was due."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)
    lost: int = 0
    unsent: int = 0  # found no free connection until the end


class Connection(asyncio.Protocol):
    """One kept-alive connection with at most one request in flight."""

    def __init__(self, load: Load, idle: Callable[["Connection"], None]) -> None:
        self.load, self.idle = load, idle
        self.since = 0.0
        self.answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def send(self, request: bytes, since: float) -> None:
        self.since = since
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.answer += data
        if b"\r\n\r\n" in self.answer:  # none of these answers has a body
            status, seconds = int(self.answer[9:12]), time.perf_counter() - self.since
            self.load.statuses[status] += 1
            self.load.seconds.append(seconds)
            if status == 202:
                self.load.accepted.append(seconds)
            self.answer, self.since = b"", 0.0
            self.idle(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self.load.lost += self.since > 0


async def connect(port: int, count: int, load: Load, idle: Callable[[Connection], None]) -> list[Connection]:
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: Connection(load, idle), "127.0.0.1", port) for _ in range(count)
    ]
    return [connection for _, connection in made]


async def as_much_as_it_takes(port: int) -> tuple[float, Load]:
    """Every connection sends again as soon as it is answered: accepted per second."""
    load, going, number = Load(), True, 0

    def idle(connection: Connection) -> None:
        nonlocal number
        if going:
            number += 1
            connection.send(REQUESTS[number * 7 % MAILBOXES], time.perf_counter())

    connections = await connect(port, CONNECTIONS, load, idle)
    for connection in connections:
        idle(connection)
    await asyncio.sleep(1)  # warm
    before, begin = load.statuses[202], time.perf_counter()
    await asyncio.sleep(SECONDS)
    rate = (load.statuses[202] - before) / (time.perf_counter() - begin)
    going = False
    await settle(connections)
    return rate, load


async def at_rate(port: int, rate: float, *, most: int, seconds: float) -> tuple[float, Load]:
    """So many per second, whatever the answers do: each is due at its time, and counted from there.

    What finds no free connection among `most` waits in line here, and is counted as sent late.
    """
    load = Load()
    free: deque[Connection] = deque()
    waiting: deque[float] = deque()
    sent = 0

    def idle(connection: Connection) -> None:
        nonlocal sent
        if waiting:
            waiting.popleft()
            sent += 1
            connection.send(REQUESTS[sent * 7 % MAILBOXES], time.perf_counter())
        else:
            free.append(connection)

    connections = await connect(port, most, load, idle)
    free.extend(connections)
    begin, due = time.perf_counter(), 0
    while (now := time.perf_counter() - begin) < seconds:
        while due < now * rate:
            due += 1
            if free:
                sent += 1
                free.popleft().send(REQUESTS[sent * 7 % MAILBOXES], begin + due / rate)
            else:
                waiting.append(begin + due / rate)
        await asyncio.sleep(0.001)
    offered = due / seconds
    load.unsent = len(waiting)
    waiting.clear()
    await settle(connections)
    return offered, load


async def settle(connections: Sequence[Connection]) -> None:
    """Until everything is answered, or will never be."""
    for _ in range(1000):
        if not any(connection.since for connection in connections):
            break
        await asyncio.sleep(0.01)
    for connection in connections:
        connection.load.lost += connection.since > 0
        connection.since = 0.0
        connection.transport.close()


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def measure(port: int, bare_port: int) -> int:
    rates: dict[str, list[float]] = {"stored": [], "bare": []}
    for _ in range(ROUNDS):
        rates["bare"].append((await as_much_as_it_takes(bare_port))[0])
        rate, load = await as_much_as_it_takes(port)
        rates["stored"].append(rate)
        if set(load.statuses) != {202} or not rate:
            print(f"at the most: {rate:,.0f}/s, {dict(load.statuses)}, longest {max(load.seconds):.1f} s")
    bare, stored = (statistics.median(rates[name]) for name in ("bare", "stored"))
    ratio = statistics.median(a / b for a, b in zip(rates["stored"], rates["bare"], strict=True))
    print(f"without a database       {bare:>8,.0f} notifications/s")
    print(f"accepted durably         {stored:>8,.0f} notifications/s")
    print(f"ratio                    {ratio:>8.2f} (wanted: {WANTED_RATIO} or better)")
    if not stored:
        return 1
    offered, half = await at_rate(port, stored / 2, most=MOST_CONNECTIONS, seconds=2 * SECONDS)
    p50, p99 = percentile(half.seconds, 0.5), percentile(half.seconds, 0.99)
    print(f"at half ({offered:,.0f}/s): p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms,", end=" ")
    print(f"spread {p99 / p50:.1f} (wanted: {WANTED_SPREAD:.0f} or less), {dict(half.statuses)}")
    offered, twice = await at_rate(port, stored * 2, most=MOST_CONNECTIONS, seconds=2 * SECONDS)
    longest = max(twice.seconds)
    print(f"at twice ({offered:,.0f}/s): longest answer {longest:.2f} s (wanted: {WANTED_SECONDS:.0f} or")
    print(f"  less), {dict(twice.statuses)}, never answered {twice.lost}")
    fine = (
        ratio >= WANTED_RATIO
        and p99 <= WANTED_SPREAD * p50
        and set(half.statuses) == {202}
        and longest <= WANTED_SECONDS
        and set(twice.statuses) <= {202, 503}
        and twice.lost == 0
    )
    in_time = await measure_overload(port, FLOOD_RATE)
    return 0 if fine and in_time == 0 else 1


async def measure_overload(port: int, rate: int) -> int:
    """A flood for a while: how many answers came too late for the provider, and what the others were.

    Postroom must say 503 early instead: a push that gets a late answer is repeated like one without.
    """
    offered, flood = await at_rate(port, rate, most=rate, seconds=FLOOD_SECONDS)
    late = sum(seconds > WANTED_SECONDS for seconds in flood.seconds)
    count = len(flood.seconds)
    print(
        f"flood ({offered:,.0f}/s): {count:,} answers, {dict(flood.statuses)}, never answered {flood.lost},"
    )
    print(f"  without a free connection {flood.unsent:,}; over {WANTED_SECONDS:.0f} s: {late:,}", end=" ")
    print(
        f"({late / count:.2%}, wanted: {WANTED_LATE_SHARE:.1%} or less); longest {max(flood.seconds):.2f} s"
    )
    for name, values in (("all", flood.seconds), ("accepted", flood.accepted)):
        shares = [percentile(values, share) for share in (0.5, 0.9, 0.99)] if values else []
        print(f"  {name}: {', '.join(f'{seconds:.2f} s' for seconds in shares)} (p50, p90, p99)")
    return 0 if late <= WANTED_LATE_SHARE * count and flood.lost == 0 else 1


def main(*, overload: int | None) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="postroom-bench-", ignore_cleanup_errors=True) as home,
        start_or_join(Path(home)) as server,
    ):
        asyncio.run(prepare(server.url))
        if overload is not None:
            with started(
                "-m", "postroom", "serve", POSTROOM_DATABASE_URL=server.url, POSTROOM_PORT="0"
            ) as port:
                return uvloop.run(measure_overload(port, overload))
        with (
            started(__file__, "--from-memory") as bare_port,
            started("-m", "postroom", "serve", POSTROOM_DATABASE_URL=server.url, POSTROOM_PORT="0") as port,
        ):
            return uvloop.run(measure(port, bare_port))


async def prepare(url: str) -> None:
    await schema_migrations.migrate(url)
    await fill(url)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from-memory", action="store_true", help="be the server without a database")
    parser.add_argument("--overload", type=int, metavar="RATE", help="measure a flood of pushes only")
    given = parser.parse_args()
    if given.from_memory:
        serve_from_memory()
    else:
        sys.exit(main(overload=given.overload))
