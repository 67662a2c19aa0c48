"""The tables `reviews` and `corrections`: what a person must decide, decided, and taught by it."""

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
    """What a person put in the place of a value that was read."""

    field: str
    read_value: Any
    right_value: Any
    party: str | None = None  # whose document it was, by another field than this one


@dataclass(frozen=True, slots=True)
class Correction:
    """What a person put in the place of a value that was read, who, and when."""

    read_value: Any
    right_value: Any
    actor_id: str | None
    decided_at: datetime

    @property
    def read_text(self) -> str:
        """What was read, in words."""
        if isinstance(self.read_value, list):
            return f"{len(cast('list[Any]', self.read_value))} rows"
        return "nothing" if self.read_value is None else str(self.read_value)


async def request(connection: Connection, document: UUID, reason: str) -> None:
    """Ask a person; where that is asked already, for this reason now."""
    await connection.execute(
        """
        INSERT INTO reviews (organization_id, document_id, reason)
        VALUES (current_organization(), %s, %s)
        ON CONFLICT (document_id) WHERE decision IS NULL DO UPDATE SET reason = excluded.reason
        """,
        [document, reason],
    )


async def withdraw(connection: Connection, document: UUID) -> None:
    """Nobody needs to decide any more: the document is read anew."""
    await connection.execute("DELETE FROM reviews WHERE document_id = %s AND decision IS NULL", [document])


async def decide(
    connection: Connection, document: UUID, decision: Decision, *, actor: str | None
) -> int | None:
    """The id of the review that this decides; None where nobody asked, or somebody was faster."""
    cursor = await connection.execute(
        """
        UPDATE reviews SET decision = %s, actor_id = %s, decided_at = postroom_now()
        WHERE document_id = %s AND decision IS NULL RETURNING id
        """,
        [decision.value, actor, document],
    )
    row = await cursor.fetchone()
    return row[0] if row else None


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
    """What people put in the place of what was read in a document, by field."""
    cursor = await connection.execute(
        """
        SELECT field, read_value, right_value, actor_id, decided_at
        FROM corrections JOIN reviews ON reviews.id = review_id
        WHERE document_id = %s ORDER BY corrections.id
        """,
        [document],
    )
    return {field: Correction(*rest) for field, *rest in await cursor.fetchall()}


async def add_corrections(
    connection: Connection, review: int, lessons: Sequence[FieldCorrection], *, layout: str | None
) -> None:
    await connection.execute(
        """
        INSERT INTO corrections (organization_id, review_id, field, read_value, right_value, party, layout)
        SELECT current_organization(), %s, field, read_value, right_value, party, %s
        FROM unnest(%s::text[], %s::jsonb[], %s::jsonb[], %s::text[])
            AS lesson (field, read_value, right_value, party)
        """,
        [
            review,
            layout,
            [each.field for each in lessons],
            [Jsonb(each.read_value) for each in lessons],
            [Jsonb(each.right_value) for each in lessons],
            [each.party for each in lessons],
        ],
    )


async def find_corrections(
    connection: Connection, *, parties: Sequence[str], layout: str | None
) -> Mapping[str, Sequence[FieldCorrection]]:
    """What people corrected in documents of this supplier or layout, by field, the newest first.

    What was missing is only known for the same layout: a supplier may write many kinds of papers.
    """
    async with connection.cursor(row_factory=class_row(FieldCorrection)) as cursor:
        await cursor.execute(
            """
            SELECT field, read_value, right_value, party FROM corrections
            WHERE layout = %s OR (party = ANY(%s) AND read_value <> 'null') ORDER BY id DESC LIMIT 200
            """,
            [layout, list(parties)],
        )
        found: dict[str, list[FieldCorrection]] = {}
        for lesson in await cursor.fetchall():
            found.setdefault(lesson.field, []).append(lesson)
        return found
