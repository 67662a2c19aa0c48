"""Files that a person must help with: encrypted PDFs, and PDFs that hold several invoices."""

import asyncio
import io

import pytest
from pypdf import PdfReader, PdfWriter

from mailsim import samples
from postroom.documents.page_ranges import parse_ranges
from postroom.errors import PasswordRequired, PermanentError
from postroom.flow.documents import review, split, unlock
from postroom.flow.documents.upload import Upload
from postroom.model import DocumentState, Secret
from scenarios.archive_contents import on_disk
from scenarios.document_postroom import document_postroom, get_attachment
from upgrades.row_comparison import read_all_rows

PASSWORD = "Käse-und-Brot-7"


def encrypt(content):
    writer = PdfWriter(PdfReader(io.BytesIO(content)))
    writer.encrypt(PASSWORD, algorithm="AES-256")
    encrypted = io.BytesIO()
    writer.write(encrypted)
    return encrypted.getvalue()


async def give_password(document_room, document, password):
    world = document_room.room.world
    await unlock.unlock(
        world.database,
        document_room.engine.blobs,
        document_room.readers,
        world.organization,
        document.id,
        Secret(password),
        actor="Ann",
    )
    await document_room.work()
    return await document_room.by_id(document.id)


async def test_an_encrypted_invoice_is_recorded_once_its_password_is_given(
    room, owner, tmp_path, monkeypatch
):
    with on_disk(tmp_path, monkeypatch) as (given, read_archived):
        async with document_postroom(room, tmp_path, **given) as document_room:
            order = document_room.order("invoice", "letterhead")
            content = encrypt(get_attachment(order)[1])
            taken = await document_room.upload(Upload("bill.pdf", content, "ann@example.com"))
            await document_room.work()
            document = await document_room.by_id(taken.document)
            assert (document.state, document.needs_password) == (DocumentState.NEEDS_REVIEW, True)
            reasons = await document_room.rows("SELECT reason FROM reviews WHERE decision IS NULL")
            assert reasons == [("needs a password: the file is encrypted",)]
            with pytest.raises(PermanentError, match="Enter its password first"):
                await document_room.confirm(document)
            with pytest.raises(PasswordRequired, match="password is wrong"):
                await give_password(document_room, document, "guess")
            assert (await document_room.by_id(document.id)).needs_password
            opened = await give_password(document_room, document, PASSWORD)
            assert (opened.state, opened.needs_password) == (DocumentState.COMPLETED, False)
            assert (await document_room.record(opened)).fields["number"] == samples.get_document_facts(order)[
                "number"
            ]
            assert read_archived(opened.archive_path)[0] == content, "the archive has the original"
            assert await document_room.ledger_events(opened) == [
                "DOCUMENT_TAKEN_IN",
                "DOCUMENT_NEEDS_REVIEW",
                "DOCUMENT_UNLOCKED",
                "DOCUMENT_QUEUED_AGAIN",
                "DOCUMENT_COMPLETED",
                "DOCUMENT_ARCHIVED",
            ]
            with pytest.raises(PermanentError, match="does not need a password"):
                await give_password(document_room, document, PASSWORD)
    assert PASSWORD not in repr(await read_all_rows(owner))


async def test_an_encrypted_document_can_be_rejected_without_its_password(document_room):
    content = encrypt(get_attachment(document_room.order("invoice", "letterhead"))[1])
    [document] = await document_room.read(content, suffix="pdf")
    async with document_room.transaction() as connection:
        organization = document_room.room.world.organization
        await review.reject(
            connection, document_room.reviewing, organization, document.id, actor="Ann", reason="private"
        )
    rejected = await document_room.by_id(document.id)
    assert (rejected.state, rejected.skip_reason) == (DocumentState.SKIPPED, "rejected: private")


def join(*contents):
    writer = PdfWriter()
    for content in contents:
        writer.append(PdfReader(io.BytesIO(content)))
    joined = io.BytesIO()
    writer.write(joined)
    return joined.getvalue()


async def list_parts(document_room, original):
    query = "SELECT id, part_pages FROM documents WHERE part_of = %s ORDER BY part_pages"
    return [
        (pages, await document_room.by_id(part))
        for part, pages in await document_room.rows(query, original.id)
    ]


async def split_by_hand(document_room, document, pages):
    world = document_room.room.world
    return await split.split(
        world.database,
        document_room.engine.blobs,
        document_room.readers,
        document_room.reviewing,
        world.organization,
        document.id,
        parse_ranges(pages),
        actor="Ann",
    )


async def test_invoices_with_their_own_page_numbers_are_split_without_a_person(document_room):
    orders = [document_room.order("invoice", "letterhead", seed=seed) for seed in (1, 3)]
    content = join(*(get_attachment(order)[1] for order in orders))
    [original] = await document_room.read(content, suffix="pdf")
    assert (original.state, original.record_id) == (DocumentState.COMPLETED, None)
    assert original.archive_path, "it is archived as it came"
    parts = await list_parts(document_room, original)
    assert [(pages, part.state) for pages, part in parts] == [
        ("1-2", DocumentState.COMPLETED),
        ("3-4", DocumentState.COMPLETED),
    ]
    numbers = {(await document_room.record(part)).fields["number"] for _, part in parts}
    assert numbers == {samples.get_document_facts(order)["number"] for order in orders}
    assert await document_room.ledger_events(original) == [
        "DOCUMENT_TAKEN_IN",
        "DOCUMENT_COMPLETED",
        "DOCUMENT_SPLIT",
        "DOCUMENT_ARCHIVED",
    ]
    [again] = await document_room.read(content, suffix="pdf")
    assert again == original
    assert len(await list_parts(document_room, original)) == 2


async def test_an_uncertain_file_with_two_invoices_is_split_by_a_person_once(document_room):
    orders = [document_room.order("invoice", "letterhead", seed=seed) for seed in (1, 2)]
    content = join(*(get_attachment(order)[1] for order in orders))
    [original] = await document_room.read(content, suffix="pdf")
    assert original.state is DocumentState.NEEDS_REVIEW
    [(reason,)] = await document_room.rows("SELECT reason FROM reviews WHERE decision IS NULL")
    assert "2 invoices? Pages 1-2,3 have the numbers" in reason
    with pytest.raises(PermanentError, match="The PDF has 3 pages"):
        await split_by_hand(document_room, original, "1,2")
    both = await asyncio.gather(*(split_by_hand(document_room, original, "1-2,3") for _ in range(2)))
    assert both[0] == both[1]
    with pytest.raises(PermanentError, match="already split, into the pages 1-2,3"):
        await split_by_hand(document_room, original, "1,2-3")
    await document_room.work()
    parts = await list_parts(document_room, original)
    assert [(pages, part.state) for pages, part in parts] == [
        ("1-2", DocumentState.COMPLETED),
        ("3", DocumentState.COMPLETED),
    ]
    assert (await document_room.by_id(original.id)).archive_path
    assert await document_room.rows("SELECT count(*) FROM reviews WHERE decision IS NULL") == [(0,)]
    events = await document_room.rows(
        "SELECT data->'split_into' FROM events WHERE entity_id = %s AND data ? 'split_into'", str(original.id)
    )
    assert events == [([{"document": str(part.id), "pages": pages} for pages, part in parts],)]
    created = await document_room.rows(
        "SELECT entity_id FROM events WHERE kind = 'document.created' AND data->>'part_of' = %s",
        str(original.id),
    )
    assert {entity for (entity,) in created} == {str(part.id) for _, part in parts}
    arrivals = await document_room.rows("SELECT file_name FROM arrivals ORDER BY id")
    assert arrivals == [("0.pdf",), ("0 (pages 1-2).pdf",), ("0 (pages 3).pdf",)]
