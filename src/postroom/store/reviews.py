"""The tables `reviews` and `corrections`: questions to a person, decisions and corrected fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, cast
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from postroom.store.database import Connection


class Decision(StrEnum):
    CONFIRMED = "confirmed"
    CORRECTED = "corrected"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Review:
    id: int
    document_id: UUID
    reason: str
    decision: Decision | None
    actor_id: str | None
    created_at: datetime
    decided_at: datetime | None

    def __post_init__(self) -> None:
        if self.decision is not None:
            object.__setattr__(self, "decision", Decision(self.decision))


@dataclass(frozen=True, slots=True)
class FieldCorrection:
    """A corrected field, as later documents reuse it."""

    field: str
    read_value: Any
    right_value: Any
    party: str | None = None  # the document's supplier, identified by another field


@dataclass(frozen=True, slots=True)
class Correction:
    """A corrected value of a document, who corrected it, and when."""

    read_value: Any
    right_value: Any
    actor_id: str | None
    decided_at: datetime

    @property
    def read_text(self) -> str:
        """The value that was read, as text."""
        if isinstance(self.read_value, list):
            return f"{len(cast('list[Any]', self.read_value))} rows"
        return "nothing" if self.read_value is None else str(self.read_value)


async def request(connection: Connection, document: UUID, reason: str) -> None:
    """Open a review, or replace the reason of the open one."""
    await connection.execute(
        """
        INSERT INTO reviews (organization_id, document_id, reason)
        VALUES (current_organization(), %s, %s)
        ON CONFLICT (document_id) WHERE decision IS NULL DO UPDATE SET reason = excluded.reason
        """,
        [document, reason],
    )


async def withdraw(connection: Connection, document: UUID) -> None:
    """Delete the open review of a document that is being processed again."""
    await connection.execute("DELETE FROM reviews WHERE document_id = %s AND decision IS NULL", [document])


async def decide(
    connection: Connection, document: UUID, decision: Decision, *, actor: str | None
) -> int | None:
    """Decide the open review and return its id. None if no review is open."""
    cursor = await connection.execute(
        """
        UPDATE reviews SET decision = %s, actor_id = %s, decided_at = postroom_now()
        WHERE document_id = %s AND decision IS NULL RETURNING id
        """,
        [decision.value, actor, document],
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def add_decided(connection: Connection, document: UUID, reason: str, *, actor: str) -> int:
    """Add the review of a person who corrected a record without being asked; returns its id."""
    cursor = await connection.execute(
        """
        INSERT INTO reviews (organization_id, document_id, reason, decision, actor_id, decided_at)
        VALUES (current_organization(), %s, %s, 'corrected', %s, postroom_now()) RETURNING id
        """,
        [document, reason, actor],
    )
    row = await cursor.fetchone()
    assert row is not None, "an insert returns its row"
    return row[0]


async def list_by_document(connection: Connection, document: UUID) -> list[Review]:
    async with connection.cursor(row_factory=class_row(Review)) as cursor:
        await cursor.execute(
            """
            SELECT id, document_id, reason, decision, actor_id, created_at, decided_at FROM reviews
            WHERE document_id = %s ORDER BY id
            """,
            [document],
        )
        return await cursor.fetchall()


async def get_corrections(connection: Connection, document: UUID) -> Mapping[str, Correction]:
    """Corrections of a document, by field. A field that was set back to what was read has none."""
    cursor = await connection.execute(
        """
        SELECT field, read_value, right_value, actor_id, decided_at
        FROM corrections JOIN reviews ON reviews.id = review_id
        WHERE document_id = %s ORDER BY corrections.id
        """,
        [document],
    )
    newest = {field: Correction(*rest) for field, *rest in await cursor.fetchall()}
    return {field: each for field, each in newest.items() if each.right_value != each.read_value}


async def add_corrections(
    connection: Connection, review: int, corrections: Sequence[FieldCorrection], *, layout: str | None
) -> None:
    await connection.execute(
        """
        INSERT INTO corrections (organization_id, review_id, field, read_value, right_value, party, layout)
        SELECT current_organization(), %s, field, read_value, right_value, party, %s
        FROM unnest(%s::text[], %s::jsonb[], %s::jsonb[], %s::text[])
            AS correction (field, read_value, right_value, party)
        """,
        [
            review,
            layout,
            [correction.field for correction in corrections],
            [Jsonb(correction.read_value) for correction in corrections],
            [Jsonb(correction.right_value) for correction in corrections],
            [correction.party for correction in corrections],
        ],
    )


async def find_corrections(
    connection: Connection, *, parties: Sequence[str], layout: str | None
) -> Mapping[str, Sequence[FieldCorrection]]:
    """Corrections in documents of these parties or this layout, by field, newest first.

    A correction applies while the document's record is confirmed and has that value. Corrections of missing
    values apply to the same layout only: a supplier may use many document types.
    """
    async with connection.cursor(row_factory=class_row(FieldCorrection)) as cursor:
        await cursor.execute(
            """
            SELECT field, read_value, right_value, party
            FROM corrections
            JOIN reviews ON reviews.id = review_id
            JOIN documents ON documents.id = document_id
            JOIN records ON records.id = record_id
            WHERE (corrections.layout = %s OR (party = ANY(%s) AND read_value <> 'null'))
                AND records.state = 'confirmed'
                AND coalesce(records.fields->field, 'null') = right_value AND right_value <> read_value
            ORDER BY corrections.id DESC LIMIT 200
            """,
            [layout, list(parties)],
        )
        by_field: dict[str, list[FieldCorrection]] = {}
        for correction in await cursor.fetchall():
            by_field.setdefault(correction.field, []).append(correction)
        return by_field
