"""What commands need before they act: settings, logs, tracing, the open database, a transaction.

It defines no command.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple, TypeVar

from postroom import interrupts
from postroom.cli import progress
from postroom.config import Settings
from postroom.model import OrganizationId

if TYPE_CHECKING:
    from postroom.store.connection import TransactionLimits
    from postroom.store.database import Connection, Database
    from postroom.store.schema_migrations import Migration

Result = TypeVar("Result")
RETRY_SECONDS: Final = 0.5


def load_process_settings(
    process: LiteralString, *, ignoring: Collection[str] = (), **options: object
) -> Settings:
    """Load the settings of a long-running process and configure its logs."""
    from postroom import config, logs

    settings = config.load(ignoring=ignoring, **options)
    logs.configure(process, level=settings.log_level, style=settings.log_format)
    return settings


def load_command_settings(process: LiteralString) -> Settings:
    """Load the settings of a command that ends by itself, and configure its logs.

    The command prints its own result, so it logs errors only, unless the operator sets a log level.
    """
    from postroom import config, logs

    settings = config.load()
    is_level_set = "log_level" in settings.model_fields_set
    level = settings.log_level if is_level_set else "error"
    logs.configure(process, level=level, style=settings.log_format)
    return settings


def start_tracing(settings: Settings, process: str) -> None:
    """Send traces from this process if POSTROOM_TRACES_URL is set."""
    if settings.traces_url is not None:
        from postroom import traces

        traces.start(process, settings.traces_url)


def resolve_home(settings: Settings) -> Path:
    from postroom.store import embedded

    return settings.home or embedded.default_home()


def web_url(settings: Settings) -> str:
    """The public URL of the web process, or else the one it listens on."""
    from postroom.web import listener

    return settings.public_url or listener.build_url(settings.host, settings.port)


class DatabaseUrls(NamedTuple):
    """The URLs of one database."""

    owner: str  # for migrations, backups and psql
    service: str  # for pools: its role should own nothing, so that row-level security always applies


@contextmanager
def database_urls(settings: Settings) -> Generator[DatabaseUrls]:
    """The URLs of the database. The embedded one runs until this exits."""
    if settings.database_url is not None:
        # Migrations and backups need a session of their own, which a connection pooler may not give.
        owner = settings.database_owner_url or settings.database_direct_url or settings.database_url
        yield DatabaseUrls(owner.reveal(), settings.database_url.reveal())
        return
    from postroom.store import embedded

    with embedded.start_or_join(resolve_home(settings), say=progress.print_status) as handle:
        yield DatabaseUrls(handle.url, handle.service_url)


@contextmanager
def database_url(settings: Settings) -> Generator[str]:
    """The URL for pools. The embedded database runs until this exits."""
    with database_urls(settings) as urls:
        yield urls.service


async def retry_while_unreachable(
    settings: Settings, url: str, step: Callable[[], Awaitable[Result]]
) -> Result:
    """Run a step of a starting process; repeat it while the database server is unreachable.

    The server may become unreachable during the step, too. Other errors, such as a wrong password, end it.
    """
    from postroom.errors import DatabaseUnreachable
    from postroom.store import connection

    deadline = time.monotonic() + settings.database_wait_seconds
    while True:
        seconds = deadline - time.monotonic()
        await connection.wait_until_ready(url, seconds=seconds, say=progress.print_status)
        try:
            return await step()
        except DatabaseUnreachable as error:
            left = round(deadline - time.monotonic())
            if left <= 0:
                raise
            progress.print_status(f"{error} Retrying for up to {left} seconds …")
        await asyncio.sleep(RETRY_SECONDS)


@asynccontextmanager
async def open_when_ready(
    settings: Settings,
    url: str,
    role: str,
    *,
    pool_size: int,
    limits: "TransactionLimits",
    listeners: int = 1,
) -> AsyncGenerator["Database"]:
    """Open the pools of a long-running process, as soon as the database is ready for it."""
    from postroom.wiring.database import open_process_database

    async with AsyncExitStack() as stack:

        async def open_pools() -> "Database":
            await require_ready_database(url)
            return await stack.enter_async_context(
                open_process_database(
                    settings, url, role, pool_size=pool_size, listeners=listeners, limits=limits
                )
            )

        yield await retry_while_unreachable(settings, url, open_pools)


async def require_ready_database(url: str) -> None:
    """Raise unless the schema is current and the database accepts writes."""
    from postroom.errors import SchemaError
    from postroom.store import health, schema_migrations

    status = await schema_migrations.read_status(url)
    if not status.current:
        raise SchemaError(status.fault or "The schema is not current. Run `postroom db migrate`.")
    await health.require_writable(url)


def print_migration(migration: "Migration") -> None:
    """Print which migration is being applied."""
    progress.print_status(f"Applying migration {migration.version:04} {migration.name}")


def run_with_database(act: "Callable[[Database], Coroutine[Any, Any, Result]]") -> Result:
    """Run a coroutine function with the open database and return its result."""
    return run_with_settings(load_command_settings("cli"), act)


def run_with_settings(settings: Settings, act: "Callable[[Database], Coroutine[Any, Any, Result]]") -> Result:
    """Run a coroutine function with the open database of these settings and return its result."""
    with database_url(settings) as url:
        return interrupts.run_async(_open_and_run(settings, url, act))


def run_for_organization(
    act: "Callable[[Database, OrganizationId], Coroutine[Any, Any, Result]]",
    settings: Settings | None = None,
) -> Result:
    """Run a coroutine function with the database and the organization. Loads the settings, unless given."""
    settings = settings or load_command_settings("cli")
    organization = OrganizationId(settings.organization)
    return run_with_settings(settings, lambda database: act(database, organization))


def run_in_transaction(
    act: "Callable[[Connection, OrganizationId], Coroutine[Any, Any, Result]]",
    settings: Settings | None = None,
) -> Result:
    """Run a coroutine function in one transaction of the organization. Loads the settings, unless given."""
    from postroom.store import organizations

    async def act_in_transaction(database: "Database", organization: OrganizationId) -> Result:
        async with database.transaction(organization) as connection:
            await organizations.ensure(connection, organization)
            return await act(connection, organization)

    return run_for_organization(act_in_transaction, settings)


async def _open_and_run(
    settings: Settings, url: str, act: "Callable[[Database], Coroutine[Any, Any, Result]]"
) -> Result:
    from postroom.wiring.database import open_process_database

    await require_ready_database(url)
    async with open_process_database(settings, url, "command") as opened:
        return await act(opened)
