"""The table `oauth_states`: OAuth logins that began and are not completed; each is consumed once.

For mailboxes. The sign-in of members stores no state here.
"""

from dataclasses import dataclass
from hashlib import sha256

from postroom.model import ContentPolicy, OrganizationId, ProviderName, Secret
from postroom.ports import SealedSecret
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """A login that was started. The verifier is sealed; state and browser secret are digests."""

    provider: ProviderName
    policy: ContentPolicy
    verifier: SealedSecret
    actor_id: str | None


def digest(secret: Secret) -> bytes:
    return sha256(secret.reveal().encode()).digest()


async def add(
    connection: Connection, pending: PendingLogin, *, state: Secret, browser: Secret, seconds: float
) -> None:
    await connection.execute(
        """
        INSERT INTO oauth_states (organization_id, state_sha256, browser_sha256, provider, content_policy,
            key_id, sealed_verifier, actor_id, expires_at)
        VALUES (current_organization(), %s, %s, %s, %s, %s, %s, %s,
            postroom_now() + %s * interval '1 second')
        """,
        [
            digest(state),
            digest(browser),
            pending.provider,
            pending.policy,
            pending.verifier.key_id,
            pending.verifier.value,
            pending.actor_id,
            seconds,
        ],
    )
    await connection.execute("DELETE FROM oauth_states WHERE expires_at < postroom_now()")


async def find_organization(engine: Connection, state: Secret) -> OrganizationId | None:
    cursor = await engine.execute(
        "SELECT organization_id FROM oauth_states WHERE state_sha256 = %s", [digest(state)]
    )
    row = await cursor.fetchone()
    return OrganizationId(row[0]) if row else None


async def consume(connection: Connection, state: Secret, browser: Secret) -> PendingLogin | None:
    """Delete and return a login. None if it was used, expired or started in another browser."""
    cursor = await connection.execute(
        """
        DELETE FROM oauth_states WHERE state_sha256 = %s
        RETURNING provider, content_policy, key_id, sealed_verifier, actor_id,
            browser_sha256 = %s AND expires_at > postroom_now()
        """,
        [digest(state), digest(browser)],
    )
    row = await cursor.fetchone()
    if row is None or not row[5]:
        return None
    return PendingLogin(ProviderName(row[0]), ContentPolicy(row[1]), SealedSecret(row[2], row[3]), row[4])
