"""Embeds invoice XML in a readable PDF as Factur-X, with PDF/A-3 metadata.

The caller passes both: `cii` renders the XML, `pdf` the pages.
"""

import functools
import io
from datetime import UTC, datetime
from typing import Any, cast

from PIL import ImageCms
from pypdf import PdfReader, PdfWriter
from pypdf.generic import (
    ArrayObject,
    DictionaryObject,
    IndirectObject,
    NameObject,
    NumberObject,
    PdfObject,
    StreamObject,
    TextStringObject,
)

from mailsim.samples.xml_elements import escape

_LEVELS = {"en16931": "EN 16931", "basic": "BASIC"}
# reportlab writes this date into every invariant file; the metadata must match.
_CREATED = datetime(2000, 1, 1, tzinfo=UTC)


def render_facturx(pdf: bytes, xml: bytes, profile: str) -> bytes:
    """Embed the invoice XML in a PDF. The PDF must have its fonts embedded."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf)))
    writer.pdf_header = "%PDF-1.7"
    file = writer.add_attachment("factur-x.xml", xml)
    file.subtype = NameObject("/text#2Fxml")
    file.associated_file_relationship = NameObject("/Alternative")
    file.description = TextStringObject("Factur-X invoice")
    file.alternative_name = TextStringObject("factur-x.xml")
    file.modification_date = _CREATED
    file.size = NumberObject(len(xml))
    specification = file.pdf_object.indirect_reference
    assert specification is not None
    writer.root_object[NameObject("/AF")] = ArrayObject([specification])
    writer.root_object[NameObject("/OutputIntents")] = ArrayObject([_make_output_intent(writer)])
    writer.xmp_metadata = _render_metadata(writer, profile)
    metadata = cast("StreamObject", writer.root_object["/Metadata"])
    metadata[NameObject("/Type")] = NameObject("/Metadata")
    metadata[NameObject("/Subtype")] = NameObject("/XML")
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def _add_object(writer: PdfWriter, thing: PdfObject) -> IndirectObject:
    # pypdf has no public method for adding an indirect object.
    return writer._add_object(thing)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


@functools.cache
def _get_srgb_profile() -> bytes:
    """Return the sRGB profile with a fixed creation date, so that its bytes are reproducible."""
    colours: Any = ImageCms
    profile: bytes = colours.ImageCmsProfile(colours.createProfile("sRGB")).tobytes()
    return profile[:24] + bytes((7, 208, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0)) + profile[36:]


def _make_output_intent(writer: PdfWriter) -> DictionaryObject:
    stream = StreamObject()
    stream.set_data(_get_srgb_profile())
    stream[NameObject("/N")] = NumberObject(3)
    return DictionaryObject(
        {
            NameObject("/Type"): NameObject("/OutputIntent"),
            NameObject("/S"): NameObject("/GTS_PDFA1"),
            NameObject("/OutputConditionIdentifier"): TextStringObject("sRGB"),
            NameObject("/DestOutputProfile"): _add_object(writer, stream),
        }
    )


def _render_metadata(writer: PdfWriter, profile: str) -> bytes:
    """Render the XMP packet: document information, PDF/A-3 identification, Factur-X properties."""
    metadata = writer.metadata
    assert metadata is not None
    author = escape(metadata.author or "")
    created = _CREATED.isoformat()
    return f"""<?xpacket begin="\N{BYTE ORDER MARK}" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:pdfaid="http://www.aiim.org/pdfa/ns/id/"
 pdfaid:part="3" pdfaid:conformance="B"/>
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title><rdf:Alt><rdf:li xml:lang="x-default">{escape(metadata.title or "")}</rdf:li></rdf:Alt></dc:title>
<dc:creator><rdf:Seq><rdf:li>{author}</rdf:li></rdf:Seq></dc:creator>
<dc:description><rdf:Alt>
<rdf:li xml:lang="x-default">{escape(metadata.subject or "")}</rdf:li></rdf:Alt></dc:description>
</rdf:Description>
<rdf:Description rdf:about="" xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:pdf="http://ns.adobe.com/pdf/1.3/"
 xmp:CreatorTool="{author}" xmp:CreateDate="{created}" xmp:ModifyDate="{created}"
 pdf:Producer="{escape(metadata.producer or "")}"/>
<rdf:Description rdf:about="" xmlns:fx="urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#"
 fx:DocumentType="INVOICE" fx:DocumentFileName="factur-x.xml" fx:Version="1.0"
 fx:ConformanceLevel="{_LEVELS[profile]}"/>
{_EXTENSION}
</rdf:RDF></x:xmpmeta>
<?xpacket end="w"?>""".encode()


def _render_property(name: str, meaning: str) -> str:
    return (
        '<rdf:li rdf:parseType="Resource">'
        f"<pdfaProperty:name>{name}</pdfaProperty:name><pdfaProperty:valueType>Text</pdfaProperty:valueType>"
        "<pdfaProperty:category>external</pdfaProperty:category>"
        f"<pdfaProperty:description>{meaning}</pdfaProperty:description></rdf:li>"
    )


_PROPERTIES = "".join((
    _render_property("DocumentFileName", "name of the embedded XML invoice file"),
    _render_property("DocumentType", "INVOICE"),
    _render_property("Version", "version of the XML schema"),
    _render_property("ConformanceLevel", "conformance level of the embedded data"),
))  # fmt: skip
_EXTENSION = f"""<rdf:Description rdf:about="" xmlns:pdfaExtension="http://www.aiim.org/pdfa/ns/extension/"
 xmlns:pdfaSchema="http://www.aiim.org/pdfa/ns/schema#" xmlns:pdfaProperty="http://www.aiim.org/pdfa/ns/property#">
<pdfaExtension:schemas><rdf:Bag><rdf:li rdf:parseType="Resource">
<pdfaSchema:schema>Factur-X PDFA Extension Schema</pdfaSchema:schema>
<pdfaSchema:namespaceURI>urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#</pdfaSchema:namespaceURI>
<pdfaSchema:prefix>fx</pdfaSchema:prefix>
<pdfaSchema:property><rdf:Seq>{_PROPERTIES}</rdf:Seq></pdfaSchema:property>
</rdf:li></rdf:Bag></pdfaExtension:schemas></rdf:Description>"""
