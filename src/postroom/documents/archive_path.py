"""The path and the object metadata of a document in the archive. Pure; `blobs` writes the archive."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import accumulate, takewhile
from typing import Final
from urllib.parse import quote

# File systems allow 255 bytes per name: this, a prefix, a number, and the suffix of the metadata file.
MAX_SEGMENT_LENGTH: Final = 200
_SUFFIXES: Final = {
    "application/pdf": ".pdf",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/tiff": ".tif",
    "application/xml": ".xml",
    "text/plain": ".txt",
}
_HEADER_SAFE: Final = "@.+-_~!#$&'*/=?^`{|}"  # unescaped in header values


@dataclass(frozen=True, slots=True)
class ArchiveItem:
    """The properties of a document that determine its archive path and metadata."""

    sender: str
    received_at: datetime
    file_name: str
    media_type: str
    source: str
    fallback_id: str  # without message and record: unique and stable for the document
    record_key: str | None = None
    message_id: str | None = None
    bucket_generation: str | None = None


def encode_segment(value: str) -> str:
    """Percent-encode a path segment, including dots, so that it cannot act as a path or a suffix.

    Long values are truncated and end in a hash of the whole, so that they stay distinct.
    """
    return _encode_bounded(value, lambda part: quote(part, safe="-_~", errors="replace").replace(".", "%2E"))


def _encode_bounded(value: str, encode: Callable[[str], str]) -> str:
    whole = encode(value)
    if len(whole) <= MAX_SEGMENT_LENGTH:
        return whole
    digest = "~" + sha256(value.encode(errors="replace")).hexdigest()[:12]
    # Character by character, so that no escape sequence is cut.
    sizes = accumulate(len(encode(character)) for character in value)
    fitting = list(takewhile(lambda size: size <= MAX_SEGMENT_LENGTH - len(digest), sizes))
    return encode(value[: len(fitting)]) + digest


def unique_id(item: ArchiveItem) -> str:
    """Return the record's key, else an id from the source, else the fallback."""
    if item.record_key:
        return encode_segment(item.record_key)
    if item.message_id:
        return sha256(item.message_id.encode()).hexdigest()[:16]
    return encode_segment(item.bucket_generation or item.fallback_id)


def build_path(item: ArchiveItem, *, number: int = 1) -> str:
    """Build the path; `number` counts files of the same name in the same folder (the second ends in -2)."""
    suffix = _SUFFIXES.get(item.media_type, "")
    stem = item.file_name.strip() or "document"
    while suffix and stem.lower().endswith(suffix) and len(stem) > len(suffix):
        stem = stem[: -len(suffix)]
    name = encode_segment(stem) + (f"-{number}" if number > 1 else "") + suffix
    day = item.received_at.astimezone(UTC).date().isoformat()
    return f"archive/sender_email={encode_segment(item.sender)}/received_date={day}/{unique_id(item)}/{name}"


def _encode_header(value: str) -> str:
    return quote(value, safe=_HEADER_SAFE, errors="replace")


def build_metadata(item: ArchiveItem, *, processed_at: datetime) -> dict[str, str]:
    """Build the object metadata.

    Header values are ASCII; other characters are percent-encoded.
    """
    values = {
        "sender-email": _encode_bounded(item.sender, _encode_header),
        "source": item.source,
        "processed-at": processed_at.astimezone(UTC).isoformat(timespec="seconds"),
    }
    # The key is called `trade-key` for every kind of record: readers of existing archives expect it.
    return values | (
        {"trade-key": _encode_bounded(item.record_key, _encode_header)} if item.record_key else {}
    )
