"""Kill the embedded server, to simulate a crash in the demo and in tests of recovery."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from postroom.store.embedded import database_home as homes
from postroom.store.embedded.stale_processes import find_server_processes


def kill_server(home: Path) -> bool:
    """Kill the server's processes and return whether there were any. The supervisor restarts it."""
    pids = find_server_processes(homes.DatabaseHome(home / "postgres").data)
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return bool(pids)
