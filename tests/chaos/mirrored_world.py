"""A small world for the oracle: two providers, a running Postroom, a webhook receiver and a feed follower.

Postroom has mirrored everything and was stopped; the simulator still answers.
"""

import asyncio
import http.server
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psycopg

import databases
from flow.simulated_world import TOPIC, open_world, settings_given
from postroom import config
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.model import ContentPolicy, OrganizationId, ProviderName
from postroom.wiring import secrets
from postroom_chaos.oracle.evidence import (
    Evidence,
    LedgerHead,
    MemorySample,
    ObservedFeed,
    ObservedMailbox,
    ObservedProcess,
    ObservedWebhook,
)
from postroom_chaos.oracle.leftovers import read_start_ticks
from scenarios.postroom_process import PATIENCE, PostroomProcess, environment, server_launcher, wait_until
from simulator.driver import Simulation, running

ORGANIZATION = UUID("00000000-0000-4000-8000-000000000001")
SUBSCRIPTION = "projects/mailsim/subscriptions/gmail"
MAILBOXES = {
    "ada@example.com": ("gmail", "full"),
    "ben@example.com": ("outlook", "full"),
    "cleo@example.com": ("outlook", "documents"),
    "dora@example.com": ("gmail", "metadata"),
}
FOLDER = "Projects 2026"
KINDS = ["plain", "reply", "attachment"]
# What is still to be done before the world is at rest.
UNDONE = """
    SELECT count(*) FROM (
        SELECT 1 FROM postroom.work
        WHERE state = 'leased' OR last_error IS NOT NULL OR due_at < postroom.postroom_now() + interval '20 s'
        UNION ALL SELECT 1 FROM postroom.cursors WHERE kind = 'backfill' AND completed_at IS NULL
        UNION ALL SELECT 1 FROM postroom.subscriptions WHERE confirmed_at IS NULL
        UNION ALL SELECT 1 FROM postroom.documents WHERE state IN ('queued', 'processing')
        UNION ALL SELECT 1 FROM postroom.documents WHERE state = 'completed' AND archived_at IS NULL
        UNION ALL SELECT 1 FROM postroom.ledger WHERE position IS NULL
        UNION ALL SELECT 1 FROM postroom.events WHERE position IS NULL
        UNION ALL SELECT 1 FROM postroom.deliveries
        UNION ALL SELECT 1 FROM postroom.webhooks
        WHERE position < (SELECT coalesce(max(position), 0) FROM postroom.events)
        UNION ALL SELECT 1 FROM postroom.failures WHERE resolved_at IS NULL
        UNION ALL SELECT 1 FROM postroom.mailboxes WHERE last_synced_at IS NULL
    ) AS undone
"""


@dataclass
class WebhookReceiver:
    """Records requests as the oracle reads them. Every fifth is refused, so that some come again."""

    file: Path
    requests: int = 0

    def record(self, headers: dict[str, str], body: str) -> int:
        self.requests += 1
        status = 503 if self.requests % 5 == 0 else 200
        line = {"headers": headers, "body": body, "status": status, "time": time.time()}
        with self.file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return status


@contextmanager
def receiving(file: Path) -> Generator[str]:
    receiver, lock = WebhookReceiver(file), threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            with lock:
                self.send_response(receiver.record(dict(self.headers), body))
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/events"
        server.shutdown()


@contextmanager
def mirrored_world(database_url: str, folder: Path) -> Generator[Evidence]:
    with running("--quota", "off", checked=False) as sim, receiving(folder / "received.jsonl") as receiver:
        sim.post("google/topics", name=TOPIC)
        evidence = _run_postroom(sim, database_url, folder, receiver)
        _postpone_work(database_url)
        yield evidence


def _run_postroom(sim: Simulation, database_url: str, folder: Path, receiver: str) -> Evidence:
    home, temporary = folder / "home", folder / "tmp"
    temporary.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    given = _environment(sim, database_url, home, temporary, port)
    for address, (provider, _) in MAILBOXES.items():
        sim.create(provider, address, messages=6, days=10, kinds=KINDS)
        sim.post(f"mailboxes/{address}/folders", name=FOLDER)
    secret = _command(folder, given, "webhooks", "add", receiver)
    ids = asyncio.run(_connect(sim, database_url, home))
    key = _command(folder, given, "api-keys", "create", "follower", "--scope", "read")
    with PostroomProcess(folder, "up", **given) as program:
        process = program.process
        ticks = read_start_ticks(process.pid)
        url = program.line("Postroom: ")
        sim.post(
            "google/subscriptions",
            name=SUBSCRIPTION,
            topic=TOPIC,
            push_endpoint=f"{url}/webhooks/gmail?token=shared",
        )
        wait_until(lambda: is_at_rest(database_url))
        act(sim)
        sim.post("settle")
        wait_until(lambda: is_at_rest(database_url))
        follow(url, key, folder / "feed.jsonl")
        assert program.end() == 0
    (folder / "postroom.log").write_text("".join(program.said))
    return Evidence(
        database_url=database_url,
        simulator_url=sim.http,
        home=home,
        blobs=home / "blobs",
        archive=home,
        mailboxes=tuple(
            ObservedMailbox(ids[address], ORGANIZATION, provider, address, policy)
            for address, (provider, policy) in MAILBOXES.items()
        ),
        webhooks=(
            ObservedWebhook(_webhook_id(database_url), ORGANIZATION, secret, folder / "received.jsonl"),
        ),
        feeds=(ObservedFeed(ORGANIZATION, folder / "feed.jsonl"),),
        ledger_heads=(_read_head(database_url),),
        logs=(folder / "postroom.log",),
        markers=frozenset({secret, key}),
        processes=(ObservedProcess(process.pid, "postroom up", ticks or 0, running=False),),
        temporary_folders=(temporary,),
        memory=tuple(MemorySample("worker", 1, float(second), 100 << 20) for second in range(10)),
    )


def _postpone_work(database_url: str) -> None:
    """Keep the world at rest: no process is left that would do what falls due while tests look at it."""
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE postroom.work SET due_at = due_at + interval '1 day'")


def _environment(
    sim: Simulation, database_url: str, home: Path, temporary: Path, port: int
) -> dict[str, str]:
    settings = settings_given(sim) | {
        "home": str(home),
        "port": str(port),
        "public_url": f"http://127.0.0.1:{port}",
        "pubsub_subscription": SUBSCRIPTION,
        "pubsub_token": "shared",
        "webhook_networks": "127.0.0.0/8",
        "poll_seconds": "0.2",
        "log_format": "json",
        "log_level": "debug",
    }
    return {f"POSTROOM_{name.upper()}": value for name, value in settings.items()} | {
        "TMPDIR": str(temporary),
        **databases.login_settings(database_url),
    }


async def _connect(sim: Simulation, database_url: str, home: Path) -> dict[str, UUID]:
    macs = secrets.build_entry_macs(config.load(home=home))
    async with (
        databases.open_pools(databases.to_service(database_url), entry_macs=macs) as database,
        open_world(sim, database, OrganizationId(ORGANIZATION), home) as world,
    ):
        return {
            address: (
                await world.login(
                    ProviderName(provider), address, ConnectRequest(policy=ContentPolicy(policy))
                )
            ).mailbox.id
            for address, (provider, policy) in MAILBOXES.items()
        }


def _command(folder: Path, given: dict[str, str], *arguments: str) -> str:
    done = server_launcher().run(arguments, folder, environment(**given), seconds=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def act(sim: Simulation) -> None:
    """Something of everything: new mail, documents, marks, moves, deletions."""
    for address, (provider, _) in MAILBOXES.items():
        numbers = [each["number"] for each in sim.truth(address, digests=False)]
        [made] = [
            each["key"] for each in sim.get(f"mailboxes/{address}")["folders"] if each["name"] == FOLDER
        ]
        sim.act(address, numbers[0], "mark", read=True)
        sim.act(address, numbers[0], "mark", read=False)
        sim.act(address, numbers[1], "mark", flag="flagged")
        sim.act(address, numbers[2], "move", folder=made)
        sim.delete(f"mailboxes/{address}/messages/{numbers[3]}")
        for kind in ("invoice", "contract-note", "plain"):
            sim.deliver(address, kind=kind, variant="", seed=7, language="en")
        if provider == "outlook":
            sim.act(address, numbers[4], "mark", categories=["Red category"], importance="high")


def is_at_rest(database_url: str) -> bool:
    with psycopg.connect(database_url) as connection:
        row = connection.execute(UNDONE).fetchone()
    return row == (0,)


def follow(url: str, key: str, file: Path) -> None:
    """Read the whole feed in small pages, as a client does that reconnects."""
    after, size = 0, 7
    with file.open("w") as lines:
        while True:
            request = urllib.request.Request(
                f"{url}/api/v1/events?after={after}&limit={size}", headers={"Authorization": f"Bearer {key}"}
            )
            with urllib.request.urlopen(request, timeout=30) as answer:
                page = json.load(answer)
            lines.writelines(json.dumps(event) + "\n" for event in page["data"])
            if not page["data"]:
                return
            after = page["next"]


def _webhook_id(database_url: str) -> UUID:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT id FROM postroom.webhooks").fetchone()
    assert row
    return row[0]


def _read_head(database_url: str) -> LedgerHead:
    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            """
            SELECT organization_id, number, encode(sha256, 'hex') FROM postroom.seals
            ORDER BY number DESC LIMIT 1
            """
        ).fetchone()
    assert row
    return LedgerHead(*row)
