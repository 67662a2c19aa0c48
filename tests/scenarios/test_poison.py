"""Mail and documents that kill or stall their workers are isolated, then passed; the others are stored."""

from datetime import timedelta
from email.message import EmailMessage

import pytest

from flow.simulated_world import TOPIC
from mailsim import samples
from postroom.flow.mail.sync.isolation import PARKED
from postroom.model import ProviderName
from postroom.store import failures, work
from providers.receiver import receiving
from scenarios.crash_world import CrashWorld
from scenarios.document_postroom import get_attachment
from scenarios.mirrored_mailbox import environment, postroom, usually
from scenarios.postroom_process import PostroomProcess, server_launcher
from scenarios.test_sync_crashes import CURRENT
from scenarios.worker_pool import until
from simulator.driver import running

PARSING = {
    "gmail": "postroom.providers.gmail.message_parsing:to_fetched",
    "outlook": "postroom.providers.graph.message_parsing:to_fetched",
}
FENCED = "postroom.store.work:fenced_transaction"
ATTACHED = "attached to the message that kills"
STALLED = "The worker crashed or stalled on every attempt to read this file. See the worker's log."
OPEN = "SELECT id, kind, subject, last_error, due_at FROM failures WHERE resolved_at IS NULL"


@pytest.fixture(scope="module")
def shared_sim():
    """Its responses are checked elsewhere: here some are cut off where a process ends."""
    with running("--clock", "manual", "--quota", "off", checked=False) as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
async def world(sim, database_url, owner, organization, tmp_path):
    pipelines = tmp_path / "pipelines.toml"
    pipelines.write_text('[invoices]\nkind = "invoice"\n')
    async with (
        postroom(sim, database_url, owner, organization, tmp_path, pipelines=pipelines) as room,
        receiving() as receiver,
    ):
        yield CrashWorld(room, server_launcher(), receiver, database_url)


def write_message() -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "ann@example.com", "bob@example.com", "Figures"
    message["Date"], message["Message-ID"] = "Mon, 05 Jan 2026 10:00:00 +0000", "<poison@example.com>"
    message.set_content("See the attachment.")
    message.add_attachment(ATTACHED.encode(), maintype="text", subtype="plain", filename="figures.txt")
    return message.as_bytes()


def build_crash(stage: str, provider: str, key: str) -> dict:
    """Kill the worker whenever it parses, stores or commits this message."""
    match stage:
        case "parsing":
            return {"place": PARSING[provider], "when": "before", "about": key}
        case "storing":
            return {
                "place": "postroom.blobs.disk:DiskBlobStore.put",
                "when": "after",
                "about": ATTACHED,
            }
        case _:
            return {"place": FENCED, "when": "before", "within": "postroom.store.messages:add", "about": key}


async def die_until_isolated(world: CrashWorld, crash: dict) -> None:
    """Two workers die with whatever runs beside it, and two that run it alone."""
    for _ in range(work.DEADLY_LOST_LEASES):
        await world.die("work", crash=crash)


@pytest.mark.parametrize(
    "stage, provider",
    [
        ("parsing", "gmail"),
        ("storing", "outlook"),
        ("committing", "outlook"),
        *(
            pytest.param(stage, provider, marks=pytest.mark.soak)
            for stage, provider in (("parsing", "outlook"), ("storing", "gmail"), ("committing", "gmail"))
        ),
    ],
)
async def test_a_message_that_kills_its_workers_is_parked_and_all_others_are_stored(world, stage, provider):
    box = await world.room.mailbox(ProviderName(provider), messages=7, days=20)
    key = world.sim.deliver(box.address, write_message())["id"]
    await box.wake()
    crash = build_crash(stage, provider, key)
    await die_until_isolated(world, crash)
    process = world.start("work", crash=crash)
    await until(world.owner, CURRENT)
    process.signal(15)
    code, output = await world.end(process)
    assert code == 0, output
    assert await box.check(failed=[key]) == 7
    [failure] = await world.rows(OPEN)
    assert failure[1:4] == ("message", key, PARKED)
    assert failure[4], "it is retried hours later"
    assert (await world.count_entries())["MESSAGE_PARKED"] == 1
    assert await world.rows("SELECT data FROM events WHERE kind = 'mailbox.message_parked'") == [
        ({"provider_message_id": key},)
    ]
    async with world.database.transaction(world.organization) as connection:
        await failures.retry(connection, failure[0])
    await box.wake()
    await world.work()
    assert await box.check() == 8
    assert await world.rows("SELECT provider_message_id FROM suspect_messages") == []


async def test_a_document_that_kills_its_workers_is_retried_later_and_the_others_are_read(world):
    await kill_readers_of_a_document(world)
    [(error, wait)] = await world.rows(
        "SELECT last_error, due_at - postroom_now() FROM work WHERE kind = 'process_document'"
    )
    assert error == STALLED
    assert timedelta(minutes=50) < wait <= timedelta(hours=1)
    [other, late] = await world.rows("SELECT state FROM documents ORDER BY state = 'processing'")
    assert late == ("processing",)
    assert other not in {("processing",), ("failed",)}
    await world.rows("UPDATE work SET due_at = postroom_now() WHERE kind = 'process_document' RETURNING id")
    await world.work()
    assert await world.rows("SELECT id FROM documents WHERE state IN ('processing', 'failed')") == []


async def test_a_document_that_kills_its_workers_fails_after_its_last_retry(world):
    await kill_readers_of_a_document(world)
    await world.rows(
        """
        UPDATE work SET due_at = postroom_now(), attempts = 3, lost_leases = 4
        WHERE kind = 'process_document' RETURNING id
        """
    )
    await world.work()
    assert await world.rows("SELECT last_error FROM documents WHERE state = 'failed'") == [(STALLED,)]


async def kill_readers_of_a_document(world: CrashWorld) -> None:
    """Let every worker die that reads the first of two documents."""
    box = await world.room.mailbox(ProviderName.GMAIL)
    specs = [
        samples.MessageSpec(seed=seed, kind="invoice", variant="letterhead", language="en") for seed in (1, 2)
    ]
    for spec in specs:
        world.sim.deliver(box.address, samples.write_message(spec))
    await box.wake()
    place = "postroom.documents.sandbox.file_sandbox:FileSandbox.read"
    ending = repr(get_attachment(specs[0])[1][-40:])[2:-1]
    await die_until_isolated(world, {"place": place, "when": "before", "about": ending})
    await world.work(
        """
        SELECT (SELECT count(*) FROM work WHERE kind = 'process_document' AND last_error IS NOT NULL) = 1
            AND (SELECT count(*) FROM documents WHERE state NOT IN ('queued', 'processing')) = 1
        """
    )


@pytest.mark.parametrize("provider", usually(ProviderName.GMAIL))
async def test_a_worker_that_stalls_exits_and_its_work_continues(
    room, sim, database_url, owner, tmp_path, provider
):
    box = await room.mailbox(provider, messages=12, days=20)
    await box.wake()
    given = environment(sim, database_url, tmp_path)
    stuck = {"parsing": (PARSING[provider], 3)}
    with PostroomProcess(tmp_path, "work", held=stuck, **given, POSTROOM_STALL_SECONDS="10") as program:
        program.line("inside parsing")
        assert program.wait() == 1
        assert any("paused_program" in line for line in program.said), "the traceback shows where it was"
    with PostroomProcess(tmp_path, "work", **given) as program:
        await until(owner, CURRENT)
        program.end()
    assert await box.check() == 12
