"""The table `sessions`: sessions of members and one-time sign-in links. Only digests are stored."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal

from psycopg import sql

from postroom.model import MemberId, OrganizationId, Role, Secret
from postroom.store.database import Connection, Database

# Use extends a session up to this age.
LONGEST_DAYS: Final = 30
LAST_SEEN_INTERVAL_SECONDS: Final = 60
_FIND_MEMBER: Final = sql.SQL(
    """
    SELECT member_id, address, name, role, members.organization_id,
        last_seen_at < postroom_now() - {} * interval '1 second'
    FROM sessions JOIN members ON members.id = member_id
    WHERE token_sha256 = {} AND kind = 'session' AND expires_at > postroom_now()
    """
)


@dataclass(frozen=True, slots=True)
class SessionMember:
    """A member who is signed in."""

    organization: OrganizationId
    member: MemberId
    address: str
    name: str
    role: Role

    @property
    def actor(self) -> str:
        """The ledger's actor id, which holds no personal data."""
        return format_actor(self.member)


def format_actor(member: MemberId) -> str:
    """The member as the actor of a ledger entry."""
    return f"member:{member}"


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """An account that someone is or may be signed in to, as people name it."""

    member: MemberId
    address: str
    name: str
    organization: str


def digest(token: Secret) -> bytes:
    return sha256(token.reveal().encode()).digest()


async def begin(
    connection: Connection,
    member: MemberId,
    token: Secret,
    *,
    kind: Literal["session", "link"],
    seconds: float,
) -> None:
    await connection.execute(
        """
        INSERT INTO sessions (organization_id, token_sha256, kind, member_id, last_seen_at, expires_at)
        VALUES (current_organization(), %(token)s, %(kind)s, %(member)s,
            CASE WHEN %(kind)s = 'session' THEN postroom_now() END,
            postroom_now() + %(seconds)s * interval '1 second')
        """,
        {"token": digest(token), "kind": kind, "member": member, "seconds": seconds},
    )
    await connection.execute("DELETE FROM sessions WHERE expires_at < postroom_now()")


async def find_organization(engine: Connection, token: Secret) -> OrganizationId | None:
    """The organization of a valid session or link. Requires the engine role."""
    cursor = await engine.execute(
        "SELECT organization_id FROM sessions WHERE token_sha256 = %s AND expires_at > postroom_now()",
        [digest(token)],
    )
    row = await cursor.fetchone()
    return OrganizationId(row[0]) if row else None


async def find_member(
    database: Database, organization: OrganizationId, token: Secret, *, seconds: float
) -> SessionMember | None:
    """The member of this session. Extends the session, at most once per interval."""
    row = await database.fetch_row(
        organization, _FIND_MEMBER.format(LAST_SEEN_INTERVAL_SECONDS, digest(token))
    )
    if row is None:
        return None
    if row[5]:
        async with database.transaction(organization) as connection:
            await _extend(connection, token, seconds=seconds)
    return SessionMember(OrganizationId(row[4]), MemberId(row[0]), row[1], row[2], Role(row[3]))


async def _extend(connection: Connection, token: Secret, *, seconds: float) -> None:
    await connection.execute(
        """
        UPDATE sessions SET last_seen_at = postroom_now(), expires_at = least(
            postroom_now() + %s * interval '1 second', created_at + %s * interval '1 day')
        WHERE token_sha256 = %s
        """,
        [seconds, LONGEST_DAYS, digest(token)],
    )


async def find_account(
    connection: Connection, token: Secret, *, kind: Literal["session", "link"]
) -> TokenAccount | None:
    """The account of a valid session or link, which stays as it is."""
    cursor = await connection.execute(
        """
        SELECT member_id, address, members.name, organizations.name
        FROM sessions JOIN members ON members.id = member_id
            JOIN organizations ON organizations.id = members.organization_id
        WHERE token_sha256 = %s AND kind = %s AND expires_at > postroom_now()
        """,
        [digest(token), kind],
    )
    row = await cursor.fetchone()
    return TokenAccount(MemberId(row[0]), *row[1:]) if row else None


async def find_unbound_account(connection: Connection, address: str) -> TokenAccount | None:
    """The account of the member with this address, if no OpenID identity is bound to it."""
    cursor = await connection.execute(
        """
        SELECT members.id, address, members.name, organizations.name
        FROM members JOIN organizations ON organizations.id = members.organization_id
        WHERE address = lower(%s COLLATE "C") AND oidc_subject IS NULL
        """,
        [address],
    )
    row = await cursor.fetchone()
    return TokenAccount(MemberId(row[0]), *row[1:]) if row else None


async def use_link(connection: Connection, token: Secret) -> MemberId | None:
    """Delete a one-time link and return its member. None if it was used or has expired."""
    cursor = await connection.execute(
        """
        DELETE FROM sessions WHERE token_sha256 = %s AND kind = 'link' AND expires_at > postroom_now()
        RETURNING member_id
        """,
        [digest(token)],
    )
    row = await cursor.fetchone()
    return MemberId(row[0]) if row else None


async def end(connection: Connection, token: Secret) -> MemberId | None:
    """End a session and return its member."""
    cursor = await connection.execute(
        "DELETE FROM sessions WHERE token_sha256 = %s AND kind = 'session' RETURNING member_id",
        [digest(token)],
    )
    row = await cursor.fetchone()
    return MemberId(row[0]) if row else None


async def end_all(connection: Connection, member: MemberId) -> None:
    """Delete all sessions and links of a member."""
    await connection.execute("DELETE FROM sessions WHERE member_id = %s", [member])
