"""Choose the user account that runs the server. PostgreSQL refuses root, so root needs another one.

Every process of that account can read and change the database: it can open the server's files and socket.
"""

import contextlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from postroom.errors import DatabaseUnavailable
from postroom.store.embedded.database_home import OWN_SERVER, DatabaseHome

# In order of preference. A dedicated account is best: no other processes then share the server's rights.
_FOR_ROOT = ("postroom", "postgres", "nobody")
# Accounts that many systems give to several services.
SHARED_ACCOUNTS: Final = frozenset(
    {"nobody", "postgres", "daemon", "bin", "www-data", "http", "apache", "nginx", "mail"}
)


@dataclass(frozen=True)
class ServerAccount:
    uid: int
    gid: int

    @property
    def is_other(self) -> bool:
        return self.uid != os.geteuid()


def choose_account(home: DatabaseHome) -> ServerAccount:
    """Our own account; for root, the owner of the data directory or the first existing candidate."""
    if os.geteuid() != 0:
        return ServerAccount(os.geteuid(), os.getegid())
    with contextlib.suppress(FileNotFoundError):
        owner = home.data.stat()
        if owner.st_uid != 0:
            return ServerAccount(owner.st_uid, owner.st_gid)
    for name in _FOR_ROOT:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return ServerAccount(entry.pw_uid, entry.pw_gid)
    raise DatabaseUnavailable(
        f"PostgreSQL does not run as root, and none of the users {', '.join(_FOR_ROOT)} exists. "
        f"Add one (useradd --system postroom), run Postroom as an ordinary user, {OWN_SERVER}."
    )


def count_other_processes(account: ServerAccount, home: DatabaseHome) -> int:
    """Count the running processes of the account that are not the server's, which run in its directory."""
    return sum(
        _has_user(process, account.uid) and not _runs_in(process, home.data)
        for process in Path("/proc").iterdir()
        if process.name.isdigit()
    )


def _has_user(process: Path, uid: int) -> bool:
    try:
        return process.stat().st_uid == uid
    except OSError:  # it has ended
        return False


def _runs_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink() == folder
    except OSError:  # it has ended, or another user may not see it
        return False
