"""Files of the ledger's keys in the home directory: one key in base64 per line, readable by the owner only.

Writers take a lock and replace the file atomically; readers need no lock.
"""

import secrets
from base64 import b64encode
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from postroom.errors import OperatorError
from postroom.model import decode_key
from postroom.vault import private_files


@dataclass(frozen=True)
class KeyLines:
    """The keys in one file."""

    path: Path

    def read(self) -> list[bytes]:
        """The keys; none if the file does not exist. An empty file is damaged."""
        with self._disk():
            try:
                text, _ = private_files.read(self.path)
            except FileNotFoundError:
                return []
        try:
            return [decode_key(line) for line in text.splitlines() or [""]]
        except ValueError as error:
            raise OperatorError(f"{self.path} {error}. Restore it from a backup.") from None

    def add(self, key: bytes) -> None:
        """Add a key, unless the file has it."""
        if key in self.read():
            return
        with self._disk(), private_files.lock(self.path):
            keys = self.read()
            if key not in keys:
                self._replace([*keys, key])

    def create_first(self) -> bytes:
        """Create a key if there is none, and return the first. Concurrent processes get the same key."""
        with self._disk(), private_files.lock(self.path):
            keys = self.read()
            if not keys:
                keys = [secrets.token_bytes(32)]
                self._replace(keys)
            return keys[0]

    def _replace(self, keys: Sequence[bytes]) -> None:
        private_files.replace(self.path, "".join(f"{b64encode(key).decode()}\n" for key in keys))

    def _disk(self) -> AbstractContextManager[None]:
        remedy = "Give this user access, set POSTROOM_HOME to another directory, or set POSTROOM_LEDGER_KEY."
        return private_files.disk_errors("The ledger's keys", self.path, remedy)
