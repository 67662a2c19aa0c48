"""Gmail's IDs, derived from message numbers and change sequence numbers, reversible without a table.

A message ID is the time of arrival in milliseconds and 20 more bits, so IDs sort by time. History IDs
increase with random gaps. Page tokens and attachment IDs are opaque.
"""

import base64
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

_HEX = re.compile("[0-9a-fA-F]{1,16}")
_SPACE = 1 << 60
_PER_MILLISECOND = 1 << 20  # message IDs
_MASK = (1 << 64) - 1
_GAP = 37
_INITIAL_GAP = 11
_ATTACHMENT = struct.Struct(">IIQI")
_TAG = 16
_PADDING = 96  # real attachment IDs are long; clients must not truncate them


def _mix(value: int) -> int:
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


@dataclass(frozen=True, slots=True)
class GmailIds:
    """The IDs of one mailbox.

    `key` is its 64-bit key, `initial_count` the size of its initial mail. `received_ms` gives the arrival of
    a message, `count` how many numbers were assigned.
    """

    key: int
    initial_count: int
    factor: int
    inverse: int
    shift: int
    first_history: int
    received_ms: Callable[[int], int]
    count: Callable[[], int]

    def to_message_id(self, number: int) -> str:
        low = (number + self.shift) % _PER_MILLISECOND
        return f"{max(self.received_ms(number), 0) * _PER_MILLISECOND + low:016x}"

    def to_number(self, message_id: str) -> int:
        """Return the number that an ID encodes, -1 if it is of no message."""
        milliseconds, low = divmod(int(message_id, 16), _PER_MILLISECOND)
        first = (low - self.shift) % _PER_MILLISECOND
        for number in range(first, self.count(), _PER_MILLISECOND):
            if max(self.received_ms(number), 0) == milliseconds:
                return number
        return -1

    def to_history_id(self, sequence: int) -> int:
        return self.first_history + sequence * _GAP + _mix(self.key ^ sequence) % (_GAP - 1)

    def to_sequence(self, history_id: int) -> int:
        """Return the newest change whose ID is at most this one.

        The arrivals of initial messages have the numbers from `1 - initial_count` to 0. The result is lower
        if the ID predates them.
        """
        guess = (history_id - self.first_history) // _GAP
        if guess >= 0 and self.to_history_id(guess) > history_id:
            guess -= 1
        if guess >= 0:
            return guess
        number = min((history_id - 1_000) // _INITIAL_GAP, self.initial_count - 1)
        if number >= 0 and self.to_initial_history_id(number) > history_id:
            number -= 1
        return (number if number >= 0 else -2) - self.initial_count + 1

    def to_initial_history_id(self, number: int) -> int:
        """Return the history ID of an initial message that has not changed."""
        return 1_000 + number * _INITIAL_GAP + _mix(self.key + number) % (_INITIAL_GAP - 1)

    def to_draft_id(self, draft_key: int) -> str:
        return f"r{(draft_key * self.factor ^ self.shift) % _SPACE}"

    def to_draft_key(self, draft_id: str) -> int | None:
        digits = draft_id[1:]
        if not draft_id.startswith("r") or not digits.isascii() or not digits.isdigit() or len(digits) > 19:
            return None
        return (int(digits) ^ self.shift) * self.inverse % _SPACE

    def to_page_token(self, position: int) -> str:
        return f"{position * 1_000_000 + _mix(self.key ^ position) % 1_000_000:020d}"

    def from_page_token(self, token: str) -> int | None:
        if not (token.isascii() and token.isdigit() and len(token) <= 24):
            return None
        position, check = divmod(int(token), 1_000_000)
        return position if check == _mix(self.key ^ position) % 1_000_000 else None

    def make_attachment_id(self, number: int, part: int, milliseconds: int, nonce: int) -> str:
        """Make an attachment ID, a new one on every call: `nonce` is the caller's counter."""
        plain = _ATTACHMENT.pack(number, part, milliseconds, nonce & 0xFFFFFFFF)
        tag = blake2b(plain, digest_size=_TAG, key=self.key.to_bytes(8, "big")).digest()
        stream = blake2b(tag, digest_size=_ATTACHMENT.size, key=b"attachment").digest()
        hidden = bytes(a ^ b for a, b in zip(plain, stream, strict=True))
        noise = blake2b(hidden, digest_size=48).digest() * (_PADDING // 48)
        return "ANGjdJ" + base64.urlsafe_b64encode(tag + hidden + noise).decode().rstrip("=")

    def parse_attachment_id(self, token: str) -> tuple[int, int, int] | None:
        """Return message number, part and creation time of an attachment ID.

        Return None if it is invalid.
        """
        try:
            data = base64.urlsafe_b64decode(token.removeprefix("ANGjdJ") + "===")
        except ValueError:
            return None
        tag, hidden = data[:_TAG], data[_TAG : _TAG + _ATTACHMENT.size]
        if len(hidden) != _ATTACHMENT.size:
            return None
        stream = blake2b(tag, digest_size=_ATTACHMENT.size, key=b"attachment").digest()
        plain = bytes(a ^ b for a, b in zip(hidden, stream, strict=True))
        if blake2b(plain, digest_size=_TAG, key=self.key.to_bytes(8, "big")).digest() != tag:
            return None
        number, part, milliseconds, _ = _ATTACHMENT.unpack(plain)
        return number, part, milliseconds


def make_ids(
    key: int, initial_count: int, received_ms: Callable[[int], int], count: Callable[[], int]
) -> GmailIds:
    factor = _mix(key) % _SPACE | 1
    return GmailIds(
        key=key,
        initial_count=initial_count,
        factor=factor,
        inverse=pow(factor, -1, _SPACE),
        shift=_mix(key ^ 0x5A5A) % _SPACE,
        first_history=100_000 + initial_count * _INITIAL_GAP + key % 1_000_000,
        received_ms=received_ms,
        count=count,
    )


def is_message_id(text: str) -> bool:
    """Whether the text has the form of an ID.

    Gmail answers 400 to malformed, 404 to unknown IDs.
    """
    return _HEX.fullmatch(text) is not None and int(text, 16) < 1 << 63
