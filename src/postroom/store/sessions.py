"""The table `sessions`: who is signed in, and one-time links that become a session. Only digests are kept."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal

from postroom.model import MemberId, OrganizationId, Role, Secret
from postroom.store.database import Connection

# A session that is used lasts on, but not for ever.
LONGEST_DAYS: Final = 30
LAST_SEEN_INTERVAL_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class SessionMember:
    """Who asks: a member with a session."""

    organization: OrganizationId
    member: MemberId
    address: str
    name: str
    role: Role

    @property
    def actor(self) -> str:
        """How the ledger names them: by an id that is nobody's name."""
        return f"member:{self.member}"


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
    """Whose session or link it is, while it lasts; for the engine's role."""
    cursor = await engine.execute(
        "SELECT organization_id FROM sessions WHERE token_sha256 = %s AND expires_at > postroom_now()",
        [digest(token)],
    )
    row = await cursor.fetchone()
    return OrganizationId(row[0]) if row else None


async def find_member(connection: Connection, token: Secret, *, seconds: float) -> SessionMember | None:
    """Who has this session; being seen prolongs it, now and then."""
    cursor = await connection.execute(
        """
        SELECT member_id, address, name, role, members.organization_id,
            last_seen_at < postroom_now() - %s * interval '1 second'
        FROM sessions JOIN members ON members.id = member_id
        WHERE token_sha256 = %s AND kind = 'session' AND expires_at > postroom_now()
        """,
        [LAST_SEEN_INTERVAL_SECONDS, digest(token)],
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    if row[5]:
        await connection.execute(
            """
            UPDATE sessions SET last_seen_at = postroom_now(), expires_at = least(
                postroom_now() + %s * interval '1 second', created_at + %s * interval '1 day')
            WHERE token_sha256 = %s
            """,
            [seconds, LONGEST_DAYS, digest(token)],
        )
    return SessionMember(OrganizationId(row[4]), MemberId(row[0]), row[1], row[2], Role(row[3]))


async def use_link(connection: Connection, token: Secret) -> MemberId | None:
    """Use up a one-time link; nobody comes back for one that was used or has lapsed."""
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
    """End a session; whose it was."""
    cursor = await connection.execute(
        "DELETE FROM sessions WHERE token_sha256 = %s AND kind = 'session' RETURNING member_id",
        [digest(token)],
    )
    row = await cursor.fetchone()
    return MemberId(row[0]) if row else None


async def end_all(connection: Connection, member: MemberId) -> None:
    """Sign a member out everywhere; links given out count for nothing either."""
    await connection.execute("DELETE FROM sessions WHERE member_id = %s", [member])
