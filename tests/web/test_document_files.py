"""The password of an encrypted document, and the pages of a split: on the page, in the API and its client."""

import asyncio
import re
from datetime import UTC, datetime
from email.message import EmailMessage
from io import BytesIO
from uuid import UUID
from zipfile import ZipFile

import pytest

from documents.files.sample_files import pdf
from mailsim.samples.tnef import encode_tnef
from postroom.client import ApiError, Postroom
from postroom.flow.documents import screen
from scenarios.test_document_files import PASSWORD, encrypt
from web.api_client import build_client, create_key_header
from web.push_server import serve

CONTENT = pdf([(60, 700, "Invoice 1")], [(60, 700, "Invoice 2")], [(60, 700, "Invoice 3")])
PAGES = '{"pages": [[595, 842, 0], [595, 842, 0], [595, 842, 0]], "words": []}'


@pytest.fixture
async def key(database, organization):
    return await create_key_header(database, organization)


@pytest.fixture
def add(site, key, owner):
    """Upload a file, as if a worker had then asked a person about it; the document's ID."""

    async def add(content, *, needs_password=False):
        async with build_client(site, key) as api:
            uploaded = await api.post("/documents?pipeline=invoices&file_name=bill.pdf", content=content)
        [document] = uploaded.json()
        await owner.execute(
            "UPDATE documents SET state = 'needs_review', needs_password = %s WHERE id = %s",
            [needs_password, document["id"]],
        )
        await owner.execute(
            "INSERT INTO reviews (organization_id, document_id, reason)"
            " SELECT organization_id, id, 'needs a look' FROM documents WHERE id = %s",
            [document["id"]],
        )
        await owner.execute(
            "INSERT INTO transcripts (organization_id, document_id, method, pages, text, words)"
            " SELECT organization_id, id, 'text_layer', 3, '', %s FROM documents WHERE id = %s",
            [PAGES, document["id"]],
        )
        return UUID(document["id"])

    return add


def zip_of(name, content):
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def message_with(name, content):
    message = EmailMessage()
    message["From"], message["Subject"] = "ann@example.org", "Invoice"
    message.add_attachment(content, maintype="application", subtype="pdf", filename=name)
    return message.as_bytes()


# A file of each type that an upload can have, by the suffixes of its name and its name on the page.
UPLOADS = {
    "PDF": ((".pdf",), CONTENT),
    "PNG": ((".png",), b"\x89PNG\r\n\x1a\n"),
    "JPEG": ((".jpg", ".jpeg", ".jpe"), b"\xff\xd8\xff"),
    "TIFF": ((".tif", ".tiff"), b"II*\0"),
    "XML e-invoice": ((".xml",), b"<?xml version='1.0'?><Invoice/>"),
    "TXT": ((".txt",), b"Invoice 1"),
    "ZIP": ((".zip",), zip_of("a.pdf", CONTENT + b"1")),
    "EML": ((".eml",), message_with("b.pdf", CONTENT + b"2")),
    "winmail.dat": (
        (".dat",),
        encode_tnef("Bill", "c.pdf", CONTENT + b"3", datetime(2026, 2, 4, tzinfo=UTC)),
    ),
}


async def test_upload_names_the_types_that_it_accepts(visitor, site, key):
    page = (await visitor.get("/documents")).text
    suffixes = re.search(r'id="files" type="file" multiple accept="([^"]+)"', page)[1].split(",")
    assert sorted(suffixes) == sorted(suffix for each, _ in UPLOADS.values() for suffix in each)
    assert {*screen._BY_SUFFIX} < {*suffixes}
    assert f'<span class="quiet">{", ".join(UPLOADS)}</span>' in page
    async with build_client(site, key) as api:
        for names, content in UPLOADS.values():
            for suffix in names:
                path = f"/documents?pipeline=invoices&file_name=bill{suffix}"
                answer = await api.post(path, content=content)
                assert answer.status_code == 201, (suffix, answer.text)
        refused = await api.post("/documents?pipeline=invoices&file_name=bill.docx", content=b"Invoice")
        assert refused.status_code == 409


async def test_page_asks_for_the_password_and_says_if_it_is_wrong(visitor, add):
    document = await add(encrypt(CONTENT), needs_password=True)
    assert 'type="password"' in (await visitor.get(f"/documents/{document}")).text
    refused = await visitor.post(f"/documents/{document}/unlock", data={"password": "my guess"})
    assert refused.status_code == 409
    assert "The password is wrong." in refused.text
    assert "my guess" not in refused.text
    opened = await visitor.post(f"/documents/{document}/unlock", data={"password": PASSWORD})
    assert (opened.status_code, opened.headers["location"]) == (303, f"/documents/{document}")
    assert 'type="password"' not in (await visitor.get(f"/documents/{document}")).text
    assert (await visitor.get(f"/documents/{document}/pages/0")).status_code == 200


async def test_page_splits_a_document_and_links_its_parts(visitor, add):
    document = await add(CONTENT)
    refused = await visitor.post(f"/documents/{document}/split", data={"pages": "1,3"})
    assert refused.status_code == 409
    assert "cover every page once" in refused.text
    assert 'name="pages" value="1,3"' in refused.text
    done = await visitor.post(f"/documents/{document}/split", data={"pages": "1-2,3"})
    assert (done.status_code, done.headers["location"]) == (303, f"/documents/{document}")
    shown = (await visitor.get(f"/documents/{document}")).text
    assert "This file holds 2 documents" in shown
    part = shown.partition('">pages 3</a>')[0].rpartition("/documents/")[2]
    assert (
        f'<a href="/documents/{document}">document</a>, pages 3'
        in (await visitor.get(f"/documents/{part}")).text
    )
    assert f"/documents/{document}/split" not in shown


async def test_no_digest_of_a_password_is_stored_with_an_idempotency_key(site, key, add):
    """A repeated request is recognized whatever its password is, so the stored digest cannot depend on it."""
    locked = await add(encrypt(CONTENT), needs_password=True)
    async with build_client(site, {**key, "idempotency-key": "once"}) as api:
        refused = await api.post(f"/documents/{locked}/unlock", json={"password": "my guess"})
        first = await api.post(f"/documents/{locked}/unlock", json={"password": PASSWORD})
        again = await api.post(f"/documents/{locked}/unlock", json={"password": "my guess"})
    assert (refused.status_code, first.status_code) == (409, 202)
    assert (again.status_code, again.headers["idempotent-replay"]) == (202, "true")


async def test_client_unlocks_and_splits(site, key, add):
    locked, document = await add(encrypt(CONTENT), needs_password=True), await add(CONTENT)
    async with serve(site) as url:
        postroom = Postroom(url, key["authorization"].removeprefix("Bearer "))

        def act():
            with pytest.raises(ApiError, match="password is wrong"):
                postroom.unlock(locked, "my guess")
            assert postroom.document(locked).document.needs_password
            unlocked = postroom.unlock(locked, PASSWORD)
            assert (unlocked.state, unlocked.needs_password) == ("queued", False)
            parts = postroom.split(document, "1-2,3")
            assert [(part.part_of, part.part_pages) for part in parts] == [(document, "1-2"), (document, "3")]
            assert postroom.split(document, "1-2,3") == parts
            original = postroom.document(document)
            assert (original.document.state, original.parts) == ("completed", [part.id for part in parts])

        await asyncio.to_thread(act)
