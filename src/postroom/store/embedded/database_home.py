"""The database's directory inside a Postroom home: its paths, its locks, and errors of the disk.

Only flocks say which processes run: they end with their process however it ends. Pid files are not trusted.
No process is started here.
"""

import contextlib
import errno
import fcntl
import os
import pwd
import stat
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from postroom.errors import DatabaseUnavailable

SHARED = fcntl.LOCK_SH
EXCLUSIVE = fcntl.LOCK_EX
PORT = 5432  # not a TCP port: only part of the socket's name
OWN_SERVER = "or set POSTROOM_DATABASE_URL to a PostgreSQL server of your own"


@dataclass(frozen=True)
class DatabaseHome:
    """The database's directory of a home: `HOME/postgres`, readable by its owner only."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def log(self) -> Path:
        return self.root / "server.log"

    @property
    def attached_lock(self) -> Path:
        """Held shared by every user of the database; the supervisor takes it exclusively to stop."""
        return self.root / "attached.lock"

    @property
    def starting_lock(self) -> Path:
        """Held exclusively while a process starts the supervisor, so that concurrent callers start one."""
        return self.root / "starting.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held exclusively by the running supervisor; contains its pid."""
        return self.root / "supervisor.lock"

    @property
    def server_lock(self) -> Path:
        """Held only by the server's own processes: if it is free, none of them runs."""
        return self.root / "server.lock"

    @property
    def socket_link(self) -> Path:
        """Contains the path of the link to the socket if the path of `data` is too long for a socket."""
        return self.root / "shortcut"


def default_home() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/postroom")
    import platformdirs

    return Path(platformdirs.user_data_dir("postroom", appauthor=False))


def prepare_home(path: Path) -> DatabaseHome:
    """Create missing directories of a home, and refuse a home that belongs to another user."""
    top = Path(os.path.realpath(path.expanduser()))
    with explain_disk_errors(f"Cannot use {top} as Postroom's home"):
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_ownership(top, top)
        home = DatabaseHome(top / "postgres")
        home.root.mkdir(mode=0o700, exist_ok=True)
        _require_ownership(home.root, top)
        if stat.S_IMODE(home.root.stat().st_mode) != 0o700:
            home.root.chmod(0o700)
    return home


def _require_ownership(path: Path, top: Path) -> None:
    owner = path.lstat().st_uid
    if owner == os.geteuid():
        return
    raise DatabaseUnavailable(
        f"{path} belongs to {account_name(owner)}, and Postroom runs as {account_name(os.geteuid())}. "
        f"Run it as {account_name(owner)}, set POSTROOM_HOME to a directory other than {top}, {OWN_SERVER}."
    )


def account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user id {uid}"


def take_lock(path: Path, kind: int, deadline: float) -> int | None:
    """Take the lock and return its descriptor, which holds it until closed. None after the deadline."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                return descriptor
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            time.sleep(0.02)
    except BaseException:
        os.close(descriptor)
        raise


def open_log(home: DatabaseHome) -> int:
    return os.open(home.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)


def is_lock_free(path: Path) -> bool:
    """Whether no process holds the lock exclusively. Takes it briefly, so others must retry."""
    descriptor = take_lock(path, SHARED, deadline=0)
    if descriptor is None:
        return False
    os.close(descriptor)
    return True


@contextlib.contextmanager
def explain_disk_errors(what: str) -> Generator[None]:
    """Turn an OSError into a DatabaseUnavailable that names the remedy."""
    try:
        yield
    except OSError as error:
        raise DatabaseUnavailable(f"{what}: {_suggest_remedy(error)}, {OWN_SERVER}.") from error


def _suggest_remedy(error: OSError) -> str:
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    where = f" ({error.filename})" if error.filename else ""
    advice = {
        errno.ENOSPC: "Free some space on that disk",
        errno.EDQUOT: "Free some of this user's quota",
        errno.EROFS: "Set POSTROOM_HOME to a writable directory",
        errno.EACCES: "Set POSTROOM_HOME to a directory that this user can write to",
        errno.EPERM: "Set POSTROOM_HOME to a directory that this user can write to",
        errno.EEXIST: "Set POSTROOM_HOME to a directory, not a file",
        errno.ENOTDIR: "Set POSTROOM_HOME to a directory, not a file",
    }.get(error.errno or 0, "Set POSTROOM_HOME to another directory")
    return f"{reason}{where}. {advice}"
