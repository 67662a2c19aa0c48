"""Files made to do harm. Each group maps a name to bytes."""

import functools
import io
import random
import struct
import zipfile
import zlib

from PIL import Image
from pypdf import PdfReader, PdfWriter

from documents.files import sample_files


def objects(*bodies, root=1, trailer=b""):
    """A PDF of these objects, numbered from 1, with a right table of places."""
    written = bytearray(b"%PDF-1.7\n")
    places = []
    for number, body in enumerate(bodies, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(written)
    written += b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1)
    for place in places:
        written += b"%010d 00000 n \n" % place
    written += b"trailer<</Size %d/Root %d 0 R%b>>\nstartxref\n%d\n%%%%EOF" % (
        len(places) + 1,
        root,
        trailer,
        start,
    )
    return bytes(written)


def stream(content, entries=b""):
    return b"<</Length %d%b>>stream\n%b\nendstream" % (len(content), entries, content)


CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
PAGES = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
FONT = b"/Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>"


def page(content, *more, resources=FONT, box=b"0 0 120 160", entries=b""):
    """One page with this content stream (object 4) and further objects from number 5."""
    sheet = b"<</Type/Page/Parent 2 0 R/MediaBox[%b]/Contents 4 0 R/Resources<<%b>>%b>>" % (
        box,
        resources,
        entries,
    )
    return objects(CATALOG, PAGES, sheet, content, *more)


@functools.cache
def bomb(size, unit=b"\0", level=9):
    """So many bytes, packed a piece at a time."""
    packer = zlib.compressobj(level)
    piece = (unit * (1_000_000 // len(unit)))[:1_000_000]
    return b"".join(packer.compress(piece) for _ in range(size // 1_000_000)) + packer.flush()


WORDS = stream(b"BT/F 12 Tf 20 99 Td(Invoice)Tj ET")
FORM = b"/Type/XObject/Subtype/Form/BBox[0 0 595 842]"


def recursion():
    deep = 20_000
    chain = [
        b"<</Type/Pages/Parent %d 0 R/Kids[%d 0 R]/Count 1>>" % (number - 1, number + 1)
        for number in range(3, 3000)
    ]
    own = b"/Resources<</XObject<</X 5 0 R>>>>"
    inside = b"/XObject<</X 5 0 R>>"
    twice = b"/Resources<</XObject<</A %d 0 R>>>>"
    laughs = [stream(b"/A Do " * 10, FORM + twice % (number + 1)) for number in range(5, 15)]
    return {
        "page tree contains itself": objects(CATALOG, b"<</Type/Pages/Kids[2 0 R]/Count 1>>"),
        "page is its own parent": page(WORDS, entries=b"/Parent 3 0 R"),
        "page tree of 3,000 floors": objects(CATALOG, PAGES, *chain, b"<</Type/Page>>"),
        "form draws itself": page(stream(b"/X Do"), stream(b"/X Do", FORM + own), resources=inside),
        "forms draw forms, ten each": page(stream(b"/X Do"), *laughs, WORDS, resources=inside),
        "arrays in arrays": page(WORDS, entries=b"/X " + b"[" * deep + b"]" * deep),
        "dictionaries in dictionaries": page(WORDS, entries=b"/X " + b"<</X " * deep + b">>" * deep),
        "arrays in the content": page(stream(b"[" * deep)),
        "dictionaries in the content": page(stream(b"/X " + b"<</X " * deep + b"BDC")),
        "length is itself": page(b"<</Length 4 0 R>>stream\nBT ET\nendstream"),
        "reference to itself": page(b"4 0 R"),
        "contents in a ring": page(b"[5 0 R]", b"[4 0 R]"),
        "resources in a ring": page(WORDS, b"5 0 R", resources=b"/Font 5 0 R"),
        "table of places points to itself": b"%PDF-1.4\nxref\n0 1\n0000000000 65535 f \n"
        b"trailer<</Size 1/Root 1 0 R/Prev 9>>\nstartxref\n9\n%%EOF endobj",
        "names of files in a ring": objects(
            b"<</Type/Catalog/Pages 2 0 R/Names<</EmbeddedFiles 4 0 R>>>>",
            PAGES,
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
            b"<</Kids[4 0 R 4 0 R]>>",
        ),
        **drawing_recursion(),
    }


def drawing_recursion():
    return {
        "letters that draw themselves": page(
            stream(b"BT/T 12 Tf(a)Tj ET"),
            b"<</Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[1 0 0 1 0 0]/FirstChar 97/LastChar 97"
            b"/Widths[9]/Encoding<</Differences[97/a]>>/CharProcs<</a 6 0 R>>"
            b"/Resources<</Font<</T 5 0 R>>>>>>",
            stream(b"9 0 d0 BT/T 12 Tf(a)Tj ET"),
            resources=b"/Font<</T 5 0 R>>",
        ),
        "mask masks itself": page(
            stream(b"/G gs/X Do"),
            stream(b"/G gs 0 0 9 9 re f", FORM + b"/Group<</S/Transparency>>/Resources<</ExtGState 6 0 R>>"),
            b"<</G<</SMask<</S/Luminosity/G 5 0 R>>>>>>",
            resources=b"/ExtGState 6 0 R/XObject<</X 5 0 R>>",
        ),
        "pattern paints itself": page(
            stream(b"/Pattern cs/P scn 0 0 500 500 re f"),
            stream(
                b"/Pattern cs/P scn 0 0 9 9 re f",
                b"/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 9 9]/XStep 9/YStep 9"
                b"/Resources<</Pattern<</P 5 0 R>>>>",
            ),
            resources=b"/Pattern<</P 5 0 R>>",
        ),
    }


def flate_bombs():
    flate = b"/Filter/FlateDecode"
    large = bomb(200_000_000)
    twice = zlib.compress(bomb(200_000_000), 9)
    image = b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 8"
    files = b"<</Type/Catalog/Pages 2 0 R/Names<</EmbeddedFiles<</Names[(a)5 0 R]>>>>>>"
    return {
        "content of 200 MB": page(stream(large, flate)),
        "content of 200 MB of saves": page(stream(bomb(200_000_000, b"q "), flate)),
        "content of 50 MB of letters": page(stream(bomb(50_000_000, b"BT/F 9 Tf(a)Tj ET "), flate)),
        "content packed twice": page(stream(twice, b"/Filter[/FlateDecode/FlateDecode]")),
        "content packed 40 times": page(stream(large, b"/Filter[" + b"/FlateDecode" * 40 + b"]")),
        "picture of 200 MB": page(
            stream(b"500 0 0 500 0 0 cm/X Do"),
            stream(large, image % (14_000, 14_000) + flate),
            resources=b"/XObject<</X 5 0 R>>",
        ),
        "picture of four thousand million pixels": page(
            stream(b"500 0 0 500 0 0 cm/X Do"),
            stream(b"x", image % (65_535, 65_535) + flate),
            resources=b"/XObject<</X 5 0 R>>",
        ),
        "picture with wide predictor": page(
            stream(b"9 0 0 9 0 0 cm/X Do"),
            stream(
                large,
                image % (2_000_000_000, 1)
                + flate
                + b"/DecodeParms<</Predictor 15/Columns 2000000000/Colors 4>>",
            ),
            resources=b"/XObject<</X 5 0 R>>",
        ),
        "file of 200 MB inside": objects(
            files,
            PAGES,
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>",
            stream(large, flate + b"/Type/EmbeddedFile"),
            b"<</Type/Filespec/F(a)/EF<</F 4 0 R>>>>",
        ),
        "objects of 200 MB inside": objects(
            b"<</Type/Catalog/Pages 9 0 R>>", stream(large, flate + b"/Type/ObjStm/N 100000/First 900000")
        ),
        "run lengths": page(stream(b"\x81 " * 1_000_000 + b"\x80", b"/Filter/RunLengthDecode")),
        "hex digits": page(stream(b"71 " * 3_000_000 + b">", b"/Filter/ASCIIHexDecode")),
        "table of places of 200 MB": b"%PDF-1.5\n1 0 obj\n"
        + stream(large, flate + b"/Type/XRef/Size 90000000/W[1 2 1]/Root 1 0 R")
        + b"\nendobj\nstartxref\n9\n%%EOF",
    }


def operators():
    step = b"/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 1 1]/XStep .0001/YStep .0001/Resources<<>>"
    shading = b"/Shading<</S<</ShadingType 1/ColorSpace/DeviceGray/Function 5 0 R>>>>"
    endless = b"{ " + b"dup mul sin " * 5000 + b"}"
    return {
        "a million saves": page(stream(b"q " * 1_000_000)),
        "a million restores": page(stream(b"Q " * 1_000_000)),
        "a million lines": page(stream(b"0 0 m " + b"9 9 l 500 800 l " * 500_000 + b"S")),
        "two million letters": page(stream(b"BT/F 9 Tf 9 9 Td(" + b"a" * 2_000_000 + b")Tj ET")),
        "300,000 words": page(stream(b"BT/F 1 Tf 9 9 Td(" + b"ab " * 300_000 + b")Tj ET")),
        "letters at 300,000 places": page(stream(b"BT/F 9 Tf " + b"1 1 Td(a)Tj " * 300_000 + b"ET")),
        "dashes without end": page(
            stream(b"[.00001]0 d .0001 w 0 0 m " + b"99999 99999 l 0 0 l " * 999 + b"S")
        ),
        "numbers beyond all measure": page(stream(b"1e308 0 0 1e308 1e308 1e308 cm 1e999 w 0 0 m 9 9 l S")),
        "number of a million digits": page(stream(b"9" * 1_000_000 + b" w 0 0 m 9 9 l S")),
        "name of a million letters": page(stream(b"/" + b"n" * 1_000_000 + b" gs")),
        "font of size zero": page(stream(b"BT/F 0 Tf 20 99 Td(Invoice)Tj ET")),
        "font of a million points": page(stream(b"BT/F 1000000 Tf 20 99 Td(Invoice)Tj ET")),
        "tiles finer than dust": page(
            stream(b"/Pattern cs/P scn 0 0 500 500 re f"),
            stream(b"0 0 1 1 re f", step),
            resources=b"/Pattern<</P 5 0 R>>",
        ),
        "shading that never ends": page(
            stream(b"/S sh"),
            stream(endless, b"/FunctionType 4/Domain[0 1 0 1]/Range[0 1]"),
            resources=shading,
        ),
        "10,000 nested forms of clips": page(stream(b"0 0 9 9 re W n " * 200_000)),
    }


def boxes():
    strange = {
        "a thousand million points": b"0 0 1000000000 1000000000",
        "beyond all numbers": b"0 0 1e99 1e99",
        "turned inside out": b"595 842 0 0",
        "empty": b"0 0 0 0",
        "a line": b"0 0 595 0",
        "three numbers": b"0 0 595",
        "words": b"/a/b/c/d",
        "far away": b"1e6 1e6 1000595 1000842",
        "thinner than dust": b"0 0 0.0001 842",
        "a strip": b"0 0 1 14400",
    }
    made = {f"page is {name}": page(WORDS, box=box) for name, box in strange.items()}
    made["rotated by 45 degrees"] = page(WORDS, entries=b"/Rotate 45")
    made["rotated by a million"] = page(WORDS, entries=b"/Rotate 1000000")
    made["a unit of a mile"] = page(WORDS, entries=b"/UserUnit 1e9")
    made["cropped to nothing"] = page(WORDS, entries=b"/CropBox[9000 9000 9001 9001]")
    return made


def lengths():
    kids = b"".join(b"%d 0 R " % number for number in range(3, 10_003))
    sheet = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]>>"
    same = b"3 0 R " * 10_000
    return {
        "10,000 pages": objects(CATALOG, b"<</Type/Pages/Kids[%b]/Count 10000>>" % kids, *[sheet] * 10_000),
        "one page 10,000 times": objects(CATALOG, b"<</Type/Pages/Kids[%b]/Count 10000>>" % same, sheet),
        "two thousand million pages": objects(
            CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 2147483647>>", sheet
        ),
        "minus one pages": objects(CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count -1>>", sheet),
        "no pages": objects(CATALOG, b"<</Type/Pages/Kids[]/Count 0>>"),
        "21 pages": sample_files.pdf(*[[(50, 700, "Invoice")]] * 21),
        "a million objects": objects(CATALOG, PAGES, sheet, *[b"null"] * 100_000),
    }


def encrypted():
    made = {}
    plain = PdfReader(io.BytesIO(sample_files.pdf([(50, 700, "Secret")])))
    for way in ("RC4-40", "RC4-128", "AES-128", "AES-256"):
        writer = PdfWriter(clone_from=plain)
        writer.encrypt("s3cret", algorithm=way)
        written = io.BytesIO()
        writer.write(written)
        made[f"asks for a password, {way}"] = written.getvalue()
    made["encrypted in a way unknown"] = objects(
        CATALOG,
        PAGES,
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
        trailer=b"/Encrypt<</Filter/Nobody/V 99>>/ID[(a)(a)]",
    )
    return made


def picture(kind, size=(64, 48), **options):
    written = io.BytesIO()
    Image.effect_noise(size, 90).convert("RGB").save(written, kind, **options)
    return written.getvalue()


def truncated():
    whole = {
        "PDF": sample_files.pdf([(50, 700, "Invoice 4711")]),
        "PNG": picture("PNG"),
        "JPEG": picture("JPEG"),
        "TIFF": picture("TIFF", compression="tiff_lzw"),
        "ZIP": archive({"a.pdf": sample_files.pdf([(50, 700, "Invoice")])}),
    }
    return {
        f"{name} cut after {part} tenths": content[: len(content) * part // 10]
        for name, content in whole.items()
        for part in (1, 3, 5, 7, 9)
    }


def damaged():
    """Bytes changed here and there, the same ones in every run."""
    chance = random.Random(4711)
    made = {}
    for name, whole in {
        "PDF": sample_files.pdf([(50, 700, "Invoice 4711")], [(50, 700, "Total 99.00")]),
        "PNG": picture("PNG", (24, 24)),
        "JPEG": picture("JPEG", (24, 24)),
        "TIFF": picture("TIFF", (24, 24), compression="tiff_deflate"),
    }.items():
        for number in range(12):
            content = bytearray(whole)
            for _ in range(chance.choice((1, 5, 25))):
                content[chance.randrange(len(content))] = chance.randrange(256)
            made[f"{name} damaged, the {number}th"] = bytes(content)
    return made


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, content, *before, depth=8, colour=0):
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(before) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def tiff(*directories, loop=False):
    """A TIFF of directories, each a mapping from tag to a number."""
    written = bytearray(b"II*\0\x08\0\0\0")
    for number, tags in enumerate(directories):
        end = len(written) + 2 + 12 * len(tags) + 4
        last = number == len(directories) - 1
        written += struct.pack("<H", len(tags))
        for tag, value in sorted(tags.items()):
            written += struct.pack("<HHII", tag, 4, 1, value)
        written += struct.pack("<I", (8 if loop else 0) if last else end)
    return bytes(written)


def pictures():
    sheet = {256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 8, 279: 64}
    frames = [Image.new("1", (8, 8))] * 25
    many = io.BytesIO()
    frames[0].save(many, "TIFF", save_all=True, append_images=frames[1:])
    jpeg = picture("JPEG")
    place = jpeg.index(b"\xff\xc0")
    return {
        "PNG of ten thousand million pixels": png(100_000, 100_000, bomb(10_000_000)),
        "PNG of 400 million pixels": png(20_000, 20_000, bomb(40_000_000)),
        "PNG of 2,000 million in a row": png(2_000_000_000, 1, bomb(1_000_000)),
        "PNG without its picture": png(5000, 5000, b""),
        "PNG with a text of 200 MB": png(9, 9, b"", chunk(b"zTXt", b"a\0\0" + bomb(200_000_000))),
        "PNG with a profile of 200 MB": png(9, 9, b"", chunk(b"iCCP", b"a\0\0" + bomb(200_000_000))),
        "PNG of a depth unknown": png(9, 9, bomb(1_000_000), depth=77),
        "PNG of no size": png(0, 0, bomb(1_000_000)),
        "JPEG of four thousand million pixels": jpeg[: place + 5] + b"\xff\xff\xff\xff" + jpeg[place + 9 :],
        "JPEG of segments only": b"\xff\xd8" + b"\xff\xe0\xff\xff" + b"\0" * 65_533,
        "TIFF of directories in a ring": tiff(sheet, sheet, loop=True),
        "TIFF of 25 pages": many.getvalue(),
        "TIFF of 10,000 pages": tiff(*[sheet] * 10_000),
        "TIFF of sixteen million million pixels": tiff(sheet | {256: 4_000_000, 257: 4_000_000}),
        "TIFF whose strips lie elsewhere": tiff(sheet | {273: 4_000_000_000}),
        "TIFF of two thousand million samples": tiff(sheet | {277: 2_000_000_000}),
        "TIFF packed in a way unknown": tiff(sheet | {259: 60_000}),
        "TIFF without tags": tiff({}),
    }


def polyglots():
    good, zipped = sample_files.pdf([(50, 700, "Invoice")]), archive({"a.txt": b"a"})
    gif = b"GIF89a\x01\0\x01\0\0\0\0"
    jpeg, head = picture("JPEG"), b"\xff\xd8\xff\xfe\x00\x40%PDF-1.4\nendobj".ljust(66)
    return {
        "PDF and ZIP": good + zipped,
        "JPEG and ZIP": jpeg + zipped,
        "PNG and ZIP": picture("PNG") + zipped,
        "TIFF and ZIP": picture("TIFF") + zipped,
        "JPEG and PDF": head + jpeg[2:],
        "PNG and PDF": picture("PNG")[:33] + b"%PDF-1.4 endobj" + picture("PNG")[33:],
        "TIFF and PDF": b"II*\0" + b"%PDF-1.4 endobj" + picture("TIFF"),
        "GIF and PDF": gif + good,
        "program and PDF": b"MZ\x90\0" + b"\0" * 60 + good,
        "web page and PDF": b"<html><script>1</script>" + good,
        "script and PDF": b"#!/bin/sh\nexit\n" + good,
        "ZIP behind a program": b"MZ\x90\0" + b"\0" * 60 + zipped,
    }


def blanks():
    return {
        "nothing": b"",
        "one zero byte": b"\0",
        "a thousand zero bytes": bytes(1000),
        "a million zero bytes": bytes(1_000_000),
        "26 million bytes": b"a" * 26_000_000,
        "only the word PDF": b"%PDF-",
        "a PDF's first line": b"%PDF-1.7\n",
        "a PDF's first and last line": b"%PDF-1.7\n%%EOF",
        "a PDF of zero bytes": b"%PDF-1.7\n" + bytes(100_000) + b"endobj",
        "a PDF of version 9": b"%PDF-9.9\n1 0 obj endobj",
        "a PNG's first bytes": b"\x89PNG\r\n\x1a\n",
        "a JPEG's first bytes": b"\xff\xd8\xff",
        "a TIFF's first bytes": b"II*\0",
        "a ZIP's first bytes": b"PK\x03\x04",
        "a ZIP's last bytes": b"PK\x05\x06" + bytes(17),
        "an Office document": archive({"[Content_Types].xml": b"<Types/>", "word/document.xml": b"<w/>"}),
        "a calendar": b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n",
        "a program": b"\x7fELF" + bytes(range(256)),
        "a web page": b"<!doctype html><p>Invoice",
    }


def markup():
    cii = b'xmlns="urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100"'
    laughs = b"".join(b'<!ENTITY l%d "%b">' % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 10))
    return {
        "laughs without end": b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY l0 "ha">%b]>'
        b"<CrossIndustryInvoice %b>&l9;</CrossIndustryInvoice>" % (laughs, cii),
        "somebody's files": b'<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]><a>&f;</a>',
        "a stylesheet from elsewhere": b'<?xml-stylesheet href="http://example.invalid/"?><a/>',
        "XML cut off": b"<CrossIndustryInvoice %b><a>" % cii,
        "XML of 100,000 floors": b"<a>" * 100_000 + b"</a>" * 100_000,
        "XML of two roots": b"<a/><b/>",
        "XML of strange letters": b'<?xml version="1.0" encoding="klingon"?><a/>',
        "XML of another kind": b'<?xml version="1.0"?><Order xmlns="urn:example"/>',
    }


def archive(files, **options):
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(
                zipfile.ZipInfo(name) if "\0" not in name else zipfile.ZipInfo("x"), content, **options
            )
    return written.getvalue()


def tnef(files):
    """A winmail.dat stream with these files (MS-OXTNEF)."""

    def attribute(identity, data):
        return struct.pack("<BII", 2, identity, len(data)) + data + struct.pack("<H", sum(data) & 0xFFFF)

    stream = struct.pack("<IH", 0x223E9F78, 1)
    for name, content in files.items():
        stream += attribute(0x00069002, bytes(14)) + attribute(0x00018010, name.encode() + b"\0")
        stream += attribute(0x0006800F, content)
    return stream


GROUPS = {
    "recursion": recursion,
    "flate bombs": flate_bombs,
    "operators": operators,
    "boxes": boxes,
    "lengths": lengths,
    "encrypted": encrypted,
    "truncated": truncated,
    "damaged": damaged,
    "pictures": pictures,
    "polyglots": polyglots,
    "blanks": blanks,
    "markup": markup,
}
