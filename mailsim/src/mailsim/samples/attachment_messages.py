"""Letters with ordinary files: archives, cards, calendars, tables, winmail.dat, and very large ones."""

import io
import zipfile
from collections.abc import Callable

from mailsim.samples import personal_messages
from mailsim.samples.headers import date_text
from mailsim.samples.meeting_messages import event
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, attachment, boundary, letter, multipart
from mailsim.samples.png_images import png
from mailsim.samples.seeded_random import SeededRandom, make_noise, mix_bits
from mailsim.samples.tnef import tnef

_MEGABYTE = 1_000_000
_MOMENT = (2024, 1, 1, 0, 0, 0)
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def with_files(order: MessageSpec) -> bytes:
    files = _FILES[order.variant](order)
    return letter(
        order, multipart("mixed", (personal_messages.text_part(order, 600), *files), boundary(order.seed))
    )


def big(order: MessageSpec) -> bytes:
    """An archive of exactly `size` bytes that does not compress, 1 to 8 MB unless the order says it.

    Less than an empty archive has gives an empty archive.
    """
    size = order.size if order.size is not None else _MEGABYTE + mix_bits(order.seed ^ 22) % (7 * _MEGABYTE)
    empty = len(archive({"recording.raw": b""}, stored=True))
    data = archive({"recording.raw": make_noise(order.seed, max(0, size - empty))}, stored=True)
    file = attachment("recording.zip", "application/zip", data)
    return letter(
        order, multipart("mixed", (personal_messages.text_part(order, 300), file), boundary(order.seed))
    )


def archive(files: dict[str, bytes], *, stored: bool = False) -> bytes:
    """A zip file whose bytes depend on nothing but its contents."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as zipped:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            zipped.writestr(entry, data)
    return target.getvalue()


def table(order: MessageSpec) -> bytes:
    dice = SeededRandom(order.seed, 23)
    rows = [f"{number};{dice.digits(6)};{dice.between(1, 90)},{dice.digits(2)}" for number in range(1, 60)]
    return ("\r\n".join(("Nr;Artikel;Preis", *rows)) + "\r\n").encode()


def _card(order: MessageSpec) -> EncodedPart:
    name, address = order.sender
    first, _, last = name.partition(" ")
    lines = ("BEGIN:VCARD", "VERSION:3.0", f"N:{last};{first};;;", f"FN:{name}", f"EMAIL;TYPE=WORK:{address}",
             "TEL;TYPE=WORK:+49 30 23125 000", "END:VCARD", "")  # fmt: skip
    return attachment(f"{name or 'card'}.vcf", "text/vcard; charset=utf-8", "\r\n".join(lines).encode())


def _word(order: MessageSpec) -> EncodedPart:
    """The least that a word processor opens."""
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
        f"<w:t>{date_text(order.date)} {order.seed}</w:t></w:r></w:p></w:body></w:document>"
    )
    entries = {"[Content_Types].xml": kinds, "_rels/.rels": relations, "word/document.xml": document}
    data = archive({name: content.encode() for name, content in entries.items()})
    return attachment("Entwurf.docx", _WORD, data)


def _zip(order: MessageSpec) -> EncodedPart:
    files = {"liste.csv": table(order), "bilder/logo.png": png(order.seed), "Größen.txt": b"120 x 40\r\n"}
    return attachment("Unterlagen.zip", "application/zip", archive(files))


def _winmail(order: MessageSpec) -> EncodedPart:
    return attachment(
        "winmail.dat", "application/ms-tnef", tnef(order.title, "liste.csv", table(order), order.date)
    )


def _calendar(order: MessageSpec) -> EncodedPart:
    return attachment(
        "termin.ics", "text/calendar; charset=utf-8", event(order).replace("\n", "\r\n").encode()
    )


def _table(order: MessageSpec) -> EncodedPart:
    return attachment("Übersicht.csv", "text/csv; charset=utf-8", table(order))


def _nameless(order: MessageSpec) -> EncodedPart:
    data = attachment("x", "application/octet-stream", make_noise(order.seed, 700)).body
    head = "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n"
    return EncodedPart(f"{head}Content-Disposition: attachment\r\n", data)


def _file(order: MessageSpec) -> EncodedPart:
    """Bytes of no known format, `size` of them."""
    return attachment("messung.bin", "application/octet-stream", make_noise(order.seed, order.size or 20_000))


_FILES: dict[str, Callable[[MessageSpec], tuple[EncodedPart, ...]]] = {
    "zip": lambda order: (_zip(order),),
    "vcf": lambda order: (_card(order),),
    "ics": lambda order: (_calendar(order),),
    "csv": lambda order: (_table(order),),
    "docx": lambda order: (_word(order),),
    "winmail": lambda order: (_winmail(order),),
    "nameless": lambda order: (_nameless(order),),
    "bytes": lambda order: (_file(order),),
    "several": lambda order: (
        _table(order),
        _zip(order),
        _card(order),
        attachment("logo.png", "image/png", png(order.seed)),
    ),
    "twins": lambda order: (_table(order), _table(order)),
}
