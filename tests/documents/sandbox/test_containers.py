"""Containers are decoded in a child: every method and character set works there; its death is a reason."""

import io
import random
import zipfile
from email.message import EmailMessage

import pytest
import pytest_asyncio

from documents.files import sample_files
from postroom.documents.files.unpack import UnpackedFile
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.flow.documents import unpack, upload
from postroom.flow.documents.screen import ScreeningAction
from postroom.flow.documents.upload import Upload
from postroom.store.documents import StoredAttachment

pytestmark = pytest.mark.asyncio(loop_scope="module")
PDF = sample_files.pdf([(50, 700, "Invoice")])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox():
    async with FileSandbox(parallel=1) as opened:
        yield opened


def pack(method, *contents):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for number, content in enumerate(contents):
            archive.writestr(f"{number}.pdf", content)
    return packed.getvalue()


def stored(content):
    return StoredAttachment("1", "file", "a.zip", "", len(content), False, None, None, "zip")


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
async def test_every_compression_method_is_decoded_in_a_child(sandbox, method):
    [file] = await sandbox.unpack(pack(method, PDF), "a.zip")
    assert file == UnpackedFile("0.pdf", "application/pdf", PDF, ("a.zip",))


@pytest.mark.parametrize("charset", ["koi8-r", "iso-2022-jp", "gb18030", "mac-roman"])
async def test_every_character_set_is_decoded_in_a_child(sandbox, charset):
    """A child can load no codec, so its parent has loaded all."""
    name = {"koi8-r": "счёт", "iso-2022-jp": "請求書", "gb18030": "发票", "mac-roman": "façade"}[charset]
    message = EmailMessage()
    message["From"], message["Subject"] = "jane@example.org", "Invoice"
    message.set_content("Please pay.")
    message.add_attachment(PDF, maintype="application", subtype="pdf", filename=(charset, "", f"{name}.pdf"))
    [file] = await sandbox.unpack(message.as_bytes(), "a.eml")
    assert (file.name, file.content) == (f"{name}.pdf", PDF)


async def test_a_container_whose_decoder_dies_is_ignored_with_the_reason():
    large = pack(zipfile.ZIP_STORED, PDF + random.Random(1).randbytes(20_000_000))
    async with FileSandbox(FileLimits(memory_bytes=100_000_000), parallel=1) as sandbox:
        [ignored] = await unpack.unpack_container(sandbox, large, stored(large))
    assert ignored.verdict.action is ScreeningAction.IGNORE
    assert "memory" in ignored.verdict.reason


async def test_an_uploaded_container_is_decoded_in_a_child(sandbox):
    packed = pack(zipfile.ZIP_DEFLATED, PDF)
    [screened] = await upload.screen_upload(sandbox, Upload("a.zip", packed, "jane@example.org"))
    assert screened.content == PDF
