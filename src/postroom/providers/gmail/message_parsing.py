"""Gmail's messages and history as the domain knows them. Pure."""

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

# The snippet is a piece of the body: it is never asked for.
MINIMAL: Final = "id,threadId,labelIds,historyId,internalDate,sizeEstimate"
METADATA: Final = f"{MINIMAL},payload(mimeType,headers)"
RAW: Final = f"{MINIMAL},raw"
_DIGITS: Final = 20  # of the largest number of 64 bits
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_PIECE: Final = 4 * 2**18  # characters; four of them are three bytes


def to_version(history_id: str) -> str:
    """History ids rise; with zeros before them they do so as texts too."""
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
    letter = (
        _parse_payload(message)
        if message.payload is not None
        else message_parsing.parse_message(decode_raw(message))
    )
    return FetchedMessage(message.id, to_version(message.history_id), to_state(message), letter)


def _parse_payload(message: wire.GmailMessage) -> MessageContent:
    """Of a message without its body only its outermost type tells whether something is attached."""
    payload = message.payload or wire.GmailPayload()
    return replace(
        message_parsing.parse_headers((each.name, each.value) for each in payload.headers),
        size=message.size_estimate,
        has_attachments=payload.mime_type.lower() == "multipart/mixed",
    )


def decode_raw(message: wire.GmailMessage) -> bytes:
    """base64url, whose padding is not dependable, straight from the bytes of the answer."""
    text = memoryview(message.raw)[1:-1]
    if re.search(rb"\\", text):
        text = memoryview(msgspec.json.decode(message.raw, type=str).encode())
    whole = BytesIO()
    try:
        whole.writelines(_decode_pieces(text))
    except NotBase64 as error:
        raise TransientError("Gmail's answer holds a message that is not base64") from error
    return whole.getvalue()


def _decode_pieces(text: memoryview) -> Iterator[bytes]:
    """Piece by piece: a large message is not there several times over."""
    for start in range(0, len(text), _PIECE):
        piece = bytes(text[start : start + _PIECE]).translate(_STANDARD)
        yield b64decode(piece if len(piece) == _PIECE else piece + b"==")


def to_changes(records: Iterable[wire.GmailHistoryRecord]) -> tuple[MessageChange, ...]:
    return message_parsing.combine_changes(change for record in records for change in _record_changes(record))


def _record_changes(record: wire.GmailHistoryRecord) -> Iterator[MessageChange]:
    number = to_version(record.id)
    for each in record.messages_added:
        yield MessageChange(
            each.message.id, Presence.PRESENT, number, ObservedState(thread=each.message.thread_id)
        )
    for each in record.labels_added:
        labels = frozenset(each.label_ids)
        yield MessageChange(
            each.message.id, Presence.PRESENT, number, _label_flags(labels, on=True), labels_added=labels
        )
    for each in record.labels_removed:
        labels = frozenset(each.label_ids)
        yield MessageChange(
            each.message.id, Presence.PRESENT, number, _label_flags(labels, on=False), labels_removed=labels
        )
    for each in record.messages_deleted:
        yield MessageChange(each.message.id, Presence.DELETED, number)


def _label_flags(labels: frozenset[str], *, on: bool) -> ObservedState:
    """What labels that came or went say about a message."""
    return ObservedState(
        is_read=not on if "UNREAD" in labels else None,
        is_flagged=on if "STARRED" in labels else None,
        is_draft=on if "DRAFT" in labels else None,
    )
