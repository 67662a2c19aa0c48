"""A small mail server on loopback: keeps what it accepts, and can refuse as a real one does."""

import asyncio
import ssl
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage

from stream_server import listen


@dataclass
class AcceptedMail:
    sender: str
    recipients: list[str]
    message: EmailMessage

    @property
    def text(self) -> str:
        return self.message.get_content()


@dataclass
class SmtpServer:
    """`verdict` decides about each recipient, `login` is what AUTH PLAIN must send, `tls` offers STARTTLS."""

    port: int = 0
    accepted: list[AcceptedMail] = field(default_factory=list)
    verdict: Callable[[str], int] = lambda _recipient: 250
    login: tuple[str, str] | None = None
    tls: ssl.SSLContext | None = None
    goodbye: int = 221

    @property
    def url(self) -> str:
        return f"smtp+plain://127.0.0.1:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sender, recipients = "", list[str]()
        writer.write(b"220 mail.example.org ESMTP\r\n")
        while True:
            line = (await reader.readuntil(b"\r\n")).decode().strip()
            match line.partition(" ")[0].upper():
                case "EHLO":
                    offers = ["mail.example.org", "AUTH PLAIN", "8BITMIME", *["STARTTLS"] * bool(self.tls)]
                    answer = "".join(f"250-{each}\r\n" for each in offers) + "250 SMTPUTF8"
                case "STARTTLS" if self.tls:
                    writer.write(b"220 go ahead\r\n")
                    await writer.start_tls(self.tls)
                    continue
                case "AUTH":
                    _, user, password = b64decode(line.split()[2]).decode().split("\0")
                    answer = "235 welcome" if (user, password) == self.login else "535 wrong"
                case "MAIL":
                    sender, recipients, answer = line.partition(":")[2].split()[0].strip("<>"), [], "250 ok"
                case "RCPT":
                    recipient = line.partition(":")[2].split()[0].strip("<>")
                    code = self.verdict(recipient)
                    recipients += [recipient] if code == 250 else []
                    answer = f"{code} {recipient}"
                case "DATA":
                    writer.write(b"354 go ahead\r\n")
                    content = (await reader.readuntil(b"\r\n.\r\n"))[:-3].replace(b"\r\n..", b"\r\n.")
                    parsed = message_from_bytes(content, policy=policy.default)
                    self.accepted.append(AcceptedMail(sender, recipients, parsed))
                    answer = "250 accepted"
                case "QUIT":
                    writer.write(f"{self.goodbye} bye\r\n".encode())
                    return
                case _:
                    answer = "250 ok"
            writer.write(f"{answer}\r\n".encode())
            await writer.drain()


@asynccontextmanager
async def mail_server(
    *, implicit_tls: ssl.SSLContext | None = None, **given: object
) -> AsyncGenerator[SmtpServer]:
    server = SmtpServer(**given)
    async with listen(server.handle, ssl=implicit_tls) as server.port:
        yield server
