"""D4: Amazon SQS tells workers of documents, the row stays the truth: moto's server, boto3, real workers."""

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager
from importlib import import_module

import pytest

import amazon
from mailsim import letters
from postroom import sqs
from postroom.cli import checks
from postroom.config import Settings
from postroom.errors import OperatorError, TransientError
from postroom.flow import carry
from postroom.store import carried, work
from postroom.store.database import open_database
from postroom.store.work import Wake
from scenarios.programs import Program
from scenarios.test_documents_crashes import DONE, PROCESSING, add
from scenarios.workers import until


@pytest.fixture(scope="module")
def moto():
    with amazon.server() as url:
        yield url


@pytest.fixture
def client(moto, monkeypatch):
    for name, value in amazon.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return import_module("boto3").client("sqs", endpoint_url=moto)


@pytest.fixture
def queues(client, tmp_path):
    """The addresses of a queue and of its dead letters."""
    dead = client.create_queue(QueueName=f"dead-{tmp_path.name}")["QueueUrl"]
    found = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
    policy = json.dumps({"deadLetterTargetArn": found["QueueArn"], "maxReceiveCount": "2"})
    made = client.create_queue(QueueName=tmp_path.name, Attributes={"RedrivePolicy": policy})
    return made["QueueUrl"], dead


@pytest.fixture
def queue(queues):
    return sqs.connect(queues[0])


@pytest.fixture
async def database(database_url):
    async with open_database(database_url, pool_size=6, name="test") as opened:
        yield opened


def visible(client, url):
    """The messages that somebody may receive now; they stay so."""
    found = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    return [each["Body"] for each in found.get("Messages", [])]


async def due(database, organization, *subjects):
    async with database.engine() as connection:
        await work.wake(connection, [Wake(organization, carry.KIND, each) for each in subjects])


def named(messages):
    return [each.named and each.named.subject for each in messages]


async def test_what_is_due_is_told_once_however_many_tell(database, organization, queue):
    await due(database, organization, "one", "two")
    await asyncio.gather(*(carry.tell(database, queue) for _ in range(3)))
    messages = await queue.receive(10, invisible_seconds=60)
    messages += await queue.receive(10, invisible_seconds=60) if len(messages) < 2 else []
    assert sorted(named(messages)) == ["one", "two"]
    found = await carry.claimed(database, queue, messages, lease_seconds=60)
    assert sorted(lease.subject for lease, _ in found) == ["one", "two"]


async def test_who_ends_between_commit_and_send_loses_nothing(database, organization, queue, move_clock):
    await due(database, organization, "one")
    async with database.engine() as connection:
        # What a process does that is killed before it sends, and what one does that cannot reach the queue.
        assert await carried.to_tell(connection, most=1, hold_seconds=carry.HOLD_SECONDS) == ["one"]
    assert not await carry.tell(database, queue)
    await move_clock(carry.HOLD_SECONDS + 1)
    with pytest.raises(TransientError, match="cannot be reached"):
        await carry.tell(database, sqs.connect("http://127.0.0.1:9/123456789012/nothing"))
    await move_clock(carry.HOLD_SECONDS + 1)
    await carry.tell(database, queue)
    assert named(await queue.receive(10, invisible_seconds=60)) == ["one"]


async def test_a_lease_that_ends_without_a_word_and_a_lost_message_are_told_again(
    database, organization, queue, client, move_clock
):
    await due(database, organization, "one")
    await carry.tell(database, queue)
    messages = await queue.receive(1, invisible_seconds=1)
    [(lease, receipt)] = await carry.claimed(database, queue, messages, lease_seconds=60)
    assert await carry.claimed(database, queue, messages, lease_seconds=60) == [], "one claim at a time"
    await move_clock(61)
    await carry.tell(database, queue)
    assert len(visible(client, queue.url)) == 1
    client.purge_queue(QueueUrl=queue.url)
    await carry.tell(database, queue)
    assert visible(client, queue.url) == []
    await move_clock(carry.AGAIN_AFTER_SECONDS + 1)
    await carry.tell(database, queue)
    assert len(visible(client, queue.url)) == 1
    assert (lease.subject, receipt != "") == ("one", True)


async def test_waiting_for_messages_holds_nobody_up(queue):
    waiting = asyncio.create_task(queue.receive(1, invisible_seconds=60))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await queue.send([sqs.Named(carry.KIND, "one")])
    assert named(await waiting) == ["one"]


async def test_a_message_about_nothing_goes_and_one_that_says_nothing_becomes_a_dead_letter(
    database, queue, queues, client
):
    url, dead = queues
    await queue.send([sqs.Named(carry.KIND, "done already")])
    for body in ("nonsense", '{"kind": 1}', "[]"):
        client.send_message(QueueUrl=url, MessageBody=body)
    for _ in range(2):
        messages = await queue.receive(10, invisible_seconds=60)
        assert await carry.claimed(database, queue, messages, lease_seconds=60) == []
        await queue.extend([each.receipt for each in messages if each.named is None], invisible_seconds=1)
        await asyncio.sleep(1.1)
    assert visible(client, url) == []
    assert sorted(visible(client, dead)) == ["[]", "nonsense", '{"kind": 1}']
    assert await queue.check()


async def test_a_queue_that_cannot_be_used_says_why(queue, moto):
    missing = f"{moto}/123456789012/missing"
    with pytest.raises(OperatorError, match=r"Amazon SQS refuses \(.*NonExistentQueue"):
        await sqs.connect(missing).check()
    assert (await checks.queue(Settings(queue=f"sqs:{queue.url}"))).state is checks.State.OK
    found = await checks.queue(Settings(queue=f"sqs:{missing}"))
    assert (found.state, "Check POSTROOM_QUEUE" in found.remedy) == (checks.State.FAIL, True)


@pytest.mark.parametrize(
    "address", ["sqs:queue", "sqs:http://sqs.example.com/1/q", "sqs:https://h/1/q.fifo", "x"]
)
def test_what_is_no_queue_is_refused(address):
    with pytest.raises(ValueError, match="names no queue"):
        Settings(queue=address)


@asynccontextmanager
async def bytes_do_not_come(blob):
    """Whoever reads these bytes waits."""
    blob.rename(blob.with_suffix(".away"))
    os.mkfifo(blob)
    yield
    blob.unlink()
    blob.with_suffix(".away").rename(blob)


async def test_workers_read_what_the_queue_tells_and_one_that_is_killed_costs_nothing(
    database_url, owner, organization, tmp_path, queue, client
):
    def worker():
        return Program(
            tmp_path,
            "work",
            POSTROOM_DATABASE_URL=database_url,
            POSTROOM_HOME=str(tmp_path),
            POSTROOM_QUEUE=f"sqs:{queue.url}",
            POSTROOM_LEASE_SECONDS="2",
            POSTROOM_POLL_SECONDS="0.2",
            **amazon.CREDENTIALS,
        )

    bill = letters.Order(seed=1, kind="invoice", variant="letterhead", language="en")
    blob = await add(database_url, organization, tmp_path, bill)  # and nobody is there to tell the queue
    async with bytes_do_not_come(blob):
        with worker() as program:
            await until(owner, PROCESSING)
            await asyncio.sleep(3)  # longer than a message is invisible
            assert visible(client, queue.url) == [], "its visibility is extended"
            program.end(signal.SIGKILL)
    with worker() as program:
        await until(owner, DONE)
        assert program.end() == 0
    cursor = await owner.execute("SELECT event_type FROM ledger WHERE entity_type = 'document' ORDER BY id")
    assert [event for (event,) in await cursor.fetchall()] == [
        "DOCUMENT_TAKEN_IN",
        "DOCUMENT_COMPLETED",
        "DOCUMENT_ARCHIVED",
    ]
    assert visible(client, queue.url) == []
