"""Where a document stands in the archive (D9): its path and its metadata, to the letter. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import accumulate, takewhile
from typing import Final
from urllib.parse import quote

# Disks take 255 bytes for a name: this, what stands before it, a number, and the suffix of the metadata.
MAX_SEGMENT_LENGTH: Final = 200
_SUFFIXES: Final = {
    "application/pdf": ".pdf",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/tiff": ".tif",
    "application/xml": ".xml",
    "text/plain": ".txt",
}
_HEADER_SAFE: Final = "@.+-_~!#$&'*/=?^`{|}"  # what a header's value may have as it is


@dataclass(frozen=True, slots=True)
class ArchiveItem:
    """What is known of a document when it is archived."""

    sender: str
    received_at: datetime
    file_name: str
    media_type: str
    source: str
    fallback_id: (
        str  # for where there is no message and no record: unique, and always the same for the document
    )
    record_key: str | None = None
    message_id: str | None = None
    bucket_generation: str | None = None


def encode_segment(value: str) -> str:
    """Percent-encoded, the dot too, so that a value can be no path and no suffix; never too long for a disk.

    What is cut ends in a mark of the whole, so that two long values stay two.
    """
    return _encode_bounded(value, lambda part: quote(part, safe="-_~", errors="replace").replace(".", "%2E"))


def _encode_bounded(value: str, encode: Callable[[str], str]) -> str:
    whole = encode(value)
    if len(whole) <= MAX_SEGMENT_LENGTH:
        return whole
    mark = "~" + sha256(value.encode(errors="replace")).hexdigest()[:12]
    # Character by character, so that none is cut in two.
    sizes = accumulate(len(encode(character)) for character in value)
    fitting = list(takewhile(lambda size: size <= MAX_SEGMENT_LENGTH - len(mark), sizes))
    return encode(value[: len(fitting)]) + mark


def unique_id(parcel: ArchiveItem) -> str:
    """The record's key, else what the source gives, else the fallback."""
    if parcel.record_key:
        return encode_segment(parcel.record_key)
    if parcel.message_id:
        return sha256(parcel.message_id.encode()).hexdigest()[:16]
    return encode_segment(parcel.bucket_generation or parcel.fallback_id)


def build_path(parcel: ArchiveItem, *, number: int = 1) -> str:
    """`number` counts files of the same name in the same place: the second one ends in -2."""
    suffix = _SUFFIXES.get(parcel.media_type, "")
    stem = parcel.file_name.strip() or "document"
    while suffix and stem.lower().endswith(suffix) and len(stem) > len(suffix):
        stem = stem[: -len(suffix)]
    name = encode_segment(stem) + (f"-{number}" if number > 1 else "") + suffix
    day = parcel.received_at.astimezone(UTC).date().isoformat()
    return (
        f"archive/sender_email={encode_segment(parcel.sender)}/received_date={day}/{unique_id(parcel)}/{name}"
    )


def _encode_header(value: str) -> str:
    return quote(value, safe=_HEADER_SAFE, errors="replace")


def build_metadata(parcel: ArchiveItem, *, processed_at: datetime) -> dict[str, str]:
    """What is kept with the object. Header values are ASCII, so others are percent-encoded."""
    told = {
        "sender-email": _encode_bounded(parcel.sender, _encode_header),
        "source": parcel.source,
        "processed-at": processed_at.astimezone(UTC).isoformat(timespec="seconds"),
    }
    return told | (
        {"trade-key": _encode_bounded(parcel.record_key, _encode_header)} if parcel.record_key else {}
    )
