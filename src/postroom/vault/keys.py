"""The keys that seal: given by a setting, or in a file of the home that is made at first use.

Every use looks whether the file changed, so that a key added by one process seals and opens in all at once.
Writers take turns by a lock and replace the file as a whole; readers need no lock.
"""

import os
import secrets
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from postroom.errors import OperatorError
from postroom.model import SealingKey, parse_sealing_keys
from postroom.vault import private_files

FILE = "vault.keys"


class KeySource(Protocol):
    """The first seals, all open."""

    @property
    def source(self) -> str: ...

    def first(self) -> SealingKey: ...

    def find(self, key_id: str) -> SealingKey | None: ...

    def every(self) -> Sequence[SealingKey]: ...


@dataclass(frozen=True)
class ConfiguredKeys:
    """The keys of a setting: as they were when the process started."""

    keys: tuple[SealingKey, ...]
    source: str = "POSTROOM_VAULT_KEYS"

    def first(self) -> SealingKey:
        return self.keys[0]

    def find(self, key_id: str) -> SealingKey | None:
        return next((key for key in self.keys if key.id == key_id), None)

    def every(self) -> Sequence[SealingKey]:
        return self.keys


class KeyFile:
    """The keys in `HOME/vault.keys`, one `id:base64` on each line, owner-only."""

    def __init__(self, home: Path) -> None:
        self.path = home / FILE
        self._keys: tuple[SealingKey, ...] = ()
        self._stamp: tuple[int, ...] | None = None

    @property
    def source(self) -> str:
        return str(self.path)

    def first(self) -> SealingKey:
        """The key that seals; where there is no file, it is made, once for all who ask at the same time."""
        keys = self.every() or self._change(lambda found: found or (_new_key(),))
        return keys[0]

    def find(self, key_id: str) -> SealingKey | None:
        """What is not known is read from the file, whatever its time says: a network's may lag."""
        known = next((key for key in self._keys if key.id == key_id), None)
        if known is not None:
            return known
        with self._disk():
            return next((key for key in self._read(anyway=True) if key.id == key_id), None)

    def every(self) -> Sequence[SealingKey]:
        with self._disk():
            return self._read()

    def add(self) -> SealingKey:
        """Put a new key before the others: from now on it seals."""
        return self._change(lambda found: (_new_key(), *found))[0]

    def remove(self, key_ids: Sequence[str]) -> None:
        """Forget keys for ever, but never the one that seals. What they sealed opens no more."""
        self._change(lambda found: (*found[:1], *(key for key in found[1:] if key.id not in key_ids)))

    def unchanged_seconds(self) -> float:
        """How long every process that looks has known these keys."""
        with self._disk():
            return time.time() - self.path.stat().st_mtime

    def _read(self, *, anyway: bool = False) -> tuple[SealingKey, ...]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            if self._stamp is None:
                return ()
            # Whatever is sealed now with a key that stands nowhere would be lost at the next start.
            raise OperatorError(f"{self.path} is gone. Restore it from a backup.") from None
        if anyway or _stamp(found) != self._stamp:
            text, opened = private_files.read(self.path)
            self._keys = self._parsed(text)
            self._stamp = _stamp(opened)
        return self._keys

    def _parsed(self, text: str) -> tuple[SealingKey, ...]:
        try:
            return parse_sealing_keys(text.splitlines())
        except ValueError as error:
            raise OperatorError(f"{self.path} {error}. Restore it from a backup.") from None

    def _change(
        self, change: Callable[[tuple[SealingKey, ...]], tuple[SealingKey, ...]]
    ) -> tuple[SealingKey, ...]:
        with self._disk(), private_files.lock(self.path):
            before = self._read()
            after = change(before)
            if after != before:
                lines = [f"{key.id}:{b64encode(key.value).decode()}\n" for key in after]
                private_files.replace(self.path, "".join(lines))
            return self._read()

    def _disk(self) -> AbstractContextManager[None]:
        return private_files.disk_errors("The vault's keys", self.path, "POSTROOM_VAULT_KEYS")


def _new_key() -> SealingKey:
    return SealingKey(secrets.token_hex(4), secrets.token_bytes(32))


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
