"""The append-only audit trail (K4): entries written with what they tell of, chained and signed in batches.

An entry's digest covers everything in it but its position. Personal values stand in a side row; the entry holds
only their salted digest, so a purge can delete them and the chain stays whole. Writers never wait for each other:
positions and seals are given later, by one sealer per organization.
"""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_bytes
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from postroom.store.database import Connection

Plain = str | int | bool | None | Sequence["Plain"] | Mapping[str, "Plain"]


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened. `payload` is free of personal values; those go into `personal`."""

    event_type: str
    entity_type: str
    entity_id: str
    actor_id: str | None = None
    payload: Mapping[str, Plain] = field(default_factory=dict[str, Plain])
    personal: Mapping[str, Plain] | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry as it stands in the ledger, with its side row where that still exists."""

    id: int
    position: int | None
    event_type: str
    entity_type: str
    entity_id: str
    actor_id: str | None
    payload: dict[str, Plain]
    personal_sha256: bytes | None
    sha256: bytes
    occurred_at: datetime
    salt: bytes | None
    personal: dict[str, Plain] | None


@dataclass(frozen=True, slots=True)
class Seal:
    number: int
    first_position: int
    last_position: int
    previous_sha256: bytes | None
    sha256: bytes
    signature: bytes
    key_id: str


@dataclass(frozen=True, slots=True)
class Signer:
    """A key outside the database."""

    key_id: str
    sign: Callable[[bytes], bytes]


async def append(connection: Connection, organization: UUID, entries: Sequence[Entry]) -> None:
    """Write entries in the caller's transaction; the sealer hears of them when it commits."""
    if not entries:
        return
    cursor = await connection.execute("SELECT postroom_now(), pg_notify('postroom_feed', %s)", [str(organization)])
    row = await cursor.fetchone()
    assert row
    occurred_at: datetime = row[0]
    for entry in entries:
        salt = token_bytes(32) if entry.personal is not None else None
        personal = personal_digest(salt, entry.personal) if salt and entry.personal is not None else None
        await connection.execute(
            """
            WITH entry AS (
                INSERT INTO ledger (organization_id, event_type, entity_type, entity_id, actor_id,
                    payload, personal_sha256, sha256, occurred_at)
                VALUES (%(organization)s, %(event_type)s, %(entity_type)s, %(entity_id)s, %(actor_id)s,
                    %(payload)s, %(personal_sha256)s, %(sha256)s, %(occurred_at)s)
                RETURNING id
            )
            INSERT INTO ledger_personal (organization_id, entry_id, salt, personal)
            SELECT %(organization)s, id, %(salt)s, %(personal)s FROM entry WHERE %(salt)s::bytea IS NOT NULL
            """,
            {
                "organization": organization,
                "event_type": entry.event_type,
                "entity_type": entry.entity_type,
                "entity_id": entry.entity_id,
                "actor_id": entry.actor_id,
                "payload": Jsonb(entry.payload),
                "personal_sha256": personal,
                "sha256": digest(organization, entry, personal, occurred_at),
                "occurred_at": occurred_at,
                "salt": salt,
                "personal": Jsonb(entry.personal),
            },
        )


async def seal(connection: Connection, organization: UUID, signer: Signer, *, batch: int = 1000) -> int:
    """Give committed entries their positions and seal them; how many there were.

    One sealer at a time: it runs under the lease of the organization's `seal` work.
    """
    cursor = await connection.execute("SELECT entry_position, entry_sha256 FROM number_ledger(%s)", [batch])
    rows = await cursor.fetchall()
    if not rows:
        return 0
    before = await last_seal(connection)
    number = before.number + 1 if before else 1
    previous = before.sha256 if before else None
    first, last = rows[0][0], rows[-1][0]
    sealed = seal_digest(previous, number, first, last, [row[1] for row in rows])
    await connection.execute(
        """
        INSERT INTO seals (organization_id, number, first_position, last_position, previous_sha256,
            sha256, signature, key_id)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
        """,
        [
            organization,
            number,
            first,
            last,
            previous,
            sealed,
            signer.sign(signed_bytes(organization, sealed)),
            signer.key_id,
        ],
    )
    return len(rows)


async def last_seal(connection: Connection) -> Seal | None:
    cursor = connection.cursor(row_factory=class_row(Seal))
    await cursor.execute(
        """
        SELECT number, first_position, last_position, previous_sha256, sha256, signature, key_id
        FROM seals ORDER BY number DESC LIMIT 1
        """
    )
    return await cursor.fetchone()


async def seals(connection: Connection) -> AsyncGenerator[Seal]:
    """Every seal, in order."""
    cursor = connection.cursor(row_factory=class_row(Seal))
    await cursor.execute(
        """
        SELECT number, first_position, last_position, previous_sha256, sha256, signature, key_id
        FROM seals ORDER BY number
        """
    )
    async for each in cursor:
        yield each


async def entries_between(connection: Connection, first: int, last: int) -> list[Stored]:
    return await _entries(connection, "WHERE position BETWEEN %s AND %s ORDER BY position", [first, last])


async def unsealed(connection: Connection, *, limit: int = 1000) -> list[Stored]:
    return await _entries(connection, "WHERE position IS NULL ORDER BY ledger.id LIMIT %s", [limit])


async def newest(connection: Connection, *, limit: int) -> list[Stored]:
    return await _entries(connection, "ORDER BY ledger.id DESC LIMIT %s", [limit])
