"""Conversion of Gmail's messages and history records to our model; the fields to request. Pure.

MIME is converted in `providers.message_parsing`.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from typing import Final

import msgspec

from postroom.errors import TransientError
from postroom.model import FetchedMessage, MessageChange, MessageContent, ObservedState, Presence
from postroom.providers import message_parsing
from postroom.providers.gmail import wire

# The snippet is body text, so it is never requested.
MINIMAL: Final = "id,threadId,labelIds,historyId,internalDate,sizeEstimate"
METADATA: Final = f"{MINIMAL},payload(mimeType,headers)"
RAW: Final = f"{MINIMAL},raw"
_DIGITS: Final = 20  # of the largest 64-bit number
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_PIECE: Final = 4 * 2**18  # characters; four of them are three bytes


def to_version(history_id: str) -> str:
    """History ids increase; padded with zeros, they also do so as text."""
    return history_id.rjust(_DIGITS, "0")


def to_state(message: wire.GmailMessage) -> ObservedState:
    labels = message.label_ids
    return ObservedState(
        thread=message.thread_id,
        labels=labels,
        is_read="UNREAD" not in labels,
        is_flagged="STARRED" in labels,
        is_draft="DRAFT" in labels,
        received_at=datetime.fromtimestamp(int(message.internal_date) / 1000, UTC),
    )


def to_change(message: wire.GmailMessage) -> MessageChange:
    return MessageChange(message.id, Presence.PRESENT, to_version(message.history_id), to_state(message))


def to_fetched(message: wire.GmailMessage) -> FetchedMessage:
    content = (
        _parse_payload(message)
        if message.payload is not None
        else message_parsing.parse_message(decode_raw(message))
    )
    return FetchedMessage(message.id, to_version(message.history_id), to_state(message), content)


def _parse_payload(message: wire.GmailMessage) -> MessageContent:
    """Without the body, only the outermost media type shows whether there are attachments."""
    payload = message.payload or wire.GmailPayload()
    return replace(
        message_parsing.parse_headers((header.name, header.value) for header in payload.headers),
        size=message.size_estimate,
        has_attachments=payload.mime_type.lower() == "multipart/mixed",
    )


def decode_raw(message: wire.GmailMessage) -> bytes:
    """Decode base64url with unreliable padding, straight from the bytes of the response."""
    text = memoryview(message.raw)[1:-1]
    if re.search(rb"\\", text):
        text = memoryview(msgspec.json.decode(message.raw, type=str).encode())
    whole = BytesIO()
    try:
        whole.writelines(_decode_pieces(text))
    except NotBase64 as error:
        raise TransientError("Gmail's response contains a message that is not base64") from error
    return whole.getvalue()


def _decode_pieces(text: memoryview) -> Iterator[bytes]:
    """In pieces, so that a large message is not in memory several times."""
    for start in range(0, len(text), _PIECE):
        piece = bytes(text[start : start + _PIECE]).translate(_STANDARD)
        yield b64decode(piece if len(piece) == _PIECE else piece + b"==")


def to_changes(records: Iterable[wire.GmailHistoryRecord]) -> tuple[MessageChange, ...]:
    return message_parsing.combine_changes(change for record in records for change in _record_changes(record))


def _record_changes(record: wire.GmailHistoryRecord) -> Iterator[MessageChange]:
    version = to_version(record.id)
    for item in record.messages_added:
        yield MessageChange(
            item.message.id, Presence.PRESENT, version, ObservedState(thread=item.message.thread_id)
        )
    for item in record.labels_added:
        labels = frozenset(item.label_ids)
        yield MessageChange(
            item.message.id, Presence.PRESENT, version, _label_flags(labels, on=True), labels_added=labels
        )
    for item in record.labels_removed:
        labels = frozenset(item.label_ids)
        yield MessageChange(
            item.message.id, Presence.PRESENT, version, _label_flags(labels, on=False), labels_removed=labels
        )
    for item in record.messages_deleted:
        yield MessageChange(item.message.id, Presence.DELETED, version)


def _label_flags(labels: frozenset[str], *, on: bool) -> ObservedState:
    """The state that added or removed labels imply."""
    return ObservedState(
        is_read=not on if "UNREAD" in labels else None,
        is_flagged=on if "STARRED" in labels else None,
        is_draft=on if "DRAFT" in labels else None,
    )
