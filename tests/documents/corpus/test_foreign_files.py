"""Files that are no business document: foreign XML is skipped, a stranger's attachments are not kept."""

from itertools import product

import pytest

from documents.corpus.judgement import choose, judge
from postroom.documents import pipelines
from postroom.documents.files.file_reading import FileReading, Transcript
from postroom.documents.files.file_type import FileType, detect
from postroom.flow.documents import screen
from postroom.flow.mail.sync import content_filter
from postroom.model import RemoteAttachment

pytestmark = pytest.mark.examples
FOREIGN_XML = {
    "DMARC report": "<feedback><report_metadata><org_name>{word}</org_name></report_metadata></feedback>",
    "bank statement": '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"><BkToCstmrStmt>'
    "<Nm>{word}</Nm></BkToCstmrStmt></Document>",
    "bank notification": '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.054.001.08"><Nm>{word}</Nm>'
    "</Document>",
    "payment": '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.03"><Nm>{word}</Nm></Document>',
    "order": '<Order xmlns="urn:oasis:names:specification:ubl:schema:xsd:Order-2"><ID>{word}</ID></Order>',
    "despatch advice": '<DespatchAdvice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Despatch'
    'Advice-2"><ID>{word}</ID></DespatchAdvice>',
    "reminder": '<Reminder xmlns="urn:oasis:names:specification:ubl:schema:xsd:Reminder-2"><ID>{word}</ID>'
    "</Reminder>",
    "CII order": '<o:SCRDMCCBDACIOMessageStructure xmlns:o="urn:un:unece:uncefact:data:SCRDMCCBDACIO'
    'MessageStructure:100"><ID>{word}</ID></o:SCRDMCCBDACIOMessageStructure>',
    "feed": '<rss version="2.0"><channel><title>{word}</title></channel></rss>',
    "drawing": '<svg xmlns="http://www.w3.org/2000/svg"><text>{word}</text></svg>',
    "page": '<html xmlns="http://www.w3.org/1999/xhtml"><body>{word}</body></html>',
    "site map": '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>{word}</loc></url>'
    "</urlset>",
    "track": '<gpx xmlns="http://www.topografix.com/GPX/1/1"><name>{word}</name></gpx>',
    "property list": "<plist><dict><key>{word}</key></dict></plist>",
    "business report": '<xbrl xmlns="http://www.xbrl.org/2003/instance"><context id="{word}"/></xbrl>',
    "audit file": '<AuditFile xmlns="urn:OECD:StandardAuditFile-Tax:PT_1.04_01"><Header>{word}</Header>'
    "</AuditFile>",
    "signature": '<Signature xmlns="http://www.w3.org/2000/09/xmldsig#"><Object>{word}</Object></Signature>',
    "schema": '<x:schema xmlns:x="http://www.w3.org/2001/XMLSchema"><x:element name="{word}"/></x:schema>',
    "envelope": '<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body>{word}</e:Body>'
    "</e:Envelope>",
    "an invoice of no standard": "<Invoice><Number>{word}</Number><Total>119.00</Total></Invoice>",
    "settings": '<configuration><add key="{word}"/></configuration>',
}
WORDS = {
    "en": "invoice",
    "de": "Rechnung",
    "fr": "Numéro de facture",
    "es": "Factura número",
    "it": "Fattura n",
}
STRANGERS_FILES = {
    "en": "invoice",
    "de": "Rechnung",
    "fr": "facture",
    "es": "factura",
    "it": "fattura",
}
CONTENTS = {
    "pdf": ("application/pdf", b"%PDF-1.7\n"),
    "jpg": ("image/jpeg", bytes.fromhex("ffd8ffe000104a464946")),
    "png": ("image/png", b"\x89PNG\r\n\x1a\n"),
    "tif": ("image/tiff", b"II*\x00"),
    "zip": ("application/zip", b"PK\x03\x04"),
    "xml": ("application/xml", b'<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2">'),
}
PIPELINES = pipelines.parse(
    '[invoices]\nkind = "invoice"\nsenders = ["*@supplier.example"]', place="test", kinds={"invoice"}
)


@pytest.mark.parametrize("name, language", choose(list(product(FOREIGN_XML, WORDS))))
def test_foreign_xml_is_skipped_with_a_reason(name, language):
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n{FOREIGN_XML[name].format(word=WORDS[language])}'
    found = detect(text.encode(), f"{language}.xml")
    assert (found.file_type, found.is_foreign) == (FileType.OTHER, True)
    skipped = judge(FileReading(Transcript("plain", (), ()), skip_reason=found.reason))
    assert (skipped.kind, skipped.reasons) == (None, (found.reason,))
    assert found.reason


@pytest.mark.parametrize("suffix, language", choose(list(product(CONTENTS, STRANGERS_FILES))))
def test_an_attachment_that_no_pipeline_accepts_is_not_kept(suffix, language):
    media_type, content = CONTENTS[suffix]
    name = f"{STRANGERS_FILES[language]}.{suffix}"
    file = RemoteAttachment("1", "file", media_type, 20_000, file_name=name, content=content)
    for sender, is_kept in (("stranger@elsewhere.example", False), ("billing@supplier.example", True)):
        is_covered = screen.covers_sender(PIPELINES, "ann@example.com", sender)
        assert content_filter.accepts_attachment(file, is_covered=is_covered) is is_kept
