"""The HTTPS proxy: leads programs that insist on the providers' host names to the simulator.

It connects to the simulator's own TLS listener and to nothing else, whichever host a program asks for.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Collection
from urllib.parse import SplitResult

from mailsim.tls import NAMES

HEAD_SECONDS = 30
_MAX_HEAD = 64 * 1024
_CHUNK = 64 * 1024


@contextlib.asynccontextmanager
async def serve_proxy(
    listener: socket.socket, target: SplitResult, hosts: Collection[str]
) -> AsyncGenerator[None]:
    """Serve the proxy inside the block. It leads the providers' names and `hosts` to the URL `target`."""
    known = {name.lower() for name in (*NAMES, *hosts)}
    tunnels: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tunnels.add(task)
        task.add_done_callback(tunnels.discard)
        try:
            await _serve_client(reader, writer, target, known)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client is gone, or does not speak HTTP
        except asyncio.CancelledError:
            pass  # mailsim stops
        finally:
            writer.close()

    server = await asyncio.start_server(accept, sock=listener, limit=_MAX_HEAD)
    try:
        yield
    finally:
        server.close()
        for tunnel in tunnels:
            tunnel.cancel()
        await asyncio.gather(*tunnels)


async def _serve_client(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    target: SplitResult,
    known: Collection[str],
) -> None:
    async with asyncio.timeout(HEAD_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    host = rest.partition(" ")[0].rpartition(":")[0].strip("[]").lower()
    if method != "CONNECT":
        _refuse(writer, "501 Not Implemented", "mailsim's proxy tunnels HTTPS only; set HTTPS_PROXY alone")
    elif host not in known:
        _refuse(
            writer,
            "403 Forbidden",
            f"mailsim does not simulate {host}; reach it directly with NO_PROXY={host}",
        )
    else:
        inner_reader, inner_writer = await asyncio.open_connection(target.hostname, target.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
        finally:
            inner_writer.close()


def _refuse(writer: asyncio.StreamWriter, status: str, reason: str) -> None:
    body = f"{reason}\n".encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
    writer.write(f"{head}connection: close\r\n\r\n".encode() + body)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the sender stops, then close the receiving side: TLS has no half-open connections."""
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    finally:
        writer.close()
