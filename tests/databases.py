"""Databases for tests: a server for the run, one migrated template in it, a copy of that for every test."""

import asyncio
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import psycopg

import poolers
from postroom.config import Settings
from postroom.store import roles
from postroom.store.connection import COMMAND_LIMITS, Connection, TransactionLimits, connect
from postroom.store.database import Database, open_database
from postroom.store.embedded import start_or_join
from postroom.store.embedded.stale_processes import find_server_processes
from postroom.store.entry_macs import EntryMacs
from postroom.store.schema_migrations import list_shipped, migrate
from postroom.wiring import secrets as wired_secrets

# Moved to another name at once: Postroom's programs refuse settings that they do not know.
GIVEN = os.environ.pop("POSTROOM_TEST_DATABASE_URL", "") or os.environ.get("TEST_DATABASE_URL", "")
os.environ["TEST_DATABASE_URL"] = GIVEN
MAJORS = (18,) if GIVEN else (18, 16)
_PREFIX = "postroom-tests-"
_MEMORY = Path("/dev/shm")
# The socket directory of a connection pooler through which pools connect, and their URLs past it.
pooler: Path | None = None
_direct_urls: dict[str, str] = {}


@dataclass(frozen=True)
class Server:
    url: str
    connection: psycopg.Connection
    template: str

    def create(self, template: str | None = None) -> str:
        """The URL of a new database: a copy of the template, or of the one named."""
        name = f"postroom_test_{secrets.token_hex(6)}"
        # Copying files is no faster than the other strategy, but the later drop has less to write back.
        self.connection.execute(
            f"CREATE DATABASE {name} TEMPLATE {template or self.template} STRATEGY file_copy"
        )
        return with_database(self.url, name)

    def drop(self, url: str) -> None:
        """Drop it once no vacuum runs in it, which only the superuser may end."""
        deadline = time.monotonic() + 60
        while True:
            try:
                self.connection.execute(f"DROP DATABASE IF EXISTS {urlsplit(url).path[1:]} WITH (FORCE)")
            except psycopg.errors.InsufficientPrivilege:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return


# The key of ledger entries in tests whose processes share no home directory.
_MAC_KEY = bytes(range(32))
ENTRY_MACS = EntryMacs(lambda: _MAC_KEY, lambda: [_MAC_KEY])


def build_home_macs(home: Path) -> EntryMacs:
    """The key that processes with this home directory use."""
    return wired_secrets.build_entry_macs(Settings(home=home))


def open_pools(
    url: str,
    *,
    pool_size: int = 12,
    name: str = "postroom tests",
    limits: TransactionLimits = COMMAND_LIMITS,
    entry_macs: EntryMacs = ENTRY_MACS,
) -> AbstractAsyncContextManager[Database]:
    """Open a database as a process does; connections beyond the first of each pool are made when needed."""
    return open_database(
        url,
        direct_url=_direct_urls.get(url),
        pool_size=pool_size,
        name=name,
        limits=limits,
        entry_macs=entry_macs,
    )


def with_database(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def to_service(url: str) -> str:
    """The URL with the login of pools, which a given server may not have; through the pooler, if one runs."""
    service = url if GIVEN else urlsplit(url)._replace(netloc="postroom_service@").geturl()
    if pooler is None:
        return service
    pooled = poolers.through(pooler, service)
    _direct_urls[pooled] = service
    return pooled


def login_settings(url: str) -> dict[str, str]:
    """The settings of processes that log in as a role that owns nothing, and migrate as the owner."""
    service = to_service(url)
    direct = {"POSTROOM_DATABASE_DIRECT_URL": _direct_urls[service]} if service in _direct_urls else {}
    return {"POSTROOM_DATABASE_URL": service, "POSTROOM_DATABASE_OWNER_URL": url, **direct}


@contextmanager
def server(home: Path, major: int) -> Generator[Server]:
    """The server that the environment names, or the embedded one, shared by all processes of the run."""
    if GIVEN:
        with _server(GIVEN) as found:
            yield found
    else:
        with ExitStack() as stack:
            with _unmeasured():
                attached = stack.enter_context(start_or_join(home / str(major), major=major))
            yield stack.enter_context(_server(attached.url))


@contextmanager
def _unmeasured() -> Generator[None]:
    """What keeps the shared server ends after the run, while its coverage is added up: it writes none."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("COVERAGE_")}
    try:
        yield
    finally:
        os.environ.update(kept)


@contextmanager
def _server(url: str) -> Generator[Server]:
    with psycopg.connect(url, autocommit=True) as connection:
        [superuser] = connection.execute(
            "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
        ).fetchone() or (None,)
        assert superuser is False, "tests need a role that is no superuser: a superuser hides every mistake"
        yield Server(url, connection, _template(url, connection))


def _template(url: str, connection: psycopg.Connection) -> str:
    """Migrate a database once for all processes and runs that have the same migrations."""
    digest = sha256("".join(each.sha256 for each in list_shipped()).encode()).hexdigest()[:12]
    name, unfinished = f"postroom_template_{digest}", f"postroom_unfinished_{digest}"
    connection.execute("SELECT pg_advisory_lock(7001)")
    try:
        if connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
            connection.execute(f"DROP DATABASE IF EXISTS {unfinished} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {unfinished}")
            # In a thread, since the test that asks first may have an event loop of its own.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, migrate(with_database(url, unfinished))).result()
            connection.execute(f"ALTER DATABASE {unfinished} RENAME TO {name}")
    finally:
        connection.execute("SELECT pg_advisory_unlock(7001)")
    return name


def make_home() -> Path:
    """A place for the embedded servers of this run: in memory where there is room, else on disk."""
    for rest in [*_MEMORY.glob(f"{_PREFIX}*"), *Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")]:
        if rest.stat().st_uid == os.geteuid() and time.time() - rest.stat().st_mtime > 3600:
            _remove_if_unused(rest)  # a run that was killed left it behind
    roomy = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 2 << 30
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY if roomy else None))


def remove_home(home: Path) -> None:
    """Remove the servers' files once they have stopped, as they do when the run's last process ends."""
    deadline = time.monotonic() + 15
    while not _remove_if_unused(home) and time.monotonic() < deadline:
        time.sleep(0.05)


def _remove_if_unused(home: Path) -> bool:
    if any(find_server_processes(data) for data in home.glob("*/postgres/data")):
        return False
    shutil.rmtree(home, ignore_errors=True)
    return True


@asynccontextmanager
async def session(
    url: str, role: str | None = None, organization: UUID | None = None
) -> AsyncGenerator[Connection]:
    """A connection that acts as the role for the organization until it is closed."""
    async with await connect(url, name="postroom tests") as connection:
        await roles.assume(connection, role)
        if organization is not None:
            await connection.execute(
                "SELECT set_config('postroom.organization', %s, false)", [str(organization)]
            )
        yield connection
