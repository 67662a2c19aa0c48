"""Sealer: encrypts and decrypts small secrets with AES-256-GCM, bound to a context.

A value that was copied to another row does not open. A sealed value consists of a format byte, a random
nonce of 12 bytes, and the ciphertext with its tag. `keys` has the keys.
"""

import secrets
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from postroom.errors import SecretUnreadable
from postroom.model import Secret
from postroom.ports import SealedSecret
from postroom.vault.keys import KeySource

FORMAT: Final = b"\x01"
NONCE_BYTES: Final = 12


@dataclass(frozen=True)
class Sealer:
    keys: KeySource

    def seal(self, context: str, secret: Secret) -> SealedSecret:
        """Encrypt with the first key. The context names the value's purpose and the row it belongs to."""
        key = self.keys.first()
        nonce = secrets.token_bytes(NONCE_BYTES)
        ciphertext = AESGCM(key.value).encrypt(
            nonce, secret.reveal().encode(), _associated_data(key.id, context)
        )
        return SealedSecret(key.id, FORMAT + nonce + ciphertext)

    def open(self, context: str, sealed: SealedSecret) -> Secret:
        key = self.keys.find(sealed.key_id)
        if key is None:
            raise SecretUnreadable(
                f"The vault lacks the key {sealed.key_id!a}, which sealed a value in the database."
                f" Restore it in {self.keys.source} from a backup or another machine,"
                " or reconnect the affected mailboxes."
            )
        if sealed.value[:1] != FORMAT:
            raise SecretUnreadable(
                "A sealed value in the database has a format that this version of Postroom does not support."
                " Install the version that wrote it."
            )
        nonce, ciphertext = sealed.value[1 : 1 + NONCE_BYTES], sealed.value[1 + NONCE_BYTES :]
        try:
            opened = AESGCM(key.value).decrypt(nonce, ciphertext, _associated_data(key.id, context))
        except (InvalidTag, ValueError):
            raise SecretUnreadable(
                f"A sealed value in the database cannot be decrypted with key {key.id!a}: it was changed or"
                " copied from another row, or the key ID refers to a different key. Restore it, or reconnect"
                " the mailbox."
            ) from None
        return Secret(opened.decode())


def _associated_data(key_id: str, context: str) -> bytes:
    """The associated data. No part before the context contains a NUL, so contexts are unambiguous."""
    return b"\0".join([b"postroom vault", FORMAT, key_id.encode(), context.encode()])
