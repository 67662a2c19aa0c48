"""Sums over `messages`, `attachments` and `blobs`: the storage that the attachments of each sender use."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from postroom.model import MailboxId
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class SenderUse:
    """A sender (a domain, or an address in a domain that many share) and the bytes of its files."""

    sender: str
    used_bytes: int


async def sum_sizes(connection: Connection, *, domain: str, address: str | None) -> int:
    """The bytes of the files from a domain, or from one address of it. No domain: mail without a sender."""
    cursor = await connection.execute(
        """
        SELECT coalesce(sum(size), 0)::int8 FROM blobs WHERE sha256 IN (
            SELECT attachments.sha256 FROM messages
            JOIN attachments ON attachments.organization_id = messages.organization_id
                AND attachments.message_id = messages.id
            WHERE (from_domain = %(domain)s OR %(domain)s = '' AND from_domain IS NULL)
                AND (%(address)s::text IS NULL OR from_address = %(address)s))
        """,
        {"domain": domain, "address": address},
    )
    row = await cursor.fetchone()
    assert row is not None, "a sum has a row"
    return row[0]


async def is_own_domain(connection: Connection, domain: str) -> bool:
    """Whether a mailbox of the organization is in this domain."""
    cursor = await connection.execute(
        "SELECT EXISTS (SELECT FROM mailboxes WHERE substring(address FROM '@([^@]*)$') = %s)", [domain]
    )
    return await cursor.fetchone() == (True,)


async def is_attachment_stored(connection: Connection, mailbox: MailboxId, key: str, part: str) -> bool:
    """Whether the bytes of an attachment are stored."""
    cursor = await connection.execute(
        """
        SELECT EXISTS (
            SELECT FROM messages
            JOIN attachments ON attachments.organization_id = messages.organization_id
                AND attachments.message_id = messages.id
            WHERE mailbox_id = %s AND provider_message_id = %s AND part = %s AND sha256 IS NOT NULL)
        """,
        [mailbox, key, part],
    )
    return await cursor.fetchone() == (True,)


async def list_largest(
    connection: Connection, shared_domains: Sequence[str], *, limit: int
) -> list[SenderUse]:
    """List the senders with the most bytes: addresses in shared and mailboxes' domains, else domains."""
    async with connection.cursor(row_factory=class_row(SenderUse)) as cursor:
        await cursor.execute(
            """
            WITH shared AS (
                SELECT unnest(%s::text[]) AS domain
                UNION SELECT substring(address FROM '@([^@]*)$') FROM mailboxes
            ), files AS (
                SELECT DISTINCT
                    CASE WHEN from_domain IN (SELECT domain FROM shared) THEN from_address
                        ELSE coalesce(from_domain, '') END AS sender,
                    attachments.sha256
                FROM messages
                JOIN attachments ON attachments.organization_id = messages.organization_id
                    AND attachments.message_id = messages.id
                WHERE attachments.sha256 IS NOT NULL
            )
            SELECT sender, sum(size)::int8 AS used_bytes
            FROM files JOIN blobs USING (sha256)
            GROUP BY sender ORDER BY used_bytes DESC, sender LIMIT %s
            """,
            [list(shared_domains), limit],
        )
        return await cursor.fetchall()
