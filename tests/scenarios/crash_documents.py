"""Crash scenarios of documents, blobs, queues and webhooks."""

import io
import json
import zipfile
from collections import defaultdict
from contextlib import AsyncExitStack
from dataclasses import replace
from email import message_from_bytes
from email.policy import default
from importlib import import_module
from typing import ClassVar

import httpx2

from mailsim import samples
from postroom.blobs import DiskBlobStore
from postroom.flow.outbound import webhooks
from postroom.model import WorkKind
from postroom.store import blobs, feed
from postroom.store.feed import NewEvent
from scenarios.crash_mailboxes import INVOICE
from scenarios.crash_world import DAY, CommandScenario, CrashScenario, CrashWorld, RequestScenario
from scenarios.document_postroom import get_attachment
from scenarios.test_document_files import PASSWORD, encrypt, join
from smtp_server import mail_server
from web.api_client import create_key_header


class DocumentScenario(CrashScenario):
    """Whatever happens, one invoice is read once and archived once."""

    content = get_attachment(INVOICE)[1]
    arrivals: ClassVar = {1}

    async def check(self) -> None:
        [(state, path)] = await self.world.rows("SELECT state, archive_path FROM documents")
        assert state == "completed"
        assert (self.world.home / path).read_bytes() == self.content
        assert len([*self.world.home.glob("archive/**/*.pdf")]) == 1
        entries = await self.world.count_entries()
        assert entries["DOCUMENT_ARCHIVED"] == entries["DOCUMENT_COMPLETED"] == 1
        assert await self.world.rows("SELECT count(*) FROM records") == [(1,)]
        [(arrivals,)] = await self.world.rows("SELECT count(*) FROM arrivals")
        assert arrivals in self.arrivals
        await self.world.assert_no_orphans()


class Document(DocumentScenario):
    """A message brings an invoice, which is read and archived."""

    async def prepare(self) -> None:
        box = await self.world.room.mailbox(self.provider)
        self.world.sim.deliver(box.address, samples.write_message(INVOICE))
        await self.world.perform(WorkKind.SYNC)


class Container(DocumentScenario):
    """A message brings a zip file with an invoice, which a worker unpacks, reads and archives."""

    async def prepare(self) -> None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            file.writestr("invoice.pdf", self.content)
        message = message_from_bytes(
            samples.write_message(replace(INVOICE, kind="plain", variant="")), policy=default
        )
        message.add_attachment(
            packed.getvalue(), maintype="application", subtype="zip", filename="invoices.zip"
        )
        box = await self.world.room.mailbox(self.provider)
        self.world.sim.deliver(box.address, message.as_bytes())
        await self.world.perform(WorkKind.SYNC)


class MovedArchive(Document):
    """The sender of an archived document is purged, so that its copy moves to another path."""

    async def prepare(self) -> None:
        await super().prepare()
        await self.world.work()
        [(self.sender,)] = await self.world.rows("SELECT sender FROM arrivals")
        await self.world.run("purge", "person", self.sender, "--yes")

    async def check(self) -> None:
        [file] = self.world.home.glob("archive/**/*.pdf")
        assert file.read_bytes() == self.content
        [(path,)] = await self.world.rows("SELECT archive_path FROM documents")
        assert self.world.home / path == file
        assert self.sender.partition("@")[0] not in path
        self.world.assert_no_temporary_files()


class RevisedArchive(Document):
    """A record is corrected, so that its document is archived again beside its earlier copy."""

    async def prepare(self) -> None:
        await super().prepare()
        await self.world.work()
        [(record, self.path)] = await self.world.rows("SELECT record_id, archive_path FROM documents")
        await self.world.run("records", "correct", str(record), "--set", "number=R-7", "--reason", "misread")

    async def check(self) -> None:
        [(path,)] = await self.world.rows("SELECT archive_path FROM documents WHERE archived_at IS NOT NULL")
        assert "R_7" in path
        for each in (path, self.path):
            assert (self.world.home / each).read_bytes() == self.content
        assert len([*self.world.home.glob("archive/**/*.pdf")]) == 2
        assert await self.world.rows("SELECT path FROM archive_copies") == [(self.path,)]
        assert (await self.world.count_entries())["DOCUMENT_ARCHIVED"] == 2
        self.world.assert_no_temporary_files()


class Upload(RequestScenario, DocumentScenario):
    """A program uploads an invoice, and again when the connection broke off: a second arrival at most."""

    arrivals: ClassVar = {1, 2}

    async def prepare(self) -> None:
        self.headers = await create_key_header(self.world.database, self.world.organization)

    async def request(self, url: str) -> None:
        query = {"pipeline": "invoices", "file_name": "invoice.pdf"}
        async with httpx2.AsyncClient(base_url=f"{url}/api/v1", trust_env=False, timeout=60) as client:
            done = await client.post("/documents", params=query, headers=self.headers, content=self.content)
        assert done.status_code == 201, done.text


class Unlock(RequestScenario, DocumentScenario):
    """A program gives the password of an invoice, and again unless the document no longer asks for it."""

    async def prepare(self) -> None:
        self.content = encrypt(self.content)
        self.headers = await create_key_header(self.world.database, self.world.organization)
        await add_document(self.world, self.content)
        [(self.document,)] = await self.world.rows("SELECT id FROM documents WHERE needs_password")

    async def request(self, url: str) -> None:
        at = f"/documents/{self.document}"
        given = {"base_url": f"{url}/api/v1", "headers": self.headers, "trust_env": False, "timeout": 60}
        async with httpx2.AsyncClient(**given) as client:
            if (await client.get(at)).json()["document"]["needs_password"]:
                done = await client.post(f"{at}/unlock", json={"password": PASSWORD})
                assert done.status_code == 202, done.text

    async def check(self) -> None:
        await super().check()
        entries = await self.world.count_entries()
        assert entries["DOCUMENT_UNLOCKED"] == entries["DOCUMENT_QUEUED_AGAIN"] == 1


class SplitScenario(CrashScenario):
    """Whatever happens, each of two invoices in one file is recorded once."""

    seeds: ClassVar[tuple[int, int]]
    pages: ClassVar[tuple[str, str]]

    def build_file(self) -> bytes:
        self.orders = [replace(INVOICE, seed=seed) for seed in self.seeds]
        return join(*(get_attachment(order)[1] for order in self.orders))

    async def check(self) -> None:
        world = self.world
        query = "SELECT id, part_of, part_pages, state FROM documents ORDER BY part_pages NULLS FIRST"
        (original, *first), *parts = await world.rows(query)
        assert first == [None, None, "completed"]
        assert [(of, pages, state) for _, of, pages, state in parts] == [
            (original, pages, "completed") for pages in self.pages
        ]
        numbers = await world.rows("SELECT fields->>'number' FROM records ORDER BY 1")
        assert numbers == sorted((samples.get_document_facts(order)["number"],) for order in self.orders)
        assert len([*world.home.glob("archive/**/*.pdf")]) == 3
        entries = await world.count_entries()
        assert (entries["DOCUMENT_SPLIT"], entries["DOCUMENT_TAKEN_IN"]) == (1, 3)
        assert await world.rows("SELECT count(*) FROM arrivals") == [(3,)]
        await world.assert_no_orphans()


class Split(SplitScenario, CommandScenario):
    """A person splits an uncertain file, and again when the command broke off."""

    seeds = (1, 2)
    pages = ("1-2", "3")

    async def prepare(self) -> None:
        await add_document(self.world, self.build_file())
        [(document,)] = await self.world.rows("SELECT id FROM documents WHERE state = 'needs_review'")
        self.arguments = ("documents", "split", str(document), "--pages", ",".join(self.pages))

    async def recover(self) -> None:
        await super().recover()
        await self.world.work()


class AutomaticSplit(SplitScenario):
    """A worker splits a file whose parts are certain."""

    seeds = (1, 3)
    pages = ("1-2", "3-4")

    async def prepare(self) -> None:
        await add_document(self.world, self.build_file(), is_read=False)


async def add_document(world: CrashWorld, content: bytes, *, is_read: bool = True) -> None:
    """Upload a file, which a worker then reads."""
    file = world.home / "upload.pdf"
    file.write_bytes(content)
    await world.run("documents", "add", str(file))
    if is_read:
        await world.work()


class WatchedImport(DocumentScenario):
    """A file lies in a watched folder."""

    async def prepare(self) -> None:
        folder = self.world.home / "inbox"
        folder.mkdir()
        (folder / "invoice.pdf").write_bytes(self.content)
        (self.world.home / "pipelines.toml").write_text(
            f'[invoices]\nkind = "invoice"\nwatch = "{folder}"\nwatch_seconds = 1\n'
        )

    async def recover(self) -> None:
        await self.world.room.move_clock(60)
        await self.world.work("SELECT count(*) = 1 FROM documents WHERE archived_at IS NOT NULL")

    async def check(self) -> None:
        await super().check()
        taken = "SELECT name, imported_at IS NOT NULL FROM watched_files"
        assert await self.world.rows(taken) == [("invoice.pdf", True)]


class Queue(Document):
    """SQS announces the document."""

    uses_aws = True

    async def prepare(self) -> None:
        self.client = import_module("boto3").client("sqs", endpoint_url=self.world.aws)
        self.url = self.client.create_queue(QueueName=self.world.home.name)["QueueUrl"]
        self.world.settings["POSTROOM_QUEUE"] = f"sqs:{self.url}"
        await super().prepare()

    async def recover(self) -> None:
        await self.world.room.move_clock(2 * 3600)
        await self.world.work()


class Deliver(CrashScenario):
    """Events of two documents are sent to a webhook."""

    async def prepare(self) -> None:
        world = self.world
        await webhooks.add(
            world.database,
            world.room.world.engine.sealer,
            world.organization,
            f"{world.base}/events",
            ["document.changed"],
            allows_http=True,
        )
        new = [
            NewEvent("document.changed", "document", name, {"number": number})
            for number in range(3)
            for name in ("one", "two")
        ]
        async with world.database.transaction(world.organization) as connection:
            await feed.append_events(connection, new)

    async def check(self) -> None:
        received: dict[str, list[int]] = defaultdict(list)
        pushes = self.world.receiver.pushes
        while not pushes.empty():
            data = json.loads(pushes.get_nowait().body)["data"]
            if data["number"] not in received[data["entity_id"]]:
                received[data["entity_id"]].append(data["number"])
        assert received == {"one": [0, 1, 2], "two": [0, 1, 2]}, "each in order, at least once"
        assert await self.world.rows("SELECT count(*) FROM deliveries") == [(0,)]
        await self.world.run("ledger", "verify")


class Notice(CrashScenario):
    """A mailbox must be reconnected, which is announced by email: at least once, and at most twice."""

    async def prepare(self) -> None:
        world = self.world
        box = await world.room.mailbox(self.provider)
        await world.work()
        self.cleanup = AsyncExitStack()
        self.smtp = await self.cleanup.enter_async_context(mail_server())
        world.settings |= {"POSTROOM_SMTP_URL": self.smtp.url, "POSTROOM_SMTP_FROM": "postroom@example.org"}
        await world.rows(
            """
            UPDATE mailboxes SET health = 'token_refresh_failed', health_cause = 'consent_lost'
            WHERE id = %s RETURNING id
            """,
            box.mailbox,
        )
        await world.run("notices", "add", "email", "ap@example.com")

    async def check(self) -> None:
        await self.cleanup.aclose()
        sent = self.smtp.accepted
        assert len(sent) in {1, 2}
        assert len({mail.message["message-id"] for mail in sent}) == 1, "a duplicate can be recognized"
        assert await self.world.rows("SELECT count(*) FROM notice_conditions WHERE sent_at IS NULL") == [(0,)]
        assert await self.world.rows("SELECT last_error, claims FROM notice_destinations") == [(None, 0)]


class Garbage(CrashScenario):
    """A blob without references and an object without a row are collected; a used blob stays."""

    async def prepare(self) -> None:
        world = self.world
        store = DiskBlobStore(world.home / "blobs")
        used, unused, _ = [
            await store.put(world.organization, content) for content in (b"used", b"unused", b"orphan")
        ]
        async with world.database.transaction(world.organization) as connection:
            await blobs.record(connection, world.organization, [used, unused])
        await world.rows(
            """
            INSERT INTO documents (organization_id, pipeline, sha256, media_type)
            VALUES (%s, 'invoices', %s, 'application/pdf') RETURNING id
            """,
            world.organization,
            used.sha256,
        )
        world.age_blobs()
        await world.room.move_clock(3 * DAY)
        await world.enqueue(WorkKind.COLLECT_GARBAGE, world.organization)
        self.used = used.sha256.hex()

    async def check(self) -> None:
        files = [file.name for file in self.world.home.glob("blobs/*/*/*")]
        assert files == [self.used]
        assert await self.world.rows("SELECT encode(sha256, 'hex') FROM blobs") == [(self.used,)]
        assert await self.world.rows("SELECT count(*) FROM blob_removals WHERE removed_at IS NULL") == [(0,)]
