"""The table `members`: people in an organization, their roles and password hashes.

Passwords are hashed in `flow.access.passwords`; wrong ones are counted in `sign_in_failures`.
"""

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from postroom.model import MemberId, OrganizationId, Role, Secret
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class Member:
    id: MemberId
    organization: OrganizationId
    address: str
    name: str
    role: Role
    has_password: bool
    by_openid: bool
    locked_until: datetime | None  # for the sources that sent wrong passwords
    created_at: datetime
    last_seen_at: datetime | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", Role(self.role))


_READ = """
    SELECT id, organization_id AS organization, address, name, role,
        password_hash IS NOT NULL AS has_password, oidc_subject IS NOT NULL AS by_openid,
        (SELECT max(locked_until) FROM sign_in_failures
            WHERE member_id = members.id AND locked_until > postroom_now()) AS locked_until, created_at,
        (SELECT max(last_seen_at) FROM sessions WHERE member_id = members.id) AS last_seen_at
    FROM members
"""


async def add(connection: Connection, address: str, *, name: str, role: Role) -> MemberId | None:
    """Add a member to the transaction's organization. None if the address is already a member's."""
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
    """Organizations with a member of this address. Requires the engine role."""
    cursor = await engine.execute(
        'SELECT organization_id FROM members WHERE address = lower(%s COLLATE "C") ORDER BY 1', [address]
    )
    return [OrganizationId(row[0]) for row in await cursor.fetchall()]


async def find_by_openid(
    engine: Connection, issuer: str, subject: str
) -> list[tuple[OrganizationId, MemberId]]:
    """Members with this OpenID identity. Requires the engine role."""
    cursor = await engine.execute(
        "SELECT organization_id, id FROM members WHERE oidc_issuer = %s AND oidc_subject = %s ORDER BY 1",
        [issuer, subject],
    )
    return [(OrganizationId(row[0]), MemberId(row[1])) for row in await cursor.fetchall()]


async def bind_openid(connection: Connection, member: MemberId, issuer: str, subject: str) -> bool:
    """Bind the OpenID identity to the member, unless the member already has one."""
    cursor = await connection.execute(
        """
        UPDATE members SET oidc_issuer = %s, oidc_subject = %s WHERE id = %s AND oidc_subject IS NULL
        RETURNING 1
        """,
        [issuer, subject, member],
    )
    return await cursor.fetchone() is not None


async def set_password(connection: Connection, member: MemberId, hashed: Secret | None) -> None:
    """Set or remove the password. This also removes all locks."""
    await connection.execute(
        "UPDATE members SET password_hash = %s WHERE id = %s", [hashed.reveal() if hashed else None, member]
    )
    await connection.execute("DELETE FROM sign_in_failures WHERE member_id = %s", [member])


async def set_role(connection: Connection, member: MemberId, role: Role) -> bool:
    cursor = await connection.execute(
        "UPDATE members SET role = %s WHERE id = %s AND role <> %s RETURNING 1", [role, member, role]
    )
    return await cursor.fetchone() is not None


async def remove(connection: Connection, member: MemberId) -> bool:
    """Delete the member with all sessions and links."""
    cursor = await connection.execute("DELETE FROM members WHERE id = %s RETURNING 1", [member])
    return await cursor.fetchone() is not None


async def count_other_admins(connection: Connection, member: MemberId) -> int:
    """Count the other admins, and lock all admin rows so that the last two cannot leave at once."""
    cursor = await connection.execute(
        "SELECT id FROM members WHERE role = 'admin' ORDER BY id FOR UPDATE", []
    )
    return sum(row[0] != member for row in await cursor.fetchall())
