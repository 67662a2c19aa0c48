"""Open the listening socket of the web server; the URL for a browser on this machine."""

import errno
import os
import socket
import time
from typing import Final

from postroom.errors import OperatorError

_REMEDIES: Final = {
    errno.EADDRINUSE: "the port is in use. Stop the other program or choose another (--port, POSTROOM_PORT)",
    errno.EADDRNOTAVAIL: "this machine has no such address. Choose another host (--host, POSTROOM_HOST)",
    errno.EACCES: "permission denied. Choose a port of 1024 or higher (--port, POSTROOM_PORT)",
}


def open_socket(host: str, port: int, *, patience_seconds: float = 0) -> socket.socket:
    """Open a listening socket, retrying for a while: a process that is shutting down may hold the port."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return _open_once(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline:
                raise _explain(host, port, error) from error
        time.sleep(0.1)


def get_local_url(listening: socket.socket) -> str:
    """The URL for a browser on this machine."""
    return build_url(*listening.getsockname()[:2])


def build_url(host: str, port: int) -> str:
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104  compared, not bound
    return f"http://{reachable}:{port}"


def _open_once(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except BaseException:
        listening.close()
        raise
    return listening


def _explain(host: str, port: int, error: OSError) -> OperatorError:
    if isinstance(error, socket.gaierror):
        cause = "the host name does not resolve. Choose an address of this machine (--host, POSTROOM_HOST)"
    else:
        number = error.errno or 0
        unknown = f"{os.strerror(number).lower()}. Choose another address (--host) or port (--port)"
        cause = _REMEDIES.get(number, unknown)
    return OperatorError(f"Cannot listen on {host} port {port}: {cause}.")
