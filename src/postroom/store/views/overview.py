"""The figures of the overview: how much mail came lately, how fast, and whether a copy is complete."""

from dataclasses import dataclass
from typing import Final

from postroom.model import MailboxId
from postroom.store.database import Connection

MINUTES: Final = 60
# The plot looks at no more than these, however much mail there is.
MOST: Final = 20_000


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Messages stored in each of the last minutes, the oldest first; seconds from the provider to here."""

    per_minute: list[int]
    seconds: float | None


async def arrivals(connection: Connection) -> Arrivals:
    cursor = await connection.execute(
        """
        WITH recent AS (
            SELECT created_at, received_at, mailbox_id FROM messages
            WHERE organization_id = current_organization() ORDER BY id DESC LIMIT %s
        ), counted AS (
            SELECT floor(extract(epoch FROM postroom_now() - created_at) / 60)::int AS ago, count(*) AS came
            FROM recent WHERE created_at > postroom_now() - interval '1 hour' GROUP BY 1
        )
        SELECT
            (SELECT coalesce(array_agg(coalesce(came, 0) ORDER BY minute DESC), '{}')
             FROM generate_series(0, %s) AS minute LEFT JOIN counted ON ago = minute),
            (SELECT percentile_cont(0.5) WITHIN GROUP (
                ORDER BY extract(epoch FROM recent.created_at - received_at)::float8)
             FROM recent JOIN mailboxes ON mailboxes.id = mailbox_id
             WHERE recent.created_at > postroom_now() - interval '1 hour' AND received_at > connected_at)
        """,
        [MOST, MINUTES - 1],
    )
    row = await cursor.fetchone()
    assert row is not None
    return Arrivals(list(row[0]), row[1])


async def provider_ids(connection: Connection, mailbox: MailboxId) -> list[str]:
    """What the provider calls each message that is kept and not deleted: as often as it is kept."""
    cursor = await connection.execute(
        "SELECT provider_message_id FROM messages WHERE mailbox_id = %s AND deleted_at IS NULL", [mailbox]
    )
    return [row[0] for row in await cursor.fetchall()]
