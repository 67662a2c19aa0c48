"""The keys that make the MACs of ledger entries, derived from the keys that sign the ledger.

Every process that appends entries uses the same key: derived from the first key of the setting, or from the
file in the home directory. A derived key is stored in `ledger.macs` before it makes a MAC. So entries can
still be checked after a change of key, and what is stored is of no use for signing.
"""

import base64
import hmac
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Final

from postroom.errors import OperatorError
from postroom.model import decode_key
from postroom.vault import private_files
from postroom.vault.ledger_keys import LedgerKeys

MACS: Final = "ledger.macs"


class LedgerMacs:
    """The MAC keys of one home directory and its signing keys."""

    def __init__(self, keys: LedgerKeys) -> None:
        self._signing = keys

    @property
    def path(self) -> Path:
        return self._signing.home / MACS

    def load_current(self) -> bytes:
        return self._current

    def load_known(self) -> list[bytes]:
        """All keys that are known here. Creates none."""
        return [*self._read(), *map(_derive, self._signing.list_private())]

    @cached_property
    def _current(self) -> bytes:
        """The key of this process. Read once: a new key takes effect with a restart."""
        key = _derive(self._signing.load_private())
        try:
            self._store(key)
        except OperatorError:
            if not self._signing.configured:
                raise
            # The setting holds the key. A worker, whose home must be writable, stores it.
        return key

    def _store(self, key: bytes) -> None:
        if key in self._read():
            return
        with self._disk(), private_files.lock(self.path):
            stored = self._read()
            if key not in stored:
                private_files.replace(self.path, _encode([*stored, key]))

    def _read(self) -> list[bytes]:
        with self._disk():
            try:
                text, _ = private_files.read(self.path)
                return [decode_key(line) for line in text.splitlines()]
            except FileNotFoundError:
                return []
            except ValueError as error:
                raise OperatorError(f"{self.path} {error}. Restore it from a backup.") from None

    def _disk(self) -> AbstractContextManager[None]:
        remedy = "Give this user access, set POSTROOM_HOME to another directory, or set POSTROOM_LEDGER_KEY."
        return private_files.disk_errors("The ledger's MAC keys", self.path, remedy)


def _derive(private: bytes) -> bytes:
    return hmac.digest(private, b"postroom ledger mac key 1", "sha256")


def _encode(keys: Iterable[bytes]) -> str:
    return "".join(f"{base64.b64encode(key).decode()}\n" for key in keys)
