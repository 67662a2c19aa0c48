"""A database server that does not accept connections yet: a proxy that rejects them until it is released."""

import asyncio
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit


def error_response(code: str, message: str) -> bytes:
    fields = "".join(f"{name}{value}\0" for name, value in (("S", "FATAL"), ("C", code), ("M", message)))
    payload = fields.encode() + b"\0"
    return b"E" + struct.pack("!I", len(payload) + 4) + payload


class StartingServer:
    """Answers every connection with an error, in another language, until `state` is None."""

    def __init__(self, url: str) -> None:
        self.state: tuple[str, str] | None = ("57P03", "das Datenbanksystem startet")
        parts = urlsplit(url)
        [host], [port] = (parse_qs(parts.query)[name] for name in ("host", "port"))
        self._socket = f"{host}/.s.PGSQL.{port}"
        self.user, self.database = parts.username, parts.path[1:]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            size = await reader.readexactly(4)
            startup = size + await reader.readexactly(struct.unpack("!I", size)[0] - 4)
            if self.state is not None:
                writer.write(error_response(*self.state))
            else:
                await self._forward(startup, reader, writer)
        writer.close()

    async def _forward(
        self, startup: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._socket)
        server_writer.write(startup)
        await asyncio.gather(_copy(reader, server_writer), _copy(server_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@asynccontextmanager
async def starting_server(url: str) -> AsyncGenerator[tuple[StartingServer, str]]:
    """The server and the URL of the same database behind it."""
    starting = StartingServer(url)
    server = await asyncio.start_server(starting.handle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        options = "sslmode=disable&gssencmode=disable"
        yield starting, f"postgresql://{starting.user}@127.0.0.1:{port}/{starting.database}?{options}"
