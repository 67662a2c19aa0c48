"""Ending the server of a home as if its power had failed: to show that everything comes back."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from postroom.store.embedded import database_home as homes
from postroom.store.embedded.stale_processes import find_server_processes


def kill_server(home: Path) -> bool:
    """Kill the server and all that it started; its supervisor starts it again. Whether there was one."""
    found = find_server_processes(homes.DatabaseHome(home / "postgres").data)
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)
