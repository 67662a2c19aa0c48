"""The embedded PostgreSQL of a home: `attach` starts or joins it; it stops when the last process has ended.

Read in this order: attachment (what callers use), supervisor (it owns the server), server, home.
"""

from postroom.store.embedded.database_home import default_home
from postroom.store.embedded.server_handle import ServerHandle, start_or_join

__all__ = ["ServerHandle", "start_or_join", "default_home"]
