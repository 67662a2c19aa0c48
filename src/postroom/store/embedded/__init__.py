"""The embedded PostgreSQL server of a Postroom home, shared by all processes of that home.

`start_or_join` returns a handle; the server stops when the last process with a handle has ended. Read in this
order: server_handle (what callers use), supervisor (it owns the server), server, database_home.
"""

from postroom.store.embedded.database_home import default_home
from postroom.store.embedded.server_handle import ServerHandle, start_or_join

__all__ = ["ServerHandle", "default_home", "start_or_join"]
