"""The MIME parser agrees with Python's on every message kind and never fails on malformed mail.

RFC 5322: headers and their folding. RFC 2045: transfer encodings. RFC 2046: multipart and embedded messages.
RFC 2047: encoded words. RFC 2183: dispositions. RFC 2231: parameters with charsets and in pieces.
"""

import binascii
import email
import hashlib
import random
from email.message import Message
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import growth
from mailsim import mime, samples

PLAIN = b"From: a@example.com\r\nSubject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\r\n\r\nHello\r\n"


def leaves_of_stdlib(message: Message) -> list[tuple[str, bytes]]:
    return [
        (part.get_content_type(), part.get_payload(decode=True))
        for part in message.walk()
        if not part.is_multipart()
    ]


def leaves(tree: mime.MimePart) -> list[tuple[str, bytes]]:
    return [(part.content_type, part.content) for _, part in tree.walk() if not part.children]


# Parsers disagree on malformed mail, and Python splits a delivery status into messages.
SOUND = [kind for kind in samples.list_kinds() if kind not in {"malformed", "bounce"}]


@pytest.mark.parametrize("kind", SOUND)
def test_every_message_kind_is_parsed_like_the_standard_library(kind):
    for variant in samples.list_variants(kind):
        raw = samples.write_message(samples.MessageSpec(seed=1, kind=kind, variant=variant, size=3000))
        expected = email.message_from_bytes(raw)
        tree = mime.parse(raw)
        assert [name for name, _ in tree.headers] == list(expected)
        theirs, ours = leaves_of_stdlib(expected), leaves(tree)
        assert [kind for kind, _ in ours] == [kind for kind, _ in theirs]
        for (_, mine), (_, other) in zip(ours, theirs, strict=True):
            # Python drops the last line break of an embedded message's body, we keep the bytes.
            assert mine.rstrip(b"\r\n") == (other or b"").rstrip(b"\r\n")


def test_attachments_are_decoded_exactly():
    content = random.Random(3).randbytes(70_001)
    message = email.message.EmailMessage()
    message["From"] = "a@example.com"
    message.set_content("See the file.")
    message.add_attachment(content, maintype="application", subtype="pdf", filename="Rechnung März.pdf")
    tree = mime.parse(message.as_bytes())
    ((_, attached),) = [(name, part) for name, part in tree.walk() if part.is_attachment]
    assert attached.filename == "Rechnung März.pdf"
    assert attached.disposition == "attachment"
    assert hashlib.sha256(attached.content).digest() == hashlib.sha256(content).digest()


def test_headers_keep_order_case_and_duplicates():
    raw = b"received: one\r\nReceived: two\r\n\tfolded\r\nX-ODD:\r\nSubject:  spaced \r\n\r\nbody"
    assert mime.parse(raw).headers == [
        ("received", "one"),
        ("Received", "two\tfolded"),
        ("X-ODD", ""),
        ("Subject", "spaced"),
    ]
    assert mime.parse(raw).header("RECEIVED") == "one"
    assert mime.parse_headers(raw) == mime.parse(raw).headers


def test_encoded_words_are_decoded_on_request_only():
    tree = mime.parse(PLAIN)
    assert tree.header("subject") == "=?utf-8?Q?Gr=C3=BC=C3=9Fe?="
    assert mime.decode_words(tree.header("subject")) == "Grüße"


@pytest.mark.parametrize(
    "value, name, text",
    [
        ('text/plain; charset="utf-8"', "charset", "utf-8"),
        ("text/plain; charset=us-ascii; format=flowed", "format", "flowed"),
        ("application/pdf; name*=utf-8''na%C3%AFve.pdf", "name", "naïve.pdf"),
        ("application/pdf; name*0*=iso-8859-1'en'%E4; name*1=bc.pdf", "name", "äbc.pdf"),
        (r'application/pdf; name="a \"b\";c.pdf"', "name", 'a "b";c.pdf'),
        ("application/pdf; NAME = two words.pdf ; x=y", "name", "two words.pdf"),
    ],
)
def test_header_parameters_are_decoded(value, name, text):
    assert mime.parse_parameters(value)[1][name] == text


def test_an_embedded_message_has_its_own_tree_and_numbers():
    inner = (
        b"Subject: inner\r\nContent-Type: multipart/mixed; boundary=i\r\n\r\n"
        b"--i\r\n\r\none\r\n--i\r\n\r\ntwo\r\n--i--\r\n"
    )
    raw = (
        b"Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\n\r\nouter\r\n"
        b"--o\r\nContent-Type: message/rfc822\r\n\r\n" + inner + b"\r\n--o--\r\n"
    )
    tree = mime.parse(raw)
    parts = dict(tree.walk())
    assert list(parts) == ["", "0", "1", "1.0", "1.0.0", "1.0.1"]
    assert parts["1"].content == inner
    assert parts["1.0"].header("subject") == "inner"
    assert parts["1.0.1"].content == b"two"


@pytest.mark.parametrize(
    "raw, types",
    [
        (b"", ["text/plain"]),
        (b"\r\n", ["text/plain"]),
        (b"no headers at all", ["text/plain"]),
        (b"Content-Type: multipart/mixed\r\n\r\nno boundary", ["multipart/mixed"]),
        (b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nnever closed", ["text/plain"]),
        (b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--xy\r\n--x", ["multipart/mixed"]),
        (b"Content-Type: nonsense\r\n\r\nbody", ["text/plain"]),
        (b"From x Thu\nSubject: mbox\n\nbody", ["text/plain"]),
        (b"Content-Type: multipart/mixed; boundary=x\n\n--x\n\nbare\n--x--\n", ["text/plain"]),
    ],
)
def test_malformed_mail_is_parsed_as_far_as_possible(raw, types):
    assert [kind for kind, _ in leaves(mime.parse(raw))] == types


def test_an_unclosed_part_keeps_its_text():
    tree = mime.parse(b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nnever closed")
    assert tree.children[0].content == b"never closed"


@pytest.mark.parametrize("encoding, body, content", [
    ("base64", b"aGVs\r\nbG8", b"hello"),
    ("base64", b"aGVsbG8=garbage!!", b"hello"),
    ("base64", b"a", b""),
    ("BASE64 ; x", b"aGVsbG8=", b"hello"),
    ("quoted-printable", b"a=3Db=\r\nc", b"a=bc"),
    ("x-uuencode", b"begin 644 f\n%:&5L;&\\\n`\nend\n", b"hello"),
    ("unknown", b"as it is", b"as it is"),
])  # fmt: skip
def test_transfer_encodings_are_decoded(encoding, body, content):
    raw = b"Content-Transfer-Encoding: " + encoding.encode() + b"\r\n\r\n" + body
    assert mime.parse(raw).content == content


@pytest.mark.parametrize(
    "charset", ["iso-8859-15", "cp1252", "koi8-r", "no-such", "unicode_escape", "rot13", "a\0b", ""]
)
def test_text_is_decoded_even_with_a_wrong_charset(charset):
    assert mime.decode_text(b"caf\xe9 \\d", charset).startswith("caf")


def test_excessive_nesting_is_cut_off():
    raw = b"x"
    for level in range(200):
        mark = b"b%d" % level
        raw = b"Content-Type: multipart/mixed; boundary=" + mark + b"\r\n\r\n--" + mark + b"\r\n" + raw
    assert len(list(mime.parse(raw).walk())) == mime.MAX_DEPTH + 1


def test_a_header_of_a_million_lines_takes_linear_time():
    tree = mime.parse(b"Subject: x\r\n" + b" y\r\n" * 1_000_000 + b"\r\nbody")
    assert len(tree.header("subject")) == 2_000_001


@pytest.mark.parametrize("kind", ["plain", "html", "reply", "newsletter", "charset"])
def test_the_beginning_is_a_prefix_of_the_text(kind):
    for variant in samples.list_variants(kind):
        tree = mime.parse(
            samples.write_message(samples.MessageSpec(seed=5, kind=kind, variant=variant, size=9000))
        )
        for _, part in tree.walk():
            if part.content_type.startswith("text/"):
                for length in (10, 300, 1000, 50_000):
                    shown = part.get_beginning(length)
                    assert part.text.startswith(shown)
                    assert len(shown) >= min(length, len(part.text))


@pytest.mark.parametrize(
    "head, body",
    [
        ("quoted-printable", b"=C3=\r\n=BC" * 500),  # a character split over two lines, and no line end
        ("quoted-printable", b"abc\r\n" + b"=C3=BC=\r\n" * 500 + b"\r\n"),
        ("8bit", b"\xc3\xbc" * 2000),
        ("7bit", b"one\n" * 2000),
    ],
)
def test_the_beginning_never_splits_a_character(head, body):
    raw = b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: %b\r\n\r\n%b"
    part = mime.parse(raw % (head.encode(), body))
    for length in range(1, 400, 7):
        shown = part.get_beginning(length)
        assert part.text.startswith(shown)
        assert len(shown) >= length


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=40))
def test_one_encoded_word_is_decoded_like_any_number_of_them(text):
    quoted = binascii.b2a_qp(text.encode(), header=True, istext=False, quotetabs=True)
    word = f"=?utf-8?q?{quoted.replace(b'=' + chr(10).encode(), b'').replace(b'?', b'=3F').decode()}?="
    assert mime.decode_words(word) == text
    assert mime.decode_words(f"{word} {word}") == text + text


@settings(deadline=None)  # the first message of a heavy kind renders a PDF or a scan
@cache
def beginning(kind: str) -> bytes:
    return samples.write_message(samples.MessageSpec(seed=1, kind=kind, size=2000))[:20_000]


@given(st.binary(max_size=400), st.integers(0, 10_000), st.sampled_from(SOUND))
def test_damaged_mail_never_raises(noise, place, kind):
    raw = beginning(kind)
    at = place % (len(raw) + 1)
    for damaged in (noise, raw[:at] + noise + raw[at:], raw[:at], raw[at:]):
        for _, part in mime.parse(damaged).walk():
            assert isinstance(part.content, bytes)
            assert isinstance(part.text + part.filename + part.content_id, str)
            assert all(isinstance(mime.decode_words(value), str) for _, value in part.headers)


def test_many_boundaries_on_one_line_are_read_in_linear_time():
    head = b"Content-Type: multipart/mixed; boundary=b\n\n"
    growth.assert_linear(lambda count: head + b"--b" * count, mime.parse, start=2000)
