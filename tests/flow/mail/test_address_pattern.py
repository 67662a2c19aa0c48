"""The search for an address knows every way in which mail, URLs, JSON and HTML write it."""

import json
import re
from base64 import b64encode
from html import escape
from quopri import encodestring
from urllib.parse import quote

import pytest

from postroom.documents.archive_path import encode_segment
from postroom.flow.mail import address_pattern

JANE = "Jane.Doe@Bücher.example"
PUNYCODE = "jane.doe@xn--bcher-kva.example"
WRITTEN = {
    "as given": JANE,
    "another case": JANE.upper(),
    "punycode": PUNYCODE.title(),
    "percent-encoded": f"archive/sender_email={encode_segment(JANE.lower())}/received_date=2026-02-04",
    "percent-encoded twice": quote(quote(f"mailto:{JANE}", safe=""), safe=""),
    "quoted-printable": encodestring(f"x=y {JANE}".encode()).decode(),
    "quoted-printable in every character": "".join(f"={byte:02X}" for byte in PUNYCODE.encode()),
    "quoted-printable across lines": f"{JANE[:7]}=\r\n{JANE[7:]}",
    "quoted-printable across lines in JSON": json.dumps(f"{JANE[:7]}=\r\n{JANE[7:]}"),
    "JSON": json.dumps({"to": f"<{JANE}>\n"}),
    "JSON in JSON": json.dumps(json.dumps([f"\n{JANE}"])),
    "JSON with escapes": "".join(f"\\u{ord(each):04x}" for each in JANE),
    "HTML": escape(f"<{JANE}>"),
    "HTML entities": "".join(f"&#{ord(each)};" for each in PUNYCODE),
    "HTML entities in hexadecimal": "".join(f"&#x{ord(each):X};" for each in PUNYCODE),
}
OTHER = (
    "mary.jane.doe@bücher.example",
    "jane.doe@bücher.example.org",
    "jane-doe@bücher.example",
    "janeXdoe@bücher.example",
    "jane.doe@bucher.example",
)


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("asked", [JANE, PUNYCODE])
def test_an_address_is_found_however_it_is_written(asked, text):
    assert re.search(address_pattern.build_pattern(asked), text)


@pytest.mark.parametrize("text", OTHER)
def test_another_address_is_not_found(text):
    assert not re.search(address_pattern.build_pattern(JANE), text)


@pytest.mark.parametrize("before", ["", "F", "Fr", "Fro", "From: a long line before it, "])
@pytest.mark.parametrize("address", [JANE, JANE.upper(), PUNYCODE, PUNYCODE.title()])
def test_an_address_is_found_in_base64_at_any_place_and_across_lines(address, before):
    encoded = b64encode(f"{before}{address} and more".encode()).decode()
    for text in (
        encoded,
        "\r\n".join(re.findall(".{1,16}", encoded)),
        json.dumps(re.sub("(.{16})", r"\1\n", encoded)),
    ):
        assert re.search(address_pattern.build_base64_pattern(JANE), text), text


async def test_postgresql_reads_the_patterns_as_python_does(owner):
    for text in WRITTEN.values():
        cursor = await owner.execute("SELECT %s ~ %s", [text, address_pattern.build_pattern(JANE)])
        assert await cursor.fetchone() == (True,), text
    for text in OTHER:
        cursor = await owner.execute("SELECT %s ~ %s", [text, address_pattern.build_pattern(JANE)])
        assert await cursor.fetchone() == (False,), text
    encoded = b64encode(f"Dear {JANE}".encode()).decode()
    cursor = await owner.execute("SELECT %s ~ %s", [encoded, address_pattern.build_base64_pattern(JANE)])
    assert await cursor.fetchone() == (True,)
