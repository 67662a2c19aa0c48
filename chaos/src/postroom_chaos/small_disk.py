"""A small file system for Postroom's home, which can be filled and made read-only.

It is a tmpfs in a mount namespace of the run's own process, so it vanishes with the run. Root creates the
namespace directly, other users inside a user namespace. Where the kernel forbids both, faults of the disk
are left out, and the result says so.
"""

import asyncio
import ctypes
import errno
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_REC, _MS_PRIVATE = 0x1, 0x20, 0x4000, 0x40000
SIZE: Final = "96m"
BUSY_SECONDS: Final = 5.0


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    _check(_LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()))


@dataclass
class SmallDisk:
    """`is_separate`: faults are possible."""

    root: Path
    is_separate: bool = False

    def open(self) -> None:
        """Move this process into its own namespace and mount the file system. Call it before any thread."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            _enter_namespace()
            _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
            _mount("tmpfs", str(self.root), "tmpfs", 0, f"size={SIZE},mode=0700")
        except OSError:
            return
        self.is_separate = True

    @property
    def _filler(self) -> Path:
        return self.root / "filler"

    def fill(self) -> None:
        """Use up every free block."""
        with suppress(OSError), self._filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with suppress(OSError):
                    while True:
                        file.write(b"\0" * size)

    async def make_read_only(self) -> None:
        """Remount read-only, which the kernel refuses while a file is open for writing."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._remount(_MS_RDONLY)
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.01)
            else:
                return

    def heal(self) -> None:
        if self.is_separate:
            self._remount(0)
            self._filler.unlink(missing_ok=True)

    def _remount(self, flags: int) -> None:
        _mount("tmpfs", str(self.root), "tmpfs", _MS_REMOUNT | flags, f"size={SIZE},mode=0700")


def _enter_namespace() -> None:
    if os.geteuid() == 0:
        _check(_LIBC.unshare(_CLONE_NEWNS))
        return
    user, group = os.geteuid(), os.getegid()
    _check(_LIBC.unshare(_CLONE_NEWUSER | _CLONE_NEWNS))
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
