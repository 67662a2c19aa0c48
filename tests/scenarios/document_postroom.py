"""A Postroom that reads documents in this process: messages arrive at the simulator, and due work is run."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email import message_from_bytes, policy
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from flow.simulated_world import settings
from mailsim import samples
from postroom.config import Settings
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.engine import Engine, WorkHandler
from postroom.errors import TransientError
from postroom.flow.documents import review, upload
from postroom.flow.documents.upload import Upload
from postroom.flow.documents.value_checks import ReviewContext
from postroom.model import UPLOADER, WorkKind
from postroom.store import documents, records, work
from postroom.store.documents import Document, DocumentIntake
from postroom.store.records import Record
from postroom.store.work import FinishedWork
from postroom.wiring import documents as wired
from postroom.wiring.engine import build_engine
from scenarios.mirrored_mailbox import MirroredMailbox, Postroom
from shared_sandbox import SharedSandbox

# The date of documents: controls compare it with their receipt.
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass
class DocumentPostroom:
    room: Postroom
    settings: Settings
    readers: FileSandbox

    @property
    def engine(self) -> Engine:
        world = self.room.world
        return replace(build_engine(self.settings, world.database, world.engine.client), remote=world.remote)

    @property
    def reviewing(self) -> ReviewContext:
        return self.engine.review

    def order(self, kind: str, variant: str, *, seed: int = 1, **given: Any) -> samples.MessageSpec:
        now = datetime.fromisoformat(self.room.world.sim.get("clock")["now"])
        return samples.MessageSpec(
            seed=seed, kind=kind, variant=variant, language="en", date=now.replace(microsecond=0), **given
        )

    async def deliver(self, box: MirroredMailbox, *mail: samples.MessageSpec | bytes) -> None:
        """Deliver messages, mirror them, and run all work that follows."""
        for each in mail:
            box.sim.deliver(box.address, each if isinstance(each, bytes) else samples.write_message(each))
        await box.wake()
        await box.sync()
        await self.work()

    async def work(self) -> None:
        """Everything that is due."""
        async with wired.open_language_model(self.settings) as model:
            await self._run_handlers(wired.build_handlers(self.engine, self.readers, {}, model))

    async def _run_handlers(self, kinds: Mapping[WorkKind, WorkHandler]) -> None:
        database = self.room.world.database
        while True:
            async with database.engine() as connection:
                claim = await work.claim(connection, list(kinds), batch=1, lease_seconds=86400)
            if not claim.leases:
                return
            [lease] = claim.leases
            try:
                done = await kinds[lease.kind].step(lease)
            except TransientError as error:
                async with database.engine() as connection:
                    await work.retry(connection, lease, delay=0, error=str(error))
                continue
            async with work.fenced_transaction(database, lease) as connection:
                await work.finish(connection, [FinishedWork(lease, done and done.again_after)])

    async def upload(self, given: Upload, pipeline: str = "invoices") -> DocumentIntake:
        world = self.room.world
        chosen = self.reviewing.pipelines[pipeline]
        kept = self.engine.blobs
        [taken] = await upload.add(world.database, kept, self.readers, world.organization, chosen, given)
        return taken

    async def read(self, *contents: bytes, pipeline: str = "invoices", suffix: str = "xml") -> list[Document]:
        """What becomes of files that are uploaded one after the other."""
        found: list[Document] = []
        for number, content in enumerate(contents):
            taken = await self.upload(Upload(f"{number}.{suffix}", content, UPLOADER), pipeline)
            await self.work()
            found.append(await self.by_id(taken.document))
        return found

    async def confirm(self, document: Document, *, override: Sequence[str] = (), **corrections: Any) -> UUID:
        """The record that Ann makes of it."""
        async with self.transaction() as connection:
            return await review.confirm(
                connection,
                self.reviewing,
                self.room.world.organization,
                document.id,
                actor="Ann",
                corrections=corrections,
                override=override,
            )

    def transaction(self):
        return self.room.world.database.transaction(self.room.world.organization)

    async def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return await (await self.room.owner.execute(query.encode(), parameters)).fetchall()

    async def document(self, pipeline: str, order: samples.MessageSpec) -> Document:
        """What the pipeline made of the file that a message brought."""
        digest = sha256(get_attachment(order)[1]).digest()
        query = "SELECT id FROM documents WHERE pipeline = %s AND sha256 = %s"
        [(found,)] = await self.rows(query, pipeline, digest)
        return await self.by_id(found)

    async def by_id(self, document: UUID) -> Document:
        async with self.transaction() as connection:
            found = await documents.get(connection, document)
        assert found is not None
        return found

    async def record(self, document: Document) -> Record:
        assert document.record_id is not None, document
        async with self.transaction() as connection:
            found = await records.get(connection, document.record_id)
        assert found is not None
        return found

    async def ledger_events(self, document: Document) -> list[str]:
        """What the ledger says of a document, in order."""
        query = "SELECT event_type FROM ledger WHERE entity_id = %s ORDER BY id"
        return [event for (event,) in await self.rows(query, str(document.id))]


@asynccontextmanager
async def document_postroom(room: Postroom, home: Path, **changed: Any) -> AsyncGenerator[DocumentPostroom]:
    async with SharedSandbox(parallel=2, ocr_processes=1) as readers:
        yield DocumentPostroom(room, settings(room.world.sim, home, **changed), readers)


def get_attachment(order: samples.MessageSpec) -> tuple[str, bytes]:
    """Name and bytes of the first file that a message brings."""
    message = message_from_bytes(samples.write_message(order), policy=policy.default)
    part = next(part for part in message.walk() if part.get_filename())
    return part.get_filename() or "", part.get_payload(decode=True)


def bill(
    number: str,
    gross: str,
    *,
    supplier: str = "Xenon GmbH",
    name: str = "Invoice",
    code: str = "380",
    tax_id: str = "",
    iban: str = "",
    remark: str = "",
) -> bytes:
    """An e-invoice (UBL) of today that consists of what is needed."""
    registered = f"<PartyTaxScheme><CompanyID>{tax_id}</CompanyID></PartyTaxScheme>" if tax_id else ""
    account = f"<PayeeFinancialAccount><ID>{iban}</ID></PayeeFinancialAccount>"
    paid = f"<PaymentMeans>{account}</PaymentMeans>" if iban else ""
    return f"""<?xml version="1.0"?>
        <{name} xmlns="urn:oasis:names:specification:ubl:schema:xsd:{name}-2"><ID>{number}</ID>
        <IssueDate>{TODAY.date()}</IssueDate><{name}TypeCode>{code}</{name}TypeCode>
        <DocumentCurrencyCode>EUR</DocumentCurrencyCode><Note>{remark}</Note>
        <AccountingSupplierParty><Party>{registered}<PartyLegalEntity><RegistrationName>{supplier}
        </RegistrationName></PartyLegalEntity></Party></AccountingSupplierParty>{paid}
        <LegalMonetaryTotal><TaxInclusiveAmount>{gross}</TaxInclusiveAmount></LegalMonetaryTotal>
        </{name}>""".encode()
