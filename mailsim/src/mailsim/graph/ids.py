"""Exchange's ids for messages, attachments, folders and conversations, made from numbers and read back.

A mutable id names the folder a message lies in and when it came there, so it changes with every move; an
immutable id does not. Both carry a checksum: an id with one letter in the wrong case is no id.
"""

import base64
import binascii
import zlib
from dataclasses import dataclass
from hashlib import blake2b

from mailsim.mailbox import Mailbox
from mailsim.state import Change

_MUTABLE = b"\x00\x03\x24\x00"
_FOLDER = b"\x01\x03\x24\x00"
_CONVERSATION = b"\x00\x04\x24\x00"
_IMMUTABLE = bytes.fromhex("0009002e00000000001d840311aa6611cd9bc800aa002fc45a0d00")
_ENTRY = bytes(4)
_ATTACHMENT = b"\x01\x12\x00\x10\x00"
_END = b"\x00\x00\x00"
_HEAD = 42  # bytes before the numbers; a multiple of 3, so that their text never changes
FORMATS = ("entryId", "ewsId", "immutableEntryId", "restId", "restImmutableEntryId")


@dataclass(frozen=True, slots=True)
class Named:
    """What an id says: the message; a mutable one also its folder (hashed) and when it came there."""

    number: int
    folder: bytes = b""
    arrival: int = 0
    immutable: bool = False


class MalformedIdError(Exception):
    """The text cannot be an id of this mailbox at all."""


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _bytes(text: str) -> bytes:
    """Only the canonical spelling counts."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii"))
    except (ValueError, binascii.Error) as error:
        raise MalformedIdError from error
    if _text(data) != text:
        raise MalformedIdError
    return data


class Ids:
    """The ids of one mailbox. Listens to its changes, to know where each moved message came from and when."""

    def __init__(self, mailbox: Mailbox, user_id: str) -> None:
        self._mailbox = mailbox
        self._mutable = _MUTABLE + user_id.encode() + b"\x00\x46"
        self._immutable = _IMMUTABLE + blake2b(user_id.encode(), digest_size=_HEAD - len(_IMMUTABLE)).digest()
        self._folder_head = _FOLDER + user_id.encode() + b"\x00\x2e"
        self._conversation_head = _CONVERSATION + user_id.encode() + b"\x00\x10"
        self._mutable_text = _text(self._mutable)
        self._immutable_text = _text(self._immutable)
        self._arrivals: dict[
            int, int
        ] = {}  # message number -> sequence of the move that brought it where it is
        self._left: dict[int, int] = {}  # sequence of a move -> arrival before it
        self._keys: dict[str, str] = {}  # folder id -> key
        self._folders: dict[str, str] = {}  # key -> folder id
        self._hashes: dict[str, bytes] = {}
        mailbox.listeners.insert(0, self._moved)  # before those who tell others of it

    def _moved(self, _mailbox: Mailbox, change: Change) -> None:
        if (
            change.kind == "changed"
            and change.before
            and change.after
            and change.before.places != change.after.places
        ):
            self._left[change.sequence] = self._arrivals.get(change.number, 0)
            self._arrivals[change.number] = change.sequence

    # Messages

    def message(self, number: int, folder: str, *, immutable: bool) -> str:
        """The id of a message as it lies in that folder now."""
        if immutable:
            return self.immutable(number)
        return self._mutable_id(number, folder, self._arrivals.get(number, 0))

    def immutable(self, number: int) -> str:
        data = number.to_bytes(6, "big")
        check = zlib.crc32(data, zlib.crc32(self._immutable)).to_bytes(4, "big")
        return self._immutable_text + _text(data + check + bytes(4))

    def left(self, change: Change, *, immutable: bool) -> str:
        """The id that a message had in the folder which it left by this change."""
        assert change.before is not None
        if immutable:
            return self.immutable(change.number)
        arrival = self._left.get(change.sequence, self._arrivals.get(change.number, 0))
        return self._mutable_id(change.number, change.before.folder, arrival)

    def _mutable_id(self, number: int, folder: str, arrival: int) -> str:
        data = self._hash(folder)[:4] + number.to_bytes(6, "big") + arrival.to_bytes(6, "big")
        check = zlib.crc32(data, zlib.crc32(self._mutable)).to_bytes(4, "big")
        return self._mutable_text + _text(data + check + _END)

    def read_message(self, text: str) -> int | None:
        """The number that an id of either form names; None when the message moved on, or is gone."""
        named = self._read(_bytes(text))
        state = self._mailbox.state(named.number)
        if state is None:
            return None
        if named.immutable:
            return named.number
        here = self._hash(state.folder)[:4] == named.folder
        return named.number if here and self._arrivals.get(named.number, 0) == named.arrival else None

    def _read(self, data: bytes) -> Named:
        head, rest = data[:_HEAD], data[_HEAD:]
        if head == self._mutable and len(rest) == 23 and rest[20:] == _END:
            body, check = rest[:16], rest[16:20]
            if zlib.crc32(body, zlib.crc32(head)).to_bytes(4, "big") == check:
                return Named(int.from_bytes(body[4:10], "big"), body[:4], int.from_bytes(body[10:], "big"))
        if head == self._immutable and len(rest) == 14 and rest[10:] == bytes(4):
            body, check = rest[:6], rest[6:10]
            if zlib.crc32(body, zlib.crc32(head)).to_bytes(4, "big") == check:
                return Named(int.from_bytes(body, "big"), immutable=True)
        raise MalformedIdError

    # Attachments

    def attachment(self, message_id: str, place: int) -> str:
        """`place` counts the attachments of a message in the order in which they stand."""
        data = _bytes(message_id)
        body = place.to_bytes(2, "big")
        digest = blake2b(data + body, digest_size=14).digest()
        return _text(data + _ATTACHMENT + body + digest)

    def read_attachment(self, text: str) -> tuple[int, int]:
        """(message number, place). Raises when the text is no attachment id of this mailbox."""
        data = _bytes(text)
        message, tail = data[: -len(_ATTACHMENT) - 16], data[-len(_ATTACHMENT) - 16 :]
        body = tail[len(_ATTACHMENT) : len(_ATTACHMENT) + 2]
        expected = blake2b(message + body, digest_size=14).digest()
        if not tail.startswith(_ATTACHMENT) or tail[len(_ATTACHMENT) + 2 :] != expected:
            raise MalformedIdError
        return self._read(message).number, int.from_bytes(body, "big")

    # Folders and conversations

    def folder(self, key: str) -> str:
        found = self._folders.get(key)
        if found is None:
            found = self._folders[key] = _text(self._folder_head + self._hash(key) + b"\x00\x00\x00")
            self._keys[found] = key
        return found

    def read_folder(self, text: str) -> str | None:
        """The key of an existing folder; None for a well-formed id of none. Raises for anything else."""
        for key in self._mailbox.folders:
            self.folder(key)
        known = self._keys.get(text)
        if known is not None:
            return known if known in self._mailbox.folders else None
        if not _bytes(text).startswith(self._folder_head):
            raise MalformedIdError
        return None

    def conversation(self, root: int) -> str:
        digest = blake2b(root.to_bytes(6, "big"), key=self._mutable[:40], digest_size=16).digest()
        return _text(self._conversation_head + digest)

    def _hash(self, key: str) -> bytes:
        found = self._hashes.get(key)
        if found is None:
            found = self._hashes[key] = blake2b(key.encode(), key=self._mutable[:40], digest_size=8).digest()
        return found

    # Other spellings

    def translate(self, text: str, source: str, target: str) -> str | None:
        """One id in another format; None when it is none of this mailbox's, or its message is gone."""
        try:
            data = _bytes(text.replace("/", "-").replace("+", "_"))
            named = self._read(data.removeprefix(_ENTRY) if source == "entryId" else data)
        except MalformedIdError:
            return None
        state = self._mailbox.state(named.number)
        if state is None or named.immutable != (source in {"immutableEntryId", "restImmutableEntryId"}):
            return None
        new = self.message(
            named.number, state.folder, immutable=target in {"immutableEntryId", "restImmutableEntryId"}
        )
        if target == "entryId":
            return _text(_ENTRY + _bytes(new))
        return new if target.startswith("rest") else new.replace("-", "/").replace("_", "+")
