"""A webhook receiver of a test's own, on a real socket: answers the handshake, keeps what it is sent."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from postroom.ports import PushRequest
from stream_server import listen


@dataclass
class Receiver:
    url: str = ""
    status: int = 202
    validates: bool = True
    before_handshake: Callable[[str], Awaitable[None]] | None = None
    pushes: asyncio.Queue[PushRequest] = field(default_factory=asyncio.Queue)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        kept = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        query = dict(parse_qsl(urlsplit(head[0].split()[1]).query))
        authorization = next((kept[name] for name in kept if name.lower() == "authorization"), None)
        if "validationToken" in query:
            if self.before_handshake is not None:
                await self.before_handshake(head[0].split()[1])
            status, text = (200, query["validationToken"]) if self.validates else (400, "no")
        else:
            status, text = self.status, ""
            self.pushes.put_nowait(PushRequest(query, authorization, body))
        answer = (
            f"HTTP/1.1 {status} -\r\nContent-Type: text/plain\r\nContent-Length: {len(text.encode())}\r\n"
        )
        writer.write(f"{answer}Connection: close\r\n\r\n{text}".encode())
        await writer.drain()


@asynccontextmanager
async def receiving() -> AsyncGenerator[Receiver]:
    receiver = Receiver()
    async with listen(receiver.handle) as port:
        receiver.url = f"http://127.0.0.1:{port}/push"
        yield receiver
