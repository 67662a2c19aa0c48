"""A short way to the server's socket. The path of a Unix socket ends at 107 bytes, and a home may lie deeper.

The server binds its socket by a relative name; only clients need a path. Where the real one does not
serve, they get a link inside an owner-only directory with a name nobody can guess, which the home remembers.
"""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from postroom.store.embedded.home import Home

_LONGEST = 107 - len("/.s.PGSQL.5432")


def directory(home: Home) -> Path | None:
    """The directory that clients name as host; None while the server has not provided one."""
    if _serves(home.data):
        return home.data
    with contextlib.suppress(OSError):
        link = Path(home.shortcut.read_text("utf-8"))
        if _is_ours(link.parent) and link.readlink() == home.data:
            return link
    return None


def provide(home: Home) -> None:
    """Make the short way if it is needed and missing; a cleaner of temporary files may have removed it."""
    if directory(home) is not None:
        return
    with contextlib.suppress(OSError):
        link = Path(home.shortcut.read_text("utf-8"))
        link.parent.mkdir(mode=0o700)  # the same again, so that running clients find it
        link.symlink_to(home.data)
        return
    link = Path(tempfile.mkdtemp(prefix="postroom-", dir=_short_place())) / "data"
    link.symlink_to(home.data)
    home.shortcut.write_text(str(link), "utf-8")


def remove(home: Home) -> None:
    with contextlib.suppress(OSError):
        link = Path(home.shortcut.read_text("utf-8"))
        if _is_ours(link.parent):
            link.unlink()
            link.parent.rmdir()


def _serves(path: Path) -> bool:
    # libpq reads a comma in a host as two hosts.
    return len(os.fsencode(path)) <= _LONGEST and "," not in str(path)


def _is_ours(folder: Path) -> bool:
    state = folder.lstat()
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o077


def _short_place() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    for place in (runtime, "/run" if os.geteuid() == 0 else "", tempfile.gettempdir()):
        if place and len(place) < 60 and "," not in place and os.access(place, os.W_OK | os.X_OK):
            return place
    return "/tmp"  # noqa: S108 - a private directory with a random name is made inside it
