"""A symbolic link to the server's socket directory, for homes whose path is too long for a socket.

A socket path is limited to 107 bytes. The server binds its socket by a relative name; only clients need a
path. If the real path is unusable, they use a link in a private directory with a random name, and the home
stores the path of that link.
"""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from postroom.store.embedded.database_home import DatabaseHome

_MAX_DIRECTORY_BYTES = 107 - len("/.s.PGSQL.5432")


def find_socket_directory(home: DatabaseHome) -> Path | None:
    """The directory that clients use as host. None until the supervisor has created the link."""
    if _is_usable_path(home.data):
        return home.data
    link = _read_link_path(home)
    return link if link and _is_valid_link(link, home.data) else None


def ensure_link(home: DatabaseHome) -> None:
    """Create the link if it is needed and missing. A cleaner of temporary files may have removed it."""
    if find_socket_directory(home) is not None:
        return
    link = _read_link_path(home)
    with contextlib.suppress(FileExistsError):
        if link:
            link.parent.mkdir(mode=0o700)  # the same path, so that running clients find it
    if not link or not _is_private_directory(link.parent):
        link = Path(tempfile.mkdtemp(prefix="postroom-", dir=_short_directory())) / "data"
    link.unlink(missing_ok=True)
    link.symlink_to(home.data)
    home.socket_link.write_text(str(link), "utf-8")


def remove_link(home: DatabaseHome) -> None:
    link = _read_link_path(home)
    with contextlib.suppress(OSError):
        if link and _is_private_directory(link.parent):
            link.unlink()
            link.parent.rmdir()


def _read_link_path(home: DatabaseHome) -> Path | None:
    try:
        return Path(home.socket_link.read_text("utf-8"))
    except FileNotFoundError:
        return None


def _is_valid_link(link: Path, data: Path) -> bool:
    try:
        return _is_private_directory(link.parent) and link.readlink() == data
    except OSError:
        return False


def _is_usable_path(path: Path) -> bool:
    # A comma would separate two hosts. The driver needs text, so undecodable bytes do not work either.
    return len(os.fsencode(path)) <= _MAX_DIRECTORY_BYTES and "," not in str(path) and str(path).isprintable()


def _is_private_directory(folder: Path) -> bool:
    state = folder.lstat()
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o077


def _short_directory() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    for place in (runtime, "/run" if os.geteuid() == 0 else "", tempfile.gettempdir()):
        if place and len(place) < 60 and "," not in place and os.access(place, os.W_OK | os.X_OK):
            return place
    return "/tmp"  # noqa: S108 - we create a private directory with a random name inside it
