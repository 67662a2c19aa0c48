"""K7: under the policy `documents`, only attachments that a pipeline accepts are kept."""

import io
import zipfile
from dataclasses import replace
from email.message import EmailMessage
from email.utils import format_datetime

import pytest

from postroom.flow.mail import audit
from postroom.flow.mail.audit import AuditDepth
from postroom.flow.mailboxes import lifecycle
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.model import ContentPolicy, ProviderName, WorkKind
from postroom.store import mailboxes, work
from postroom.store.work import WorkRequest
from scenarios.document_postroom import DocumentPostroom, get_attachment
from scenarios.mirrored_mailbox import postroom, usually

SUPPLIER, STRANGER = "billing@supplier.example", "stranger@elsewhere.example"
PIPELINES = '[invoices]\nkind = "invoice"\nsenders = ["*@supplier.example"]\n'
JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffd9") + bytes(200)


@pytest.fixture
async def room(sim, database_url, owner, organization, tmp_path):
    file = tmp_path / "pipelines.toml"
    file.write_text(PIPELINES)
    async with postroom(sim, database_url, owner, organization, tmp_path, pipelines=file) as made:
        yield made


@pytest.fixture
async def box(room, provider):
    return await connect(room, provider, ContentPolicy.DOCUMENTS)


async def connect(room, provider, policy):
    address = f"policy-{provider}-{id(room)}@example.com"
    room.world.sim.create(provider, address, messages=0)
    return await room.connect(provider, address, ConnectRequest(policy=policy))


def zipped(**files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("_", "."), text)
    return content.getvalue()


def write_message(document_room: DocumentPostroom, sender, **files):
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, "ann@example.com", "files"
    message["Date"] = format_datetime(document_room.order("invoice", "letterhead").date)
    message["Message-ID"] = f"<{sender}>"
    message.set_content("See the files.")
    for name, content in files.items():
        message.add_attachment(
            content, maintype="application", subtype="octet-stream", filename=name.replace("_", ".")
        )
    return message.as_bytes()


async def stored(box):
    return await box.rows(
        "SELECT from_address, file_name FROM attachments JOIN messages ON messages.id = message_id"
        " ORDER BY 1, 2"
    )


async def deliver_both(document_room, box):
    bill = get_attachment(document_room.order("invoice", "letterhead"))[1]
    docx = zipped(**{"[Content_Types]_xml": "<Types/>", "word_xml": "<w/>"})
    files = {"offer_pdf": bill + b"\n%", "photo_jpg": JPEG, "letter_docx": docx}
    await document_room.deliver(
        box,
        write_message(document_room, STRANGER, **files),
        write_message(
            document_room, SUPPLIER, bill_pdf=bill, notes_docx=docx, more_zip=zipped(bill_pdf=bill + b"\n")
        ),
    )


async def retain(document_room):
    database, organization = document_room.room.world.database, document_room.room.world.organization
    async with database.engine() as connection:
        await work.enqueue(connection, [WorkRequest(organization, WorkKind.APPLY_RETENTION, "now")])
        claim = await work.claim(connection, [WorkKind.APPLY_RETENTION], batch=1, lease_seconds=600)
    [lease] = claim.leases
    await document_room.engine.handlers[WorkKind.APPLY_RETENTION].step(lease)


@pytest.mark.parametrize("provider", usually(ProviderName.OUTLOOK))
async def test_attachments_of_a_sender_that_no_pipeline_accepts_are_not_stored(document_room, box):
    await deliver_both(document_room, box)
    assert {sender for sender, _ in await stored(box)} == {SUPPLIER}
    blobs = await box.rows("SELECT count(*) FROM blobs WHERE size = %s", len(JPEG))
    assert blobs == [(0,)]
    async with box.database.transaction(box.organization) as connection:
        mailbox = await mailboxes.get(connection, box.mailbox)
    found = await audit.audit_mailbox(box.context, mailbox, AuditDepth.CONTENTS)
    assert (found.missing, found.different, found.extra) == ([], [], []), "none of them is missed"


@pytest.mark.parametrize("provider", usually(ProviderName.GMAIL))
async def test_lowering_the_policy_removes_at_once_what_no_pipeline_accepts(document_room, room, provider):
    box = await connect(room, provider, ContentPolicy.FULL)
    await deliver_both(document_room, box)
    assert {sender for sender, _ in await stored(box)} == {SUPPLIER, STRANGER}
    context = document_room.engine.connect
    assert await lifecycle.set_policy(context, box.organization, box.mailbox, ContentPolicy.DOCUMENTS)
    assert await stored(box) == [(SUPPLIER, name) for name in ("bill.pdf", "more.zip", "notes.docx")]


@pytest.mark.parametrize("provider", usually(ProviderName.OUTLOOK))
async def test_retention_removes_what_an_earlier_version_stored(document_room, box):
    box.context = replace(box.context, covers_sender=lambda *_: True)  # as earlier versions did
    await deliver_both(document_room, box)
    before = await stored(box)
    assert {name for sender, name in before if sender == STRANGER} == {
        "letter.docx",
        "offer.pdf",
        "photo.jpg",
    }
    await retain(document_room)
    assert await stored(box) == [(SUPPLIER, name) for name in ("bill.pdf", "more.zip", "notes.docx")]
    [(removed,)] = await box.rows(
        "SELECT payload->>'unaccepted_attachments' FROM ledger WHERE event_type = 'RETENTION_APPLIED'"
    )
    assert removed == "3"
    found = await box.rows(
        "SELECT count(*) FROM message_contents WHERE search @@ plainto_tsquery('simple', 'photo')"
    )
    assert found == [(0,)]
