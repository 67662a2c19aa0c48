"""Reads, locks and replaces small private files for keys: owner-only, atomic, one writer at a time."""

import fcntl
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from postroom.errors import OperatorError


def read(path: Path) -> tuple[str, os.stat_result]:
    """The text and the file's status. Raises if other users could have read it too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        status = os.fstat(descriptor)
        _require_private(path, status)
        return file.read(), status


@contextmanager
def lock(path: Path) -> Generator[None]:
    """Exclude other writers in all processes. Readers need no lock."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path.with_name(f"{path.name}.lock"), flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace(path: Path, text: str) -> None:
    """Replace the file, and return only when it, its directory and the directory's name are on disk."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    for directory in (path.parent, path.parent.parent):
        _sync_directory(directory)


@contextmanager
def disk_errors(what: str, path: Path, remedy: str) -> Generator[None]:
    """Turn errors of the disk into an OperatorError that says what, where, why, and what to do."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else type(error).__name__
        raise OperatorError(f"{what} cannot be used: {path}: {reason}. {remedy}") from error


def _require_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OperatorError(f"{path} is not a file. Remove it, or set POSTROOM_HOME to another directory.")
    if os.geteuid() not in {0, status.st_uid}:
        raise OperatorError(
            f"{path} belongs to another user. Run Postroom as that user, or `chown` the file."
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise OperatorError(f"{path} is accessible to other users of this machine. Run `chmod 600 {path}`.")


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
