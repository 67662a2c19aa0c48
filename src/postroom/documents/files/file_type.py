"""Detects the type of a file from its bytes; text is decoded to recognize it. Pure.

A signature alone is not enough: the structure behind it must be valid, and it must be the only signature. The
name of a file only helps to explain a rejection. It extracts nothing; `pdf`, `images` and others do.
"""

import re
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final
from xml.parsers import expat


class FileType(StrEnum):
    """The types of files that Postroom distinguishes; the value is the media type."""

    PDF = "application/pdf"
    PNG = "image/png"
    JPEG = "image/jpeg"
    TIFF = "image/tiff"
    ZIP = "application/zip"
    TNEF = "application/ms-tnef"
    MESSAGE = "message/rfc822"
    E_INVOICE = "application/xml"
    TEXT = "text/plain"
    OTHER = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class DetectedType:
    """A file type and, for `OTHER`, the reason why the file is not supported.

    `is_foreign`: nothing is wrong with the file, but no document has this format.
    """

    file_type: FileType
    reason: str = ""
    is_foreign: bool = False


E_INVOICE_ROOTS: Final = {
    ("urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100", "CrossIndustryInvoice"),
    ("urn:ferd:CrossIndustryDocument:invoice:1p0", "CrossIndustryDocument"),
    ("urn:oasis:names:specification:ubl:schema:xsd:Invoice-2", "Invoice"),
    ("urn:oasis:names:specification:ubl:schema:xsd:CreditNote-2", "CreditNote"),
}
_FORMAT_BY_SUFFIX: Final[Mapping[str, str]] = {
    ".pdf": "PDF",
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".zip": "ZIP file",
    ".eml": "message",
    ".xml": "e-invoice",
}
# PDF readers look for the header in the first 1,024 bytes, so a second format can hide there.
_PDF_HEADER_WINDOW: Final = 1024
_LEADING_BLANKS: Final = b"\xef\xbb\xbf\x00\t\n\f\r "
# What a printer driver writes before the document that it prints into a file.
_PRINTER_PREAMBLE: Final = b"\x1b%-12345X@PJL"
_ZIP_START: Final = b"PK\x03\x04"
_ZIP_END: Final = struct.Struct("<4s4H2IH")
TNEF_START: Final = b"\x78\x9f\x3e\x22"
_MAX_TEXT_BYTES: Final = 5_000_000
_COMMON_HEADERS: Final = re.compile(
    rb"(?:received|return-path|delivered-to|from|to|cc|date|subject|message-id|mime-version|content-type|sender)$",
    re.IGNORECASE,
)
_HEADER_LINE: Final = re.compile(rb"([!-9;-~]{1,80})[ \t]*:")
# Text that a program extracted from a document may contain some meaningless control characters.
_MIN_LEGIBLE_SHARE: Final = 0.8
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def detect(content: bytes, name: str = "") -> DetectedType:
    """Detect the type of a file. A file with two signatures is unsupported."""
    if not content:
        return DetectedType(FileType.OTHER, "The file is empty.")
    matches = [
        file_type for file_type, matches_signature in _SIGNATURES.items() if matches_signature(content)
    ]
    if len(matches) > 1:
        both = " and ".join(_FORMAT_NAMES[file_type] for file_type in matches)
        return DetectedType(FileType.OTHER, f"The file is valid as both {both}; such files may be disguised.")
    if matches:
        fault = _STRUCTURE_CHECKS[matches[0]](content)
        return DetectedType(FileType.OTHER, fault) if fault else DetectedType(matches[0])
    return _detect_text_format(content) or DetectedType(FileType.OTHER, _explain_unknown(name))


def _explain_unknown(name: str) -> str:
    claimed = _FORMAT_BY_SUFFIX.get(PurePosixPath(name.lower()).suffix)
    if claimed:
        return f"The file is named like a {claimed}, but its content is not one."
    return "The file type is not supported."


# Signatures, at the position where programs look for them.


def _looks_like_pdf(content: bytes) -> bool:
    """Containers may store a PDF uncompressed near their beginning; they are not PDFs."""
    return b"%PDF-" in content[:_PDF_HEADER_WINDOW] and not content.startswith((_ZIP_START, TNEF_START))


def _looks_like_tiff(content: bytes) -> bool:
    return content[:4] in {b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+"}


def _looks_like_zip(content: bytes) -> bool:
    """Programs find a ZIP file by its end, whatever it begins with."""
    return content.startswith(_ZIP_START) or parse_zip_end(content) is not None


def parse_zip_end(content: bytes) -> tuple[int, int, int] | None:
    """Parse the end record of a ZIP file: number of entries, directory size and offset."""
    position = content.rfind(b"PK\x05\x06", max(len(content) - 65_535 - _ZIP_END.size, 0))
    if position < 0 or position + _ZIP_END.size > len(content):
        return None
    _, _, _, _, entries, size, offset, comment = _ZIP_END.unpack_from(content, position)
    if position + _ZIP_END.size + comment != len(content) or offset + size > position:
        return None
    return entries, size, offset


_SIGNATURES: Final[Mapping[FileType, Callable[[bytes], bool]]] = {
    FileType.PDF: _looks_like_pdf,
    FileType.PNG: lambda content: content.startswith(b"\x89PNG\r\n\x1a\n"),
    FileType.JPEG: lambda content: content.startswith(b"\xff\xd8\xff"),
    FileType.TIFF: _looks_like_tiff,
    FileType.ZIP: _looks_like_zip,
    FileType.TNEF: lambda content: content.startswith(TNEF_START),
}
_FORMAT_NAMES: Final = {
    FileType.PDF: "a PDF",
    FileType.PNG: "a PNG",
    FileType.JPEG: "a JPEG",
    FileType.TIFF: "a TIFF",
    FileType.ZIP: "a ZIP file",
    FileType.TNEF: "a winmail.dat file",
}


# The structure behind the signature. Each check returns what is wrong with it, or an empty string.


def _check_pdf(content: bytes) -> str:
    before = content[:_PDF_HEADER_WINDOW].partition(b"%PDF-")[0]
    if before.strip(_LEADING_BLANKS) and not before.startswith(_PRINTER_PREAMBLE):
        return "The PDF does not start at the beginning of the file, which is how files are disguised."
    if not re.match(rb"%PDF-[12]\.\d", content[len(before) :]):
        return "The PDF header has an unknown version."
    if b"endobj" not in content and b"ObjStm" not in content:
        return "The PDF is truncated before its first object."
    return ""


def _check_png(content: bytes) -> str:
    length, chunk, width, height = struct.unpack_from(">I4sII", content.ljust(33, b"\0"), 8)
    if (length, chunk) != (13, b"IHDR") or not width or not height or len(content) < 33:
        return "The PNG is damaged: it does not begin with its size."
    if zlib.crc32(content[12:29]) != int.from_bytes(content[29:33]):
        return "The PNG is damaged: a checksum is wrong."
    return "" if b"IDAT" in content else "The PNG contains no image."


def _check_jpeg(content: bytes) -> str:
    """Walk from segment to segment until the one that holds the size."""
    position = 2
    while position + 9 <= len(content) and content[position] == 0xFF:
        marker = content[position + 1]
        if marker == 0xFF:  # padding
            position += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack_from(">HH", content, position + 5)
            return "" if height and width else "The JPEG has zero width or height."
        if marker in {0xD8, 0xD9, 0xDA}:
            break
        position += 2 + int.from_bytes(content[position + 2 : position + 4])
    return "The JPEG is damaged: it ends before its image."


def _check_tiff(content: bytes) -> str:
    order = "<" if content.startswith(b"II") else ">"
    if len(content) < 10:
        return "The TIFF is truncated."
    if content[2:4] in {b"+\x00", b"\x00+"}:
        return ""  # BigTIFF with 64-bit offsets, which Pillow checks
    (offset,) = struct.unpack_from(f"{order}I", content, 4)
    if not 8 <= offset <= len(content) - 6:
        return "The TIFF is damaged: its directory lies outside the file."
    (entries,) = struct.unpack_from(f"{order}H", content, offset)
    return (
        "" if entries and offset + 2 + 12 * entries <= len(content) else "The TIFF is damaged or truncated."
    )


def _check_zip(content: bytes) -> str:
    end = parse_zip_end(content)
    if end is None:
        return "The ZIP file is damaged or truncated."
    _, size, offset = end
    if not content.startswith((_ZIP_START, b"PK\x05\x06")):
        return "The ZIP file is hidden behind other content, which is how files are disguised."
    directory = content[offset : offset + size]
    if b"[Content_Types].xml" in directory or content[30:38] == b"mimetype":
        return "The file is an Office document, which is not supported."
    return ""


def _check_tnef(content: bytes) -> str:
    """The first attribute behind the 6-byte header is one of the message or of an attachment."""
    return "" if content[6:7] in {b"\x01", b"\x02"} else "The winmail.dat file is damaged or truncated."


_STRUCTURE_CHECKS: Final[Mapping[FileType, Callable[[bytes], str]]] = {
    FileType.PDF: _check_pdf,
    FileType.PNG: _check_png,
    FileType.JPEG: _check_jpeg,
    FileType.TIFF: _check_tiff,
    FileType.ZIP: _check_zip,
    FileType.TNEF: _check_tnef,
}


# Formats that consist of text.


def _detect_text_format(content: bytes) -> DetectedType | None:
    start = content[:200].lstrip(_LEADING_BLANKS)
    if start.startswith(b"<") or content.startswith((b"\xff\xfe<", b"\xfe\xff\x00<")):
        return _detect_xml(content)
    if start[:11].upper() in {b"BEGIN:VCALE", b"BEGIN:VCARD"}:
        return DetectedType(
            FileType.OTHER, "The file is a calendar entry or a contact card.", is_foreign=True
        )
    if _is_message(content):
        return DetectedType(FileType.MESSAGE)
    return DetectedType(FileType.TEXT) if decode_text(content) is not None else None


def _is_message(content: bytes) -> bool:
    """Check for consecutive header lines, two of them common ones, up to an empty line or the end.

    Real mail has a broken line here and there, or an empty one before the first.
    """
    known = broken = 0
    for line in content[:65_536].lstrip().splitlines():
        if not line.strip():
            break
        header = _HEADER_LINE.match(line)
        if header:
            is_multipart = b"multipart/" in line.lower() and header[1].lower() == b"content-type"
            known += 2 if is_multipart else _COMMON_HEADERS.match(header[1]) is not None
        elif line[:1] not in b" \t" and not line.startswith(b"From "):
            broken += 1
    return known >= 2 and broken <= known // 3


def decode_text(content: bytes) -> str | None:
    """Decode a text file; None where it is not text.

    Form feeds may separate its pages.
    """
    if len(content) > _MAX_TEXT_BYTES:
        return None
    for encoding in ("utf-16",) if content[:2] in {b"\xff\xfe", b"\xfe\xff"} else ("utf-8-sig", "cp1252"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        legible = _CONTROLS.sub("", text)
        return legible if "\0" not in text and len(legible) > _MIN_LEGIBLE_SHARE * len(text) else None
    return None


def _detect_xml(content: bytes) -> DetectedType:
    """An e-invoice is well-formed to its end, declares no document type, and has a known root element."""
    roots: list[str] = []

    def reject(*_: object) -> None:
        raise _DocumentTypeError

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartDoctypeDeclHandler = reject
    parser.StartElementHandler = lambda name, _: roots or roots.append(name)
    try:
        parser.Parse(content, True)
    except _DocumentTypeError:
        return DetectedType(FileType.OTHER, "The XML declares a document type, which e-invoices do not.")
    except (expat.ExpatError, LookupError, ValueError):  # the last two: an unknown encoding
        return DetectedType(FileType.OTHER, "The file is a web page or damaged XML.")
    if tuple(roots[0].split(" ")) in E_INVOICE_ROOTS:
        return DetectedType(FileType.E_INVOICE)
    return DetectedType(
        FileType.OTHER, "The file is XML, but not an e-invoice in a supported format.", is_foreign=True
    )


class _DocumentTypeError(Exception):
    """The XML has a DTD, which could declare entities that expand without limit."""
