"""Generated messages contain only domain names that are reserved for examples."""

import email
import io
import re
import zipfile

import pytest
from pypdf import PdfReader
from pypdf.errors import PyPdfError

from mailsim import samples

HOST = re.compile(r"(?:https?://|@)([\w-]+(?:\.[\w-]+)+)")
RESERVED = re.compile(r"(?:^|\.)(?:example\.(?:org|com|net)|example|test|invalid|localhost)$")
# Namespaces of XML vocabularies and PDF metadata, not used as addresses.
VOCABULARIES = {"schemas.openxmlformats.org", "www.w3.org", "www.aiim.org", "purl.org", "ns.adobe.com"}


def texts(data: bytes) -> list[str]:
    """List the texts of a file, including archives and PDFs but not images."""
    if data.startswith(b"PK"):
        archive = zipfile.ZipFile(io.BytesIO(data))
        return [text for name in archive.namelist() for text in texts(archive.read(name))]
    try:
        if data.startswith(b"%PDF"):
            reader = PdfReader(io.BytesIO(data))
            inside = [
                text for contents in reader.attachments.values() for one in contents for text in texts(one)
            ]
            return [*inside, *(page.extract_text() for page in reader.pages), str(reader.metadata)]
        return [data.decode()]
    except (UnicodeDecodeError, PyPdfError):
        return []


def readable(message: bytes) -> list[str]:
    found: list[str] = []
    for part in email.message_from_bytes(message).walk():
        found += [str(value) for value in part.values()]
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes):
            found += texts(payload)
    return found


@pytest.mark.parametrize("kind", samples.list_kinds())
def test_every_domain_is_reserved(kind: str):
    for variant in samples.list_variants(kind):
        spec = samples.MessageSpec(seed=0, kind=kind, variant=variant, size=9000)
        hosts = {
            host.rstrip(".").lower()
            for text in readable(samples.write_message(spec))
            for host in HOST.findall(text)
        }
        assert {host for host in hosts - VOCABULARIES if not RESERVED.search(host)} == set()


def test_senders_have_reserved_domains():
    for seed in range(400):
        assert RESERVED.search(samples.MessageSpec(seed=seed).sender[1].rpartition("@")[2])
