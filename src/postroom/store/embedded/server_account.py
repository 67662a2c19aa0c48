"""Choose the user account that runs the server. PostgreSQL refuses root, so root needs another one."""

import contextlib
import os
import pwd
from dataclasses import dataclass

from postroom.errors import DatabaseUnavailable
from postroom.store.embedded.database_home import OWN_SERVER, DatabaseHome

# In order of preference. A dedicated account is best: no other processes then share the server's rights.
_FOR_ROOT = ("postroom", "postgres", "nobody")


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
