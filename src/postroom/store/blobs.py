"""The tables `blobs`, `blob_removals` and `blob_location`: which bytes are stored, and their removal.

The bytes themselves are in the blob store (`postroom.blobs`). They are stored before the transaction that
refers to them, so a removal could happen in between. Therefore writers call `record` under a shared lock.
`mark_unreferenced` takes that lock exclusively, deletes rows and leaves marks in `blob_removals`. A writer
that finds a mark and did not write the object itself starts over. Foreign keys protect every row that
something refers to. The row is deleted first, then the object.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from postroom.errors import TransientError
from postroom.model import MailboxId, OrganizationId
from postroom.ports import Blob
from postroom.store.database import Connection

# One advisory lock per organization.
_SHARED_LOCK = "SELECT pg_advisory_xact_lock_shared(hashtextextended('postroom blobs ' || %s, 0))"
# Without a time limit: a collector that was frozen while it removed an object still holds the lock when it
# continues. No process waits for this lock.
_REMOVING = """
    SELECT pg_try_advisory_xact_lock(hashtextextended('postroom removes blobs ' || %s, 0))
    FROM set_config('idle_in_transaction_session_timeout', '0', true)
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('postroom blobs ' || %s, 0))"


@dataclass(frozen=True, slots=True)
class BlobRow:
    sha256: bytes
    size: int


@dataclass(frozen=True, slots=True)
class BlobReferences:
    """Ids of messages and documents that refer to a blob."""

    messages: list[int]
    documents: list[UUID]


@dataclass(frozen=True, slots=True)
class AttachmentSource:
    """Where the bytes of an attachment can be fetched again."""

    mailbox: MailboxId
    provider_message_id: str
    part: str


async def record(connection: Connection, organization: OrganizationId, blobs: Sequence[Blob]) -> None:
    """Insert rows for stored blobs, in the transaction that refers to them and before it does.

    Raises TransientError if an object is being removed: the caller must store it again and start over.
    """
    if not blobs:
        return
    by_digest = {blob.sha256: blob for blob in blobs}
    rows = [by_digest[digest] for digest in sorted(by_digest)]
    await connection.execute(_SHARED_LOCK, [str(organization)])
    cursor = await connection.execute(
        """
        WITH input AS (
            SELECT * FROM unnest(%b::bytea[], %b::int8[], %b::bool[]) AS input (sha256, size, created)
        ), written AS (
            INSERT INTO blobs (organization_id, sha256, size)
            SELECT current_organization(), sha256, size FROM input ORDER BY sha256
            ON CONFLICT (organization_id, sha256) DO UPDATE SET stored_at = excluded.stored_at
                WHERE blobs.stored_at < excluded.stored_at - interval '1 hour'
        ), safe AS (
            DELETE FROM blob_removals USING input WHERE blob_removals.sha256 = input.sha256 AND created
        )
        SELECT count(*) FROM blob_removals JOIN input USING (sha256) WHERE NOT created
        """,
        [[row.sha256 for row in rows], [row.size for row in rows], [row.created for row in rows]],
    )
    if await cursor.fetchone() != (0,):
        raise TransientError("A blob was just removed as unreferenced and must be stored again")


async def record_detected_types(connection: Connection, types: Mapping[bytes, str]) -> None:
    """Store the media types detected from the first bytes."""
    if types:
        await connection.execute(
            """
            WITH unknown AS (  -- locked in key order, like every writer
                SELECT blobs.sha256, input.detected
                FROM blobs JOIN unnest(%b::bytea[], %b::text[]) AS input (sha256, detected) USING (sha256)
                WHERE blobs.detected IS NULL
                ORDER BY blobs.sha256 FOR NO KEY UPDATE OF blobs
            )
            UPDATE blobs SET detected = unknown.detected FROM unknown WHERE blobs.sha256 = unknown.sha256
            """,
            [list(types), list(types.values())],
        )


async def mark_unreferenced(
    connection: Connection, organization: OrganizationId, *, grace_seconds: float, batch: int = 500
) -> int:
    """Mark unreferenced blobs older than the grace period for removal, and return how many."""
    await connection.execute(_LOCK, [str(organization)])
    cursor = await connection.execute(
        """
        WITH unused AS (
            SELECT sha256 FROM blobs
            WHERE stored_at < postroom_now() - %s * interval '1 second'
              AND NOT EXISTS (SELECT FROM attachments WHERE attachments.sha256 = blobs.sha256)
              AND NOT EXISTS (SELECT FROM documents WHERE documents.sha256 = blobs.sha256)
              AND NOT EXISTS (SELECT FROM documents WHERE unlocked_sha256 = blobs.sha256)
            ORDER BY sha256 LIMIT %s
        ), deleted AS (
            DELETE FROM blobs USING unused WHERE blobs.sha256 = unused.sha256 RETURNING blobs.sha256
        )
        INSERT INTO blob_removals (organization_id, sha256) SELECT current_organization(), sha256 FROM deleted
        ON CONFLICT (organization_id, sha256) DO UPDATE SET marked_at = excluded.marked_at, removed_at = NULL
        """,
        [grace_seconds, batch],
    )
    return cursor.rowcount


async def mark_orphans(connection: Connection, organization: OrganizationId, digests: Sequence[bytes]) -> int:
    """Mark objects without a row for removal, and return how many. The caller has checked their age."""
    await connection.execute(_LOCK, [str(organization)])
    cursor = await connection.execute(
        """
        INSERT INTO blob_removals (organization_id, sha256)
        SELECT current_organization(), input.sha256 FROM unnest(%b::bytea[]) AS input (sha256)
        WHERE NOT EXISTS (SELECT FROM blobs WHERE blobs.sha256 = input.sha256)
        ON CONFLICT (organization_id, sha256) DO UPDATE SET marked_at = excluded.marked_at, removed_at = NULL
        """,
        [list(digests)],
    )
    return cursor.rowcount


async def list_marked(connection: Connection, *, limit: int = 500) -> list[bytes]:
    """Objects to remove."""
    cursor = await connection.execute(
        "SELECT sha256 FROM blob_removals WHERE removed_at IS NULL ORDER BY sha256 LIMIT %s", [limit]
    )
    return [row[0] for row in await cursor.fetchall()]


async def get_time(connection: Connection) -> datetime:
    cursor = await connection.execute("SELECT postroom_now()")
    row = await cursor.fetchone()
    assert row is not None, "a clock has a time"
    return row[0]


async def try_removal_lock(connection: Connection, organization: OrganizationId) -> bool:
    """Take the lock on removing objects until the transaction ends. False if another process has it."""
    row = await (await connection.execute(_REMOVING, [str(organization)])).fetchone()
    return row == (True,)


async def record_removals(
    connection: Connection, *, removed: Sequence[bytes], removed_at: datetime, spared: Sequence[bytes]
) -> None:
    """Date the marks of removed objects, and delete the marks of objects that were stored again."""
    await connection.execute(
        "UPDATE blob_removals SET removed_at = %b WHERE sha256 = ANY(%b)", [removed_at, list(removed)]
    )
    await connection.execute("DELETE FROM blob_removals WHERE sha256 = ANY(%b)", [list(spared)])


async def delete_old_marks(connection: Connection, *, before: datetime) -> None:
    """Delete marks that no writer can need: all that stored before the removal have committed by now."""
    await connection.execute("DELETE FROM blob_removals WHERE removed_at < %s", [before])


async def list_page(connection: Connection, *, after: bytes, limit: int) -> list[BlobRow]:
    """The next rows in digest order."""
    cursor = await connection.execute(
        "SELECT sha256, size FROM blobs WHERE sha256 > %b ORDER BY sha256 LIMIT %b",
        [after, limit],
    )
    return [BlobRow(*row) for row in await cursor.fetchall()]


async def sum_sizes(connection: Connection) -> int:
    """The total size of all blobs, in bytes."""
    cursor = await connection.execute("SELECT coalesce(sum(size), 0)::int8 FROM blobs")
    row = await cursor.fetchone()
    assert row is not None, "a sum has a row"
    return row[0]


async def find_existing(connection: Connection, digests: Sequence[bytes]) -> set[bytes]:
    """The digests among these that have a row."""
    cursor = await connection.execute("SELECT sha256 FROM blobs WHERE sha256 = ANY(%b)", [list(digests)])
    return {row[0] for row in await cursor.fetchall()}


async def list_references(connection: Connection, digest: bytes) -> BlobReferences:
    cursor = await connection.execute(
        "SELECT DISTINCT message_id FROM attachments WHERE sha256 = %s ORDER BY message_id LIMIT 20", [digest]
    )
    messages = [row[0] for row in await cursor.fetchall()]
    cursor = await connection.execute(
        "SELECT id FROM documents WHERE %s IN (sha256, unlocked_sha256) ORDER BY id LIMIT 20", [digest]
    )
    return BlobReferences(messages, [row[0] for row in await cursor.fetchall()])


async def list_mail_sources(connection: Connection, digest: bytes) -> list[AttachmentSource]:
    """The attachments with these bytes whose messages are still in a connected mailbox."""
    cursor = connection.cursor(row_factory=class_row(AttachmentSource))
    await cursor.execute(
        """
        SELECT mailbox_id AS mailbox, provider_message_id, part FROM attachments
        JOIN messages ON messages.organization_id = attachments.organization_id AND messages.id = message_id
        JOIN mailboxes ON mailboxes.organization_id = messages.organization_id AND mailboxes.id = mailbox_id
        WHERE attachments.sha256 = %s AND deleted_at IS NULL AND disconnected_at IS NULL
        ORDER BY messages.id, part
        """,
        [digest],
    )
    return await cursor.fetchall()


async def get_location(engine: Connection) -> str | None:
    """The blob location of this installation. None before the first worker started."""
    cursor = await engine.execute("SELECT location FROM blob_location")
    row = await cursor.fetchone()
    return row[0] if row else None


async def claim_location(engine: Connection, here: str) -> str:
    """Set the location if there is none, and return the stored one."""
    await engine.execute("INSERT INTO blob_location (location) VALUES (%s) ON CONFLICT DO NOTHING", [here])
    return await get_location(engine) or here


async def set_location(engine: Connection, here: str) -> None:
    """Replace the location."""
    await engine.execute(
        """
        INSERT INTO blob_location (location) VALUES (%s)
        ON CONFLICT (only_row) DO UPDATE SET location = excluded.location, set_at = excluded.set_at
        """,
        [here],
    )
