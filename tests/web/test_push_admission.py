"""N5: pushes that would wait too long get 503 at once; nothing else is affected."""

import asyncio
import fcntl
import socket
import sys
import termios
import time
from contextlib import asynccontextmanager

import pytest
import uvicorn

from postroom.errors import TransientError
from postroom.flow.mail.push import PushReceiver, ReceivedPush
from postroom.flow.mail.push_rejections import PushRejections
from postroom.model import Notification, ProviderName, Secret
from postroom.web import push_admission
from postroom.web.connection_limits import ConnectionLimits
from postroom.web.push_admission import (
    MAX_WAIT_SECONDS,
    MIN_ADMITTED,
    WAITING_SINCE,
    PushAdmission,
    PushAdmissionProtocol,
    build_protocol,
)
from web.push_server import insert_subscription, list_due_mailboxes, open_push_server

PUSH = b"POST /webhooks/gmail?token=x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"

HANDSHAKE = b"POST /webhooks/outlook?validationToken=x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def admission(clock):
    return PushAdmission(clock)


def run_pushes(admission, clock, *, count, seconds):
    """`count` pushes arrive together and are answered together after `seconds`."""
    begun = [admission.begin() for _ in range(count)]
    clock.now += seconds
    for number in begun:
        admission.end(number)


def count_admitted(admission):
    """How many pushes that arrive together are admitted."""
    begun = []
    while admission.has_room() and len(begun) < 100_000:
        begun.append(admission.begin())
    for number in begun:
        admission.end(number)
    return len(begun)


def test_admits_as_many_as_it_can_answer_in_time(admission, clock):
    for _ in range(10):
        run_pushes(admission, clock, count=1000, seconds=1)  # the last of them waited 1 ms for each
    assert count_admitted(admission) == pytest.approx(1000 * MAX_WAIT_SECONDS, rel=0.5)


def test_admits_fewer_when_it_becomes_slower_and_more_when_it_recovers(admission, clock):
    run_pushes(admission, clock, count=1000, seconds=0.1)
    fast = count_admitted(admission)
    run_pushes(admission, clock, count=1000, seconds=10)
    assert count_admitted(admission) < fast / 10
    for _ in range(20):
        run_pushes(admission, clock, count=MIN_ADMITTED, seconds=0.01)
    assert count_admitted(admission) > fast / 10


def test_admits_only_the_minimum_while_the_oldest_push_waits_too_long(admission, clock):
    """Nothing ends while the database is stuck, so there is nothing to learn from."""
    run_pushes(admission, clock, count=1000, seconds=0.01)
    oldest = [admission.begin() for _ in range(MIN_ADMITTED - 1)]
    clock.now += MAX_WAIT_SECONDS
    assert admission.has_room()
    oldest.append(admission.begin())
    assert not admission.has_room()
    for number in oldest:
        admission.end(number)
    assert admission.has_room()


def test_a_slow_push_alone_does_not_shut_out_a_burst(admission, clock):
    for _ in range(100):
        run_pushes(admission, clock, count=1, seconds=0.05)
    assert count_admitted(admission) > 1000


def test_time_in_the_kernel_is_part_of_the_wait(admission, clock):
    run_pushes(admission, clock, count=1000, seconds=0.01)
    for _ in range(MIN_ADMITTED):
        admission.begin()
    assert admission.has_room(waited_seconds=MAX_WAIT_SECONDS / 2)
    assert not admission.has_room(waited_seconds=MAX_WAIT_SECONDS)


async def respond(scope, _receive, send):
    status = 202 if scope["method"] == "POST" else 200
    since = str(scope["state"].get(WAITING_SINCE)).encode()
    headers = [(b"content-length", b"0"), (b"waiting-since", since)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body"})


@asynccontextmanager
async def connections(admission, count):
    """Connections to a server with this admission, in front of an application that accepts every push."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        configuration = uvicorn.Config(
            respond,
            http=build_protocol(admission, ConnectionLimits()),
            log_config=None,
            lifespan="off",
            ws="none",
        )
        server = uvicorn.Server(configuration)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        opened = [await asyncio.open_connection(*listening.getsockname()) for _ in range(count)]
        try:
            yield opened
        finally:
            for _, writer in opened:
                writer.close()
            server.should_exit = True
            await running


async def ask(connection, *pieces):
    """The status line and headers of the response to a request that is sent in pieces."""
    reader, writer = connection
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
    return int(head.split()[1]), head.lower()


async def test_an_overloaded_server_rejects_pushes_at_once_and_serves_the_rest(admission, clock):
    async with connections(admission, 3) as [first, second, third]:
        assert (await ask(first, PUSH))[0] == 202
        stuck = [admission.begin() for _ in range(MIN_ADMITTED)]
        clock.now += MAX_WAIT_SECONDS
        status, head = await ask(first, PUSH)
        assert (status, b"\r\nretry-after: " in head) == (503, True)
        assert (await ask(second, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 200
        assert (await ask(third, PUSH))[0] == 503
        assert (await ask(second, HANDSHAKE))[0] == 202
        for number in stuck:
            admission.end(number)
        assert (await ask(first, PUSH))[0] == 202, "the same connection, as soon as there is room"


def read_arrival(head):
    return head.partition(b"waiting-since: ")[2].partition(b"\r\n")[0]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows how long bytes waited in the kernel")
async def test_a_push_is_waiting_since_the_kernel_received_it(admission, clock, monkeypatch):
    rejected = []

    def reject(protocol):
        rejected.append(protocol)
        original_reject(protocol)

    original_reject = PushAdmissionProtocol._reject
    monkeypatch.setattr(PushAdmissionProtocol, "_reject", reject)
    monkeypatch.setattr(push_admission, "PAUSE_SECONDS", 3600)  # the test ends the pause
    async with connections(admission, 1) as [only]:
        _, head = await ask(only, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_arrival(head) == b"none", "other requests have no deadline"
        stuck = [admission.begin() for _ in range(MIN_ADMITTED)]
        clock.now += MAX_WAIT_SECONDS
        assert (await ask(only, PUSH))[0] == 503
        for number in stuck:
            admission.end(number)
        asking = asyncio.create_task(ask(only, PUSH))
        [protocol] = rejected
        while not count_unread(protocol.transport):  # noqa: ASYNC110  # only the kernel knows
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # the least that it waits in the kernel
        protocol._read_again()
        _, head = await asking
        assert float(read_arrival(head)) <= clock.now - 0.09


def count_unread(transport):
    """The bytes of a connection that the kernel has and the server has not read."""
    unread = bytearray(4)
    fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.FIONREAD, unread)
    return int.from_bytes(unread, sys.byteorder)


async def test_a_push_is_counted_from_its_last_byte_to_its_response(admission):
    async with connections(admission, 2) as [first, second]:
        _, writer = second
        writer.write(PUSH[:-1])
        await writer.drain()
        assert (await ask(first, PUSH[:30], PUSH[30:-2], PUSH[-2:]))[0] == 202
        assert (await ask(first, PUSH))[0] == 202
        assert admission.count_in_progress() == 0, "one is not whole, the others have ended"


async def test_push_that_its_provider_has_given_up_is_not_stored(database, owner, organization, make_mailbox):
    mailbox = await make_mailbox(organization, provider="outlook")
    subscription = await insert_subscription(owner, organization, mailbox)
    async with open_push_server(database, waited_seconds=MAX_WAIT_SECONDS) as server:
        answer = await server.client.post(subscription.path, json={"value": [subscription.item("m")]})
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    known = Notification(
        provider_subscription_id=subscription.provider_id, client_state=Secret(subscription.secret)
    )
    since = time.monotonic() - MAX_WAIT_SECONDS
    late = ReceivedPush(ProviderName.OUTLOOK, None, "", [known], waiting_since=since)
    with pytest.raises(TransientError):
        await PushReceiver(database, PushRejections(database, organization)).accept(late)
    assert await list_due_mailboxes(owner) == set()
