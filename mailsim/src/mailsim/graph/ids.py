"""Exchange's IDs of messages, attachments, folders and conversations: made from numbers, and parsed.

A mutable message ID contains the folder and the move that brought the message there, so it changes with every
move; an immutable ID does not. Both have a checksum, so an ID with one character in another case is invalid.
"""

import base64
import binascii
import zlib
from dataclasses import dataclass
from hashlib import blake2b

from mailsim.mailbox import Mailbox
from mailsim.message_state import MailboxChange

_MUTABLE = b"\x00\x03\x24\x00"
_FOLDER = b"\x01\x03\x24\x00"
_CONVERSATION = b"\x00\x04\x24\x00"
_IMMUTABLE = bytes.fromhex("0009002e00000000001d840311aa6611cd9bc800aa002fc45a0d00")
_ENTRY = bytes(4)
_ATTACHMENT = b"\x01\x12\x00\x10\x00"
_END = b"\x00\x00\x00"
_HEAD = 42  # bytes before the numbers; a multiple of 3, so that their base64 is constant
FORMATS = ("entryId", "ewsId", "immutableEntryId", "restId", "restImmutableEntryId")


@dataclass(frozen=True, slots=True)
class DecodedMessageId:
    """A parsed message ID; a mutable one also contains the hashed folder and the arrival there."""

    number: int
    folder: bytes = b""
    arrival: int = 0
    immutable: bool = False


class MalformedIdError(Exception):
    """The text is not a well-formed ID of this mailbox."""


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _decode(text: str) -> bytes:
    """Decode base64 and reject any spelling but the canonical one."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii"))
    except (ValueError, binascii.Error) as error:
        raise MalformedIdError from error
    if _encode(data) != text:
        raise MalformedIdError
    return data


class GraphIds:
    """The IDs of one mailbox. It listens to changes, because mutable IDs depend on the last move."""

    def __init__(self, mailbox: Mailbox, user_id: str) -> None:
        self.user_id = user_id
        self.mailbox = mailbox
        self._mutable = _MUTABLE + user_id.encode() + b"\x00\x46"
        self._immutable = _IMMUTABLE + blake2b(user_id.encode(), digest_size=_HEAD - len(_IMMUTABLE)).digest()
        self._folder_head = _FOLDER + user_id.encode() + b"\x00\x2e"
        self._conversation_head = _CONVERSATION + user_id.encode() + b"\x00\x10"
        self._mutable_text = _encode(self._mutable)
        self._immutable_text = _encode(self._immutable)
        self.arrivals: dict[
            int, int
        ] = {}  # message number -> sequence of the move that brought it where it is
        self.former_arrivals: dict[int, int] = {}  # sequence of a move -> arrival before it
        self._keys: dict[str, str] = {}  # folder ID -> key
        self._folders: dict[str, str] = {}  # key -> folder ID
        self._hashes: dict[str, bytes] = {}
        self.removed: dict[int, set[int]] = {}  # message number -> places of deleted attachments
        mailbox.listeners.insert(0, self._record_move)  # before the listeners that send notifications

    def _record_move(self, _mailbox: Mailbox, change: MailboxChange) -> None:
        if (
            change.kind == "changed"
            and change.before
            and change.after
            and change.before.folder_keys != change.after.folder_keys
        ):
            self.former_arrivals[change.sequence] = self.arrivals.get(change.number, 0)
            self.arrivals[change.number] = change.sequence

    # Messages

    def message_id(self, number: int, folder: str, *, immutable: bool) -> str:
        """Return the ID of a message that is in this folder now."""
        if immutable:
            return self.immutable_message_id(number)
        return self._mutable_id(number, folder, self.arrivals.get(number, 0))

    def immutable_message_id(self, number: int) -> str:
        data = number.to_bytes(6, "big")
        check = zlib.crc32(data, zlib.crc32(self._immutable)).to_bytes(4, "big")
        return self._immutable_text + _encode(data + check + bytes(4))

    def former_message_id(self, change: MailboxChange, *, immutable: bool) -> str:
        """Return the ID that a message had in the folder it left with this change."""
        assert change.before is not None
        if immutable:
            return self.immutable_message_id(change.number)
        arrival = self.former_arrivals.get(change.sequence, self.arrivals.get(change.number, 0))
        return self._mutable_id(change.number, change.before.folder, arrival)

    def _mutable_id(self, number: int, folder: str, arrival: int) -> str:
        data = self._hash(folder)[:4] + number.to_bytes(6, "big") + arrival.to_bytes(6, "big")
        check = zlib.crc32(data, zlib.crc32(self._mutable)).to_bytes(4, "big")
        return self._mutable_text + _encode(data + check + _END)

    def parse_message_id(self, text: str) -> int | None:
        """Return the message number of an ID, or None if the message was moved since or is deleted."""
        decoded = self._parse(_decode(text))
        state = self.mailbox.state(decoded.number)
        if state is None:
            return None
        if decoded.immutable:
            return decoded.number
        in_same_folder = self._hash(state.folder)[:4] == decoded.folder
        return (
            decoded.number
            if in_same_folder and self.arrivals.get(decoded.number, 0) == decoded.arrival
            else None
        )

    def _parse(self, data: bytes) -> DecodedMessageId:
        head, rest = data[:_HEAD], data[_HEAD:]
        if head == self._mutable and len(rest) == 23 and rest[20:] == _END:
            body, check = rest[:16], rest[16:20]
            if zlib.crc32(body, zlib.crc32(head)).to_bytes(4, "big") == check:
                return DecodedMessageId(
                    int.from_bytes(body[4:10], "big"), body[:4], int.from_bytes(body[10:], "big")
                )
        if head == self._immutable and len(rest) == 14 and rest[10:] == bytes(4):
            body, check = rest[:6], rest[6:10]
            if zlib.crc32(body, zlib.crc32(head)).to_bytes(4, "big") == check:
                return DecodedMessageId(int.from_bytes(body, "big"), immutable=True)
        raise MalformedIdError

    # Attachments

    def attachment_id(self, message_id: str, position: int) -> str:
        """Return an attachment ID; `position` counts the attachments of the message."""
        data = _decode(message_id)
        body = self._get_place(self._parse(data).number, position).to_bytes(2, "big")
        digest = blake2b(data + body, digest_size=14).digest()
        return _encode(data + _ATTACHMENT + body + digest)

    def remove_attachment(self, number: int, position: int) -> None:
        """Record a deletion: the IDs of the other attachments stay the same."""
        self.removed.setdefault(number, set()).add(self._get_place(number, position))

    def _get_place(self, number: int, position: int) -> int:
        """Return the position among all attachments that the message ever had."""
        place = position
        for removed in sorted(self.removed.get(number, ())):
            place += removed <= place
        return place

    def parse_attachment_id(self, text: str) -> tuple[int, int | None]:
        """Return (message number, position), the position None for a deleted attachment.

        Raises if the text is not an attachment ID of this mailbox.
        """
        data = _decode(text)
        message, tail = data[: -len(_ATTACHMENT) - 16], data[-len(_ATTACHMENT) - 16 :]
        body = tail[len(_ATTACHMENT) : len(_ATTACHMENT) + 2]
        expected = blake2b(message + body, digest_size=14).digest()
        if not tail.startswith(_ATTACHMENT) or tail[len(_ATTACHMENT) + 2 :] != expected:
            raise MalformedIdError
        number, place = self._parse(message).number, int.from_bytes(body, "big")
        removed = self.removed.get(number, set())
        return number, None if place in removed else place - sum(other < place for other in removed)

    # Folders and conversations

    def folder_id(self, key: str) -> str:
        folder_id = self._folders.get(key)
        if folder_id is None:
            folder_id = self._folders[key] = _encode(self._folder_head + self._hash(key) + b"\x00\x00\x00")
            self._keys[folder_id] = key
        return folder_id

    def parse_folder_id(self, text: str) -> str | None:
        """Return the key of a folder, or None if the ID is valid but the folder does not exist."""
        for folder_key in self.mailbox.folders:
            self.folder_id(folder_key)
        key = self._keys.get(text)
        if key is not None:
            return key if key in self.mailbox.folders else None
        if not _decode(text).startswith(self._folder_head):
            raise MalformedIdError
        return None

    def conversation_id(self, root: int) -> str:
        digest = blake2b(root.to_bytes(6, "big"), key=self._mutable[:40], digest_size=16).digest()
        return _encode(self._conversation_head + digest)

    def _hash(self, key: str) -> bytes:
        digest = self._hashes.get(key)
        if digest is None:
            digest = self._hashes[key] = blake2b(key.encode(), key=self._mutable[:40], digest_size=8).digest()
        return digest

    # Other formats

    def translate(self, text: str, source: str, target: str) -> str | None:
        """Return an ID in another format, or None if it is not of this mailbox or the message is deleted."""
        try:
            data = _decode(text.replace("/", "-").replace("+", "_"))
            decoded = self._parse(data.removeprefix(_ENTRY) if source == "entryId" else data)
        except MalformedIdError:
            return None
        state = self.mailbox.state(decoded.number)
        if state is None or decoded.immutable != (source in {"immutableEntryId", "restImmutableEntryId"}):
            return None
        new = self.message_id(
            decoded.number, state.folder, immutable=target in {"immutableEntryId", "restImmutableEntryId"}
        )
        if target == "entryId":
            return _encode(_ENTRY + _decode(new))
        return new if target.startswith("rest") else new.replace("-", "/").replace("_", "+")
