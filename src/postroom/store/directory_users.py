"""The table `directory_users`: how far each selected user of a directory is connected, or has left."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid5

from psycopg.rows import class_row

from postroom.model import Account, DirectoryId, MailboxId
from postroom.store.database import Connection


class DirectoryUserState(StrEnum):
    """The states. `flow.mailboxes.directory_sync` draws the transitions."""

    JOINING = "joining"  # selected, and not connected yet
    CONNECTED = "connected"
    LEAVING = "leaving"  # no longer selected; the action on leavers is due
    PAUSED = "paused"
    DISCONNECTED = "disconnected"
    KEPT = "kept"  # left, and still synced
    SKIPPED = "skipped"  # selected, but not connected; the reason says why


@dataclass(frozen=True, slots=True)
class StoredDirectoryUser:
    id: UUID
    directory: DirectoryId
    account_id: str
    provider_user_id: str
    address: str
    state: DirectoryUserState
    reason: str
    mailbox: MailboxId | None
    changed_at: datetime
    changed_seconds_ago: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", DirectoryUserState(self.state))


_COLUMNS = """
    id, directory_id AS directory, account_id, provider_user_id, address, state, reason,
    mailbox_id AS mailbox, changed_at,
    extract(epoch FROM postroom_now() - changed_at)::float8 AS changed_seconds_ago
"""


def derive_id(directory: DirectoryId, account_id: str) -> UUID:
    """The id of a user's row, the same at every attempt: it is the subject of the user's work."""
    return uuid5(directory, account_id)


async def list_by_directory(connection: Connection, directory: DirectoryId) -> list[StoredDirectoryUser]:
    cursor = connection.cursor(row_factory=class_row(StoredDirectoryUser))
    await cursor.execute(
        "SELECT" + _COLUMNS + "FROM directory_users WHERE directory_id = %s ORDER BY address", [directory]
    )
    return await cursor.fetchall()


async def get(connection: Connection, user: UUID) -> StoredDirectoryUser | None:
    cursor = connection.cursor(row_factory=class_row(StoredDirectoryUser))
    await cursor.execute("SELECT" + _COLUMNS + "FROM directory_users WHERE id = %s", [user])
    return await cursor.fetchone()


async def list_page(
    connection: Connection,
    directory: DirectoryId,
    *,
    state: DirectoryUserState | None,
    after: str,
    limit: int,
) -> list[StoredDirectoryUser]:
    """Users in the order of their addresses, after one."""
    cursor = connection.cursor(row_factory=class_row(StoredDirectoryUser))
    await cursor.execute(
        "SELECT"
        + _COLUMNS
        + """
        FROM directory_users
        WHERE directory_id = %(directory)s AND (state = %(state)s OR %(state)s::text IS NULL)
            AND address > %(after)s
        ORDER BY address LIMIT %(limit)s
        """,
        {"directory": directory, "state": state, "after": after, "limit": limit},
    )
    return await cursor.fetchall()


async def count_states(connection: Connection) -> dict[DirectoryId, dict[str, int]]:
    """How many users of each directory are in each state."""
    cursor = await connection.execute(
        "SELECT directory_id, jsonb_object_agg(state, users) FROM ("
        " SELECT directory_id, state, count(*) AS users FROM directory_users GROUP BY directory_id, state"
        ") AS counted GROUP BY directory_id"
    )
    return {DirectoryId(directory): counts for directory, counts in await cursor.fetchall()}


async def set_joining(
    connection: Connection, directory: DirectoryId, accounts: Sequence[Account], reason: str
) -> None:
    """Insert selected users, or let those that had left or were skipped join again."""
    await connection.execute(
        """
        INSERT INTO directory_users (organization_id, directory_id, id, account_id, provider_user_id, address,
            state, reason)
        SELECT current_organization(), %(directory)s, id, account_id, provider_user_id, address, 'joining',
            %(reason)s
        FROM unnest(%(ids)s::uuid[], %(accounts)s::text[], %(users)s::text[], %(addresses)s::text[])
            AS selected (id, account_id, provider_user_id, address)
        ON CONFLICT (organization_id, directory_id, account_id) DO UPDATE SET
            provider_user_id = excluded.provider_user_id, address = excluded.address, state = excluded.state,
            reason = excluded.reason, changed_at = postroom_now()
        """,
        {
            "directory": directory,
            "reason": reason,
            "ids": [derive_id(directory, account.account_id) for account in accounts],
            "accounts": [account.account_id for account in accounts],
            "users": [account.provider_user_id for account in accounts],
            "addresses": [account.address for account in accounts],
        },
    )


async def set_leaving(connection: Connection, leavers: Sequence[tuple[UUID, str]]) -> None:
    """Let users leave, each for a reason."""
    await connection.execute(
        """
        UPDATE directory_users SET state = 'leaving', reason = leaver.reason, changed_at = postroom_now()
        FROM unnest(%s::uuid[], %s::text[]) AS leaver (id, reason) WHERE directory_users.id = leaver.id
        """,
        [[id_ for id_, _ in leavers], [reason for _, reason in leavers]],
    )


async def set_state(
    connection: Connection,
    user: UUID,
    state: DirectoryUserState,
    reason: str,
    *,
    mailbox: MailboxId | None = None,
) -> None:
    await connection.execute(
        """
        UPDATE directory_users SET state = %s, reason = %s, mailbox_id = coalesce(%s, mailbox_id),
            changed_at = postroom_now()
        WHERE id = %s
        """,
        [state, reason, mailbox, user],
    )
