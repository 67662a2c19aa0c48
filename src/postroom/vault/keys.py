"""The sealer's encryption keys: from a setting, or from a file in the home, created at first use.

Every use checks whether the file has changed, so that all processes use a new key at once. Writers take a
lock and replace the file atomically; readers need no lock. Nothing is encrypted here: `sealer` does that.
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
    """Where sealing keys come from. The first key seals; all keys open."""

    @property
    def source(self) -> str: ...

    def first(self) -> SealingKey: ...

    def find(self, key_id: str) -> SealingKey | None: ...

    def list_all(self) -> Sequence[SealingKey]: ...


@dataclass(frozen=True)
class ConfiguredKeys:
    """The keys of POSTROOM_VAULT_KEYS, as they were when the process started."""

    keys: tuple[SealingKey, ...]
    source: str = "POSTROOM_VAULT_KEYS"

    def first(self) -> SealingKey:
        return self.keys[0]

    def find(self, key_id: str) -> SealingKey | None:
        return next((key for key in self.keys if key.id == key_id), None)

    def list_all(self) -> Sequence[SealingKey]:
        return self.keys


class KeyFile:
    """The keys in `HOME/vault.keys`, one `id:base64` per line, readable by the owner only."""

    def __init__(self, home: Path) -> None:
        self.path = home / FILE
        self._keys: tuple[SealingKey, ...] = ()
        self._stamp: tuple[int, ...] | None = None

    @property
    def source(self) -> str:
        return str(self.path)

    def first(self) -> SealingKey:
        """The key that seals. Creates the file if there is none; concurrent processes get the same key."""
        keys = self.list_all() or self._change(lambda found: found or (_new_key(),))
        return keys[0]

    def find(self, key_id: str) -> SealingKey | None:
        """For an unknown id, read the file even if it seems unchanged: times of network disks may lag."""
        known = next((key for key in self._keys if key.id == key_id), None)
        if known is not None:
            return known
        with self._disk():
            return next((key for key in self._read(force=True) if key.id == key_id), None)

    def list_all(self) -> Sequence[SealingKey]:
        with self._disk():
            return self._read()

    def add(self) -> SealingKey:
        """Add a new key in first place: it seals from now on."""
        return self._change(lambda keys: (_new_key(), *keys))[0]

    def remove(self, key_ids: Sequence[str]) -> None:
        """Remove keys for good, but never the one that seals. Values they sealed can no longer be opened."""
        self._change(lambda keys: (*keys[:1], *(key for key in keys[1:] if key.id not in key_ids)))

    def unchanged_seconds(self) -> float:
        """For how long all processes have been able to read the current keys."""
        with self._disk():
            return time.time() - self.path.stat().st_mtime

    def _read(self, *, force: bool = False) -> tuple[SealingKey, ...]:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            if self._stamp is None:
                return ()
            # A value sealed with a key that is in no file would be lost at the next start.
            raise OperatorError(f"{self.path} is missing. Restore it from a backup.") from None
        if force or _stamp(status) != self._stamp:
            text, opened = private_files.read(self.path)
            self._keys = self._parse(text)
            self._stamp = _stamp(opened)
        return self._keys

    def _parse(self, text: str) -> tuple[SealingKey, ...]:
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
        remedy = "Give this user access, set POSTROOM_HOME to another directory, or set POSTROOM_VAULT_KEYS."
        return private_files.disk_errors("The vault's keys", self.path, remedy)


def _new_key() -> SealingKey:
    return SealingKey(secrets.token_hex(4), secrets.token_bytes(32))


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
