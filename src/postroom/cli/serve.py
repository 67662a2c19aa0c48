"""`postroom serve`: run the web process.

The server itself is in `web.server`.
"""

import socket
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from postroom.config import Settings

EXAMPLES = """\b
Examples:
  postroom serve
  postroom serve --host 0.0.0.0 --port 8080"""

HostOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="IP address to listen on [default: POSTROOM_HOST]",
        show_default=False,
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="PORT",
        help="Port to listen on; 0 picks a free one [default: POSTROOM_PORT]",
        min=0,
        max=65535,
        show_default=False,
    ),
]


def serve(
    host: HostOption = None,
    port: PortOption = None,
    listen_file: Annotated[
        int | None, typer.Option(hidden=True, help="File descriptor of the supervisor's listening socket.")
    ] = None,
) -> None:
    """Run the web process: pages, the API and incoming pushes.

    It needs at least one worker (`postroom work`). `postroom up` runs both.
    """
    import uvloop

    from postroom.cli import startup, supervisor
    from postroom.web import connection_limits, listener

    connection_limits.raise_file_limit()
    settings = startup.load_process_settings("web", host=host, port=port)
    startup.start_tracing(settings, "web")
    if listen_file is None:
        listening = listener.open_socket(settings.host, settings.port)
    else:
        supervisor.exit_with_parent(grace_seconds=1)
        listening = socket.socket(fileno=listen_file)
    with listening, startup.database_url(settings) as url:
        uvloop.run(_serve(settings, url, listening, prints_url=listen_file is None))


async def _serve(settings: "Settings", url: str, listening: socket.socket, *, prints_url: bool) -> None:
    from postroom.cli import startup
    from postroom.web import listener, server
    from postroom.wiring.engine import open_engine

    public = settings.public_url or listener.get_local_url(listening)
    size, limits = settings.database_pool_size, server.TRANSACTION_LIMITS
    async with (
        startup.open_when_ready(settings, url, "web", pool_size=size, limits=limits) as opened,
        open_engine(settings, opened, url=public) as engine,
    ):
        if prints_url:
            typer.echo(f"Postroom: {listener.get_local_url(listening)}")
        await server.serve(engine, listening)
