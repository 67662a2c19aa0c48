"""Record how a released version talks to its providers, and keep it with the home it had before.

    PYTHONPATH=tests python tests/upgrades/record_conversation.py SOURCE_TREE COMMIT FOLDER

That version connects and mirrors two simulated mailboxes, and is backed up. Then their owners use them, and
the version mirrors the changes while a proxy records every answer.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2

from flow.simulated_world import TOPIC, settings_given
from postroom_chaos.postgres import free_port
from providers.consent import consent
from scenarios.mailbox_user import MailboxUser
from simulator.driver import Simulation, running
from upgrades.make_home import (
    OldPostroom,
    back_up,
    pack,
    read_schema,
    stop,
    wait_for,
    wait_for_server_stop,
    wait_for_start,
)
from upgrades.recorded_provider import Conversation, RecordingProxy, serve

ADDRESSES = {"gmail": "ann@example.com", "outlook": "bob@example.net"}
MESSAGES = 15
ACTIONS = 25
SETTLE_SECONDS = 30  # several syncs of every folder


def connect(postroom: OldPostroom, provider: str, address: str) -> None:
    """Connect a mailbox as its owner would, with the link that the command prints."""
    with postroom.folder.joinpath("connect.log").open("wb") as log:
        command = [sys.executable, "-m", "postroom", "mailboxes", "connect", provider]
        waiting = subprocess.Popen(command, env=postroom.with_home, stdout=log, stderr=log)
    text = postroom.folder / "connect.log"
    try:
        wait_for(lambda: "http" in text.read_text(), "the link")
        [link] = re.findall(r"http\S+", text.read_text())[:1]
        with httpx2.Client(trust_env=False) as browser:
            consent_url = browser.get(link).headers["location"]
            answer = asyncio.run(consent(consent_url, address))
            [callback] = parse_qs(urlsplit(consent_url).query)["redirect_uri"]
            browser.get(callback, params=answer)
        assert waiting.wait(120) == 0, text.read_text()
    finally:
        waiting.kill()


def count_stored(postroom: OldPostroom) -> int:
    return int(postroom.query("SELECT count(*) FROM messages WHERE deleted_at IS NULL"))


def wait_until_mirrored(postroom: OldPostroom, sim: Simulation) -> None:
    expected = sum(len(sim.truth(address, digests=False)) for address in ADDRESSES.values())
    wait_for(lambda: count_stored(postroom) == expected, f"{expected} messages")
    time.sleep(SETTLE_SECONDS)  # a change of a message does not change how many there are


def list_mailboxes(postroom: OldPostroom) -> Sequence[str]:
    return postroom.query("SELECT id FROM mailboxes ORDER BY address").splitlines()


def mirror_first_mail(postroom: OldPostroom, sim: Simulation, port: int) -> None:
    process = postroom.start("up", "--port", str(port))
    try:
        wait_for_start(postroom)
        for provider, address in ADDRESSES.items():
            connect(postroom, provider, address)
        wait_until_mirrored(postroom, sim)
        for mailbox in list_mailboxes(postroom):
            postroom("mailboxes", "pause", mailbox)
    finally:
        stop(process)


def mirror_changes(postroom: OldPostroom, sim: Simulation) -> None:
    for number, address in enumerate(ADDRESSES.values()):
        user = MailboxUser(sim, address, number)
        user.make_folder("Projects")
        user.act(ACTIONS)
    process = postroom.start("work")
    try:
        for mailbox in list_mailboxes(postroom):
            postroom("mailboxes", "resume", mailbox)
        wait_until_mirrored(postroom, sim)
    finally:
        stop(process)


def record(tree: Path, commit: str, target: Path) -> Path:
    with running("--quota", "off") as sim, tempfile.TemporaryDirectory(prefix="postroom-") as folder:
        sim.post("google/topics", name=TOPIC)
        for provider, address in ADDRESSES.items():
            sim.create(provider, address, messages=MESSAGES)
        proxy, port = RecordingProxy(sim.http), free_port()
        with serve(proxy.respond) as url:
            own = {"gmail_url": url, "graph_url": url, "public_url": f"http://127.0.0.1:{port}"}
            settings = settings_given(sim) | own
            given = {f"POSTROOM_{name.upper()}": value for name, value in settings.items()}
            postroom = OldPostroom(tree, Path(folder), **given)
            mirror_first_mail(postroom, sim, port)
            back_up(postroom)
            proxy.conversation = Conversation(url)
            mirror_changes(postroom, sim)
            proxy.record_listings()
        for provider, address in ADDRESSES.items():
            proxy.conversation.truth[address] = {"provider": provider, "messages": sim.truth(address)}
        (postroom.home / "conversation.json").write_text(proxy.conversation.dump())
        archive = pack(postroom, target / f"conversation-{read_schema(postroom):04}-{commit}.tar.xz")
        wait_for_server_stop(postroom)
        return archive


if __name__ == "__main__":
    print(record(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
