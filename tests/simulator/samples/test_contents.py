"""Contents of particular message kinds: sizes, charsets, lists, calendars, signatures, files."""

import base64
import email
import email.policy
import hashlib
import io
import struct
import subprocess
import zipfile
from email.message import EmailMessage, Message
from pathlib import Path

import pytest

from mailsim import samples
from mailsim.samples.charset_messages import TEXTS


def read(message: bytes) -> EmailMessage:
    return email.message_from_bytes(message, policy=email.policy.default)


def parse_sample(kind: str, variant: str = "", seed: int = 7, **options: object) -> EmailMessage:
    return read(samples.write_message(samples.MessageSpec(seed=seed, kind=kind, variant=variant, **options)))


@pytest.mark.parametrize("kind", ["plain", "html", "reply", "sent", "newsletter"])
@pytest.mark.parametrize("size", [3000, 8000, 200_000])
def test_a_body_has_about_the_requested_size(kind: str, size: int):
    for seed in range(5):
        message = samples.write_message(samples.MessageSpec(seed=seed, kind=kind, size=size))
        body = len(message.partition(b"\r\n\r\n")[2])
        assert size * 0.9 < body < size + 2600


@pytest.mark.parametrize("size", [1000, 3_000_000, 40_000_000])
def test_a_big_file_has_exactly_the_requested_size(size: int):
    message = samples.write_message(samples.MessageSpec(kind="big", size=size))
    encoded = message.partition(b'filename="recording.zip"\r\n\r\n')[2].partition(b"\r\n--")[0]
    data = base64.b64decode(encoded)
    assert len(data) == size
    assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None


def test_a_file_cannot_be_smaller_than_an_empty_archive():
    message = read(samples.write_message(samples.MessageSpec(kind="big", size=5)))
    data = next(message.iter_attachments()).get_content()
    assert zipfile.ZipFile(io.BytesIO(data)).read("recording.raw") == b""


@pytest.mark.parametrize("variant", samples.list_variants("charset"))
def test_text_and_subject_survive_every_charset_and_encoding(variant: str):
    charset, _, encoding = variant.partition("/")
    for seed in (1, 3):
        message = parse_sample("charset", variant, seed)
        assert message["Content-Transfer-Encoding"] == encoding
        assert message.get_content_charset() == charset
        assert TEXTS[charset] in message.get_content()
        if charset not in {"us-ascii", "utf-16"}:
            assert message["Subject"] == TEXTS[charset][:36]


def test_every_charset_has_a_variant():
    assert {variant.partition("/")[0] for variant in samples.list_variants("charset")} == set(TEXTS)


def test_a_newsletter_supports_one_click_unsubscribe():
    message = parse_sample("newsletter")
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert "https://" in message["List-Unsubscribe"]
    assert "mailto:" in message["List-Unsubscribe"]
    assert message["List-Id"]


def test_automatic_messages_have_auto_submitted_headers():
    assert parse_sample("auto-reply", "vacation")["Auto-Submitted"] == "auto-replied"
    assert parse_sample("auto-reply", "vacation")["Precedence"] == "auto_reply"
    assert parse_sample("auto-reply", "exchange")["X-Auto-Response-Suppress"]
    assert parse_sample("bounce")["Return-Path"] == "<>"


def test_a_bounce_names_the_failed_recipient():
    message = parse_sample("bounce", "message")
    assert message.get_content_type() == "multipart/report"
    assert [part.get_content_type() for part in message.iter_parts()] == [
        "text/plain",
        "message/delivery-status",
        "message/rfc822",
    ]
    status = list(message.iter_parts())[1].get_payload()
    assert status[1]["Action"] == "failed"
    assert "nobody" in status[1]["Final-Recipient"]


def test_a_meeting_request_carries_its_method_twice():
    message = parse_sample("meeting", "request")
    calendar = next(part for part in message.walk() if part.get_content_type() == "text/calendar")
    assert calendar.get_param("method") == "REQUEST"
    assert "METHOD:REQUEST" in calendar.get_content()
    assert next(message.iter_attachments()).get_filename() == "invite.ics"


def test_nested_messages_are_four_levels_deep():
    depth, part = 0, parse_sample("nested")
    while inside := [one for one in part.iter_parts() if one.get_content_type() == "message/rfc822"]:
        depth += 1
        part = inside[0].get_content()
    assert depth == 4
    assert next(part.iter_attachments()).get_filename() == "figures.csv"


def test_a_forward_attaches_or_quotes_the_original():
    enclosed = next(parse_sample("forward", "attached").iter_attachments())
    assert enclosed.get_content_type() == "message/rfc822"
    assert parse_sample("forward", "attached")["Subject"] == f"Fwd: {enclosed.get_content()['Subject']}"
    assert "----------" in parse_sample("forward", "inline").get_content()


@pytest.mark.parametrize(
    "variant,name",
    [
        ("rfc2231", "Größe.txt"),
        ("rfc2231-continued", "Größen für die zweite Baustufe.txt"),
        ("encoded-word-filename", "Maße.txt"),
        ("bare-filename", "report-2024.txt"),
        ("semicolon-filename", 'a;b "c".txt'),
    ],
)
def test_file_names_in_every_notation_are_decoded(variant: str, name: str):
    assert next(parse_sample("headers", variant).iter_attachments()).get_filename() == name


def test_names_with_commas_and_groups_are_parsed():
    assert parse_sample("headers", "quoted-names")["To"].addresses[0].display_name == "Doe, Jane"
    assert parse_sample("headers", "groups")["To"].groups[0].display_name == "Team"
    assert len(parse_sample("headers", "many-recipients")["To"].addresses) == 201


def test_the_html_refers_to_the_inline_image():
    message = parse_sample("inline-image", "related")
    picture = next(part for part in message.walk() if part.get_content_type() == "image/png")
    html = message.get_body(("html",))
    assert html is not None
    assert f"cid:{picture['Content-ID'][1:-1]}" in html.get_content()
    assert next(parse_sample("inline-image", "only").iter_attachments()).get_content_disposition() == "inline"


def test_winmail_dat_is_a_tnef_stream_with_valid_checksums():
    stream = next(parse_sample("attachment", "winmail").iter_attachments()).get_content()
    assert struct.unpack_from("<I", stream) == (0x223E9F78,)
    place, found = 6, {}
    while place < len(stream):
        _, identity, length = struct.unpack_from("<BII", stream, place)
        data = stream[place + 9 : place + 9 + length]
        assert struct.unpack_from("<H", stream, place + 9 + length) == (sum(data) & 0xFFFF,)
        found[identity] = data
        place += 11 + length
    assert place == len(stream)
    assert found[0x00018010] == b"liste.csv\0"
    assert found[0x0006800F].startswith(b"Nr;Artikel;Preis\r\n")


def test_an_archive_contains_file_names_outside_ascii():
    data = next(parse_sample("attachment", "zip").iter_attachments()).get_content()
    assert zipfile.ZipFile(io.BytesIO(data)).namelist() == ["liste.csv", "bilder/logo.png", "Größen.txt"]


def test_a_cloud_link_is_listed_in_the_header():
    message = samples.write_message(samples.MessageSpec(kind="reference"))
    (link,) = samples.parse_cloud_links(message)
    assert link.url.startswith("https://files.example.net/")
    assert link.name.rpartition(".")[2] in {"pptx", "xlsx", "docx"}
    assert link.size > 0
    assert samples.parse_cloud_links(samples.write_message(samples.MessageSpec(kind="plain"))) == ()


def covered_and_signature(variant: str) -> tuple[bytes, bytes]:
    message = samples.write_message(samples.MessageSpec(seed=4, kind="signed", variant=variant))
    parsed = email.message_from_bytes(message)
    mark = f"--{parsed.get_boundary()}".encode()
    signature = parsed.get_payload(1)
    assert isinstance(signature, Message)
    return message.split(mark)[1][2:-2], signature.get_payload(decode=True)


def test_an_smime_signature_verifies_with_openssl(tmp_path: Path):
    content, signature = covered_and_signature("smime")
    (tmp_path / "content").write_bytes(content)
    (tmp_path / "signature").write_bytes(signature)
    command = ["openssl", "cms", "-verify", "-noverify", "-binary", "-inform", "DER", "-in", "signature"]
    done = subprocess.run([*command, "-content", "content"], cwd=tmp_path, capture_output=True, check=False)
    assert b"successful" in done.stderr
    (tmp_path / "content").write_bytes(content + b"!")
    done = subprocess.run([*command, "-content", "content"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode != 0


def test_a_pgp_signature_covers_the_first_part():
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, utils

    from mailsim.samples.signed_messages import make_key

    content, armoured = covered_and_signature("pgp")
    lines = armoured.split(b"\r\n\r\n")[1].split(b"\r\n=")[0]
    packet = base64.b64decode(lines)
    body = packet[3:]
    hashed_end = 6 + struct.unpack_from(">H", body, 4)[0]
    trailer = body[:hashed_end]
    digest = hashlib.sha256(content + trailer + b"\x04\xff" + struct.pack(">I", len(trailer))).digest()
    unhashed = struct.unpack_from(">H", body, hashed_end)[0]
    rest = body[hashed_end + 2 + unhashed :]
    assert rest[:2] == digest[:2]
    signature = rest[4:].rjust(256, b"\0")
    make_key().public_key().verify(signature, digest, padding.PKCS1v15(), utils.Prehashed(hashes.SHA256()))
