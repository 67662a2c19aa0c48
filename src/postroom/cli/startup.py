"""What commands open before they work: settings, logs, and the database, embedded or yours."""

import sys
from collections.abc import Callable, Collection, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

import typer

from postroom import interrupts
from postroom.config import Settings
from postroom.model import OrganizationId

if TYPE_CHECKING:
    from postroom.store.database import Connection, Database

Result = TypeVar("Result")


def load_process_settings(
    process: LiteralString, *, ignoring: Collection[str] = (), **options: object
) -> Settings:
    """Read the settings of a long-running process and send its log lines where they belong."""
    from postroom import config, logs

    settings = config.load(ignoring=ignoring, **options)
    logs.configure(process, level=settings.log_level, style=settings.log_format)
    return settings


def load_command_settings(process: LiteralString) -> Settings:
    """The same for a command that ends: it speaks for itself, so log lines are shown where a level is asked
    for, and else only those of defects.
    """
    from postroom import config, logs

    settings = config.load()
    asked = "log_level" in settings.model_fields_set
    logs.configure(process, level=settings.log_level if asked else "error", style=settings.log_format)
    return settings


def start_tracing(settings: Settings, process: str) -> None:
    """Send traces from this process, where a setting says where to."""
    if settings.traces_url is not None:
        from postroom import traces

        traces.start(process, settings.traces_url)


def resolve_home(settings: Settings) -> Path:
    from postroom.store import embedded

    return settings.home or embedded.default_home()


def web_url(settings: Settings) -> str:
    """Where a browser reaches the web process: the public address, else the one it listens on."""
    from postroom.web import listener

    return settings.public_url or listener.build_url(settings.host, settings.port)


@contextmanager
def database_url(settings: Settings) -> Generator[str]:
    """The URL of the database: yours where set, else the embedded one, which runs while this is open."""
    if settings.database_url is not None:
        yield settings.database_url.reveal()
        return
    from postroom.store import embedded

    with embedded.start_or_join(resolve_home(settings), say=say) as attachment:
        yield attachment.url


async def require_ready_database(url: str) -> None:
    """Refuse to start on a database that this Postroom could not work with."""
    from postroom.errors import SchemaError
    from postroom.store import health, schema_migrations

    status = await schema_migrations.read_status(url)
    if not status.current:
        raise SchemaError(status.fault or "The schema is not current. Run `postroom db migrate`.")
    await health.require_writable(url)


def say(words: str) -> None:
    """Tell a person what is going on, beside the output that a program may read."""
    typer.echo(words, err=True)


@contextmanager
def busy(words: str) -> Generator[None]:
    """Show a person at a terminal that something takes its time; say nothing to a file or a program."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{words} …"):
        yield


def run_with_database(act: "Callable[[Database], Coroutine[Any, Any, Result]]") -> Result:
    """Do one thing with the database, embedded or yours, and return what came of it."""
    return _run_with_database(load_command_settings("cli"), act)


def _run_with_database(
    settings: Settings, act: "Callable[[Database], Coroutine[Any, Any, Result]]"
) -> Result:
    with database_url(settings) as url:
        return interrupts.run_async(_open_and_run(url, act))


def run_for_organization(
    act: "Callable[[Database, OrganizationId], Coroutine[Any, Any, Result]]",
) -> Result:
    """The same for the organization that commands act for."""
    settings = load_command_settings("cli")
    organization = OrganizationId(settings.organization)
    return _run_with_database(settings, lambda database: act(database, organization))


def run_in_transaction(
    act: "Callable[[Connection, OrganizationId], Coroutine[Any, Any, Result]]",
) -> Result:
    """Do one thing in one transaction of the organization that commands act for."""
    from postroom.store import organizations

    async def within(database: "Database", organization: OrganizationId) -> Result:
        async with database.transaction(organization) as connection:
            await organizations.ensure(connection, organization, "Postroom")
            return await act(connection, organization)

    return run_for_organization(within)


async def _open_and_run(url: str, act: "Callable[[Database], Coroutine[Any, Any, Result]]") -> Result:
    from postroom.store import database, health

    await require_ready_database(url)
    async with database.open_database(url, pool_size=3, name=health.process_name("command")) as opened:
        return await act(opened)
