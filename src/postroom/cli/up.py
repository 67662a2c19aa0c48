"""`postroom up`: database, web process and workers under one supervisor.

It first migrates the database and creates the first admin, and prints a sign-in link.

The demo uses the same parts. `supervisor` restarts the processes; `serve` and `work` are the processes.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from postroom import interrupts
from postroom.cli.serve import HostOption, PortOption
from postroom.model import OrganizationId

if TYPE_CHECKING:
    from postroom.cli.startup import DatabaseUrls
    from postroom.cli.supervisor import ChildProcess
    from postroom.config import Settings

EXAMPLES = """\b
Examples:
  postroom up
  postroom up --workers 4 --port 8080"""


def up(
    host: HostOption = None,
    port: PortOption = None,
    workers: Annotated[
        int, typer.Option(min=1, max=64, metavar="COUNT", help="Number of worker processes.")
    ] = 1,
) -> None:
    """Run the database, the web process and workers until Ctrl-C.

    Processes that crash are restarted.
    """
    from postroom import config
    from postroom.cli import startup

    settings = startup.load_process_settings("up", host=host, port=port)
    # Only this process migrates: the others do not need the owner's password.
    run(settings, config.child_environment(database_owner_url=None), workers=workers)


def run(settings: "Settings", environment: Mapping[str, str], *, workers: int) -> None:
    from postroom.cli import startup
    from postroom.web import listener

    # A previous instance that was killed may hold the port a moment longer.
    listening = listener.open_socket(settings.host, settings.port, patience_seconds=3)
    with startup.database_urls(settings) as urls, listening:
        children = build_children(listening, workers, environment)
        interrupts.run_async(_run(settings, urls, listening, children))


async def _run(
    settings: "Settings", urls: "DatabaseUrls", listening: socket.socket, children: "list[ChildProcess]"
) -> None:
    from postroom.cli import startup, supervisor
    from postroom.store import schema_migrations
    from postroom.web import listener

    public = settings.public_url or listener.get_local_url(listening)

    async def prepare() -> str | None:
        await schema_migrations.migrate(urls.owner, startup.print_migration)
        await startup.require_ready_database(urls.service)
        return await _create_sign_in_link(settings, urls.service, public)

    link = await startup.retry_while_unreachable(settings, urls.service, prepare)
    stop = stop_on_signals()  # until here, a signal ends the wait
    announcing = asyncio.create_task(print_address_when_ready(listening, link))
    try:
        await supervisor.supervise(children, stop, stop_seconds=settings.stop_seconds + 2)
    finally:
        announcing.cancel()


async def _create_sign_in_link(settings: "Settings", url: str, public: str) -> str | None:
    """Create the first admin if there is none, and return a link that signs the admin in.

    Later starts return a link only on a terminal, to keep unneeded sign-in links out of logs.
    """
    from postroom.flow.access import members, sign_in
    from postroom.wiring.database import open_process_database

    async with open_process_database(settings, url, "up") as opened:
        admin, is_new = await members.ensure_admin(opened, OrganizationId(settings.organization))
        if not (is_new or sys.stdout.isatty()):
            return None
        return sign_in.build_link_url(public, await sign_in.create_link(opened, admin, actor="command line"))


def build_children(
    listening: socket.socket, workers: int, environment: Mapping[str, str]
) -> "list[ChildProcess]":
    from postroom.cli.supervisor import ChildProcess

    descriptor = listening.fileno()
    web = ChildProcess("web", ["serve", "--listen-file", str(descriptor)], environment, files=[descriptor])
    return [web, *(ChildProcess("worker", ["work", "--supervised"], environment) for _ in range(workers))]


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set. The second signal exits at once."""
    stop = asyncio.Event()

    def handle() -> None:
        if stop.is_set():
            os._exit(interrupts.EXIT_CODE)  # the children notice it and exit too
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, handle)
    return stop


async def print_address_when_ready(listening: socket.socket, link: str | None) -> None:
    """Print the address and the sign-in link once the web process is ready."""
    from postroom.web import listener

    while not await _is_ready(listening):  # noqa: ASYNC110  another process becomes ready
        await asyncio.sleep(0.1)
    typer.echo(f"Postroom: {listener.get_local_url(listening)}")
    if link:
        typer.echo(f"Sign in (single use, valid for one hour): {link}")


async def _is_ready(listening: socket.socket) -> bool:
    from postroom.web import listener

    parts = urlsplit(listener.get_local_url(listening))
    try:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        response = await reader.readline()
        writer.close()
    except OSError:
        return False
    return b" 200 " in response
