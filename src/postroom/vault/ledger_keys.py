"""The Ed25519 key that signs the ledger's seals, and the public keys of all keys that ever signed.

The private key comes from a setting, or is created in the home directory at first use. Its public key is
stored before it signs anything: after a change of key, old seals can still be verified, with the public keys
alone. A key's id is derived from its public key, so no other key can claim it. What is signed is decided in
`flow.ledger.seal`.
"""

import base64
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from postroom.errors import OperatorError
from postroom.model import decode_key
from postroom.vault import private_files

PRIVATE: Final = "ledger.key"
PUBLIC: Final = "ledger.public"


@dataclass(frozen=True)
class SigningKey:
    """The private key that signs."""

    key: Ed25519PrivateKey

    @property
    def id(self) -> str:
        return _key_id(self.key.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        return self.key.sign(data)


@dataclass(frozen=True)
class LedgerKeys:
    """The keys of one home directory. `configured` are the setting's private keys; they replace the file.

    The first signs. The others are earlier keys, or those of other processes during a change of key.
    """

    home: Path
    configured: Sequence[bytes] = ()

    @property
    def private_path(self) -> Path:
        return self.home / PRIVATE

    @property
    def public_path(self) -> Path:
        return self.home / PUBLIC

    def load_signing_key(self) -> SigningKey:
        """The key that signs. Creates it if there is none; concurrent processes get the same key."""
        key = Ed25519PrivateKey.from_private_bytes(self.load_private())
        self._store_public(key.public_key().public_bytes_raw())
        return SigningKey(key)

    def load_private(self) -> bytes:
        """The current private key. Creates it if there is none."""
        return next(iter(self.list_private()), None) or self._create_private()

    def list_private(self) -> Sequence[bytes]:
        """The private keys that are known here, the current one first. Creates none."""
        if self.configured:
            return self.configured
        with self._disk(self.private_path):
            return self._lines(self.private_path)

    def check(self, key_id: str, signature: bytes, data: bytes) -> bool | None:
        """Whether a signature is valid; None if its key is unknown here. Creates no key."""
        value = self.public().get(key_id)
        if value is None:
            return None
        try:
            Ed25519PublicKey.from_public_bytes(value).verify(signature, data)
        except InvalidSignature:
            return False
        return True

    def public(self) -> Mapping[str, bytes]:
        """All known public keys, by id."""
        with self._disk(self.public_path):
            stored = self._lines(self.public_path)
        for private in self.configured:
            stored.append(Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())
        return {_key_id(value): value for value in stored}

    def _create_private(self) -> bytes:
        with self._disk(self.private_path), private_files.lock(self.private_path):
            keys = self._lines(self.private_path)
            if not keys:
                keys = [secrets.token_bytes(32)]
                private_files.replace(self.private_path, _encode_lines(keys))
            return keys[0]

    def _store_public(self, value: bytes) -> None:
        with self._disk(self.public_path):
            if value in self._lines(self.public_path):
                return
            with private_files.lock(self.public_path):
                stored = self._lines(self.public_path)
                if value not in stored:
                    private_files.replace(self.public_path, _encode_lines([*stored, value]))

    def _lines(self, path: Path) -> list[bytes]:
        """The keys in a file; none if it does not exist. An empty file is damaged."""
        try:
            text, _ = private_files.read(path)
            return [decode_key(line) for line in text.splitlines()] or [decode_key("")]
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise OperatorError(f"{path} {error}. Restore it from a backup.") from None

    def _disk(self, path: Path) -> AbstractContextManager[None]:
        remedy = "Give this user access, set POSTROOM_HOME to another directory, or set POSTROOM_LEDGER_KEY."
        return private_files.disk_errors("The ledger's keys", path, remedy)


def _encode_lines(keys: Iterable[bytes]) -> str:
    return "".join(f"{base64.b64encode(key).decode()}\n" for key in keys)


def _key_id(public: bytes) -> str:
    return sha256(public).hexdigest()[:16]
