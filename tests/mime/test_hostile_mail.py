"""Mail that is broken, or made to break its reader: nothing raises, hangs or vanishes."""

import base64
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import growth
from example_counts import examples
from mailsim import samples
from mailsim.samples import MessageSpec, message_kinds
from mime.hostile_messages import HTML, SLOW
from postroom.mime import parse, parse_header_pairs, part_tree, tnef
from postroom.mime.addresses import MAX_ADDRESSES
from postroom.mime.part_tree import MAX_DEPTH, MAX_HEAD_BYTES, MAX_PARTS


def use(message):
    """Touch everything that is read on demand; all of it must be fit for PostgreSQL."""
    texts = [message.body_plain, message.body_html, message.calendar, message.snippet, message.text]
    texts += [text for pair in message.head.headers for text in pair]
    texts += [each.name + each.address for each in (*message.head.to, *message.head.cc, *message.head.bcc)]
    texts += [message.head.subject, message.head.internet_message_id, *message.head.references]
    for each in message.walk_attachments():
        assert each.size == len(each.content) == sum(map(len, each.pieces()))
        texts += [each.part, each.file_name, each.media_type, each.content_id]
    for text in texts:
        assert "\x00" not in (text or "")
        (text or "").encode()
    json.dumps(message.head.headers)


@settings(max_examples=examples(150), deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_can_be_parsed(raw):
    use(parse(raw))


FRAGMENTS = [
    b"\r\n", b"\n", b"\r", b"\n\n", b"--b", b"--b--", b"--c", b" ", b"\t", b":", b";", b"\x00", b"\xff\xfe",
    b"=?", b"?=", b"=?utf-8?b?w5w=?=", b"=?x?q?=FF_?=", b'"', b"\\", b"(", b")", b"<", b">", b"@", b",",
    b"a@b.example", b"Content-Type: multipart/mixed; boundary=b",
    b'Content-Type: multipart/digest; boundary="c"', b"Content-Type: message/rfc822",
    b"Content-Type: text/html; charset=utf-7", b"Content-Type: text/calendar",
    b"Content-Transfer-Encoding: base64", b"Content-Transfer-Encoding: quoted-printable", b"=3D=", b"+2AA-",
    b"Content-Transfer-Encoding: x-uuencode", b"begin 644 a",
    b"Content-Disposition: attachment; filename*0*=a''%ff", b"From: ", b"To: ",
    b"Date: Mon, 1 Jan 0001 00:00:00 +2359", b"Date: ", b"Subject: ", b"References: ", b"<x@y>", b"<style>",
    b"<!--", b"&#xD800;", b"AAAA", b"====",
]  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=60))
def test_pieces_of_mail_in_any_order_can_be_parsed(pieces):
    use(parse(b"".join(pieces)))


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 2**32))
def test_messages_with_damaged_bytes_can_be_parsed(seed):
    dice = random.Random(seed)
    kind = dice.choice(
        ["html", "nested", "inline-image", "headers", "malformed", "attachment", "signed", "bounce"]
    )
    raw = bytearray(
        samples.write_message(
            MessageSpec(seed=seed, kind=kind, variant=dice.choice(message_kinds.list_variants(kind)))
        )
    )
    for _ in range(dice.randrange(1, 30)):
        at = dice.randrange(len(raw))
        match dice.randrange(3):
            case 0:
                raw[at] = dice.randrange(256)
            case 1:
                del raw[at : at + dice.randrange(1, 200)]
            case _:
                raw[at:at] = raw[at : at + dice.randrange(1, 200)]
        raw = raw or bytearray(b"x")
    use(parse(bytes(raw)))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=60)), max_size=8))
def test_any_header_pairs_make_a_head(pairs):
    head = parse_header_pairs(pairs)
    assert len(head.headers) == len(pairs)
    "".join(text for pair in head.headers for text in pair).encode()


def test_beyond_the_part_limit_the_rest_is_one_part_and_nothing_is_lost():
    body = b"".join(b"--b\n\n%d\n" % number for number in range(3 * MAX_PARTS))
    message = parse(b"Content-Type: multipart/mixed; boundary=b\n\n" + body + b"--b--\n")
    [rest] = message.attachments
    assert rest.part == str(MAX_PARTS - 1)
    first = [int(line) for line in message.body_plain.split("\n")]
    assert first == list(range(MAX_PARTS - 1))
    assert rest.content.count(b"--b\n") == 3 * MAX_PARTS - len(first) - 1
    assert message.defects == ("parts",)


def test_beyond_the_depth_limit_everything_is_one_part():
    raw = b"deepest"
    for level in range(5 * MAX_DEPTH):
        raw = b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n%b\n--b%d--\n" % (
            level,
            level,
            raw,
            level,
        )
    message = parse(raw)
    assert message.defects == ("depth",)
    assert "deepest" in message.body_plain


def test_attached_messages_have_a_depth_limit_too():
    raw = b"Subject: deepest\n\nhere"
    for _ in range(5 * MAX_DEPTH):
        raw = b"Content-Type: message/rfc822\n\n" + raw
    inner = list(parse(raw).walk_attachments())
    assert len(inner) == MAX_DEPTH + 1
    assert inner[-1].attached_message is None
    assert inner[-1].content.endswith(b"here")


@pytest.mark.parametrize("make", SLOW.values(), ids=SLOW)
def test_no_message_takes_longer_to_parse_than_its_size_explains(make):
    growth.assert_linear(lambda n: make(n) + b"\n\nbody", lambda raw: use(parse(raw)), start=5000)


def test_beyond_the_size_limit_of_a_head_its_lines_are_left_out_and_the_body_is_read():
    line = b"X-%06d: y\n"
    lines = b"".join(line % each for each in range(MAX_HEAD_BYTES // len(line % 0)))
    message = parse(b"Subject: s\n" + lines.replace(b": y\nX", b": y\n X") + b"To: a@b.example\n\nbody")
    assert (message.head.subject, message.head.to, message.body_plain) == ("s", (), "body")
    assert message.defects == ("header",)


def test_a_character_reference_with_thousands_of_digits_is_no_character():
    assert parse(HTML + b"a&#" + b"1" * 5000 + b";b").text == "a\ufffdb"


def test_the_number_of_addresses_is_limited():
    assert len(parse(b"To: " + b"a@b.example, " * (MAX_ADDRESSES + 10) + b"\n\n").head.to) == MAX_ADDRESSES


def test_a_large_attachment_is_decoded_in_pieces():
    data = random.Random(1).randbytes(5_000_000)
    lines = base64.encodebytes(data)
    raw = b"Content-Type: application/pdf; name=a.pdf\nContent-Transfer-Encoding: base64\n\n" + lines
    [file] = parse(raw).attachments
    pieces = list(file.pieces())
    assert max(map(len, pieces)) < 600_000
    assert b"".join(pieces) == data == file.content
    assert file.size == len(data)


@pytest.mark.parametrize(
    "body, content", [(b"JVBE!!Ri0\n", b"%PDF-"), (b"JVBERi0", b"%PDF-"), (b"\xff\xff", b"\xff\xff")]
)
def test_malformed_base64_is_decoded_as_far_as_possible(body, content):
    raw = b"Content-Type: application/pdf; name=a.pdf\nContent-Transfer-Encoding: base64\n\n" + body
    assert parse(raw).attachments[0].content == content


def encode_multiparts(levels, inner):
    """Multiparts in each other, each encoded as a whole: decoding one reveals the next."""
    for level in range(levels):
        body = (
            (b"--b%d\n%b\n--b%d--\n" % (level, inner, level)).replace(b"=", b"=3D").replace(b"--b", b"-=2Db")
        )
        inner = b"Content-Type: multipart/mixed; boundary=b%d\n" % level
        inner += b"Content-Transfer-Encoding: quoted-printable\n\n" + body
    return inner


def test_encoded_multiparts_in_each_other_are_decoded_up_to_a_limit(monkeypatch):
    raw = encode_multiparts(5, b"Content-Type: text/plain\n\n" + b"x" * 10_000)
    assert parse(raw).body_plain == "x" * 10_000
    monkeypatch.setattr(part_tree, "MAX_DECODED_BYTES", 35_000)
    message = parse(raw)
    assert message.defects == ("boundary",)
    assert "boundary=3Db0" not in message.body_plain
    assert "boundary=b0" in message.body_plain
    assert "x" * 10_000 in message.body_plain


def test_a_multipart_without_boundary_lines_becomes_text():
    message = parse(b"Content-Type: multipart/mixed; boundary=b\n\nno boundary here")
    assert message.body_plain == "no boundary here"
    assert message.defects == ("boundary",)


def test_an_encoded_multipart_is_decoded():
    inner = base64.encodebytes(b"--b\n\nhello\n--b--\n")
    head = b"Content-Type: multipart/mixed; boundary=b\nContent-Transfer-Encoding: base64\n\n"
    assert parse(head + inner).body_plain == "hello"


def test_files_are_extracted_from_winmail_dat():
    message = parse(samples.write_message(MessageSpec(seed=5, kind="attachment", variant="winmail")))
    [winmail] = [each for each in message.attachments if each.file_name == "winmail.dat"]
    [file] = tnef.extract_files(winmail.content)
    assert (file.place, bool(file.name), bool(file.content)) == (0, True, True)


def named_by_properties(name, data):
    """A stream as Outlook writes it: the long name and the media type stand in MAPI properties."""

    def sized(kind, identity, value):
        padded = value + b"\0" * (-len(value) % 4)
        return (
            kind.to_bytes(2, "little")
            + identity.to_bytes(2, "little")
            + (1).to_bytes(4, "little")
            + len(value).to_bytes(4, "little")
            + padded
        )

    own = (3).to_bytes(2, "little") + (0x8001).to_bytes(2, "little") + bytes(16) + bytes(8) + bytes(4)
    properties = (4).to_bytes(4, "little") + own + sized(0x1F, 0x3707, name.encode("utf-16-le") + b"\0\0")
    properties += sized(0x1E, 0x370E, b"Application/PDF\0") + sized(0x102, 0x3701, data)

    def attribute(identity, value):
        return b"\x02" + identity.to_bytes(4, "little") + len(value).to_bytes(4, "little") + value + b"\0\0"

    head = (0x223E9F78).to_bytes(4, "little") + b"\1\0"
    return (
        head
        + attribute(0x69002, bytes(14))
        + attribute(0x18010, b"LONGNA~1.PDF\0")
        + attribute(0x69005, properties)
    )


def test_a_file_in_winmail_dat_has_its_long_name_and_type():
    [file] = tnef.extract_files(named_by_properties("Rechnung für März.pdf", b"%PDF-1.7"))
    assert (file.name, file.media_type, file.content) == (
        "Rechnung für März.pdf",
        "application/pdf",
        b"%PDF-1.7",
    )


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=120), st.integers(0, 160), st.integers(0, 160))
def test_any_bytes_can_be_parsed_as_winmail_dat(noise, start, end):
    whole = named_by_properties("a.pdf", b"x")
    for data in (noise, whole[:start] + noise + whole[end:], whole[:start]):
        assert all(isinstance(each.content, bytes) for each in tnef.extract_files(data))
