"""The append-only audit trail: the tables `ledger`, `ledger_personal` and `seals`, and their digests.

Entries are written in the transaction of the change they record, then chained and signed in batches. An
entry's digest covers everything but its position. Personal values are in a side row; the entry holds only
their salted digest, so a purge can delete them without breaking the chain. Writers never wait for each other:
one sealer per organization assigns positions and seals later. Verification is in `flow.ledger.seal`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_bytes
from typing import Final
from uuid import UUID

from psycopg.rows import class_row

from postroom.model import OrganizationId
from postroom.store.database import Connection

_ENCODE: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
JsonValue = str | int | bool | None | Sequence["JsonValue"] | Mapping[str, "JsonValue"]


@dataclass(frozen=True, slots=True)
class NewLedgerEntry:
    """An entry to append. Personal values go into `personal`, never into `payload`."""

    event_type: str
    entity_type: str
    entity_id: str
    actor_id: str | None = None
    payload: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    personal: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A stored entry, with its personal values unless they were purged."""

    id: int
    position: int | None
    event_type: str
    entity_type: str
    entity_id: str
    actor_id: str | None
    payload: dict[str, JsonValue]
    personal_sha256: bytes | None
    sha256: bytes
    occurred_at: datetime
    salt: bytes | None
    personal: dict[str, JsonValue] | None


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
    """A signing key that is not in the database."""

    key_id: str
    sign: Callable[[bytes], bytes]


async def append_entries(
    connection: Connection, organization: UUID, entries: Sequence[NewLedgerEntry]
) -> None:
    """Append entries in the caller's transaction. The sealer is notified on commit."""
    if not entries:
        return
    cursor = await connection.execute(
        "SELECT postroom_now(), pg_notify('postroom_feed', %s)", [str(organization)]
    )
    now = await cursor.fetchone()
    assert now
    salts = [None if entry.personal is None else token_bytes(32) for entry in entries]
    personal = [personal_digest(salt, entry.personal) for salt, entry in zip(salts, entries, strict=True)]
    await connection.execute(
        _APPEND,
        [
            organization,
            now[0],
            [entry.event_type for entry in entries],
            [entry.entity_type for entry in entries],
            [entry.entity_id for entry in entries],
            [entry.actor_id for entry in entries],
            [to_canonical_json(entry.payload) for entry in entries],
            personal,
            [
                entry_digest(organization, entry, digest, now[0])
                for entry, digest in zip(entries, personal, strict=True)
            ],
            salts,
            [to_canonical_json(entry.personal) for entry in entries],
        ],
    )


# A side row is joined by the entry's digest, which its salt makes unique.
_APPEND = """
    WITH new AS (
        SELECT %b::uuid AS organization_id, %b::timestamptz AS occurred_at, entry.*
        FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bytea[], %b::bytea[],
            %b::bytea[], %b::text[]) WITH ORDINALITY AS entry (event_type, entity_type, entity_id, actor_id,
            payload, personal_sha256, sha256, salt, personal, place)
    ), written AS (
        INSERT INTO ledger (organization_id, event_type, entity_type, entity_id, actor_id, payload,
            personal_sha256, sha256, occurred_at)
        SELECT organization_id, event_type, entity_type, entity_id, actor_id, payload::jsonb,
            personal_sha256, sha256, occurred_at
        FROM new ORDER BY place
        RETURNING id, sha256
    )
    INSERT INTO ledger_personal (organization_id, entry_id, salt, personal)
    SELECT organization_id, written.id, salt, personal::jsonb
    FROM new JOIN written USING (sha256) WHERE salt IS NOT NULL
"""


async def purge_personal(connection: Connection, entity_type: str, entity_id: str) -> None:
    """Delete the personal values of all entries about an entity. The entries stay."""
    await connection.execute(
        """
        DELETE FROM ledger_personal USING ledger
        WHERE ledger.id = entry_id AND entity_type = %s AND entity_id = %s
        """,
        [entity_type, entity_id],
    )


async def purge_personal_of_many(connection: Connection, entity_type: str, entity_ids: Sequence[str]) -> None:
    """Delete the personal values of all entries about these entities."""
    if entity_ids:
        await connection.execute(
            """
            DELETE FROM ledger_personal USING ledger
            WHERE ledger.id = entry_id AND entity_type = %s AND entity_id = ANY(%s)
            """,
            [entity_type, list(entity_ids)],
        )


async def list_by_entity(connection: Connection, entity_type: str, entity_id: str) -> list[LedgerEntry]:
    """Entries about an entity, oldest first."""
    cursor = connection.cursor(row_factory=class_row(LedgerEntry))
    await cursor.execute(
        _READ + " WHERE entity_type = %s AND entity_id = %s ORDER BY ledger.id", [entity_type, entity_id]
    )
    return await cursor.fetchall()


async def seal_entries(
    connection: Connection, organization: UUID, signer: Signer, *, batch: int = 1000
) -> int:
    """Assign positions to committed entries, seal them and return how many.

    Runs under the lease of the organization's `seal` work, so there is one sealer at a time.
    """
    cursor = await connection.execute("SELECT entry_position, entry_sha256 FROM number_ledger(%s)", [batch])
    rows = await cursor.fetchall()
    if not rows:
        return 0
    last_seal = await get_last_seal(connection)
    number = last_seal.number + 1 if last_seal else 1
    previous = last_seal.sha256 if last_seal else None
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


async def list_organizations_to_seal(connection: Connection) -> list[OrganizationId]:
    """Organizations with unsealed entries. The engine role sees nothing else of the ledger."""
    cursor = await connection.execute("SELECT organization FROM organizations_to_seal() AS organization")
    return [OrganizationId(row[0]) for row in await cursor.fetchall()]


async def get_last_seal(connection: Connection) -> Seal | None:
    cursor = connection.cursor(row_factory=class_row(Seal))
    await cursor.execute(
        """
        SELECT number, first_position, last_position, previous_sha256, sha256, signature, key_id
        FROM seals ORDER BY number DESC LIMIT 1
        """
    )
    return await cursor.fetchone()


async def list_seals(connection: Connection, *, after: int, limit: int) -> list[Seal]:
    """Seals after this number, in order."""
    cursor = connection.cursor(row_factory=class_row(Seal))
    await cursor.execute(
        """
        SELECT number, first_position, last_position, previous_sha256, sha256, signature, key_id
        FROM seals WHERE number > %s ORDER BY number LIMIT %s
        """,
        [after, limit],
    )
    return await cursor.fetchall()


async def list_between(connection: Connection, first: int, last: int) -> list[LedgerEntry]:
    cursor = connection.cursor(row_factory=class_row(LedgerEntry))
    await cursor.execute(_READ + " WHERE position BETWEEN %s AND %s ORDER BY position", [first, last])
    return await cursor.fetchall()


async def list_unsealed(connection: Connection, *, after: int, limit: int) -> list[LedgerEntry]:
    cursor = connection.cursor(row_factory=class_row(LedgerEntry))
    await cursor.execute(
        _READ + " WHERE position IS NULL AND ledger.id > %s ORDER BY ledger.id LIMIT %s", [after, limit]
    )
    return await cursor.fetchall()


async def list_newest(connection: Connection, *, limit: int) -> list[LedgerEntry]:
    cursor = connection.cursor(row_factory=class_row(LedgerEntry))
    await cursor.execute(_READ + " ORDER BY ledger.id DESC LIMIT %s", [limit])
    return await cursor.fetchall()


_READ = """
    SELECT ledger.id, position, event_type, entity_type, entity_id, actor_id, payload,
        personal_sha256, sha256, occurred_at, salt, personal
    FROM ledger LEFT JOIN ledger_personal ON entry_id = ledger.id
"""


def to_canonical_json(value: JsonValue) -> str:
    """JSON with sorted keys, so that equal values have equal texts."""
    return _ENCODE(value)


def personal_digest(salt: bytes | None, personal: Mapping[str, JsonValue] | None) -> bytes | None:
    return None if salt is None else sha256(salt + to_canonical_json(personal).encode()).digest()


def entry_digest(
    organization: UUID, entry: NewLedgerEntry | LedgerEntry, personal: bytes | None, occurred_at: datetime
) -> bytes:
    """The digest over everything in an entry but its position."""
    content: list[JsonValue] = [
        "postroom ledger entry 1",
        str(organization),
        entry.event_type,
        entry.entity_type,
        entry.entity_id,
        entry.actor_id,
        entry.payload,
        personal.hex() if personal else None,
        occurred_at.astimezone(UTC).isoformat(timespec="microseconds"),
    ]
    return sha256(to_canonical_json(content).encode()).digest()


def seal_digest(
    previous: bytes | None, number: int, first: int, last: int, entries: Sequence[bytes]
) -> bytes:
    """The digest over the previous seal and the entries since then."""
    head = f"postroom ledger seal 1 {number} {first} {last} ".encode()
    return sha256(head + (previous or bytes(32)) + b"".join(entries)).digest()


def signed_bytes(organization: UUID, sealed: bytes) -> bytes:
    return b"postroom ledger signature 1 " + organization.bytes + sealed
