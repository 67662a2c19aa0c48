"""The HTTP and HTTPS servers: parse listen addresses, bind sockets, run uvicorn, wait for a signal.

It serves any ASGI app and defines no route.
"""

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from mailsim.errors import InvalidRequest

GRACE_SECONDS = 1  # for requests still being answered at shutdown


@dataclass(frozen=True, slots=True)
class ListenAddress:
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isdecimal() or int(port) > 65535:
            raise InvalidRequest(f"{text!r} is not HOST:PORT; use a form such as 127.0.0.1:8025")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))


def listen(address: ListenAddress) -> socket.socket:
    """Bind and return a listening socket. Raises InvalidRequest if the address is not available."""
    try:
        family, kind, protocol, _, name = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(name)
            listener.listen(2048)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidRequest(f"cannot listen on {address.host}:{address.port}: {reason}") from error
    return listener


def listener_url(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@contextlib.asynccontextmanager
async def serve(
    app: ASGIApp, plain: socket.socket, secure: socket.socket, server_pem: Path
) -> AsyncGenerator[None]:
    """Serve the app on both sockets inside the block."""
    logging.getLogger("uvicorn.error").addFilter(_is_unexpected)
    servers = [_server(app, None), _server(app, server_pem)]
    loops: list[asyncio.Task[None]] = []
    for server, listener in zip(servers, (plain, secure), strict=True):
        await server.startup(sockets=[listener])
        loops.append(asyncio.create_task(server.main_loop()))
    try:
        yield
    finally:
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*loops)
        await asyncio.gather(*(server.shutdown() for server in servers))


def _server(app: ASGIApp, server_pem: Path | None) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,  # the middleware sends the simulator's time
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=server_pem,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Filter out log records of injected faults (cut connections) and of requests cancelled at shutdown."""
    if record.exc_info and record.exc_info[0] is asyncio.CancelledError:
        return False
    message = record.getMessage()
    return not message.startswith(("ASGI callable returned without", "Cancel "))


async def wait_for_signal(start: Callable[[], None]) -> None:
    """Call `start`, then wait for SIGINT or SIGTERM."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    start()
    await ended.wait()
