"""A mailbox that an earlier version began to mirror is continued with what its provider answered then."""

import asyncio
import json
import tarfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from databases import session
from flow.simulated_world import KEYS, TOPIC
from postroom.store.schema_migrations import migrate
from scenarios.mirror_check import assert_mirrors
from scenarios.postroom_process import PATIENCE, PostroomProcess, environment
from upgrades.conftest import restore
from upgrades.recorded_provider import Conversation, RecordedProvider, serve

RECORDINGS = sorted(Path(__file__).parent.glob("conversation-*.tar.xz"))
ENDPOINTS = ("GMAIL", "GRAPH", "GOOGLE_ACCOUNTS", "GOOGLE_TOKEN", "GOOGLE_CERTS", "MICROSOFT_LOGIN")


@dataclass(frozen=True)
class RecordedTruth:
    """What the mailboxes held at the end of a recording, according to the simulator."""

    conversation: Conversation

    def get(self, path: str) -> dict:
        return {"mailbox": self.conversation.truth[path.removeprefix("mailboxes/")]}

    def truth(self, address: str) -> list[dict]:
        return self.conversation.truth[address]["messages"]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name.removesuffix(".tar.xz"))
async def test_current_version_continues_a_recorded_conversation(
    recording, empty_database_url, launcher, tmp_path
):
    with tarfile.open(recording) as packed:
        packed.extractall(tmp_path, filter="data")
    conversation = Conversation.load((tmp_path / "conversation.json").read_text())
    provider = RecordedProvider(conversation)
    with serve(provider.respond) as url:
        provider.base_url = url
        dump = tmp_path / "postroom.sql"
        dump.write_text(dump.read_text().replace(conversation.base_url, url))  # in delta links
        await restore(dump, empty_database_url)
        await migrate(empty_database_url)
        settings = make_settings(url, empty_database_url, tmp_path)

        def run(*arguments):
            done = launcher.run(arguments, tmp_path, environment(**settings), seconds=120)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        run("blobs", "adopt")  # the archive leaves them out
        with PostroomProcess(tmp_path, "work", **settings) as worker:
            mailboxes = json.loads(run("mailboxes", "list", "--json"))
            for mailbox in mailboxes:
                run("mailboxes", "resume", mailbox["id"])
            async with session(empty_database_url) as owner:
                for mailbox in mailboxes:
                    await wait_until_mirrored(owner, RecordedTruth(conversation), mailbox, worker, provider)
            worker.end()
    assert provider.unanswered == set()


def make_settings(url, database_url, home):
    return {f"POSTROOM_{endpoint}_URL": url for endpoint in ENDPOINTS} | {
        "POSTROOM_HOME": str(home),
        "POSTROOM_DATABASE_URL": database_url,
        "POSTROOM_VAULT_KEYS": KEYS,
        "POSTROOM_GOOGLE_CLIENT_ID": "recorded",
        "POSTROOM_GOOGLE_CLIENT_SECRET": "recorded",
        "POSTROOM_PUBSUB_TOPIC": TOPIC,
        "POSTROOM_MICROSOFT_CLIENT_ID": "recorded",
        "POSTROOM_MICROSOFT_CLIENT_SECRET": "recorded",
    }


async def wait_until_mirrored(owner, truth, mailbox, worker, provider):
    deadline = time.monotonic() + PATIENCE
    while True:
        with suppress(AssertionError):
            await assert_mirrors(owner, truth, mailbox["address"], mailbox["id"])
            return
        if provider.unanswered or worker.process.poll() is not None or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.2)
    assert provider.unanswered == set(), "not recorded"
    assert worker.process.poll() is None, "".join(worker.said)
    await assert_mirrors(owner, truth, mailbox["address"], mailbox["id"])
