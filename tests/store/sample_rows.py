"""Sample messages and documents, written as the owner."""

from psycopg.types.json import Jsonb


async def message(
    owner,
    organization,
    mailbox,
    *,
    sender="jane@example.org",
    subject="Hello",
    body="",
    to=(),
    days_ago=0,
    deleted_days_ago=None,
    thread=None,
):
    """One message with its content and an event; its id."""
    if thread is None:
        cursor = await owner.execute(
            """
            INSERT INTO threads (organization_id, mailbox_id, provider_thread_id)
            VALUES (%s, %s, gen_random_uuid()::text) RETURNING id
            """,
            [organization, mailbox],
        )
        [(thread,)] = await cursor.fetchall()
    recipients = Jsonb([{"name": "", "address": each} for each in to])
    cursor = await owner.execute(
        """
        INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id, from_address,
            subject, snippet, to_recipients, received_at, deleted_at)
        VALUES (%s, %s, %s, gen_random_uuid()::text, %s, %s, %s, %s, postroom_now() - %s * interval '1 day',
            postroom_now() - %s * interval '1 day')
        RETURNING id
        """,
        [organization, mailbox, thread, sender, subject, body[:100], recipients, days_ago, deleted_days_ago],
    )
    [(id_,)] = await cursor.fetchall()
    await owner.execute(
        """
        INSERT INTO message_contents (organization_id, message_id, body_plain, search)
        VALUES (%s, %s, %s, message_search(%s, %s, %s))
        """,
        [organization, id_, body, subject, sender, body],
    )
    await owner.execute(
        """
        INSERT INTO mail_events (organization_id, mailbox_id, message_id, kind, version, observed_at)
        VALUES (%s, %s, %s, 'created', '1', postroom_now() - %s * interval '1 day')
        """,
        [organization, mailbox, id_, days_ago],
    )
    return id_


async def document(owner, organization, text, *, sender="jane@example.org", message=None):
    """A document that was read, with its arrival; its id."""
    cursor = await owner.execute(
        """
        WITH blob AS (
            INSERT INTO blobs (organization_id, sha256, size)
            VALUES (%(organization)s, sha256(%(text)s::bytea), 1) RETURNING sha256
        )
        INSERT INTO documents (organization_id, pipeline, sha256, media_type)
        SELECT %(organization)s, 'invoices', sha256, 'application/pdf' FROM blob RETURNING id
        """,
        {"organization": organization, "text": text.encode()},
    )
    [(id_,)] = await cursor.fetchall()
    await owner.execute(
        """
        INSERT INTO transcripts (organization_id, document_id, method, pages, text, words)
        VALUES (%s, %s, 'plain', 1, %s, '[]')
        """,
        [organization, id_, text],
    )
    await owner.execute(
        """
        INSERT INTO arrivals (organization_id, document_id, source, message_id, part, sender, file_name)
        VALUES (%s, %s, 'gmail_push', %s, '1', %s, 'bill.pdf')
        """,
        [organization, id_, message, sender],
    )
    return id_
