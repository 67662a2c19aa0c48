"""The table `verdicts`: why a pipeline accepted or ignored a message or an attachment."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a pipeline accepted or ignored a message or an attachment."""

    message_id: int
    part: str  # empty for the message itself
    pipeline: str
    accepted: bool
    reason: str


async def record_verdicts(connection: Connection, verdicts: Sequence[Verdict]) -> None:
    """Store verdicts. A later verdict on the same part replaces the earlier one."""
    if not verdicts:
        return
    rows = sorted(
        {(verdict.message_id, verdict.part, verdict.pipeline): verdict for verdict in verdicts}.items(),
        key=lambda item: item[0],
    )
    ordered = [verdict for _, verdict in rows]
    await connection.execute(
        """
        INSERT INTO verdicts (organization_id, message_id, part, pipeline, accepted, reason)
        SELECT current_organization(), *
        FROM unnest(%b::int8[], %b::text[], %b::text[], %b::bool[], %b::text[])
        ON CONFLICT (organization_id, message_id, part, pipeline) DO UPDATE SET
            accepted = excluded.accepted, reason = excluded.reason, decided_at = postroom_now()
        """,
        [
            [verdict.message_id for verdict in ordered],
            [verdict.part for verdict in ordered],
            [verdict.pipeline for verdict in ordered],
            [verdict.accepted for verdict in ordered],
            [verdict.reason for verdict in ordered],
        ],
    )


async def list_verdicts(connection: Connection, message_id: int) -> list[Verdict]:
    async with connection.cursor(row_factory=class_row(Verdict)) as cursor:
        await cursor.execute(
            """
            SELECT message_id, part, pipeline, accepted, reason FROM verdicts
            WHERE message_id = %s ORDER BY part, pipeline
            """,
            [message_id],
        )
        return await cursor.fetchall()
