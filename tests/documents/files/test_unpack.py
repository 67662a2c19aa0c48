"""Containers are unpacked within limits, and nothing is ever written under their names."""

import io
import struct
import zipfile
from email import message_from_bytes
from email.message import EmailMessage

import pytest

from documents.files import hostile_files, sample_files
from postroom.documents.files.container_decoders import iterate_tnef_files
from postroom.documents.files.file_type import FileType
from postroom.documents.files.unpack import (
    AttachedFile,
    SkippedEntry,
    UnpackedFile,
    UnpackLimits,
    sanitize_name,
    unpack,
)

PDF = sample_files.pdf([(50, 700, "Invoice")])
TRAVERSALS = [
    "../../../../tmp/{}.pdf",
    "/tmp/{}.pdf",
    "..\\..\\windows\\{}.pdf",
    "C:\\{}.pdf",
    "./{}.pdf",
    "a/b/../../../{}.pdf",
    "//server/share/{}.pdf",
    "{}.pdf\u202efdp.exe",
    "{}\n.pdf",
    "~/{}.pdf",
    "x" * 3000 + "{}.pdf",
    "con:{}.pdf",
]


def read_message(content):
    """As the mail side of Postroom would: files, pictures in the text, and forwarded messages as bytes."""
    for part in message_from_bytes(content).walk():
        if part.get_content_type() == "message/rfc822" and part.get_filename() != "seen":
            yield AttachedFile("forwarded.eml", "message/rfc822", part.get_payload(0).as_bytes())
            return
        if part.get_filename():
            yield AttachedFile(
                part.get_filename(),
                part.get_content_type(),
                part.get_payload(decode=True) or b"",
                part.get_content_disposition() == "inline",
            )


DECODERS = {FileType.MESSAGE: read_message, FileType.TNEF: iterate_tnef_files}


def found(content, name="outer.zip", **bounds):
    return list(unpack(content, name, DECODERS, UnpackLimits(**bounds)))


def mail(attachment, name, subtype="pdf", *, inline=False):
    message = EmailMessage()
    message["From"], message["Subject"] = "jane@example.org", "Invoice"
    message.set_content("Please pay.")
    message.add_attachment(
        attachment,
        maintype="application",
        subtype=subtype,
        filename=name,
        disposition="inline" if inline else "attachment",
    )
    return message


def test_files_in_a_zip_have_their_type_and_containers():
    content = hostile_files.archive({"a/": b"", "a/invoice.pdf": PDF, "note.txt": b"Hello"})
    assert found(content) == [
        UnpackedFile("invoice.pdf", FileType.PDF, PDF, ("outer.zip",)),
        UnpackedFile("note.txt", FileType.TEXT, b"Hello", ("outer.zip",)),
    ]


def test_a_forwarded_message_yields_its_own_and_nested_attachments():
    outer = EmailMessage()
    outer["From"], outer["Subject"] = "joe@example.org", "Fwd"
    outer.set_content("See below.")
    outer.add_attachment(mail(PDF, "invoice.pdf", inline=True))
    [inside] = found(outer.as_bytes(), "mail.eml")
    assert (inside.name, inside.file_type, inside.content) == ("invoice.pdf", FileType.PDF, PDF)
    assert inside.containers == ("mail.eml", "forwarded.eml")
    assert inside.is_inline


def test_a_zip_in_a_message_in_a_zip_is_opened():
    inner = hostile_files.archive({"invoice.pdf": PDF})
    content = hostile_files.archive({"mail.eml": mail(inner, "all.zip", "zip").as_bytes()})
    [inside] = found(content)
    assert inside.containers == ("outer.zip", "mail.eml", "all.zip")
    assert inside.content == PDF


def test_a_file_that_is_no_container_yields_nothing():
    assert found(PDF) == []


def test_containers_are_opened_only_to_the_depth_limit():
    content = PDF
    for level in range(6):
        content = hostile_files.archive({f"{level}.zip": content})
    [left] = found(content)
    assert isinstance(left, SkippedEntry)
    assert "at most 3 deep" in left.reason


def test_a_winmail_dat_file_yields_its_own_and_nested_files():
    stream = hostile_files.tnef(
        {
            "invoice.pdf": PDF,
            "all.zip": hostile_files.archive({"a.txt": b"Hello"}),
            "again.dat": b"\x78\x9f\x3e\x22",
        }
    )
    assert found(stream, "winmail.dat") == [
        UnpackedFile("invoice.pdf", FileType.PDF, PDF, ("winmail.dat",)),
        UnpackedFile("a.txt", FileType.TEXT, b"Hello", ("winmail.dat", "all.zip")),
        UnpackedFile(
            "again.dat",
            FileType.OTHER,
            b"\x78\x9f\x3e\x22",
            ("winmail.dat",),
            unsupported="The winmail.dat file is damaged or truncated.",
        ),
    ]


def test_nested_winmail_dat_files_stay_within_the_depth_limit():
    stream = hostile_files.tnef({"a.txt": b"Hello"})
    for _ in range(5):
        stream = hostile_files.tnef({"winmail.dat": stream})
    [skipped] = found(stream, "winmail.dat")
    assert "at most 3 deep" in skipped.reason


def test_a_truncated_winmail_dat_file_is_reported():
    [skipped] = found(b"\x78\x9f\x3e\x22\x01", "winmail.dat")
    assert "damaged or truncated" in skipped.reason


@pytest.mark.parametrize(
    "content, bounds, reason",
    [
        (hostile_files.archive({f"{n}.txt": b"a" for n in range(9)}), {"files": 5}, "more than 5 files"),
        (hostile_files.archive({f"{n}.txt": b"a" for n in range(99)}), {"files": 5}, "too many entries"),
        (hostile_files.archive({"a.txt": b"ab" * 99}), {"file_bytes": 99}, "198 bytes"),
        (
            hostile_files.archive({"a.txt": b"a" * 60, "b.txt": b"b" * 60}),
            {"total_bytes": 99},
            "more than 99 bytes",
        ),
        (
            hostile_files.archive(
                {f"{n}.txt": b"a" * 99_000 for n in range(9)}, compress_type=zipfile.ZIP_DEFLATED
            ),
            {"free_bytes": 200_000},
            "unpacks to more than 200,000 bytes, the limit for its size; the rest is skipped",
        ),
        (
            hostile_files.archive(
                {f"{n}.txt": b"a" * 99_000 for n in range(9)}, compress_type=zipfile.ZIP_DEFLATED
            ),
            {"free_bytes": 0, "total_ratio": 2},
            "the limit for its size",
        ),
        (
            hostile_files.archive({"a.txt": bytes(5_000_000)}, compress_type=zipfile.ZIP_DEFLATED),
            {},
            "ratio is above 400",
        ),
        (hostile_files.archive({"a.txt": b"a" * 99})[:60] + b"PK", {}, "damaged"),
    ],
)
def test_entries_beyond_a_limit_are_skipped_with_a_reason(content, bounds, reason):
    results = found(content, **bounds)
    reasons = [each.reason for each in results if isinstance(each, SkippedEntry)]
    assert any(reason in each for each in reasons)


def test_nested_zip_bombs_stay_within_the_total_limit():
    inner = hostile_files.archive(
        {f"{n}.txt": bytes(900_000) for n in range(9)}, compress_type=zipfile.ZIP_DEFLATED
    )
    outer = hostile_files.archive({f"{n}.zip": inner for n in range(9)}, compress_type=zipfile.ZIP_DEFLATED)
    results = found(outer, total_bytes=3_000_000, ratio=2000)
    assert sum(len(each.content) for each in results if isinstance(each, UnpackedFile)) <= 3_000_000
    assert "the rest is skipped" in results[-1].reason


def test_bad_entries_do_not_affect_other_entries():
    good = hostile_files.archive({"a.txt": b"hello hello", "b.txt": b"world"})
    place = good.index(b"PK\x01\x02")
    locked = bytearray(good)
    locked[place + 8] |= 1
    lying = bytearray(hostile_files.archive({"a.txt": b"hello" * 9, "b.txt": b"world"}, compress_type=8))
    lying[lying.index(b"PK\x01\x02") + 24] = 99
    damaged = bytearray(good)
    damaged[good.index(b"hello")] ^= 1
    unknown = bytearray(good)
    unknown[place + 10 : place + 12] = struct.pack("<H", 97)
    for content, reason in (
        (locked, "encrypted"),
        (lying, "differs from the ZIP directory"),
        (damaged, "damaged"),
        (unknown, "damaged"),
    ):
        first, second = found(bytes(content))
        assert isinstance(first, SkippedEntry), reason
        assert reason in first.reason
        assert second == UnpackedFile("b.txt", FileType.TEXT, b"world", ("outer.zip",))


@pytest.mark.parametrize("way", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_any_damaged_byte_yields_the_rest_or_a_reason(way):
    whole = hostile_files.archive({"a.txt": b"hello hello " * 40}, compress_type=way)
    for place in range(0, len(whole), 2):
        for change in (1, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[place] ^= change
            assert all(isinstance(each, UnpackedFile | SkippedEntry) for each in found(bytes(damaged)))
    [cut] = found(whole[:-30])
    assert "damaged" in cut.reason


def test_overlapping_entries_count_separately():
    content = bytearray(hostile_files.archive({"a.txt": b"a" * 1000}))
    place = content.index(b"PK\x01\x02")
    entry, end = content[place : content.index(b"PK\x05\x06")], content[content.index(b"PK\x05\x06") :]
    end[8:12], end[12:16] = struct.pack("<HH", 50, 50), struct.pack("<I", len(entry) * 50)
    results = found(bytes(content[:place] + entry * 50 + end), total_bytes=9_000)
    assert sum(isinstance(each, UnpackedFile) for each in results) <= 9


@pytest.mark.parametrize("name", TRAVERSALS)
def test_a_name_never_becomes_a_path(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = name.format("postroom-escaped")
    [inside] = found(hostile_files.archive({written: PDF}))
    assert not set("/\\:\n\u202e") & set(inside.name)
    assert inside.name not in {"", ".", ".."}
    assert len(inside.name) <= 200
    assert list(tmp_path.iterdir()) == []
    assert not (tmp_path / written[:200]).exists()


def test_a_symlink_in_a_zip_is_only_its_text():
    link = zipfile.ZipInfo("link.pdf")
    link.external_attr = 0o120777 << 16
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made:
        made.writestr(link, "/etc/passwd")
    [inside] = found(written.getvalue())
    assert (inside.file_type, inside.content) == (FileType.TEXT, b"/etc/passwd")


@pytest.mark.parametrize(
    "name, clean", [("", "file"), ("..", "file"), ("a\0b", "ab"), ("a/", "file"), (" x. ", "x")]
)
def test_names_that_become_empty_get_a_default(name, clean):
    assert sanitize_name(name) == clean
