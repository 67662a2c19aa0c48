"""500 hostile files and 500 hostile messages; the same seed gives the same ones.

They include the hostile files and messages of the tests; the others vary in size and depth.
"""

import bz2
import io
import lzma
import random
import struct
import zipfile
import zlib
from base64 import encodebytes
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from documents.files import hostile_files
from fuzzing.mutations import mutate
from fuzzing.targets import build_targets
from mime.hostile_messages import SLOW

FILES = MESSAGES = 500
_LARGEST = 4_000_000  # bytes of a file: the flood causes work, not traffic
_WORDS = b"Invoice Rechnung Total Netto 19 % EUR 4711 DE89370400440532013000".split()
_PDF_FONT = b"/Font<</F 5 0 R>>"


class HostileFile(NamedTuple):
    name: str
    content: bytes


def write_files(seed: int) -> list[HostileFile]:
    """The files of the tests, then others, one of each kind in turn."""
    known = chain.from_iterable(make().values() for make in hostile_files.GROUPS.values())
    files = [
        HostileFile(f"known-{number}.{_suffix(content)}", content)
        for number, content in enumerate(known)
        if len(content) <= _LARGEST
    ]
    chance = random.Random(seed)
    kinds = list(_FILES.items())
    while len(files) < FILES:
        name, make = kinds[len(files) % len(kinds)]
        files.append(HostileFile(f"{len(files)}-{name}", make(chance)[:_LARGEST]))
    return files


def write_messages(seed: int) -> Iterator[bytes]:
    """Messages whose structure does the harm."""
    chance = random.Random(seed)
    kinds = [*map(_grow, SLOW.values()), *_MESSAGES]
    for number in range(MESSAGES):
        head = b"Message-ID: <hostile-%d@bad.example>\r\nFrom: x@bad.example\r\nSubject: Invoice %d\r\n" % (
            number,
            number,
        )
        yield head + kinds[number % len(kinds)](chance)


def attach(number: int, file: HostileFile) -> bytes:
    """A message with this file, which the pipelines accept."""
    head = (
        f"Message-ID: <hostile-file-{number}@bad.example>\r\nFrom: x@bad.example\r\nSubject: Invoice\r\n"
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nInvoice\r\n--b\r\n"
        f'Content-Type: application/octet-stream; name="{file.name}"\r\nContent-Disposition: attachment\r\n'
        "Content-Transfer-Encoding: base64\r\n\r\n"
    )
    return head.encode() + encodebytes(file.content).replace(b"\n", b"\r\n") + b"--b--\r\n"


def _suffix(content: bytes) -> str:
    starts = {b"%PDF": "pdf", b"\x89PNG": "png", b"\xff\xd8": "jpg", b"II*": "tif", b"PK": "zip", b"<": "xml"}
    return next((suffix for start, suffix in starts.items() if content.startswith(start)), "bin")


def _write_number_groups(chance: random.Random) -> bytes:
    """Every combination of the numbers in a line could be an amount with its tax."""
    columns = chance.randint(5, 60)
    lines = [
        b"1 0 0 1 20 %d Tm(%b)Tj "
        % (y, b"  ".join(b"%d,99" % chance.randrange(9999) for _ in range(columns)))
        for y in range(20, 820, chance.choice((6, 10, 20)))
    ]
    content = b"BT/F 5 Tf " + b"".join(lines) + b"ET"
    return hostile_files.page(hostile_files.stream(content), box=b"0 0 595 842")


def _write_broken_font(chance: random.Random) -> bytes:
    program = b"\0\1\0\0\0\x0c" + chance.randbytes(chance.choice((10, 1000, 50_000)))
    kind, key = chance.choice(
        ((b"TrueType", b"FontFile2"), (b"Type1", b"FontFile"), (b"Type1", b"FontFile3"))
    )
    font = b"<</Type/Font/Subtype/%b/BaseFont/A/FirstChar 0/LastChar 255/FontDescriptor 6 0 R>>" % kind
    descriptor = b"<</Type/FontDescriptor/FontName/A/Flags 4/%b 7 0 R>>" % key
    words = hostile_files.stream(b"BT/F 9 Tf 9 9 Td(" + b" ".join(_WORDS) + b")Tj ET")
    return hostile_files.page(words, font, descriptor, hostile_files.stream(program), resources=_PDF_FONT)


def _write_entities(chance: random.Random) -> bytes:
    entities = b"".join(b'<!ENTITY l%d "%b">' % (n, b"&l%d;" % (n - 1) * 9) for n in range(1, 12))
    return (
        b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY l0 "%b">%b]>' % (chance.choice(_WORDS), entities)
        + b'<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2">&l11;</Invoice>'
    )


def _write_comments(chance: random.Random) -> bytes:
    """Comments before the root, or one that never ends."""
    start = b'<?xml version="1.0"?>' + b"<!-- -->\n" * chance.randint(20, 50_000)
    return start + chance.choice((b"<!-- " + b"- " * 100_000, b"<a>", b"<!--" * 50_000))


def _write_large_invoice(chance: random.Random) -> bytes:
    line = b"<InvoiceLine><ID>1</ID><Note>%b</Note></InvoiceLine>" % b" ".join(_WORDS)
    attributes = b" ".join(b'a%d="1"' % n for n in range(chance.randint(1, 20_000)))
    opened = b"<a>" * chance.choice((1, 200, 20_000))
    return (
        b'<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2">'
        + line * chance.randint(1, 20_000)
        + b"<x %b>%b" % (attributes, opened)
    )


def _write_zip(chance: random.Random) -> bytes:
    method = chance.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        count, size = chance.choice(((1, 20_000_000), (5, 1_000_000), (2000, 100)))
        for number in range(count):
            archive.writestr(f"../../{number}.pdf", bytes(size))
    return content.getvalue()


def _write_nested_zip(chance: random.Random) -> bytes:
    content = bytes(1_000_000)
    for _ in range(chance.randint(2, 12)):
        outer = io.BytesIO()
        with zipfile.ZipFile(outer, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(chance.choice((1, 10))):
                archive.writestr(f"{number}.zip", content)
        content = outer.getvalue()
    return content


def _write_overlapping_zip(chance: random.Random) -> bytes:
    """Thousands of entries that all point to the same bytes."""
    packed = zlib.compress(bytes(5_000_000), 9)[2:-4]
    sizes = struct.pack("<III", zlib.crc32(bytes(5_000_000)), len(packed), 5_000_000)
    local = b"PK\3\4" + struct.pack("<5H", 20, 0, 8, 0, 0) + sizes + struct.pack("<HH", 1, 0) + b"a"
    entry = b"PK\1\2" + struct.pack("<6H", 20, 20, 0, 8, 0, 0) + sizes
    entry += struct.pack("<5H2I", 1, 0, 0, 0, 0, 0, 0) + b"a"
    count, start = chance.randint(2, 60_000), len(local + packed)
    end = struct.pack("<4H2IH", 0, 0, count, count, count * len(entry), start, 0)
    return local + packed + entry * count + b"PK\5\6" + end


def _write_packed(chance: random.Random) -> bytes:
    """Zeros that another program packed, or the start of them."""
    packed = chance.choice((bz2.compress, lzma.compress, zlib.compress))(bytes(20_000_000))
    return packed[: chance.randint(1, len(packed))]


def _write_image(chance: random.Random) -> bytes:
    width, height = chance.choice(((60_000, 60_000), (7000, 7000), (2_000_000_000, 1), (1, 65_000)))
    content = hostile_files.bomb(chance.choice((1_000_000, 40_000_000)))
    return hostile_files.png(width, height, content, colour=chance.choice((0, 2, 3, 6, 9)))


def _write_tiff(chance: random.Random) -> bytes:
    tags = {tag: chance.choice((0, 1, 8, 5000, 4_000_000_000)) for tag in (256, 257, 258, 262, 273, 277, 279)}
    return hostile_files.tiff(
        *[tags | {259: chance.choice((1, 5, 8, 7))}] * chance.choice((1, 3000)), loop=True
    )


def _write_tnef(chance: random.Random) -> bytes:
    start = struct.pack("<IH", 0x223E9F78, 1)
    match chance.randrange(3):
        case 0:
            return start + chance.randbytes(50_000)
        case 1:
            return start + struct.pack("<BII", 2, 0x0006800F, 0xFFFF_FFFF) + bytes(1000)
        case _:
            file = hostile_files.recursion()["form draws itself"]
            return hostile_files.tnef({f"{number}.pdf": file for number in range(500)})


def _write_text(chance: random.Random) -> bytes:
    """Numbers and labels close together, or one line without end."""
    words = chance.choices([*_WORDS, b"1.000,00", b"19,00", b"119.00"], k=chance.choice((100, 5000, 200_000)))
    return chance.choice((b" ", b"\n", b"\t")).join(words)


def _write_nested_message(chance: random.Random) -> bytes:
    raw = b"Subject: deepest\r\n\r\n" + b"x" * 1000
    for _ in range(chance.choice((5, 100, 5000))):
        raw = b"From: a@bad.example\r\nSubject: s\r\nContent-Type: message/rfc822\r\n\r\n" + raw
    return raw


def _write_html(chance: random.Random) -> bytes:
    unit = chance.choice(
        (b"<div>", b"<table><tr><td>", b"<b><i>", b"<svg><style>", b"<!--", b"&lt", b"<a href='")
    )
    return unit * (chance.choice((1000, 20_000, 400_000)) // len(unit))


def _mutate(target: str) -> Callable[[random.Random], bytes]:
    samples = build_targets()[target].samples
    return lambda chance: mutate(samples, chance.getrandbits(32))


_FILES: dict[str, Callable[[random.Random], bytes]] = {
    "numbers.pdf": _write_number_groups,
    "font.pdf": _write_broken_font,
    "entities.xml": _write_entities,
    "comments.xml": _write_comments,
    "large.xml": _write_large_invoice,
    "bomb.zip": _write_zip,
    "nested.zip": _write_nested_zip,
    "overlapping.zip": _write_overlapping_zip,
    "packed.bin": _write_packed,
    "image.png": _write_image,
    "image.tif": _write_tiff,
    "winmail.dat": _write_tnef,
    "numbers.txt": _write_text,
    "nested.eml": _write_nested_message,
    "page.html": _write_html,
    "mutated.pdf": _mutate("pdf"),
    "mutated.zip": _mutate("zip"),
    "mutated.xml": _mutate("xml"),
}


def _grow(make: Callable[[int], bytes]) -> Callable[[random.Random], bytes]:
    return lambda chance: make(chance.choice((500, 5000, 30_000))) + b"\r\n\r\nbody"


def _write_html_message(chance: random.Random) -> bytes:
    return b"Content-Type: text/html\r\n\r\n" + _write_html(chance)


def _write_many_parts(chance: random.Random) -> bytes:
    part = b'--b\r\nContent-Type: application/pdf; name="a.pdf"\r\n\r\n%PDF-1.4 endobj\r\n'
    return b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + part * chance.choice((50, 500, 20_000))


def _write_deep_parts(chance: random.Random) -> bytes:
    depth = chance.choice((50, 500, 5000))
    opened = (b"Content-Type: multipart/mixed; boundary=%d\r\n\r\n--%d\r\n" % (n, n) for n in range(depth))
    return b"".join(opened) + b"\r\ndeepest"


def _write_large_head(chance: random.Random) -> bytes:
    return (
        b"X-Large: "
        + chance.choice((b"a", b"a@", b"=?", b" ")) * chance.choice((10_000, 1_000_000))
        + b"\r\n\r\nx"
    )


def _write_addresses(chance: random.Random) -> bytes:
    unit = chance.choice((b"a@b.example, ", b'"\\', b"<a@b> ", b"(", b"a:;", b"x, " * 9))
    return b"To: " + unit * chance.choice((1000, 50_000)) + b"\r\n\r\nx"


def _write_long_line(chance: random.Random) -> bytes:
    start = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
    return start + chance.choice((b"-", b"--b", b"x", b"\r")) * 1_000_000


_MESSAGES: list[Callable[[random.Random], bytes]] = [
    _write_html_message,
    _write_many_parts,
    _write_deep_parts,
    _write_large_head,
    _write_addresses,
    _write_long_line,
    _write_nested_message,
    _mutate("mime"),
]
