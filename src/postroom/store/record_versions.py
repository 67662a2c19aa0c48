"""The table `record_versions`, and every change of a record after its confirmation."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from postroom.store.database import Connection
from postroom.store.records import Record


class ChangeKind(StrEnum):
    """What was done to a record."""

    CONFIRMED = "confirmed"
    REOPENED = "reopened"
    CORRECTED = "corrected"
    VOIDED = "voided"
    MERGED = "merged"
    SPLIT = "split"
    LINKED = "linked"  # to an order that was imported later


@dataclass(frozen=True, slots=True)
class VersionNote:
    """What was done, by whom and why. `documents` moved from or to the other record."""

    change: ChangeKind
    reason: str
    actor: str
    other_record: UUID | None = None
    documents: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True)
class RecordVersion:
    """A record as a change left it."""

    version: int
    change: ChangeKind
    state: str
    key: str
    fields: dict[str, Any]
    order_id: UUID | None
    reason: str
    actor_id: str
    other_record_id: UUID | None
    document_ids: Sequence[UUID]
    changed_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "change", ChangeKind(self.change))


async def store_version(
    connection: Connection, before: Record, after: Record, note: VersionNote, *, fingerprint: bytes | None
) -> bool:
    """Change a record and add the version. False if it is no longer at the version of `before`.

    A live record whose fingerprint another live one has gets one of its own: a person decided that the two
    are not the same.
    """
    cursor = await connection.execute(
        _STORE_VERSION,
        {
            "id": before.id,
            "version": before.version,
            "state": after.state.value,
            "key": after.key,
            "fields": Jsonb(after.fields),
            "order": after.order_id,
            "merged_into": after.merged_into,
            "confirmed_by": after.confirmed_by,
            "fingerprint": fingerprint,
            "change": note.change.value,
            "reason": note.reason,
            "actor": note.actor,
            "other": note.other_record,
            "documents": list(note.documents),
        },
    )
    return await cursor.fetchone() is not None


_STORE_VERSION = """
    WITH changed AS (
        UPDATE records SET state = %(state)s, version = version + 1, key = %(key)s, fields = %(fields)s,
            order_id = %(order)s, merged_into = %(merged_into)s, confirmed_by = %(confirmed_by)s,
            confirmed_at = CASE WHEN %(change)s = 'confirmed' THEN postroom_now() ELSE confirmed_at END,
            fingerprint = CASE WHEN EXISTS (SELECT FROM records AS other
                    WHERE other.organization_id = records.organization_id AND other.id <> records.id
                        AND other.pipeline = records.pipeline
                        AND other.fingerprint = coalesce(%(fingerprint)s, records.fingerprint)
                        AND other.state IN ('confirmed', 'reopened'))
                THEN sha256(convert_to(id::text || version, 'UTF8'))
                ELSE coalesce(%(fingerprint)s, fingerprint) END
        WHERE id = %(id)s AND version = %(version)s
        RETURNING organization_id, id, version, key, fields, state, order_id
    ), first AS (
        INSERT INTO record_versions (organization_id, record_id, version, change, state, key, fields,
            order_id, reason, actor_id, changed_at)
        SELECT organization_id, id, 1, 'confirmed', state, key, fields, order_id, '', confirmed_by,
            confirmed_at
        FROM records WHERE id = %(id)s AND version = 1 AND EXISTS (SELECT FROM changed)
    )
    INSERT INTO record_versions (organization_id, record_id, version, change, state, key, fields,
        order_id, reason, actor_id, other_record_id, document_ids)
    SELECT organization_id, id, version, %(change)s, state, key, fields, order_id, %(reason)s, %(actor)s,
        %(other)s, %(documents)s
    FROM changed RETURNING 1
"""


async def list_versions(connection: Connection, record: UUID) -> list[RecordVersion]:
    """The versions of a record, oldest first. One that was never changed has only its confirmation."""
    async with connection.cursor(row_factory=class_row(RecordVersion)) as cursor:
        await cursor.execute(
            """
            SELECT version, change, state, key, fields, order_id, reason, actor_id, other_record_id,
                document_ids, changed_at
            FROM record_versions WHERE record_id = %(record)s
            UNION ALL
            SELECT version, 'confirmed', state, key, fields, order_id, '', confirmed_by, NULL, '{}',
                confirmed_at
            FROM records WHERE id = %(record)s AND version = 1
            ORDER BY version
            """,
            {"record": record},
        )
        return await cursor.fetchall()


async def move_documents(connection: Connection, documents: Collection[UUID], record: UUID) -> None:
    """Make documents belong to another record."""
    await connection.execute(
        "UPDATE documents SET record_id = %s WHERE id = ANY(%s)", [record, list(documents)]
    )
