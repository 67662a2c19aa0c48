"""The table `sign_in_failures`: wrong passwords per member and source, and the locks that follow.

A lock holds for one source only: a stranger who sends wrong passwords locks no one else out.
"""

from dataclasses import dataclass
from typing import Final

from postroom.model import MemberId, Secret
from postroom.store.database import Connection

# This many wrong passwords from one source lock it for the member; each further one doubles the time.
LOCKING_FAILURE: Final = 5
FIRST_LOCK_SECONDS: Final = 60
LONGEST_LOCK_SECONDS: Final = 3600
KEPT_DAYS: Final = 1
# Stored per member. Further sources replace the oldest, so that strangers cannot fill the disk.
MAX_SOURCES: Final = 1000


@dataclass(frozen=True, slots=True)
class PasswordAttempt:
    """The hash to verify a password against, and what a wrong password means."""

    password_hash: Secret
    locks_source: bool
    member_failures: int  # from all sources


async def count_attempt(connection: Connection, member: MemberId, source: str) -> PasswordAttempt | None:
    """Count an attempt as failed before it is checked, so that parallel attempts cannot evade the limit.

    None if the member has no password or the source is locked.
    """
    await _remove_old(connection, member)
    cursor = await connection.execute(
        """
        INSERT INTO sign_in_failures AS known (organization_id, member_id, source, failures)
        SELECT organization_id, id, %(source)s, 1 FROM members
        WHERE id = %(member)s AND password_hash IS NOT NULL
        ON CONFLICT (organization_id, member_id, source) DO UPDATE
        SET failures = known.failures + 1, failed_at = postroom_now(),
            locked_until = CASE WHEN known.failures + 1 >= %(locking)s THEN postroom_now() + least(
                %(first)s * 2 ^ least(known.failures + 1 - %(locking)s, 20), %(longest)s
            ) * interval '1 second' END
        WHERE known.locked_until IS NULL OR known.locked_until <= postroom_now()
        RETURNING (SELECT password_hash FROM members WHERE id = %(member)s), locked_until IS NOT NULL, 1 + (
            SELECT coalesce(sum(failures), 0)::bigint FROM sign_in_failures WHERE member_id = %(member)s)
        """,
        {
            "locking": LOCKING_FAILURE,
            "first": FIRST_LOCK_SECONDS,
            "longest": LONGEST_LOCK_SECONDS,
            "member": member,
            "source": source,
        },
    )
    row = await cursor.fetchone()
    return PasswordAttempt(Secret(row[0]), row[1], row[2]) if row else None


async def reset(connection: Connection, member: MemberId, source: str) -> None:
    await connection.execute(
        "DELETE FROM sign_in_failures WHERE member_id = %s AND source = %s", [member, source]
    )


async def _remove_old(connection: Connection, member: MemberId) -> None:
    await connection.execute(
        "DELETE FROM sign_in_failures WHERE failed_at < postroom_now() - %s * interval '1 day'", [KEPT_DAYS]
    )
    await connection.execute(
        """
        DELETE FROM sign_in_failures WHERE member_id = %(member)s AND source IN (
            SELECT source FROM sign_in_failures WHERE member_id = %(member)s
            ORDER BY failed_at DESC OFFSET %(kept)s)
        """,
        {"member": member, "kept": MAX_SOURCES - 1},
    )
