"""Runs the web application on a socket that is open already, until it is told to stop."""

import math
import signal
import socket

import uvicorn

from postroom.logs import Log
from postroom.store.database import Database
from postroom.web import app

log = Log()


async def serve(database: Database, listening: socket.socket, *, stop_seconds: float) -> None:
    """Answer requests until SIGTERM or SIGINT; then let those under way end, within the limit."""
    # uvicorn raises the signal again when it has ended; stopping when asked is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    configuration = uvicorn.Config(
        app.create(database),
        log_config=None,  # everything goes through our own log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=math.ceil(stop_seconds),
    )
    log.info("web.started", port=listening.getsockname()[1])
    await uvicorn.Server(configuration).serve(sockets=[listening])
    log.info("web.stopped")
