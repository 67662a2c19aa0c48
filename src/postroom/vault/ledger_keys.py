"""The Ed25519 key that signs the ledger's seals, and the public keys of all keys that ever signed.

The private key comes from a setting, or is created in the home directory at first use. Its public key is
stored before it signs anything: after a change of key, old seals can still be verified, with the public keys
alone. A key's id is derived from its public key, so no other key can claim it. What is signed is decided in
`flow.ledger.seal`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from postroom.vault.key_lines import KeyLines

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

    def load_signing_key(self) -> SigningKey:
        """The key that signs. Creates it if there is none; concurrent processes get the same key."""
        key = Ed25519PrivateKey.from_private_bytes(self.load_private())
        KeyLines(self.home / PUBLIC).add(key.public_key().public_bytes_raw())
        return SigningKey(key)

    def load_private(self) -> bytes:
        """The current private key. Creates it if there is none."""
        return next(iter(self.list_private()), None) or KeyLines(self.home / PRIVATE).create_first()

    def list_private(self) -> Sequence[bytes]:
        """The private keys that are known here, the current one first. Creates none."""
        return self.configured or KeyLines(self.home / PRIVATE).read()

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
        stored = KeyLines(self.home / PUBLIC).read()
        for private in self.configured:
            stored.append(Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())
        return {_key_id(value): value for value in stored}


def _key_id(public: bytes) -> str:
    return sha256(public).hexdigest()[:16]
