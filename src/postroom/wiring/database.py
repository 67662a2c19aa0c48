"""Open the database of a process: named after its role, with the keys of its ledger entries."""

from contextlib import AbstractAsyncContextManager

from postroom.config import Settings
from postroom.store import health
from postroom.store.connection import COMMAND_LIMITS, TransactionLimits
from postroom.store.database import Database, open_database
from postroom.wiring import secrets

COMMAND_POOL_SIZE = 3


def open_process_database(
    settings: Settings,
    url: str,
    role: str,
    *,
    pool_size: int = COMMAND_POOL_SIZE,
    listeners: int = 1,
    limits: TransactionLimits = COMMAND_LIMITS,
) -> AbstractAsyncContextManager[Database]:
    """Open the pools of a process. `role` appears in the server's list of connections."""
    direct_url = settings.database_direct_url
    return open_database(
        url,
        direct_url=direct_url.reveal() if direct_url is not None else None,
        pool_size=pool_size,
        name=health.process_name(role),
        entry_macs=secrets.build_entry_macs(settings),
        listeners=listeners,
        limits=limits,
    )
