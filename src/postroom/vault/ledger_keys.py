"""The key that signs the ledger's seals, Ed25519, and the public halves of all that ever did.

The private key is given by a setting or made in the home at first use. A public half is kept before its key
signs anything, so that what an earlier key signed can be verified after a change of key, and by whoever has
the public halves alone. A key's id is derived from its public half: nobody can give one away to another key.
"""

import base64
import secrets
from collections.abc import Iterable, Mapping
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
    """A key in use."""

    key: Ed25519PrivateKey

    @property
    def id(self) -> str:
        return _key_id(self.key.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        return self.key.sign(data)


@dataclass(frozen=True)
class LedgerKeys:
    """The keys of one home. `given` is the private key of the setting, in place of the one in the file."""

    home: Path
    given: bytes | None = None

    @property
    def private_path(self) -> Path:
        return self.home / PRIVATE

    @property
    def public_path(self) -> Path:
        return self.home / PUBLIC

    def signing(self) -> SigningKey:
        """The key that signs; made where there is none, once for all who ask at the same time."""
        with self._disk(self.private_path):
            value = self.given or next(iter(self._lines(self.private_path)), None) or self._make_private()
        key = Ed25519PrivateKey.from_private_bytes(value)
        self._keep_public(key.public_key().public_bytes_raw())
        return SigningKey(key)

    def check(self, key_id: str, signature: bytes, data: bytes) -> bool | None:
        """Whether a signature is good; None where nobody here knows its key. Makes no key."""
        value = self.public().get(key_id)
        if value is None:
            return None
        try:
            Ed25519PublicKey.from_public_bytes(value).verify(signature, data)
        except InvalidSignature:
            return False
        return True

    def public(self) -> Mapping[str, bytes]:
        """Every public half that is known here, by its id."""
        with self._disk(self.public_path):
            kept = self._lines(self.public_path)
        if self.given is not None:
            kept.append(Ed25519PrivateKey.from_private_bytes(self.given).public_key().public_bytes_raw())
        return {_key_id(value): value for value in kept}

    def _make_private(self) -> bytes:
        with self._disk(self.private_path), private_files.lock(self.private_path):
            found = self._lines(self.private_path)
            if not found:
                found = [secrets.token_bytes(32)]
                private_files.replace(self.private_path, _encode_lines(found))
            return found[0]

    def _keep_public(self, value: bytes) -> None:
        with self._disk(self.public_path):
            if value in self._lines(self.public_path):
                return
            with private_files.lock(self.public_path):
                kept = self._lines(self.public_path)
                if value not in kept:
                    private_files.replace(self.public_path, _encode_lines([*kept, value]))

    def _lines(self, path: Path) -> list[bytes]:
        """The keys in a file, none where there is no file. An empty file is a damaged one."""
        try:
            text, _ = private_files.read(path)
            return [decode_key(line) for line in text.splitlines()] or [decode_key("")]
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise OperatorError(f"{path} {error}. Restore it from a backup.") from None

    def _disk(self, path: Path) -> AbstractContextManager[None]:
        return private_files.disk_errors("The ledger's keys", path, "POSTROOM_LEDGER_KEY")


def _encode_lines(keys: Iterable[bytes]) -> str:
    return "".join(f"{base64.b64encode(each).decode()}\n" for each in keys)


def _key_id(public: bytes) -> str:
    return sha256(public).hexdigest()[:16]
