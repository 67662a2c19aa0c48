"""D1 to D11: mail of both simulated providers becomes documents, records, questions and an archive."""

import asyncio
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote
from uuid import uuid4

import pytest

from flow.simulated_world import TOPIC
from mailsim import samples
from postroom import cli
from postroom.blobs.disk_archive import DiskArchive
from postroom.errors import PermanentError
from postroom.flow.documents import review
from postroom.flow.documents.upload import Upload
from postroom.flow.mail import address_pattern
from postroom.flow.mail import purge as purge_flow
from postroom.model import DocumentState, ProviderName
from postroom.store import documents, orders, purge, records, reviews
from scenarios import archive_contents
from scenarios.document_postroom import bill, document_postroom, get_attachment
from simulator.driver import running

SOURCES = {ProviderName.GMAIL: "gmail_push", ProviderName.OUTLOOK: "graph_webhook"}


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual", "--quota", "off") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


def today(document_room):
    return (
        datetime.fromisoformat(document_room.room.world.sim.get("clock")["now"])
        .astimezone(UTC)
        .date()
        .isoformat()
    )


def encoded(text):
    return quote(text, safe="-_~").replace(".", "%2E")


async def archived(document_room, document):
    """The bytes and metadata that stand in the archive for a document."""
    place = document_room.room.home / document.archive_path
    return place.read_bytes(), json.loads(place.with_name(place.name + ".metadata.json").read_text())


@pytest.mark.parametrize(
    "provider, archive",
    [
        (ProviderName.OUTLOOK, archive_contents.on_disk),
        (ProviderName.GMAIL, archive_contents.on_s3),
        (ProviderName.OUTLOOK, archive_contents.on_gcs),
    ],
)
async def test_invoices_and_contract_notes_in_the_mail_become_records_in_the_archive(
    room, tmp_path, monkeypatch, provider, archive
):
    with archive(tmp_path, monkeypatch) as (given, read_archived):
        async with document_postroom(room, tmp_path, **given) as document_room:
            await _assert_mail_is_archived(document_room, provider, read_archived)


async def _assert_mail_is_archived(document_room, provider, read_archived):
    box = await document_room.room.mailbox(provider)
    bill = document_room.order("invoice", "letterhead")
    exact = document_room.order("invoice-facturx", "en16931", seed=2)
    note = document_room.order("contract-note", "statement")
    await document_room.deliver(box, bill, exact, note)
    for order, pipeline in ((bill, "invoices"), (exact, "invoices"), (note, "contract-notes")):
        await _assert_archived(document_room, provider, pipeline, order, read_archived)
    # Both pipelines accepted each file, which became one document.
    assert (
        await document_room.rows("SELECT pipelines FROM documents") == [(["invoices", "contract-notes"],)] * 3
    )
    assert (await document_room.document("invoices", bill)).archive_path == (
        f"archive/sender_email=billing%40ballyfern%2Eexample/received_date={today(document_room)}"
        "/Ballyfern_Software_Ltd-RE003693/Invoice_RE003693.pdf"
    )


async def _assert_archived(document_room, provider, pipeline, order, read_archived):
    name, content = get_attachment(order)
    facts = samples.get_document_facts(order)
    document = await document_room.document(pipeline, order)
    assert document.state is DocumentState.COMPLETED, document
    record = await document_room.record(document)
    if pipeline == "invoices":
        wanted = {
            "number": facts["number"],
            "issued_on": facts["date"],
            "gross": facts["gross"],
            "currency": facts["currency"],
            "supplier": facts["supplier"],
        }
        key = f"{facts['supplier'].replace(' ', '_')}-{facts['number'].replace('-', '_')}"
    else:
        names = ("trade_date", "isin", "ticker", "direction", "quantity", "net")
        wanted = {name: facts[name] for name in names}
        user, day = order.sender[1].partition("@")[0], facts["trade_date"].replace("-", "")
        key = "-".join((user, day, facts["ticker"], facts["direction"].upper(), facts["quantity"]))
    assert {name: record.fields.get(name) for name in wanted} == wanted
    assert record.key == key
    stem = encoded(name.removesuffix(".pdf"))
    assert document.archive_path == (
        f"archive/sender_email={encoded(order.sender[1])}/received_date={today(document_room)}/{encoded(key)}/{stem}.pdf"
    )
    data, recorded = read_archived(document.archive_path)
    assert data == content
    processed = document.state_since.astimezone(UTC).isoformat(timespec="seconds")
    assert recorded == {
        "sender-email": order.sender[1],
        "source": SOURCES[provider],
        "processed-at": processed,
        "trade-key": key,
    }
    assert await document_room.ledger_events(document) == [
        "DOCUMENT_TAKEN_IN",
        "DOCUMENT_COMPLETED",
        "DOCUMENT_ARCHIVED",
    ]


async def test_what_is_neither_is_skipped_and_says_why(document_room, box):
    brochure = document_room.order("other-document", "brochure")
    await document_room.deliver(box, brochure, document_room.order("newsletter", ""))
    assert await document_room.rows("SELECT count(*) FROM documents") == [(1,)]
    document = await document_room.document("invoices", brochure)
    assert (document.state, document.record_id) == (DocumentState.SKIPPED, None)
    assert document.skip_reason
    assert await document_room.rows("SELECT count(*) FROM records") == [(0,)]
    assert await document_room.rows("SELECT archive_path FROM documents WHERE archive_path IS NOT NULL") == []


async def test_a_file_that_cannot_be_read_fails_with_its_reason_and_can_be_tried_again(document_room, box):
    damaged = document_room.order("invoice-odd", "cut-off")
    await document_room.deliver(box, damaged)
    document = await document_room.document("invoices", damaged)
    assert document.state is DocumentState.FAILED
    assert "damaged" in document.last_error
    async with document_room.transaction() as connection:
        await review.retry(connection, document_room.room.world.organization, document.id, actor="Ann")
    assert (await document_room.by_id(document.id)).state is DocumentState.QUEUED
    await document_room.work()
    assert await document_room.ledger_events(document) == [
        "DOCUMENT_TAKEN_IN",
        "DOCUMENT_FAILED",
        "DOCUMENT_QUEUED_AGAIN",
        "DOCUMENT_FAILED",
    ]


FOREIGN_XML = """<?xml version="1.0"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02">
    <BkToCstmrStmt><GrpHdr><MsgId>1</MsgId></GrpHdr></BkToCstmrStmt></Document>"""


async def test_foreign_xml_is_skipped_with_a_reason_and_a_failed_document_is_dismissed(document_room):
    for pipeline in ("invoices", "contract-notes"):
        [foreign] = await document_room.read(FOREIGN_XML.encode(), pipeline=pipeline)
        assert foreign.state is DocumentState.SKIPPED
        assert foreign.skip_reason == "The file is XML, but not an e-invoice in a supported format."
    [broken] = await document_room.read(FOREIGN_XML[:-20].encode())
    assert broken.state is DocumentState.FAILED
    world, reviewing = document_room.room.world, document_room.reviewing
    async with document_room.transaction() as connection:
        await review.reject(
            connection, reviewing, world.organization, broken.id, actor="Ann", reason="a statement"
        )
    dismissed = await document_room.by_id(broken.id)
    assert (dismissed.state, dismissed.skip_reason) == (DocumentState.SKIPPED, "rejected: a statement")
    assert (await document_room.ledger_events(broken))[-2:] == ["DOCUMENT_FAILED", "DOCUMENT_SKIPPED"]


async def test_forwarded_mail_and_zip_files_are_opened(document_room, box):
    forwarded = document_room.order("invoice-forwarded", "")
    zipped = document_room.order("invoice-zip", "nested", seed=3)
    await document_room.deliver(box, forwarded, zipped)
    wanted = {each["number"] for each in samples.get_document_facts(zipped)["documents"]}
    wanted.add(samples.get_document_facts(forwarded)["number"])
    read = await document_room.rows(
        "SELECT DISTINCT fields->'number'->>'value' FROM extractions"
        " JOIN documents ON documents.id = document_id WHERE pipeline = 'invoices'"
    )
    assert {number for (number,) in read} == wanted
    parts = await document_room.rows("SELECT DISTINCT part FROM arrivals")
    assert all("/" in part for (part,) in parts), parts
    reasons = await document_room.rows("SELECT reason FROM verdicts WHERE NOT accepted AND part LIKE '%%/%%'")
    assert reasons, "the text file in the archive was ignored, with a reason"


async def test_a_stored_message_is_tried_stage_by_stage_and_nothing_is_stored(
    document_room, box, database_url, organization, tmp_path, monkeypatch, capsys
):
    zipped = document_room.order("invoice-zip", "nested", seed=3)
    await document_room.deliver(box, zipped)
    for name, value in {"DATABASE_URL": database_url, "HOME": tmp_path, "ORGANIZATION": organization}.items():
        monkeypatch.setenv(f"POSTROOM_{name}", str(value))
    [(message,)] = await document_room.rows("SELECT id FROM messages")
    before = await document_room.rows(
        "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM extractions)"
    )
    capsys.readouterr()
    assert await asyncio.to_thread(cli.run, ["pipelines", "try", str(message), "--json"]) == 0
    tried = json.loads(capsys.readouterr().out)
    fates = {(each["screen"]["fate"], each["route"]["state"]) for each in tried}
    assert fates >= {("open", "opened"), ("ignore", "ignored"), ("take", "completed")}
    read = {each["extract"]["fields"]["number"]["value"] for each in tried if "extract" in each}
    assert read == {each["number"] for each in samples.get_document_facts(zipped)["documents"]}
    assert await asyncio.to_thread(cli.run, ["pipelines", "try", str(message), "--no-xml"]) == 0
    assert "  screen      unpacked: it contains other files" in capsys.readouterr().out
    assert await asyncio.to_thread(cli.run, ["pipelines", "try", "999999"]) == 1
    assert "Message 999999 does not exist or has no attachments" in capsys.readouterr().err
    after = await document_room.rows(
        "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM extractions)"
    )
    assert before == after


async def test_the_same_invoice_by_other_bytes_is_the_same_record(document_room, box):
    first, again = document_room.order("invoice", "letterhead"), document_room.order("invoice", "modern")
    await document_room.deliver(box, first)
    name, content = get_attachment(again)
    assert content != get_attachment(first)[1]
    taken = await document_room.upload(Upload(name, content, "ann@example.com"))
    await document_room.work()
    [one, other] = [
        await document_room.by_id(document)
        for (document,) in await document_room.rows(
            "SELECT id FROM documents WHERE pipeline = 'invoices' ORDER BY created_at, id"
        )
    ]
    assert one.record_id == other.record_id is not None
    assert other.id == taken.document
    assert await document_room.rows("SELECT count(*) FROM records") == [(1,)]
    duplicate = "SELECT payload->>'duplicate' FROM ledger WHERE event_type = 'DOCUMENT_COMPLETED' ORDER BY id"
    assert await document_room.rows(duplicate) == [("false",), ("true",)]
    _, recorded = await archived(document_room, other)
    assert (recorded["source"], recorded["sender-email"]) == ("manual_upload", "ann@example.com")


async def test_the_same_bytes_by_mail_and_by_hand_are_one_document(document_room, box):
    order = document_room.order("invoice", "letterhead")
    await document_room.deliver(box, order, replace(order, message_id="<another@example.org>"))
    taken = await document_room.upload(Upload("copy.pdf", get_attachment(order)[1], "ann@example.com"))
    await document_room.work()
    assert not taken.is_new
    async with document_room.transaction() as connection:
        arrivals = await documents.list_arrivals(connection, taken.document)
    assert [each.source for each in arrivals] == ["gmail_push", "gmail_push", "manual_upload"]
    assert await document_room.ledger_events(await document_room.by_id(taken.document)) == [
        "DOCUMENT_TAKEN_IN",
        "DOCUMENT_COMPLETED",
        "DOCUMENT_ARCHIVED",
    ]


@pytest.fixture
async def strict(room, tmp_path):
    """An office in which a person looks at every document."""
    file = tmp_path / "pipelines.toml"
    file.write_text('[invoices]\nkind = "invoice"\nconfirm_above = 1.0\n')
    async with document_postroom(room, tmp_path, pipelines=file) as made:
        yield made


async def _asked(document_room, box, order):
    """The document of a message that needs a review."""
    await document_room.deliver(box, order)
    document = await document_room.document("invoices", order)
    assert document.state is DocumentState.NEEDS_REVIEW, document
    return document


async def test_what_is_unsure_waits_for_a_person_who_confirms_it(strict, box):
    order = strict.order("invoice", "letterhead")
    document = await _asked(strict, box, order)
    async with strict.transaction() as connection:
        [asked] = await reviews.list_by_document(connection, document.id)
    assert "uncertain" in asked.reason
    record = await strict.confirm(document)
    await strict.work()
    ended = await strict.by_id(document.id)
    assert (ended.state, ended.record_id) == (DocumentState.COMPLETED, record)
    assert (await strict.record(ended)).confirmed_by == "Ann"
    assert (await archived(strict, ended))[0] == get_attachment(order)[1]
    assert (await strict.ledger_events(document))[1:] == [
        "DOCUMENT_NEEDS_REVIEW",
        "REVIEW_CONFIRMED",
        "DOCUMENT_COMPLETED",
        "DOCUMENT_ARCHIVED",
    ]
    with pytest.raises(PermanentError, match="does not need review"):
        await strict.confirm(document)


async def _purge_mail_of(document_room, document):
    async with document_room.transaction() as connection:
        arrivals = await documents.list_arrivals(connection, document.id)
        await purge.delete_messages(connection, [each.message_id for each in arrivals if each.message_id])


async def test_a_document_whose_mail_was_purged_is_still_confirmed_and_archived_without_names(strict, box):
    order = strict.order("invoice", "letterhead")
    document = await _asked(strict, box, order)
    await _purge_mail_of(strict, document)
    await strict.confirm(document)
    await strict.work()
    ended = await strict.by_id(document.id)
    assert ended.state is DocumentState.COMPLETED
    content, recorded = await archived(strict, ended)
    assert content == get_attachment(order)[1]
    assert recorded["sender-email"] == "unknown@localhost"
    key = encoded((await strict.record(ended)).key)
    assert ended.archive_path == (
        f"archive/sender_email=unknown%40localhost/received_date={today(strict)}/{key}/document.pdf"
    )


async def test_a_purge_moves_the_archived_copy_to_a_path_without_the_sender(strict, box):
    order = strict.order("invoice", "letterhead")
    document = await _asked(strict, box, order)
    await strict.confirm(document)
    await strict.work()
    before, home, world = await strict.by_id(document.id), strict.room.home, strict.room.world
    sender = order.sender[1]
    assert encoded(sender) in before.archive_path
    counts = await purge_flow.purge_person(world.database, world.organization, sender)
    assert (counts.archived, counts.messages) == (1, 1)
    await strict.work()
    after = await strict.by_id(document.id)
    content, recorded = await archived(strict, after)
    assert (content, recorded["sender-email"]) == (get_attachment(order)[1], "unknown@localhost")
    key = encoded((await strict.record(after)).key)
    assert after.archive_path == (
        f"archive/sender_email=unknown%40localhost/received_date={today(strict)}/{key}/document.pdf"
    )
    pattern = re.compile(address_pattern.build_pattern(sender))
    assert [path for path in home.rglob("*") if pattern.search(str(path.relative_to(home)))] == []
    left = {
        each.table for each in await purge_flow.list_remaining(world.database, world.organization, sender)
    }
    assert not left & {"documents", "arrivals", "ledger", "ledger_personal"}


async def test_a_purge_leaves_a_copy_that_another_organization_shares(strict, box, owner):
    """Both connected the same account: the same bytes were archived to the same path."""
    order = strict.order("invoice", "letterhead")
    document = await _asked(strict, box, order)
    await strict.confirm(document)
    await strict.work()
    before, world = await strict.by_id(document.id), strict.room.world
    other = uuid4()
    await owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'other')", [other])
    await owner.execute(
        "INSERT INTO blobs (organization_id, sha256, size) VALUES (%s, %s, 1)", [other, before.sha256]
    )
    await owner.execute(
        """
        INSERT INTO documents
            (organization_id, pipeline, sha256, media_type, state, archive_path, archived_at)
        SELECT %s, pipeline, sha256, media_type, state, archive_path, archived_at
        FROM documents WHERE id = %s
        """,
        [other, document.id],
    )
    await purge_flow.purge_person(world.database, world.organization, order.sender[1])
    await strict.work()
    after = await strict.by_id(document.id)
    assert "unknown%40localhost" in after.archive_path
    assert [(await archived(strict, each))[0] for each in (before, after)] == [get_attachment(order)[1]] * 2


async def test_a_purge_while_a_copy_is_written_moves_it_too(strict, box, monkeypatch):
    order = strict.order("invoice", "letterhead")
    document = await _asked(strict, box, order)
    await strict.confirm(document)
    world, put_once, sender = strict.room.world, DiskArchive.put_once, order.sender[1]

    async def put_after_a_purge(self, path, content, metadata):
        await put_once(self, path, content, metadata)
        if encoded(sender) in path:
            await purge_flow.purge_person(world.database, world.organization, sender)

    monkeypatch.setattr(DiskArchive, "put_once", put_after_a_purge)
    await strict.work()
    assert "unknown%40localhost" in (await strict.by_id(document.id)).archive_path
    home, pattern = strict.room.home, re.compile(address_pattern.build_pattern(sender))
    assert [path for path in home.rglob("*") if pattern.search(str(path.relative_to(home)))] == []


async def test_what_came_twice_is_archived_by_the_way_that_was_not_purged(strict, box):
    order = strict.order("invoice", "letterhead")
    document = await _asked(strict, box, order)
    name, content = get_attachment(order)
    await strict.upload(Upload(f"again-{name}", content, "desk@office.example"))
    await strict.confirm(document)
    await _purge_mail_of(strict, document)
    await strict.work()
    ended = await strict.by_id(document.id)
    assert "/sender_email=desk%40office%2Eexample/" in ended.archive_path
    assert (await archived(strict, ended))[1]["source"] == "manual_upload"


async def test_a_correction_teaches_the_next_document_of_that_supplier_and_no_exact_data(strict, box):
    first = strict.order("invoice", "letterhead")
    document = await _asked(strict, box, first)
    read = samples.get_document_facts(first)
    await strict.confirm(
        document, supplier="Ballyfern Group", net="0.80", vat="0.20", gross="1.00", vat_rates=""
    )
    record = await strict.record(await strict.by_id(document.id))
    assert (record.fields["supplier"], record.fields["gross"]) == ("Ballyfern Group", "1.00")
    # The same firm writes again: its name is known now, its amounts are another document's.
    _, content = get_attachment(strict.order("invoice", "modern"))
    second = await strict.upload(Upload("second.pdf", content, first.sender[1]))
    await strict.work()
    async with strict.transaction() as connection:
        found = await records.get_newest_extraction(connection, second.document)
    assert found.fields["supplier"]["value"] == "Ballyfern Group"
    assert found.fields["gross"]["value"] == read["gross"]
    # What XML says exactly stays as it is, whatever its sender.
    exact = bill("R-9", "119.00", supplier=read["supplier"])
    third = await strict.upload(Upload("third.xml", exact, first.sender[1]))
    await strict.work()
    async with strict.transaction() as connection:
        found = await records.get_newest_extraction(connection, third.document)
        assert found.fields["supplier"]["value"] == read["supplier"]
        # Nothing was kept for the sender, who may send documents of any supplier.
        assert not await reviews.find_corrections(connection, parties=["supplier=argonag"], layout=None)
    assert await strict.rows("SELECT count(*) FROM corrections WHERE sender IS NOT NULL") == [(0,)]


async def test_a_correction_that_cannot_be_is_refused_and_changes_nothing(strict, box):
    document = await _asked(strict, box, strict.order("invoice", "letterhead"))
    with pytest.raises(PermanentError, match="grsos is not a field; the fields are"):
        await strict.confirm(document, grsos="1.00")
    with pytest.raises(PermanentError, match="gross must be a number such as"):
        await strict.confirm(document, gross="a lot")
    with pytest.raises(PermanentError, match="issued_on must be a date such as"):
        await strict.confirm(document, issued_on="04.02.2026")
    assert (await strict.by_id(document.id)).state is DocumentState.NEEDS_REVIEW


async def test_what_a_person_rejects_is_skipped_with_their_reason(strict, box):
    document = await _asked(strict, box, strict.order("invoice", "letterhead"))
    async with strict.transaction() as connection:
        await review.reject(
            connection,
            strict.reviewing,
            strict.room.world.organization,
            document.id,
            actor="Ann",
            reason="private",
        )
    ended = await strict.by_id(document.id)
    assert (ended.state, ended.skip_reason) == (DocumentState.SKIPPED, "rejected: private")
    assert (await strict.ledger_events(document))[-2:] == ["REVIEW_REJECTED", "DOCUMENT_SKIPPED"]


async def test_a_contract_note_fulfils_the_order_that_it_agrees_with(document_room, box):
    note = document_room.order("contract-note", "statement")
    recorded = samples.get_document_facts(note)
    placed = {name: str(recorded[name]) for name in ("isin", "direction", "quantity")}
    async with document_room.transaction() as connection:
        await orders.import_orders(
            connection,
            "contract-note",
            [("O-1", "ldeburna", placed), ("O-2", "ldeburna", {**placed, "isin": "US0378331005"})],
        )
    await document_room.deliver(box, note)
    document = await document_room.document("contract-notes", note)
    record = await document_room.record(document)
    assert record.key.startswith("ldeburna-")
    assert await document_room.rows("SELECT reference, state FROM orders ORDER BY reference") == [
        ("O-1", "matched"),
        ("O-2", "open"),
    ]
    [(reason,)] = await document_room.rows(
        "SELECT payload->>'order' FROM ledger WHERE event_type = 'DOCUMENT_COMPLETED'"
    )
    assert reason.startswith("order O-1: ")
