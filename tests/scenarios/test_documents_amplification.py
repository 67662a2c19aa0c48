"""A small message cannot fill the disk: what its containers unpack to is limited by its size."""

import io
import random
import zipfile
from email.message import EmailMessage
from email.utils import format_datetime

import pytest

from postroom.documents.sandbox.file_limits import FILE_BYTES
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.model import ContentPolicy, ProviderName
from scenarios.mirrored_mailbox import postroom, usually

CONTAINERS, FILES = 3, 12


@pytest.fixture
async def room(sim, database_url, owner, organization, tmp_path):
    file = tmp_path / "pipelines.toml"
    file.write_text('[invoices]\nkind = "invoice"\n')
    async with postroom(sim, database_url, owner, organization, tmp_path, pipelines=file) as made:
        yield made


def pack(seed):
    """A ZIP file of about 100 kB with 36 MB of different files, each within the compression ratio."""
    content, noise = io.BytesIO(), random.Random(seed)
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(FILES):
            file = b"%PDF-1.4\n1 0 obj<<>>endobj\n" + noise.randbytes(8000) + bytes(3_000_000)
            archive.writestr(f"{number}.pdf", file)
    return content.getvalue()


@pytest.mark.parametrize("provider", usually(ProviderName.GMAIL))
async def test_small_message_unpacks_to_a_limited_size(room, document_room, provider):
    address = f"small-{provider}@example.com"
    room.world.sim.create(provider, address, messages=0)
    box = await room.connect(provider, address, ConnectRequest(policy=ContentPolicy.DOCUMENTS))
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "billing@example.org", address, "files"
    message["Date"] = format_datetime(document_room.order("invoice", "letterhead").date)
    message["Message-ID"] = "<files@example.org>"
    message.set_content("See the files.")
    for seed in range(CONTAINERS):
        message.add_attachment(pack(seed), maintype="application", subtype="zip", filename=f"{seed}.zip")
    raw = message.as_bytes()
    assert len(raw) < 600_000
    await document_room.deliver(box, raw)
    [(stored,)] = await box.rows("SELECT sum(size)::int8 FROM blobs")
    assert FILE_BYTES / 2 < stored < FILE_BYTES + len(raw)
    ignored = await box.rows("SELECT part, reason FROM verdicts WHERE NOT accepted ORDER BY part")
    assert len(ignored) == CONTAINERS
    assert all("unpacks to more than" in reason and "is skipped" in reason for _, reason in ignored)
    attachments = await box.rows("SELECT count(*) FROM attachments WHERE sha256 IS NOT NULL")
    assert attachments == [(CONTAINERS,)], "the message itself is stored whole"
