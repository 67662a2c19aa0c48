"""The append-only audit trail: the tables `ledger`, `ledger_personal`, `ledger_purges` and `seals`.

Entries are written in the transaction of the change they record, then chained and signed in batches. An
entry's digest covers its content; its MAC covers digest and id, and is made with a key that is not in the
database. Personal values are in a side row; the entry holds only their salted digest, so a purge can delete
them without breaking the chain. Writers never wait for each other: one sealer per organization assigns
positions and seals later, in `flow.ledger.seal`. Verification is in `flow.ledger.verification`.
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
from postroom.store.connection import Connection
from postroom.store.entry_macs import EntryMacs
from postroom.store.notifier import FEED_CHANNEL

# Records that personal values were deleted.
PURGE_EVENT: Final = "PERSONAL_VALUES_PURGED"
# Records that entries have MACs from now on, in a ledger that an earlier version began.
AUTHENTICATION_EVENT: Final = "LEDGER_AUTHENTICATION_STARTED"
# No seal covers more entries. A forged one with a huge range must not be read into memory.
MAX_SEALED: Final = 1000
# Below every id, forged ones included.
BEFORE_ALL: Final = -(2**63)
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
    mac: bytes | None
    salt: bytes | None
    personal: dict[str, JsonValue] | None
    purge_entry_id: int | None
    purge_mac: bytes | None
    purge_event_type: str | None
    purged_entries: int  # that name this entry as the record of their purge


@dataclass(frozen=True, slots=True)
class UnsealedEntry:
    """What the sealer reads of an entry."""

    id: int
    sha256: bytes
    mac: bytes | None


@dataclass(frozen=True, slots=True)
class Seal:
    number: int
    first_position: int
    last_position: int
    previous_sha256: bytes | None
    sha256: bytes
    signature: bytes
    key_id: str
    version: int

    @property
    def head(self) -> str:
        return f"{self.number}:{self.sha256.hex()}"


@dataclass(frozen=True, slots=True)
class Signer:
    """A signing key that is not in the database."""

    key_id: str
    sign: Callable[[bytes], bytes]


async def append_entries(
    connection: Connection, organization: UUID, entries: Sequence[NewLedgerEntry]
) -> None:
    """Append entries in the caller's transaction. The sealer is notified on commit."""
    if entries:
        await _append(connection, organization, entries)


async def _append(connection: Connection, organization: UUID, entries: Sequence[NewLedgerEntry]) -> list[int]:
    """Append entries and return their ids. Ids come first, because the MACs cover them."""
    cursor = await connection.execute(
        """
        SELECT postroom_now(), ARRAY(SELECT nextval('ledger_id_seq') FROM generate_series(1, %s))
        """,
        [len(entries)],
    )
    await connection.notify(FEED_CHANNEL, str(organization))
    row = await cursor.fetchone()
    assert row
    now, ids = row[0], row[1]
    salts = [None if entry.personal is None else token_bytes(32) for entry in entries]
    personal = [personal_digest(salt, entry.personal) for salt, entry in zip(salts, entries, strict=True)]
    digests = [
        entry_digest(organization, entry, digest, now)
        for entry, digest in zip(entries, personal, strict=True)
    ]
    macs = _get_macs(connection)
    await connection.execute(
        _APPEND,
        [
            organization,
            now,
            ids,
            [entry.event_type for entry in entries],
            [entry.entity_type for entry in entries],
            [entry.entity_id for entry in entries],
            [entry.actor_id for entry in entries],
            [to_canonical_json(entry.payload) for entry in entries],
            personal,
            digests,
            [
                macs.make(entry_mac_data(organization, entry_id, digest))
                for entry_id, digest in zip(ids, digests, strict=True)
            ],
            salts,
            [to_canonical_json(entry.personal) for entry in entries],
        ],
    )
    return ids


_APPEND = """
    WITH new AS (
        SELECT %b::uuid AS organization_id, %b::timestamptz AS occurred_at, entry.*
        FROM unnest(%b::int8[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bytea[],
            %b::bytea[], %b::bytea[], %b::bytea[], %b::text[]) AS entry (id, event_type, entity_type,
            entity_id, actor_id, payload, personal_sha256, sha256, mac, salt, personal)
    ), written AS (
        INSERT INTO ledger (organization_id, id, event_type, entity_type, entity_id, actor_id, payload,
            personal_sha256, sha256, mac, occurred_at)
        OVERRIDING SYSTEM VALUE
        SELECT organization_id, id, event_type, entity_type, entity_id, actor_id, payload::jsonb,
            personal_sha256, sha256, mac, occurred_at
        FROM new
    )
    INSERT INTO ledger_personal (organization_id, entry_id, salt, personal)
    SELECT organization_id, id, salt, personal::jsonb FROM new WHERE salt IS NOT NULL
"""


def _get_macs(connection: Connection) -> EntryMacs:
    assert connection.entry_macs is not None, "only connections of a Database append to the ledger"
    return connection.entry_macs


async def purge_personal(connection: Connection, entity_type: str, entity_ids: Sequence[str]) -> None:
    """Delete the personal values of all entries about these entities. The entries stay."""
    if entity_ids:
        cursor = await connection.execute(
            "SELECT id FROM ledger WHERE entity_type = %s AND entity_id = ANY(%s)",
            [entity_type, list(entity_ids)],
        )
        await purge_entries(connection, [row[0] for row in await cursor.fetchall()])


async def purge_entries(connection: Connection, entries: Sequence[int]) -> int:
    """Delete the personal values of these entries, record it, and return how many had some."""
    if not entries:
        return 0
    cursor = await connection.execute("SELECT id, sha256 FROM delete_ledger_personal(%b)", [list(entries)])
    deleted = await cursor.fetchall()
    await _record_purge(connection, deleted)
    return len(deleted)


async def record_earlier_purges(connection: Connection, boundary: int, *, limit: int) -> int:
    """Record purges by earlier versions, which left no record, and return how many.

    Runs before the first seal of version 2. From then on, a purge without a record is a fault.
    """
    cursor = await connection.execute(
        """
        SELECT id, sha256 FROM ledger WHERE id <= %s AND personal_sha256 IS NOT NULL
            AND NOT EXISTS (SELECT FROM ledger_personal WHERE entry_id = ledger.id)
            AND NOT EXISTS (SELECT FROM ledger_purges WHERE entry_id = ledger.id)
        ORDER BY id LIMIT %s
        """,
        [boundary, limit],
    )
    purged = await cursor.fetchall()
    await _record_purge(connection, purged)
    return len(purged)


async def _record_purge(connection: Connection, purged: Sequence[tuple[int, bytes]]) -> None:
    """Append the entry that records a purge, and tie each purged entry to it."""
    if not purged:
        return
    cursor = await connection.execute("SELECT current_organization()")
    [(organization,)] = await cursor.fetchall()
    entry = NewLedgerEntry(PURGE_EVENT, "organization", str(organization), payload={"entries": len(purged)})
    [purge] = await _append(connection, organization, [entry])
    macs = _get_macs(connection)
    await connection.execute(
        """
        INSERT INTO ledger_purges (organization_id, entry_id, purge_entry_id, mac)
        SELECT %b, entry_id, %b, mac FROM unnest(%b::int8[], %b::bytea[]) AS purged (entry_id, mac)
        """,
        [
            organization,
            purge,
            [entry_id for entry_id, _ in purged],
            [macs.make(purge_mac_data(organization, entry_id, digest, purge)) for entry_id, digest in purged],
        ],
    )


async def list_by_entity(connection: Connection, entity_type: str, entity_id: str) -> list[LedgerEntry]:
    """Entries about an entity, oldest first."""
    cursor = connection.cursor(row_factory=class_row(LedgerEntry))
    await cursor.execute(
        _READ + " WHERE ledger.entity_type = %s AND ledger.entity_id = %s ORDER BY ledger.id",
        [entity_type, entity_id],
    )
    return await cursor.fetchall()


async def seal_entries(
    connection: Connection,
    organization: UUID,
    signer: Signer,
    entries: Sequence[UnsealedEntry],
    last_seal: Seal | None,
    *,
    version: int,
) -> None:
    """Assign positions to these entries and seal them.

    Runs under the lease of the organization's `seal` work, so there is one sealer at a time.
    """
    cursor = await connection.execute(
        "SELECT entry_id, entry_position FROM number_ledger(%b)", [[entry.id for entry in entries]]
    )
    rows = await cursor.fetchall()
    assert [row[0] for row in rows] == [entry.id for entry in entries], "another sealer runs"
    number = last_seal.number + 1 if last_seal else 1
    previous = last_seal.sha256 if last_seal else None
    first, last = rows[0][1], rows[-1][1]
    sealed = seal_digest(previous, number, first, last, entries, version=version)
    await connection.execute(
        """
        INSERT INTO seals (organization_id, number, first_position, last_position, previous_sha256,
            sha256, signature, key_id, version)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
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
            version,
        ],
    )


async def list_earlier_entries(connection: Connection, boundary: int, *, limit: int) -> list[UnsealedEntry]:
    """Unsealed entries of earlier versions, which made no MACs, in order of their ids."""
    cursor = connection.cursor(row_factory=class_row(UnsealedEntry))
    await cursor.execute(
        """
        SELECT id, sha256, mac FROM ledger
        WHERE position IS NULL AND mac IS NULL AND id BETWEEN 1 AND %s ORDER BY id LIMIT %s
        """,
        [boundary, limit],
    )
    return await cursor.fetchall()


async def list_entries_to_seal(connection: Connection, *, after: int, limit: int) -> list[UnsealedEntry]:
    """Committed entries without a position, in order of their ids.

    Without their MACs, if they are not as Postroom writes them: without a digest, or one of several with
    their id.
    """
    cursor = connection.cursor(row_factory=class_row(UnsealedEntry))
    await cursor.execute(
        """
        SELECT id, sha256, CASE WHEN sha256 IS NOT NULL
            AND (SELECT count(*) FROM ledger AS same WHERE same.id = ledger.id) = 1 THEN mac END AS mac
        FROM ledger WHERE position IS NULL AND id > %s ORDER BY id LIMIT %s
        """,
        [after, limit],
    )
    return await cursor.fetchall()


async def get_boundary(connection: Connection) -> int:
    """The last id that an earlier version, which made no MACs, may have written; 0 if it wrote none."""
    cursor = await connection.execute("SELECT last_entry_id FROM ledger_boundaries")
    row = await cursor.fetchone()
    return row[0] if row else 0


async def list_organizations_to_seal(connection: Connection) -> list[OrganizationId]:
    """Organizations with unsealed entries. The engine role sees nothing else of the ledger."""
    cursor = await connection.execute("SELECT organization FROM organizations_to_seal() AS organization")
    return [OrganizationId(row[0]) for row in await cursor.fetchall()]


async def get_last_seal(connection: Connection) -> Seal | None:
    cursor = connection.cursor(row_factory=class_row(Seal))
    await cursor.execute(
        """
        SELECT number, first_position, last_position, previous_sha256, sha256, signature, key_id, version
        FROM seals ORDER BY number DESC LIMIT 1
        """
    )
    return await cursor.fetchone()


async def list_seals(connection: Connection, *, after: int, limit: int) -> list[Seal]:
    """Seals after this number, in order."""
    cursor = connection.cursor(row_factory=class_row(Seal))
    await cursor.execute(
        """
        SELECT number, first_position, last_position, previous_sha256, sha256, signature, key_id, version
        FROM seals WHERE number > %s ORDER BY number LIMIT %s
        """,
        [after, limit],
    )
    return await cursor.fetchall()


async def list_missing_heads(connection: Connection, heads: Sequence[str]) -> list[str]:
    """Those of these heads whose seals are not in the ledger."""
    cursor = await connection.execute(
        """
        SELECT head FROM unnest(%s::text[]) AS head
        WHERE NOT EXISTS (SELECT FROM seals WHERE number = split_part(head, ':', 1)::int8
            AND sha256 = decode(split_part(head, ':', 2), 'hex'))
        """,
        [list(heads)],
    )
    return [row[0] for row in await cursor.fetchall()]


async def count_stray_rows(connection: Connection) -> tuple[int, int, int, int]:
    """Count entries that no seal can cover, impossible seals, and repeated ids and numbers of both."""
    cursor = await connection.execute(
        """
        SELECT (SELECT count(*) FROM ledger
                WHERE position < 1 OR position > (SELECT coalesce(max(last_position), 0) FROM seals)),
            (SELECT count(*) FROM seals WHERE number < 1),
            (SELECT count(*) - count(DISTINCT id) FROM ledger),
            (SELECT count(*) - count(DISTINCT number) FROM seals)
        """
    )
    row = await cursor.fetchone()
    assert row is not None, "counts have a row"
    return row[0], row[1], row[2], row[3]


async def list_between(connection: Connection, first: int, last: int, *, limit: int) -> list[LedgerEntry]:
    cursor = connection.cursor(row_factory=class_row(LedgerEntry))
    await cursor.execute(
        _READ + " WHERE ledger.position BETWEEN %s AND %s ORDER BY ledger.position LIMIT %s",
        [first, last, limit],
    )
    return await cursor.fetchall()


async def list_unsealed(connection: Connection, *, after: int, limit: int) -> list[LedgerEntry]:
    cursor = connection.cursor(row_factory=class_row(LedgerEntry))
    await cursor.execute(
        _READ
        + """
        WHERE ledger.position IS NULL AND ledger.id > %s ORDER BY ledger.id LIMIT %s
        """,
        [after, limit],
    )
    return await cursor.fetchall()


async def list_newest(connection: Connection, *, limit: int) -> list[LedgerEntry]:
    cursor = connection.cursor(row_factory=class_row(LedgerEntry))
    await cursor.execute(_READ + " ORDER BY ledger.id DESC LIMIT %s", [limit])
    return await cursor.fetchall()


# OFFSET 0 makes the planner look up the rows of each entry. A hash join would read a whole table per batch.
_READ = """
    SELECT ledger.id, ledger.position, ledger.event_type, ledger.entity_type, ledger.entity_id,
        ledger.actor_id, ledger.payload, ledger.personal_sha256, ledger.sha256, ledger.occurred_at,
        ledger.mac, salt, personal, purge_entry_id, purge.mac AS purge_mac,
        (SELECT event_type FROM ledger AS record WHERE record.id = purge_entry_id) AS purge_event_type,
        (SELECT count(*) FROM ledger_purges AS purged WHERE purged.purge_entry_id = ledger.id)
            AS purged_entries
    FROM ledger
        LEFT JOIN LATERAL (
            SELECT salt, personal FROM ledger_personal WHERE entry_id = ledger.id OFFSET 0
        ) AS values ON true
        LEFT JOIN LATERAL (
            SELECT purge_entry_id, mac FROM ledger_purges WHERE entry_id = ledger.id OFFSET 0
        ) AS purge ON true
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


def entry_mac_data(organization: UUID, entry_id: int, digest: bytes) -> bytes:
    """What the MAC of an entry covers. The id makes a copy of an entry a forgery."""
    return b"postroom ledger mac 1 " + organization.bytes + _number(entry_id) + digest


def purge_mac_data(organization: UUID, entry_id: int, digest: bytes, purge_entry_id: int) -> bytes:
    """What the MAC of a purged entry covers: the entry, and the entry that records the purge."""
    numbers = _number(entry_id) + _number(purge_entry_id)
    return b"postroom ledger purge 1 " + organization.bytes + numbers + digest


def _number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def seal_digest(
    previous: bytes | None,
    number: int,
    first: int,
    last: int,
    entries: Sequence[UnsealedEntry | LedgerEntry],
    *,
    version: int,
) -> bytes:
    """The digest over the previous seal and the entries since then; from version 2 on with their MACs."""
    head = f"postroom ledger seal {version} {number} {first} {last} ".encode()
    covered = [entry.sha256 + ((entry.mac or b"") if version > 1 else b"") for entry in entries]
    return sha256(head + (previous or bytes(32)) + b"".join(covered)).digest()


def signed_bytes(organization: UUID, sealed: bytes) -> bytes:
    return b"postroom ledger signature 1 " + organization.bytes + sealed
