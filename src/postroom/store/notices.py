"""The table `notice_destinations`: where notices are sent, the notice in progress, the last result.

What is announced is in `notice_conditions`; sending is in `flow.outbound.send_notices`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from psycopg.rows import class_row

from postroom.notice_types import NoticeKind, NoticeMedium
from postroom.ports import SealedSecret
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class NoticeSelection:
    """Which conditions a destination announces, and its quiet hours. Times are local: `22:00`."""

    kinds: Sequence[NoticeKind] = ()  # none: all
    review_hours: float = 24
    quiet_from: str | None = None
    quiet_until: str | None = None
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class NoticeDestination:
    """`pause_seconds`: how long nothing may be sent, because of quiet hours or a backoff."""

    id: UUID
    name: str
    medium: NoticeMedium
    addresses: list[str]
    kinds: list[NoticeKind]
    review_hours: float
    quiet_from: str | None
    quiet_until: str | None
    time_zone: str
    attempts: int
    failing_since: datetime | None
    last_error: str | None
    last_sent_at: datetime | None
    created_at: datetime
    is_quiet: bool
    pause_seconds: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "medium", NoticeMedium(self.medium))
        object.__setattr__(self, "kinds", [NoticeKind(kind) for kind in self.kinds])

    @property
    def announced_kinds(self) -> list[NoticeKind]:
        return self.kinds or list(NoticeKind)


@dataclass(frozen=True, slots=True)
class FailingDestination:
    """A destination of an organization that accepts no notices."""

    name: str
    medium: str
    failing_since: datetime
    last_error: str | None


# Quiet hours that span midnight end tomorrow if they began today. The zone decides what midnight is.
_READ: Final = """
    SELECT id, name, medium, addresses, kinds, review_hours, to_char(quiet_from, 'HH24:MI') AS quiet_from,
        to_char(quiet_until, 'HH24:MI') AS quiet_until, time_zone, attempts, failing_since, last_error,
        last_sent_at, created_at, is_quiet,
        greatest(
            0, extract(epoch FROM retry_at - postroom_now()),
            CASE WHEN is_quiet THEN extract(epoch FROM (
                    local::date + quiet_until
                    + CASE WHEN quiet_until > local::time THEN interval '0' ELSE interval '1 day' END
                ) AT TIME ZONE time_zone - postroom_now()) END
        )::float8 AS pause_seconds
    FROM notice_destinations
    CROSS JOIN LATERAL (SELECT postroom_now() AT TIME ZONE time_zone AS local) AS here
    CROSS JOIN LATERAL (SELECT coalesce(CASE WHEN quiet_from <= quiet_until
            THEN local::time >= quiet_from AND local::time < quiet_until
            ELSE local::time >= quiet_from OR local::time < quiet_until END, false) AS is_quiet) AS quiet
"""


async def is_time_zone(connection: Connection, name: str) -> bool:
    """Whether the database, whose clock decides about quiet hours, knows the time zone."""
    cursor = await connection.execute("SELECT FROM pg_timezone_names WHERE name = %s", [name])
    return await cursor.fetchone() is not None


async def add(
    connection: Connection,
    destination: UUID,
    name: str,
    medium: NoticeMedium,
    *,
    addresses: Sequence[str],
    url: SealedSecret | None,
    selection: NoticeSelection,
) -> None:
    await connection.execute(
        """
        INSERT INTO notice_destinations (organization_id, id, name, medium, addresses, key_id, sealed_url,
            kinds, review_hours, quiet_from, quiet_until, time_zone)
        VALUES (current_organization(), %(id)s, %(name)s, %(medium)s, %(addresses)s, %(key_id)s,
            %(sealed_url)s, %(kinds)s, %(review_hours)s, %(quiet_from)s, %(quiet_until)s, %(time_zone)s)
        """,
        {"medium": medium, **_to_parameters(destination, name, addresses, url, selection)},
    )


async def update(
    connection: Connection,
    destination: UUID,
    name: str,
    *,
    addresses: Sequence[str],
    url: SealedSecret | None,
    selection: NoticeSelection,
) -> None:
    """Change a destination. Without `url`, the stored one stays. A backoff ends."""
    await connection.execute(
        """
        UPDATE notice_destinations SET name = %(name)s, addresses = %(addresses)s,
            key_id = coalesce(%(key_id)s, key_id), sealed_url = coalesce(%(sealed_url)s, sealed_url),
            kinds = %(kinds)s, review_hours = %(review_hours)s, quiet_from = %(quiet_from)s,
            quiet_until = %(quiet_until)s, time_zone = %(time_zone)s, attempts = 0, retry_at = NULL
        WHERE id = %(id)s
        """,
        _to_parameters(destination, name, addresses, url, selection),
    )


def _to_parameters(
    destination: UUID,
    name: str,
    addresses: Sequence[str],
    url: SealedSecret | None,
    selection: NoticeSelection,
) -> dict[str, object]:
    return {
        "id": destination,
        "name": name,
        "addresses": list(addresses),
        "key_id": url.key_id if url else None,
        "sealed_url": url.value if url else None,
        "kinds": list(selection.kinds),
        "review_hours": selection.review_hours,
        "quiet_from": selection.quiet_from,
        "quiet_until": selection.quiet_until,
        "time_zone": selection.time_zone,
    }


async def list_all(connection: Connection) -> list[NoticeDestination]:
    cursor = connection.cursor(row_factory=class_row(NoticeDestination))
    await cursor.execute(_READ + " ORDER BY created_at, id")
    return await cursor.fetchall()


async def get(connection: Connection, destination: UUID) -> NoticeDestination | None:
    cursor = connection.cursor(row_factory=class_row(NoticeDestination))
    await cursor.execute(_READ + " WHERE id = %s", [destination])
    return await cursor.fetchone()


async def count(connection: Connection) -> int:
    cursor = await connection.execute("SELECT count(*) FROM notice_destinations")
    row = await cursor.fetchone()
    assert row is not None, "an aggregate returns a row"
    return row[0]


async def list_failing(connection: Connection) -> list[FailingDestination]:
    cursor = connection.cursor(row_factory=class_row(FailingDestination))
    await cursor.execute(
        """
        SELECT name, medium, failing_since, last_error FROM notice_destinations
        WHERE failing_since IS NOT NULL ORDER BY failing_since, id
        """
    )
    return await cursor.fetchall()


async def get_url(connection: Connection, destination: UUID) -> SealedSecret | None:
    cursor = await connection.execute(
        "SELECT key_id, sealed_url FROM notice_destinations WHERE id = %s AND sealed_url IS NOT NULL",
        [destination],
    )
    row = await cursor.fetchone()
    return SealedSecret(row[0], row[1]) if row else None


async def remove(connection: Connection, destination: UUID) -> bool:
    cursor = await connection.execute(
        "DELETE FROM notice_destinations WHERE id = %s RETURNING 1", [destination]
    )
    return await cursor.fetchone() is not None


async def claim(connection: Connection, destination: UUID, notice: UUID) -> int:
    """Record that this notice is about to be sent. Returns how often that happened without a known result."""
    cursor = await connection.execute(
        """
        UPDATE notice_destinations SET notice_id = %(notice)s,
            claims = CASE WHEN notice_id = %(notice)s THEN claims + 1 ELSE 1 END
        WHERE id = %(destination)s RETURNING claims
        """,
        {"notice": notice, "destination": destination},
    )
    row = await cursor.fetchone()
    assert row is not None, "the caller has read the row in this transaction"
    return row[0]


async def record_result(
    connection: Connection, destination: UUID, *, sent: bool, error: str | None, retry_seconds: float = 0
) -> None:
    """Store the result of a notice. One that was not sent is retried after a delay."""
    await connection.execute(
        """
        UPDATE notice_destinations SET notice_id = NULL, claims = 0, last_error = %(error)s,
            attempts = CASE WHEN %(sent)s THEN 0 ELSE attempts + 1 END,
            retry_at = CASE WHEN NOT %(sent)s THEN postroom_now() + %(retry)s * interval '1 second' END,
            failing_since = CASE WHEN NOT %(sent)s THEN coalesce(failing_since, postroom_now()) END,
            last_sent_at = CASE WHEN %(sent)s THEN postroom_now() ELSE last_sent_at END
        WHERE id = %(destination)s
        """,
        {"sent": sent, "error": error, "retry": float(retry_seconds), "destination": destination},
    )


async def count_by_key(connection: Connection) -> dict[str, int]:
    """Count the URLs per vault key."""
    cursor = await connection.execute(
        "SELECT key_id, count(*) FROM notice_destinations WHERE key_id IS NOT NULL GROUP BY key_id"
    )
    return dict(await cursor.fetchall())


async def list_outdated_urls(connection: Connection, key_id: str) -> list[tuple[UUID, SealedSecret]]:
    """URLs that are sealed with another key, locked for update."""
    cursor = await connection.execute(
        """
        SELECT id, key_id, sealed_url FROM notice_destinations WHERE key_id <> %s ORDER BY id FOR UPDATE
        """,
        [key_id],
    )
    return [(row[0], SealedSecret(row[1], row[2])) for row in await cursor.fetchall()]


async def update_url(connection: Connection, destination: UUID, url: SealedSecret) -> None:
    await connection.execute(
        "UPDATE notice_destinations SET key_id = %s, sealed_url = %s WHERE id = %s",
        [url.key_id, url.value, destination],
    )
