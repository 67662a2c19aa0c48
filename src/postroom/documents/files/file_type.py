"""What a file is, by its bytes. Pure; a name only helps to say what is wrong.

A signature alone is not believed: the structure behind it must hold, and it must be the only one.
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
    """What Postroom tells apart; the value is its media type."""

    PDF = "application/pdf"
    PNG = "image/png"
    JPEG = "image/jpeg"
    TIFF = "image/tiff"
    ZIP = "application/zip"
    MESSAGE = "message/rfc822"
    E_INVOICE = "application/xml"
    TEXT = "text/plain"
    OTHER = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class DetectedType:
    """A kind, and in words why it is none of ours where it is `OTHER`."""

    kind: FileType
    reason: str = ""


E_INVOICE_ROOTS: Final = {
    ("urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100", "CrossIndustryInvoice"),
    ("urn:ferd:CrossIndustryDocument:invoice:1p0", "CrossIndustryDocument"),
    ("urn:oasis:names:specification:ubl:schema:xsd:Invoice-2", "Invoice"),
    ("urn:oasis:names:specification:ubl:schema:xsd:CreditNote-2", "CreditNote"),
}
_NAMES: Final[Mapping[str, str]] = {
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
# Readers of PDF look for the header in the first 1,024 bytes, so that is where a second face can hide.
_PDF_WITHIN: Final = 1024
_BLANK: Final = b"\xef\xbb\xbf\x00\t\n\f\r "
# What a printer driver writes before the document that it prints into a file.
_PRINTER: Final = b"\x1b%-12345X@PJL"
_ZIP_END: Final = struct.Struct("<4s4H2IH")
_LARGEST_TEXT: Final = 5_000_000
_HEADERS: Final = re.compile(
    rb"(?:received|return-path|delivered-to|from|to|cc|date|subject|message-id|mime-version|content-type|sender)$",
    re.IGNORECASE,
)
_HEADER: Final = re.compile(rb"([!-9;-~]{1,80})[ \t]*:")
# Text that a program took from a document may hold some signs that mean nothing.
_LEGIBLE: Final = 0.8
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def detect(content: bytes, name: str = "") -> DetectedType:
    """What the file is. A file that is two things at once is none of ours."""
    if not content:
        return DetectedType(FileType.OTHER, "The file is empty.")
    faces = [kind for kind, looks in _FACES.items() if looks(content)]
    if len(faces) > 1:
        both = " and ".join(_WORDS[kind] for kind in faces)
        return DetectedType(FileType.OTHER, f"The file is {both} at once, which is how files are disguised.")
    if faces:
        return _checked(faces[0], content)
    return _written(content) or DetectedType(FileType.OTHER, _unknown(name))


def _checked(kind: FileType, content: bytes) -> DetectedType:
    fault = _FAULTS[kind](content)
    return DetectedType(FileType.OTHER, fault) if fault else DetectedType(kind)


def _unknown(name: str) -> str:
    claimed = _NAMES.get(PurePosixPath(name.lower()).suffix)
    if claimed:
        return f"The file is called a {claimed} but its content is not."
    return "The file is of a kind that is not read."


# A signature at the place where programs look for it.


def _looks_like_pdf(content: bytes) -> bool:
    """A ZIP file may begin with a PDF that it holds as it is; only a ZIP file is then looked for."""
    return b"%PDF-" in content[:_PDF_WITHIN] and not content.startswith(b"PK\x03\x04")


def _looks_like_tiff(content: bytes) -> bool:
    return content[:4] in {b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+"}


def _looks_like_zip(content: bytes) -> bool:
    """Programs find a ZIP file by its end, whatever it begins with."""
    return content.startswith(b"PK\x03\x04") or parse_zip_end(content) is not None


def parse_zip_end(content: bytes) -> tuple[int, int, int] | None:
    """Number of entries, and the directory's size and place, from the record that closes a ZIP file."""
    place = content.rfind(b"PK\x05\x06", max(len(content) - 65_535 - _ZIP_END.size, 0))
    if place < 0 or place + _ZIP_END.size > len(content):
        return None
    _, _, _, _, entries, size, offset, comment = _ZIP_END.unpack_from(content, place)
    if place + _ZIP_END.size + comment != len(content) or offset + size > place:
        return None
    return entries, size, offset


_FACES: Final[Mapping[FileType, Callable[[bytes], bool]]] = {
    FileType.PDF: _looks_like_pdf,
    FileType.PNG: lambda content: content.startswith(b"\x89PNG\r\n\x1a\n"),
    FileType.JPEG: lambda content: content.startswith(b"\xff\xd8\xff"),
    FileType.TIFF: _looks_like_tiff,
    FileType.ZIP: _looks_like_zip,
}
_WORDS: Final = {
    FileType.PDF: "a PDF",
    FileType.PNG: "a PNG",
    FileType.JPEG: "a JPEG",
    FileType.TIFF: "a TIFF",
    FileType.ZIP: "a ZIP file",
}


# The structure behind the signature: what is wrong with it, in words, or nothing.


def _fault_of_pdf(content: bytes) -> str:
    before = content[:_PDF_WITHIN].partition(b"%PDF-")[0]
    if before.strip(_BLANK) and not before.startswith(_PRINTER):
        return "The PDF does not begin at the beginning of the file, which is how files are disguised."
    if not re.match(rb"%PDF-[12]\.\d", content[len(before) :]):
        return "The PDF is of a version that does not exist."
    if b"endobj" not in content and b"ObjStm" not in content:
        return "The PDF is cut off before its first object."
    return ""


def _fault_of_png(content: bytes) -> str:
    length, kind, width, height = struct.unpack_from(">I4sII", content.ljust(33, b"\0"), 8)
    if (length, kind) != (13, b"IHDR") or not width or not height or len(content) < 33:
        return "The PNG is damaged: it does not begin with its size."
    if zlib.crc32(content[12:29]) != int.from_bytes(content[29:33]):
        return "The PNG is damaged: a check sum is wrong."
    return "" if b"IDAT" in content else "The PNG holds no picture."


def _fault_of_jpeg(content: bytes) -> str:
    """Walk from segment to segment until the one that holds the size."""
    place = 2
    while place + 9 <= len(content) and content[place] == 0xFF:
        marker = content[place + 1]
        if marker == 0xFF:  # padding
            place += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack_from(">HH", content, place + 5)
            return "" if height and width else "The JPEG has no size."
        if marker in {0xD8, 0xD9, 0xDA}:
            break
        place += 2 + int.from_bytes(content[place + 2 : place + 4])
    return "The JPEG is damaged: it ends before its picture."


def _fault_of_tiff(content: bytes) -> str:
    order = "<" if content.startswith(b"II") else ">"
    if len(content) < 10:
        return "The TIFF is cut off."
    if content[2:4] in {b"+\x00", b"\x00+"}:
        return ""  # with 64-bit places, which its reader checks
    (place,) = struct.unpack_from(f"{order}I", content, 4)
    if not 8 <= place <= len(content) - 6:
        return "The TIFF is damaged: its directory lies outside the file."
    (entries,) = struct.unpack_from(f"{order}H", content, place)
    return "" if entries and place + 2 + 12 * entries <= len(content) else "The TIFF is damaged or cut off."


def _fault_of_zip(content: bytes) -> str:
    end = parse_zip_end(content)
    if end is None:
        return "The ZIP file is damaged or cut off."
    _, size, offset = end
    if not content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "The ZIP file hides behind other content, which is how files are disguised."
    directory = content[offset : offset + size]
    if b"[Content_Types].xml" in directory or content[30:38] == b"mimetype":
        return "The file is an Office document, which is not read."
    return ""


_FAULTS: Final[Mapping[FileType, Callable[[bytes], str]]] = {
    FileType.PDF: _fault_of_pdf,
    FileType.PNG: _fault_of_png,
    FileType.JPEG: _fault_of_jpeg,
    FileType.TIFF: _fault_of_tiff,
    FileType.ZIP: _fault_of_zip,
}


# What is written in letters.


def _written(content: bytes) -> DetectedType | None:
    start = content[:200].lstrip(_BLANK)
    if start.startswith(b"<") or content.startswith((b"\xff\xfe<", b"\xfe\xff\x00<")):
        return _markup(content)
    if start[:11].upper() in {b"BEGIN:VCALE", b"BEGIN:VCARD"}:
        return DetectedType(FileType.OTHER, "The file is a calendar entry or an address card.")
    if _is_message(content):
        return DetectedType(FileType.MESSAGE)
    return DetectedType(FileType.TEXT) if decode_text(content) is not None else None


def _is_message(content: bytes) -> bool:
    """Headers one after the other, two of them such as every message has, until an empty line or the end.

    Mail of real life has a broken line here and there, or an empty one before the first.
    """
    known = broken = 0
    for line in content[:65_536].lstrip().splitlines():
        if not line.strip():
            break
        header = _HEADER.match(line)
        if header:
            is_multipart = b"multipart/" in line.lower() and header[1].lower() == b"content-type"
            known += 2 if is_multipart else _HEADERS.match(header[1]) is not None
        elif line[:1] not in b" \t" and not line.startswith(b"From "):
            broken += 1
    return known >= 2 and broken <= known // 3


def decode_text(content: bytes) -> str | None:
    """The text of a file that holds nothing else; pages may be separated by form feeds."""
    if len(content) > _LARGEST_TEXT:
        return None
    for encoding in ("utf-16",) if content[:2] in {b"\xff\xfe", b"\xfe\xff"} else ("utf-8-sig", "cp1252"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        readable = _CONTROLS.sub("", text)
        return readable if "\0" not in text and len(readable) > _LEGIBLE * len(text) else None
    return None


def _markup(content: bytes) -> DetectedType:
    """An e-invoice is well-formed to its end, declares no document type, and has a root that we know."""
    roots: list[str] = []

    def refuse(*_: object) -> None:
        raise _DocumentTypeError

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = lambda name, _: roots or roots.append(name)
    try:
        parser.Parse(content, True)
    except _DocumentTypeError:
        return DetectedType(FileType.OTHER, "The XML declares a document type, which e-invoices do not.")
    except (expat.ExpatError, LookupError, ValueError):  # the last two: an encoding that nobody knows
        return DetectedType(FileType.OTHER, "The file is a web page or damaged XML.")
    if tuple(roots[0].split(" ")) in E_INVOICE_ROOTS:
        return DetectedType(FileType.E_INVOICE)
    return DetectedType(FileType.OTHER, "The file is XML, but no e-invoice of a known kind.")


class _DocumentTypeError(Exception):
    """Entities, with which small files become large ones, are declared there."""
