"""D9: the exact paths and metadata of the archive."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from urllib.parse import unquote

import pytest

from postroom.documents import archive_path
from postroom.documents.archive_path import ArchiveItem

PARCEL = ArchiveItem(
    sender="l.deburna@broker.example",
    received_at=datetime(2026, 2, 4, 23, 30, tzinfo=timezone(timedelta(hours=-5))),
    file_name="Contract note.pdf",
    media_type="application/pdf",
    source="graph_webhook",
    fallback_id="0b1f",
    record_key="ldeburna-20260204-AAPL-BUY-100",
    message_id="AAMk1",
)


def test_a_path_has_percent_encoded_sender_date_key_and_file_name():
    assert archive_path.build_path(PARCEL) == (
        "archive/sender_email=l%2Edeburna%40broker%2Eexample/received_date=2026-02-05/"
        "ldeburna-20260204-AAPL-BUY-100/Contract%20note.pdf"
    )


@pytest.mark.parametrize(
    "name, expected",
    [
        ("note.pdf.PDF", "note.pdf"),
        ("note", "note.pdf"),
        (".pdf", "%2Epdf.pdf"),
        ("../../etc/passwd", "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd.pdf"),
        ("", "document.pdf"),
        ("Rechnung Müller.pdf", "Rechnung%20M%C3%BCller.pdf"),
    ],
)
def test_a_file_name_is_never_a_path_and_has_one_suffix(name, expected):
    assert archive_path.build_path(replace(PARCEL, file_name=name)).rpartition("/")[2] == expected


def test_files_of_the_same_name_are_numbered():
    assert archive_path.build_path(PARCEL, number=2).endswith("/Contract%20note-2.pdf")


@pytest.mark.parametrize(
    "change, expected",
    [
        ({}, "ldeburna-20260204-AAPL-BUY-100"),
        ({"record_key": None}, sha256(b"AAMk1").hexdigest()[:16]),
        ({"record_key": None, "message_id": None, "bucket_generation": "1700"}, "1700"),
        ({"record_key": None, "message_id": None}, "0b1f"),
    ],
)
def test_the_unique_id_prefers_record_key_then_message_then_fallback(change, expected):
    assert archive_path.build_path(replace(PARCEL, **change)).split("/")[3] == expected


def test_long_path_segments_are_truncated_between_characters():
    long = replace(PARCEL, sender="é" * 300, file_name="ü" * 299 + ".pdf", record_key="日" * 400)
    path = archive_path.build_path(long, number=999)
    for part in f"{path}.metadata.json".split("/"):
        assert len(part.encode()) <= 255
        unquote(part, errors="strict")
    assert path != archive_path.build_path(replace(long, record_key="日" * 401), number=999)
    metadata = archive_path.build_metadata(long, processed_at=datetime(2026, 2, 5, tzinfo=UTC))
    assert sum(len(name) + len(value) for name, value in metadata.items()) < 1000


def test_metadata_matches_the_specification():
    assert archive_path.build_metadata(PARCEL, processed_at=datetime(2026, 2, 5, tzinfo=UTC)) == {
        "sender-email": "l.deburna@broker.example",
        "source": "graph_webhook",
        "processed-at": "2026-02-05T00:00:00+00:00",
        "trade-key": "ldeburna-20260204-AAPL-BUY-100",
    }
