"""Writers of messages with ordinary attachments: ZIP, vCard, iCalendar, CSV, DOCX, TNEF, large files.

Also the makers of ZIP and CSV files. Invoices and contract notes are in `document_messages`.
"""

import io
import zipfile
from collections.abc import Callable

from mailsim.samples import personal_messages
from mailsim.samples.headers import format_date
from mailsim.samples.meeting_messages import format_calendar
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import (
    EncodedPart,
    build_message,
    make_attachment,
    make_boundary,
    make_multipart,
)
from mailsim.samples.png_images import draw_png
from mailsim.samples.seeded_random import SeededRandom, make_noise, mix_bits
from mailsim.samples.tnef import encode_tnef

_MEGABYTE = 1_000_000
_MOMENT = (2024, 1, 1, 0, 0, 0)
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def write_with_files(spec: MessageSpec) -> bytes:
    files = _FILES[spec.variant](spec)
    return build_message(
        spec,
        make_multipart(
            "mixed", (personal_messages.make_text_part(spec, 600), *files), make_boundary(spec.seed)
        ),
    )


def write_big(spec: MessageSpec) -> bytes:
    """Write a message with a ZIP attachment of exactly `size` incompressible bytes, by default 1 to 8 MB.

    A size below that of an empty archive gives an empty archive.
    """
    size = spec.size if spec.size is not None else _MEGABYTE + mix_bits(spec.seed ^ 22) % (7 * _MEGABYTE)
    empty = len(make_zip({"recording.raw": b""}, stored=True))
    data = make_zip({"recording.raw": make_noise(spec.seed, max(0, size - empty))}, stored=True)
    file = make_attachment("recording.zip", "application/zip", data)
    return build_message(
        spec,
        make_multipart(
            "mixed", (personal_messages.make_text_part(spec, 300), file), make_boundary(spec.seed)
        ),
    )


def make_zip(files: dict[str, bytes], *, stored: bool = False) -> bytes:
    """Make a ZIP file whose bytes depend only on its contents: fixed dates and permissions."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as zipped:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            zipped.writestr(entry, data)
    return target.getvalue()


def make_csv(spec: MessageSpec) -> bytes:
    rng = SeededRandom(spec.seed, 23)
    rows = [f"{number};{rng.digits(6)};{rng.between(1, 90)},{rng.digits(2)}" for number in range(1, 60)]
    return ("\r\n".join(("Nr;Artikel;Preis", *rows)) + "\r\n").encode()


def _make_vcard_part(spec: MessageSpec) -> EncodedPart:
    name, address = spec.sender
    first, _, last = name.partition(" ")
    lines = ("BEGIN:VCARD", "VERSION:3.0", f"N:{last};{first};;;", f"FN:{name}", f"EMAIL;TYPE=WORK:{address}",
             "TEL;TYPE=WORK:+49 30 23125 000", "END:VCARD", "")  # fmt: skip
    return make_attachment(f"{name or 'card'}.vcf", "text/vcard; charset=utf-8", "\r\n".join(lines).encode())


def _make_docx_part(spec: MessageSpec) -> EncodedPart:
    """Make the smallest DOCX file that a word processor opens."""
    kinds = (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{_WORD}.main+xml"/></Types>'
    )
    relations = (
        '<?xml version="1.0" encoding="UTF-8"?><Relationships '
        'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>'
    )
    document = (
        '<?xml version="1.0" encoding="UTF-8"?><w:document '
        'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r>'
        f"<w:t>{format_date(spec.date)} {spec.seed}</w:t></w:r></w:p></w:body></w:document>"
    )
    entries = {"[Content_Types].xml": kinds, "_rels/.rels": relations, "word/document.xml": document}
    data = make_zip({name: content.encode() for name, content in entries.items()})
    return make_attachment("Entwurf.docx", _WORD, data)


def _make_zip_part(spec: MessageSpec) -> EncodedPart:
    files = {
        "liste.csv": make_csv(spec),
        "bilder/logo.png": draw_png(spec.seed),
        "Größen.txt": b"120 x 40\r\n",
    }
    return make_attachment("Unterlagen.zip", "application/zip", make_zip(files))


def _make_winmail_part(spec: MessageSpec) -> EncodedPart:
    return make_attachment(
        "winmail.dat",
        "application/ms-tnef",
        encode_tnef(spec.title, "liste.csv", make_csv(spec), spec.date),
    )


def _make_calendar_part(spec: MessageSpec) -> EncodedPart:
    return make_attachment(
        "termin.ics", "text/calendar; charset=utf-8", format_calendar(spec).replace("\n", "\r\n").encode()
    )


def _make_csv_part(spec: MessageSpec) -> EncodedPart:
    return make_attachment("Übersicht.csv", "text/csv; charset=utf-8", make_csv(spec))


def _make_nameless_part(spec: MessageSpec) -> EncodedPart:
    data = make_attachment("x", "application/octet-stream", make_noise(spec.seed, 700)).body
    head = "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n"
    return EncodedPart(f"{head}Content-Disposition: attachment\r\n", data)


def _make_binary_part(spec: MessageSpec) -> EncodedPart:
    """Make a file of `size` bytes in no known format."""
    return make_attachment(
        "messung.bin", "application/octet-stream", make_noise(spec.seed, spec.size or 20_000)
    )


_FILES: dict[str, Callable[[MessageSpec], tuple[EncodedPart, ...]]] = {
    "zip": lambda spec: (_make_zip_part(spec),),
    "vcf": lambda spec: (_make_vcard_part(spec),),
    "ics": lambda spec: (_make_calendar_part(spec),),
    "csv": lambda spec: (_make_csv_part(spec),),
    "docx": lambda spec: (_make_docx_part(spec),),
    "winmail": lambda spec: (_make_winmail_part(spec),),
    "nameless": lambda spec: (_make_nameless_part(spec),),
    "bytes": lambda spec: (_make_binary_part(spec),),
    "several": lambda spec: (
        _make_csv_part(spec),
        _make_zip_part(spec),
        _make_vcard_part(spec),
        make_attachment("logo.png", "image/png", draw_png(spec.seed)),
    ),
    "twins": lambda spec: (_make_csv_part(spec), _make_csv_part(spec)),
}
