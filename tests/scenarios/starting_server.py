"""A database server that starts or goes away: a proxy that rejects, cuts or forwards connections."""

import asyncio
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

from stream_server import listen


def error_response(code: str, message: str) -> bytes:
    fields = "".join(f"{name}{value}\0" for name, value in (("S", "FATAL"), ("C", code), ("M", message)))
    payload = fields.encode() + b"\0"
    return b"E" + struct.pack("!I", len(payload) + 4) + payload


class StartingServer:
    """Answers every connection with an error, in another language, until `state` is None.

    `faults`: by number, connections that get an error, or with None are cut.
    `cut_at`: the first statement with this text never arrives, because its connection is cut.
    """

    def __init__(self, url: str) -> None:
        self.state: tuple[str, str] | None = ("57P03", "das Datenbanksystem startet")
        self.faults: dict[int, tuple[str, str] | None] = {}
        self._count = 0
        self.cut_at: bytes | None = None
        parts = urlsplit(url)
        [host], [port] = (parse_qs(parts.query)[name] for name in ("host", "port"))
        self._socket = f"{host}/.s.PGSQL.{port}"
        self.user, self.database = parts.username, parts.path[1:]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            size = await reader.readexactly(4)
            startup = size + await reader.readexactly(struct.unpack("!I", size)[0] - 4)
            self._count += 1
            state = self.faults.get(self._count, self.state)
            if state is not None:
                writer.write(error_response(*state))
            elif self._count not in self.faults:
                await self._forward(startup, reader, writer)

    async def _forward(
        self, startup: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._socket)
        server_writer.write(startup)
        try:
            await asyncio.gather(self._copy(reader, server_writer), self._copy(server_reader, writer))
        finally:
            server_writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if self.cut_at is not None and self.cut_at in data:
                    self.cut_at = None
                    break
                writer.write(data)
        writer.close()


@asynccontextmanager
async def starting_server(url: str) -> AsyncGenerator[tuple[StartingServer, str]]:
    """The server and the URL of the same database behind it."""
    starting = StartingServer(url)
    async with listen(starting.handle) as port:
        options = "sslmode=disable&gssencmode=disable"
        yield starting, f"postgresql://{starting.user}@127.0.0.1:{port}/{starting.database}?{options}"
