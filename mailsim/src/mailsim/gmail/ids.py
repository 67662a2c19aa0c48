"""Gmail's identifiers, made from a mailbox's message numbers and change sequence, and read back without a
table.

Message ids are scattered over 60 bits; history ids rise with random gaps; page tokens and attachment ids
are opaque.
"""

import base64
import re
import struct
from dataclasses import dataclass
from hashlib import blake2b

_HEX = re.compile("[0-9a-fA-F]{1,16}")
_SPACE = 1 << 60
_TOP = 1 << 60  # ids have 16 hex digits and begin with a 1
_MASK = (1 << 64) - 1
_GAP = 37
_STOCK_GAP = 11
_ATTACHMENT = struct.Struct(">IIQI")
_TAG = 16
_PADDING = 96  # real attachment ids are long: a client must not cut them


def _mix(value: int) -> int:
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


@dataclass(frozen=True, slots=True)
class GmailIds:
    """The identifiers of one mailbox: `key` is its own 64-bit number, `stock` how much mail it was
    created with.
    """

    key: int
    stock: int
    factor: int
    inverse: int
    shift: int
    first_history: int

    def message(self, number: int) -> str:
        return f"{_TOP | (number * self.factor + self.shift) % _SPACE:x}"

    def number(self, message_id: str) -> int:
        """The message number that this id could belong to; the mailbox may have none of that number."""
        return (int(message_id, 16) - _TOP - self.shift) * self.inverse % _SPACE

    def history(self, sequence: int) -> int:
        return self.first_history + sequence * _GAP + _mix(self.key ^ sequence) % (_GAP - 1)

    def sequence(self, history_id: int) -> int:
        """The newest change whose id is not above this one; negative when it lies before the mailbox's
        log.
        """
        guess = (history_id - self.first_history) // _GAP
        return guess if guess >= 0 and self.history(guess) <= history_id else guess - 1

    def untouched(self, number: int) -> int:
        """The history id of a message of the stock that nothing has changed since."""
        return 1_000 + number * _STOCK_GAP + _mix(self.key + number) % (_STOCK_GAP - 1)

    def draft(self, draft_key: int) -> str:
        return f"r{(draft_key * self.factor ^ self.shift) % _SPACE}"

    def draft_key(self, draft_id: str) -> int | None:
        digits = draft_id[1:]
        if not draft_id.startswith("r") or not digits.isascii() or not digits.isdigit() or len(digits) > 19:
            return None
        return (int(digits) ^ self.shift) * self.inverse % _SPACE

    def page(self, place: int) -> str:
        return f"{place * 1_000_000 + _mix(self.key ^ place) % 1_000_000:020d}"

    def place(self, token: str) -> int | None:
        if not (token.isascii() and token.isdigit() and len(token) <= 24):
            return None
        place, check = divmod(int(token), 1_000_000)
        return place if check == _mix(self.key ^ place) % 1_000_000 else None

    def attachment(self, number: int, part: int, milliseconds: int, turn: int) -> str:
        """Another text on every call: `turn` is a counter of the caller."""
        plain = _ATTACHMENT.pack(number, part, milliseconds, turn & 0xFFFFFFFF)
        tag = blake2b(plain, digest_size=_TAG, key=self.key.to_bytes(8, "big")).digest()
        stream = blake2b(tag, digest_size=_ATTACHMENT.size, key=b"attachment").digest()
        hidden = bytes(a ^ b for a, b in zip(plain, stream, strict=True))
        noise = blake2b(hidden, digest_size=48).digest() * (_PADDING // 48)
        return "ANGjdJ" + base64.urlsafe_b64encode(tag + hidden + noise).decode().rstrip("=")

    def open_attachment(self, token: str) -> tuple[int, int, int] | None:
        """Message number, part and minting time of an attachment id; None for one that is not ours."""
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


def make_ids(key: int, stock: int) -> GmailIds:
    factor = _mix(key) % _SPACE | 1
    return GmailIds(
        key=key,
        stock=stock,
        factor=factor,
        inverse=pow(factor, -1, _SPACE),
        shift=_mix(key ^ 0x5A5A) % _SPACE,
        first_history=100_000 + stock * _STOCK_GAP + key % 1_000_000,
    )


def is_message_id(text: str) -> bool:
    """Gmail says 400 to what cannot be an id, 404 to an id that it does not have."""
    return _HEX.fullmatch(text) is not None and int(text, 16) < 1 << 63
