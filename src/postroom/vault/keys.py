"""The keys that seal: given by a setting, or in a file of the home that is made at first use.

Every use looks whether the file changed, so that a key added by one process seals and opens in all at once.
Writers take turns by a lock and replace the file as a whole; readers need no lock.
"""

import fcntl
import os
import secrets
import stat
import time
from base64 import b64encode
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from postroom.errors import OperatorError
from postroom.model import SealingKey, sealing_keys

FILE = "vault.keys"


class Keys(Protocol):
    """The first seals, all open."""

    @property
    def source(self) -> str: ...

    def first(self) -> SealingKey: ...

    def find(self, key_id: str) -> SealingKey | None: ...

    def every(self) -> Sequence[SealingKey]: ...


@dataclass(frozen=True)
class GivenKeys:
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
        with _disk_errors(self.path):
            return next((key for key in self._read(anyway=True) if key.id == key_id), None)

    def every(self) -> Sequence[SealingKey]:
        with _disk_errors(self.path):
            return self._read()

    def add(self) -> SealingKey:
        """Put a new key before the others: from now on it seals."""
        return self._change(lambda found: (_new_key(), *found))[0]

    def remove(self, key_ids: Sequence[str]) -> None:
        """Forget keys for ever, but never the one that seals. What they sealed opens no more."""
        self._change(lambda found: (*found[:1], *(key for key in found[1:] if key.id not in key_ids)))

    def unchanged_seconds(self) -> float:
        """How long every process that looks has known these keys."""
        with _disk_errors(self.path):
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
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
                opened = os.fstat(descriptor)
                _require_private(self.path, opened)
                self._keys = self._parsed(file.read())
                self._stamp = _stamp(opened)
        return self._keys

    def _parsed(self, text: str) -> tuple[SealingKey, ...]:
        try:
            return sealing_keys(text.splitlines())
        except ValueError as error:
            raise OperatorError(f"{self.path} {error}. Restore it from a backup.") from None

    def _change(
        self, change: Callable[[tuple[SealingKey, ...]], tuple[SealingKey, ...]]
    ) -> tuple[SealingKey, ...]:
        with _disk_errors(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._turn():
                before = self._read()
                after = change(before)
                if after != before:
                    self._replace(after)
                return self._read()

    @contextmanager
    def _turn(self) -> Generator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.path.with_name(f"{FILE}.lock"), flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _replace(self, keys: tuple[SealingKey, ...]) -> None:
        """On the disk before anything is sealed with it: file, directory, and the directory's own name."""
        lines = [f"{key.id}:{b64encode(key.value).decode()}\n" for key in keys]
        new = self.path.with_name(f".{FILE}.{secrets.token_hex(4)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        for directory in (self.path.parent, self.path.parent.parent):
            _sync(directory)


def _new_key() -> SealingKey:
    return SealingKey(secrets.token_hex(4), secrets.token_bytes(32))


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _require_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OperatorError(f"{path} is not a file. Remove it, or set POSTROOM_HOME to another directory.")
    if os.geteuid() not in {0, found.st_uid}:
        raise OperatorError(
            f"{path} belongs to another user. Run Postroom as that user, or `chown` the file."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise OperatorError(f"{path} is open to other users of this machine. Run `chmod 600 {path}`.")


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _disk_errors(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else type(error).__name__
        raise OperatorError(
            f"The vault's keys cannot be used: {path}: {reason}."
            " Give this user access, set POSTROOM_HOME to another directory, or set POSTROOM_VAULT_KEYS."
        ) from error
