"""`postroom up`: database, web and workers as one foreground program."""

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
from postroom.cli.serve import Host, Port
from postroom.model import OrganizationId

if TYPE_CHECKING:
    from postroom.cli.supervisor import ChildProcess
    from postroom.config import Settings

EXAMPLES = """\b
Examples:
  postroom up
  postroom up --workers 4 --port 8080"""


def up(
    host: Host = None,
    port: Port = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="How many worker processes to run.")] = 1,
) -> None:
    """Run database, web and workers until Ctrl-C. What dies is started again; what ends, ends together."""
    from postroom import config
    from postroom.cli import startup

    settings = startup.load_process_settings("up", host=host, port=port)
    run(settings, config.child_environment(), workers=workers)


def run(settings: "Settings", environment: Mapping[str, str], *, workers: int) -> None:
    from postroom.cli import startup
    from postroom.web import listener

    # A predecessor that was killed may need a moment to let go of the port.
    listening = listener.open_socket(settings.host, settings.port, patience_seconds=3)
    with startup.database_url(settings) as url, listening:
        kept = build_children(listening, workers, environment)
        interrupts.run_async(_run(settings, url, listening, kept))


async def _run(settings: "Settings", url: str, listening: socket.socket, kept: "list[ChildProcess]") -> None:
    from postroom.cli import startup, supervisor
    from postroom.store import schema_migrations
    from postroom.web import listener

    stop = stop_on_signals()
    await schema_migrations.migrate(url, lambda each: startup.say(f"applying {each.version:04} {each.name}"))
    await startup.require_ready_database(url)
    public = settings.public_url or listener.get_local_url(listening)
    link = await _create_sign_in_link(url, OrganizationId(settings.organization), public)
    announcing = asyncio.create_task(print_address_when_ready(listening, link))
    try:
        await supervisor.supervise(kept, stop, stop_seconds=settings.stop_seconds + 2)
    finally:
        announcing.cancel()


async def _create_sign_in_link(url: str, organization: OrganizationId, public: str) -> str | None:
    """What a first start needs: an admin. A link that signs the admin in.

    A later start prints a link for a person at a terminal; into a log goes none that is not needed.
    """
    from postroom.flow.access import members, sign_in
    from postroom.store import database, health

    async with database.open_database(url, pool_size=3, name=health.process_name("up")) as opened:
        admin, made = await members.ensure_admin(opened, organization)
        if not (made or sys.stdout.isatty()):
            return None
        return sign_in.build_link_url(public, await sign_in.create_link(opened, admin, actor="command line"))


def build_children(
    listening: socket.socket, workers: int, environment: Mapping[str, str]
) -> "list[ChildProcess]":
    from postroom.cli.supervisor import ChildProcess

    file = listening.fileno()
    web = ChildProcess("web", ["serve", "--listen-file", str(file)], environment, files=[file])
    return [web, *(ChildProcess("worker", ["work", "--supervised"], environment) for _ in range(workers))]


def stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()

    def asked() -> None:
        if stop.is_set():
            os._exit(130)  # asked twice: at once; the children end by themselves
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked)
    return stop


async def print_address_when_ready(listening: socket.socket, link: str | None) -> None:
    """Print the address once the web process answers that it is ready, and the way in."""
    from postroom.web import listener

    while not await _is_ready(listening):  # noqa: ASYNC110  another process becomes ready, no event of ours
        await asyncio.sleep(0.1)
    typer.echo(f"Postroom: {listener.get_local_url(listening)}")
    if link:
        typer.echo(f"Sign in once, within the hour: {link}")


async def _is_ready(listening: socket.socket) -> bool:
    from postroom.web import listener

    parts = urlsplit(listener.get_local_url(listening))
    try:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await reader.readline()
        writer.close()
    except OSError:
        return False
    return b" 200 " in answer
