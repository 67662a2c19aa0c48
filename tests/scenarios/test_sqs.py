"""D4: Amazon SQS announces documents, the row stays the truth: moto's server, boto3, real workers."""

import asyncio
import json
import signal
import threading
from dataclasses import replace
from importlib import import_module

import pytest

import amazon
import databases
from mailsim import samples
from postroom import sqs, worker
from postroom.cli import doctor_checks
from postroom.config import Settings
from postroom.engine import WorkHandler
from postroom.errors import OperatorError, TransientError
from postroom.flow.documents import sqs_dispatch
from postroom.model import ProviderName, StepResult, WorkKind
from postroom.store import sqs_dispatches, work
from postroom.store.work import WorkRequest
from scenarios.document_postroom import document_postroom, get_attachment
from scenarios.mirrored_mailbox import environment
from scenarios.postroom_process import PostroomProcess
from scenarios.test_documents_crashes import ENDED
from scenarios.worker_pool import until

READING = {"analyze": ("postroom.documents.sandbox.file_sandbox:FileSandbox.analyze", 1)}


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
    """The URLs of a queue and of its deadqueue."""
    dead = client.create_queue(QueueName=f"dead-{tmp_path.name}")["QueueUrl"]
    found = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
    policy = json.dumps({"deadLetterTargetArn": found["QueueArn"], "maxReceiveCount": "2"})
    made = client.create_queue(QueueName=tmp_path.name, Attributes={"RedrivePolicy": policy})
    return made["QueueUrl"], dead


@pytest.fixture
def queue(queues):
    return sqs.connect(queues[0])


def visible(client, url):
    """The messages that can be received now; they stay receivable."""
    found = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    return [each["Body"] for each in found.get("Messages", [])]


async def until_all_are_visible(client, url):
    name = "ApproximateNumberOfMessagesNotVisible"

    def has_hidden():
        return client.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name] != "0"

    async with asyncio.timeout(60):
        while has_hidden():  # noqa: ASYNC110  # the queue is another process
            await asyncio.sleep(0.1)


async def due(database, organization, *subjects):
    async with database.engine() as connection:
        await work.enqueue(
            connection, [WorkRequest(organization, WorkKind.PROCESS_DOCUMENT, each) for each in subjects]
        )


def named(messages):
    return [each.named and each.named.subject for each in messages]


async def test_what_is_due_is_recorded_once_however_many_processes_announce_it(database, organization, queue):
    await due(database, organization, "one", "two")
    await asyncio.gather(*(sqs_dispatch.send_due(database, queue) for _ in range(3)))
    messages = await queue.receive(10, invisible_seconds=60)
    messages += await queue.receive(10, invisible_seconds=60) if len(messages) < 2 else []
    assert sorted(named(messages)) == ["one", "two"]
    found = await sqs_dispatch.claim_received(database, queue, messages, lease_seconds=60)
    assert sorted(lease.subject for lease, _ in found) == ["one", "two"]


async def test_who_ends_between_commit_and_send_loses_nothing(database, organization, queue, move_clock):
    await due(database, organization, "one")
    async with database.engine() as connection:
        # What a process does that is killed before it sends, and what one does that cannot reach the queue.
        assert await sqs_dispatches.reserve_due_documents(
            connection, limit=1, hold_seconds=sqs_dispatch.HOLD_SECONDS
        ) == ["one"]
    assert not await sqs_dispatch.send_due(database, queue)
    await move_clock(sqs_dispatch.HOLD_SECONDS + 1)
    with pytest.raises(TransientError, match="cannot be reached"):
        await sqs_dispatch.send_due(database, sqs.connect("http://127.0.0.1:9/123456789012/nothing"))
    await move_clock(sqs_dispatch.HOLD_SECONDS + 1)
    await sqs_dispatch.send_due(database, queue)
    assert named(await queue.receive(10, invisible_seconds=60)) == ["one"]


async def test_an_expired_lease_and_a_lost_message_are_announced_again(
    database, organization, queue, client, move_clock
):
    await due(database, organization, "one")
    await sqs_dispatch.send_due(database, queue)
    messages = await queue.receive(1, invisible_seconds=1)
    [(lease, receipt)] = await sqs_dispatch.claim_received(database, queue, messages, lease_seconds=60)
    assert await sqs_dispatch.claim_received(database, queue, messages, lease_seconds=60) == [], (
        "one claim at a time"
    )
    await move_clock(61)
    await sqs_dispatch.send_due(database, queue)
    assert len(visible(client, queue.url)) == 1
    client.purge_queue(QueueUrl=queue.url)
    await sqs_dispatch.send_due(database, queue)
    assert visible(client, queue.url) == []
    await move_clock(sqs_dispatch.RESEND_SECONDS + 1)
    await sqs_dispatch.send_due(database, queue)
    assert len(visible(client, queue.url)) == 1
    assert (lease.subject, receipt != "") == ("one", True)


async def test_long_polling_does_not_block_other_calls(queue):
    sent = threading.Event()
    queue.client.meta.events.register("before-send.sqs.ReceiveMessage", lambda **_: sent.set())
    waiting = asyncio.create_task(queue.receive(1, invisible_seconds=60))
    await asyncio.to_thread(sent.wait)
    await queue.send([sqs.WorkReference(WorkKind.PROCESS_DOCUMENT, "one")])
    assert named(await waiting) == ["one"]


async def test_a_stale_message_is_deleted_and_a_foreign_one_ends_in_the_dead_queue(
    database, queue, queues, client
):
    url, dead = queues
    await queue.send([sqs.WorkReference(WorkKind.PROCESS_DOCUMENT, "done already")])
    for body in ("nonsense", '{"kind": 1}', "[]"):
        client.send_message(QueueUrl=url, MessageBody=body)
    for _ in range(2):
        messages = await queue.receive(10, invisible_seconds=60)
        assert await sqs_dispatch.claim_received(database, queue, messages, lease_seconds=60) == []
        await queue.extend([each.receipt for each in messages if each.named is None], invisible_seconds=1)
        await until_all_are_visible(client, url)
    assert visible(client, url) == []
    assert sorted(visible(client, dead)) == ["[]", "nonsense", '{"kind": 1}']
    assert await queue.check()


async def test_a_queue_that_cannot_be_used_says_why(queue, moto):
    missing = f"{moto}/123456789012/missing"
    with pytest.raises(OperatorError, match=r"Amazon SQS rejected the request \(.*NonExistentQueue"):
        await sqs.connect(missing).check()
    assert (
        await doctor_checks.check_queue(Settings(queue=f"sqs:{queue.url}"))
    ).state is doctor_checks.DoctorCheckState.OK
    found = await doctor_checks.check_queue(Settings(queue=f"sqs:{missing}"))
    assert (found.state, "Check POSTROOM_QUEUE" in found.remedy) == (
        doctor_checks.DoctorCheckState.FAIL,
        True,
    )


@pytest.mark.parametrize(
    "address", ["sqs:queue", "sqs:http://sqs.example.com/1/q", "sqs:https://h/1/q.fifo", "x"]
)
def test_what_is_no_queue_is_refused(address):
    with pytest.raises(ValueError, match="is not a supported queue"):
        Settings(queue=address)


async def test_a_worker_that_received_more_than_it_can_run_continues_when_there_is_room(
    database_url, owner, organization, queue
):
    began, may_end = asyncio.Queue(), asyncio.Semaphore(0)

    async def step(lease):
        began.put_nowait(lease.kind)
        await may_end.acquire()
        return StepResult()

    async def begun(number):
        return sorted([await began.get() for _ in range(number)])

    kinds = {"other": WorkHandler(step, None), WorkKind.PROCESS_DOCUMENT: WorkHandler(step, None)}
    stop = asyncio.Event()
    limits = replace(worker.worker_limits(Settings()), concurrency=2)
    await work.enqueue(owner, [WorkRequest(organization, "other", each) for each in "abc"])
    async with databases.open_pools(database_url, pool_size=20) as database:
        await due(database, organization, "one", "two")
        await sqs_dispatch.send_due(database, queue)
        async with asyncio.TaskGroup() as tasks:
            async with owner.transaction():
                await work.block_commits_of_kind(owner, WorkKind.PROCESS_DOCUMENT)
                # There is room for two when it hears of the two documents, and none when it gets them.
                tasks.create_task(worker.run(database, kinds, limits, stop, queue))
                assert await begun(2) == ["other"] * 2
            assert await begun(2) == [WorkKind.PROCESS_DOCUMENT] * 2
            may_end.release()
            await until(owner, "SELECT count(*) = 4 FROM work")
            for _ in range(4):
                may_end.release()
            assert await begun(1) == ["other"]
            await until(owner, "SELECT NOT EXISTS (SELECT FROM work)")
            stop.set()


async def test_mail_of_both_providers_is_read_as_the_queue_delivers_and_a_killed_worker_costs_nothing(
    room, sim, database_url, owner, tmp_path, queue, client
):
    given = environment(sim, database_url, tmp_path) | amazon.CREDENTIALS
    given |= {"POSTROOM_QUEUE": f"sqs:{queue.url}", "POSTROOM_LEASE_SECONDS": "4"}
    async with document_postroom(room, tmp_path) as document_room:
        mail = {
            provider: (
                document_room.order("invoice", "letterhead", seed=seed),
                document_room.order("contract-note", "slip", seed=seed),
            )
            for seed, provider in enumerate(ProviderName, 1)
        }
        for provider, orders in mail.items():
            box = await room.mailbox(provider)
            for order in orders:
                sim.deliver(box.address, samples.write_message(order))
            await box.wake()
        with PostroomProcess(tmp_path, "work", held=READING, **given) as program:
            await asyncio.to_thread(program.line, "inside analyze")
            await until(owner, "SELECT count(*) >= 3 FROM documents WHERE archived_at IS NOT NULL")
            [(held,)] = await document_room.rows("SELECT max(leased_until) FROM work")
            past_first_lease = "SELECT max(leased_until) > %s + interval '5 seconds' FROM work"
            await until(owner, past_first_lease, held)
            assert visible(client, queue.url) == [], "its visibility is extended with its lease"
            program.end(signal.SIGKILL)
        with PostroomProcess(tmp_path, "work", **given) as program:
            await until(owner, ENDED, 4)
            assert program.end() == 0
        for invoice, note in mail.values():
            await _assert_read(document_room, "invoices", invoice, "number", "gross")
            await _assert_read(document_room, "contract-notes", note, "isin", "net")
        recorded = "SELECT state, count(*) FROM documents GROUP BY 1 ORDER BY 1"
        assert await document_room.rows(recorded) == [("completed", 4)]
    assert visible(client, queue.url) == []


async def _assert_read(document_room, pipeline, order, *fields):
    facts = samples.get_document_facts(order)
    document = await document_room.document(pipeline, order)
    record = await document_room.record(document)
    assert {name: record.fields[name] for name in fields} == {name: facts[name] for name in fields}
    assert await document_room.ledger_events(document) == [
        "DOCUMENT_TAKEN_IN",
        "DOCUMENT_COMPLETED",
        "DOCUMENT_ARCHIVED",
    ]
    assert (document_room.room.home / document.archive_path).read_bytes() == get_attachment(order)[1]
