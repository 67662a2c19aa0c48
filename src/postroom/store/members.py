"""The table `members`: the people of an organization, their roles, and how often they failed to sign in."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from psycopg.rows import class_row

from postroom.model import MemberId, OrganizationId, Role, Secret
from postroom.store.database import Connection

# From this failure on a password counts for nothing for a while, twice as long with each further one.
LOCKING_FAILURE: Final = 5
FIRST_LOCK_SECONDS: Final = 60
LONGEST_LOCK_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class Member:
    id: MemberId
    organization: OrganizationId
    address: str
    name: str
    role: Role
    has_password: bool
    has_openid: bool
    locked_until: datetime | None
    created_at: datetime
    last_seen_at: datetime | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", Role(self.role))


_READ = """
    SELECT id, organization_id AS organization, address, name, role,
        password_hash IS NOT NULL AS has_password, oidc_subject IS NOT NULL AS has_openid,
        CASE WHEN locked_until > postroom_now() THEN locked_until END AS locked_until, created_at,
        (SELECT max(last_seen_at) FROM sessions WHERE member_id = members.id) AS last_seen_at
    FROM members
"""


async def add(connection: Connection, address: str, *, name: str, role: Role) -> MemberId | None:
    """A new member of the transaction's organization; None where the address is a member's already."""
    cursor = await connection.execute(
        """
        INSERT INTO members (organization_id, address, name, role)
        VALUES (current_organization(), lower(%s COLLATE "C"), %s, %s) ON CONFLICT DO NOTHING RETURNING id
        """,
        [address, name, role],
    )
    row = await cursor.fetchone()
    return MemberId(row[0]) if row else None


async def list_all(connection: Connection) -> list[Member]:
    cursor = connection.cursor(row_factory=class_row(Member))
    await cursor.execute(_READ + " ORDER BY address")
    return await cursor.fetchall()


async def get(connection: Connection, member: MemberId) -> Member | None:
    cursor = connection.cursor(row_factory=class_row(Member))
    await cursor.execute(_READ + " WHERE id = %s", [member])
    return await cursor.fetchone()


async def find_by_address(connection: Connection, address: str) -> Member | None:
    cursor = connection.cursor(row_factory=class_row(Member))
    await cursor.execute(_READ + ' WHERE address = lower(%s COLLATE "C")', [address])
    return await cursor.fetchone()


async def list_organizations(engine: Connection, address: str) -> list[OrganizationId]:
    """Where somebody of this address is a member; for the engine's role."""
    cursor = await engine.execute(
        'SELECT organization_id FROM members WHERE address = lower(%s COLLATE "C") ORDER BY 1', [address]
    )
    return [OrganizationId(row[0]) for row in await cursor.fetchall()]


async def find_by_openid(
    engine: Connection, issuer: str, subject: str
) -> list[tuple[OrganizationId, MemberId]]:
    """Who signs in with this identity; for the engine's role."""
    cursor = await engine.execute(
        "SELECT organization_id, id FROM members WHERE oidc_issuer = %s AND oidc_subject = %s ORDER BY 1",
        [issuer, subject],
    )
    return [(OrganizationId(row[0]), MemberId(row[1])) for row in await cursor.fetchall()]


async def bind_openid(connection: Connection, member: MemberId, issuer: str, subject: str) -> bool:
    """Let this identity be the member's, unless the member has one already."""
    cursor = await connection.execute(
        """
        UPDATE members SET oidc_issuer = %s, oidc_subject = %s WHERE id = %s AND oidc_subject IS NULL
        RETURNING 1
        """,
        [issuer, subject, member],
    )
    return await cursor.fetchone() is not None


async def set_password(connection: Connection, member: MemberId, hashed: Secret | None) -> None:
    """A new password also ends a lock."""
    await connection.execute(
        "UPDATE members SET password_hash = %s, failed_sign_ins = 0, locked_until = NULL WHERE id = %s",
        [hashed.reveal() if hashed else None, member],
    )


async def set_role(connection: Connection, member: MemberId, role: Role) -> bool:
    cursor = await connection.execute(
        "UPDATE members SET role = %s WHERE id = %s AND role <> %s RETURNING 1", [role, member, role]
    )
    return await cursor.fetchone() is not None


async def remove(connection: Connection, member: MemberId) -> bool:
    """Sessions and links go with the member."""
    cursor = await connection.execute("DELETE FROM members WHERE id = %s RETURNING 1", [member])
    return await cursor.fetchone() is not None


async def count_other_admins(connection: Connection, member: MemberId) -> int:
    """How many admins there are besides. The admins' rows stay locked, so that two cannot leave at once."""
    cursor = await connection.execute(
        "SELECT id FROM members WHERE role = 'admin' ORDER BY id FOR UPDATE", []
    )
    return sum(row[0] != member for row in await cursor.fetchall())


@dataclass(frozen=True, slots=True)
class PasswordAttempt:
    """A password may be tried: against what is kept, and whether the member is locked unless it is right."""

    kept: Secret
    locks_member: bool


async def count_attempt(connection: Connection, member: MemberId) -> PasswordAttempt | None:
    """Count a try as a failure, before it is known: so many at once are no more than so many in a row.

    None: there is no password, or it counts for nothing now.
    """
    cursor = await connection.execute(
        """
        UPDATE members SET failed_sign_ins = failed_sign_ins + 1,
            locked_until = CASE WHEN failed_sign_ins + 1 >= %(locking)s THEN postroom_now() + least(
                %(first)s * 2 ^ least(failed_sign_ins + 1 - %(locking)s, 20), %(longest)s
            ) * interval '1 second' END
        WHERE id = %(member)s AND password_hash IS NOT NULL
            AND (locked_until IS NULL OR locked_until <= postroom_now())
        RETURNING password_hash, locked_until IS NOT NULL
        """,
        {
            "locking": LOCKING_FAILURE,
            "first": FIRST_LOCK_SECONDS,
            "longest": LONGEST_LOCK_SECONDS,
            "member": member,
        },
    )
    row = await cursor.fetchone()
    return PasswordAttempt(Secret(row[0]), row[1]) if row else None


async def reset_failures(connection: Connection, member: MemberId) -> None:
    await connection.execute(
        "UPDATE members SET failed_sign_ins = 0, locked_until = NULL WHERE id = %s", [member]
    )
