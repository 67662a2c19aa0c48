"""Where the oracle reads: one snapshot of the database, and the simulator's truth."""

import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import cached_property
from typing import Any, LiteralString

import aiohttp
import psycopg
from psycopg.rows import dict_row

from postroom_chaos.oracle.evidence import Evidence, ObservedMailbox

Row = dict[str, Any]
Connection = psycopg.AsyncConnection[Any]
_PLAIN_ADDRESS = re.compile(r"[a-z0-9.+_-]+@[a-z0-9.-]+")


@dataclass(frozen=True)
class RemoteAttachment:
    """An attachment at the provider. `part` is numbered as in Gmail; `nested`: inside an attached message."""

    part: str
    name: str
    content_type: str
    size: int
    sha256: str
    inline: bool
    nested: bool


@dataclass(frozen=True)
class RemoteMessage:
    """A message as it is at the provider."""

    number: int
    id: str
    thread: str
    folders: tuple[str, ...]
    keys: tuple[str, ...]
    is_read: bool
    is_flagged: bool
    is_draft: bool
    importance: str
    categories: frozenset[str]
    received_at: datetime
    subject: str
    raw: bytes
    attachments: tuple[RemoteAttachment, ...]

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()

    @cached_property
    def parsed(self) -> EmailMessage:
        message = message_from_bytes(self.raw, policy=policy.default)
        assert isinstance(message, EmailMessage)
        return message

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The decoded parts of the message by SHA-256, as Python's `email` package decodes them."""
        found: dict[str, bytes] = {}
        for part in self.parsed.walk():
            if not part.is_multipart():
                content = part.get_payload(decode=True)
                if isinstance(content, bytes):
                    found[hashlib.sha256(content).hexdigest()] = content
        return found

    def is_pdf(self, attachment: RemoteAttachment) -> bool:
        """Whether an attachment is beyond doubt a PDF that a person attached."""
        return (
            attachment.content_type == "application/pdf"
            and attachment.name.lower().endswith(".pdf")
            and not attachment.inline
            and not attachment.nested
            and self.files.get(attachment.sha256, b"").startswith(b"%PDF-")
        )

    @cached_property
    def sender(self) -> str:
        """The address in the header From, as far as Python's `email` package can read it."""
        return self._senders[0] if self._senders else ""

    @property
    def has_clear_sender(self) -> bool:
        return len(self._senders) == 1 and bool(_PLAIN_ADDRESS.fullmatch(self.sender))

    @cached_property
    def _senders(self) -> tuple[str, ...]:
        try:
            headers = self.parsed.get_all("from", [])
            return tuple(address.addr_spec.lower() for header in headers for address in header.addresses)
        except (ValueError, IndexError, AttributeError):  # what the package raises on malformed headers
            return ()


@dataclass(frozen=True)
class RemoteFolder:
    """A folder or label at the provider."""

    id: str
    key: str
    name: str
    parent: str | None
    is_search: bool


@dataclass(frozen=True)
class RemoteMailbox:
    """Everything in a mailbox at the provider."""

    messages: dict[str, RemoteMessage]
    folders: dict[str, RemoteFolder]
    subscriptions: tuple[Row, ...]


@dataclass
class Sources:
    """What all checks read. Every query sees the same snapshot of the database."""

    evidence: Evidence
    connection: Connection
    http: aiohttp.ClientSession
    read: dict[str, RemoteMailbox]  # by address: each mailbox is read from the simulator once

    async def rows(self, query: LiteralString, *parameters: object) -> list[Row]:
        return await fetch_rows(self.connection, query, *parameters)

    async def remote(self, mailbox: ObservedMailbox) -> RemoteMailbox:
        if mailbox.address not in self.read:
            self.read[mailbox.address] = await self._read_remote(mailbox.address)
        return self.read[mailbox.address]

    async def _read_remote(self, address: str) -> RemoteMailbox:
        details = await self._get_json(f"mailboxes/{address}")
        listed: list[Row] = []
        start: int | None = 0
        while start is not None:
            page = await self._get_json(f"mailboxes/{address}/truth?start={start}&limit=500")
            listed += page["messages"]
            start = page["next"]
        messages = [_to_message(each, await self._get_raw(address, each["number"])) for each in listed]
        folders = [_to_folder(each, details["folders"]) for each in details["folders"]]
        return RemoteMailbox(
            {message.id: message for message in messages},
            {folder.id: folder for folder in folders},
            tuple(details["subscriptions"]),
        )

    async def _get_json(self, path: str) -> Any:
        async with self.http.get(f"{self.evidence.simulator_url}/_sim/{path}") as response:
            response.raise_for_status()
            return await response.json()

    async def _get_raw(self, address: str, number: int) -> bytes:
        path = f"mailboxes/{address}/messages/{number}/raw"
        async with self.http.get(f"{self.evidence.simulator_url}/_sim/{path}") as response:
            response.raise_for_status()
            return await response.read()


def _to_message(listed: Row, raw: bytes) -> RemoteMessage:
    return RemoteMessage(
        number=listed["number"],
        id=listed["id"],
        thread=listed["thread"],
        folders=tuple(listed["folders"]),
        keys=tuple(listed["keys"]),
        is_read=listed["read"],
        is_flagged=listed["flag"] == "flagged",
        is_draft=listed["draft"],
        importance=listed["importance"],
        categories=frozenset(listed["categories"]),
        received_at=datetime.fromtimestamp(listed["received"] / 1000, UTC),
        subject=listed["subject"],
        raw=raw,
        attachments=tuple(
            RemoteAttachment(
                each["part"],
                each["name"],
                each["content_type"],
                each["size"],
                each["sha256"],
                each.get("inline", False),
                each.get("nested", False),
            )
            for each in listed["attachments"]
        ),
    )


def _to_folder(shown: Row, all_shown: list[Row]) -> RemoteFolder:
    ids = {each["key"]: each["id"] for each in all_shown}
    return RemoteFolder(
        shown["id"], shown["key"], shown["name"], ids.get(shown["parent"] or ""), bool(shown["query"])
    )


async def fetch_rows(connection: Connection, query: LiteralString, *parameters: object) -> list[Row]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query, parameters)
        return await cursor.fetchall()


@asynccontextmanager
async def open_snapshot(database_url: str) -> AsyncGenerator[Connection]:
    """A connection whose statements all see the same state of the database, and change nothing."""
    async with await psycopg.AsyncConnection.connect(
        database_url,
        options="-c search_path=postroom -c timezone=UTC",
        application_name="postroom-chaos oracle",
    ) as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.set_read_only(True)
        yield connection
        await connection.rollback()


@asynccontextmanager
async def open_sources(
    evidence: Evidence, connection: Connection | None, read: dict[str, RemoteMailbox] | None
) -> AsyncGenerator[Sources]:
    """Sources over a snapshot of their own, or over the caller's connection."""
    read = {} if read is None else read
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as http:
        if connection is not None:
            yield Sources(evidence, connection, http, read)
            return
        async with open_snapshot(evidence.database_url) as snapshot:
            yield Sources(evidence, snapshot, http, read)
