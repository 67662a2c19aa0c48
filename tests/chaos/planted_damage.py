"""Damage to plant in the database of a healthy world, each with the checks that must report it.

`{ada}` and its like are rows of the world, see `SUBJECTS`.
"""

SUBJECTS = """
    WITH box AS (SELECT id, split_part(address, '@', 1) AS name FROM mailboxes), live AS (
        SELECT messages.id, name, has_attachments FROM messages JOIN box ON box.id = mailbox_id
        WHERE deleted_at IS NULL
    )
    SELECT
        (SELECT id FROM box WHERE name = 'ada') AS ada_mailbox,
        (SELECT id FROM box WHERE name = 'ben') AS ben_mailbox,
        (SELECT min(id) FROM live WHERE name = 'ada' AND NOT has_attachments) AS ada,
        (SELECT min(id) FROM live WHERE name = 'ben' AND NOT has_attachments) AS ben,
        (SELECT min(id) FROM live WHERE name = 'dora') AS dora,
        (SELECT min(message_id) FROM attachments JOIN live ON live.id = message_id
            WHERE name = 'ada') AS attached,
        (SELECT min(messages.id) FROM messages JOIN box ON box.id = mailbox_id
            WHERE name = 'ada' AND deleted_at IS NOT NULL) AS deleted,
        (SELECT min(id::text) FROM documents WHERE archive_path IS NOT NULL) AS document
"""
# The statements, and the checks that report what they did.
IN_DATABASE: dict[str, tuple[str, set[str]]] = {
    "a message is missing": (
        "DELETE FROM messages WHERE id = {ada}",
        {"mail.missing", "mail.thread_totals"},
    ),
    "a message is marked deleted": (
        "UPDATE messages SET deleted_at = postroom_now() WHERE id = {ada}",
        {"history.state", "mail.missing", "mail.thread_totals"},
    ),
    "a deleted message is back": (
        "UPDATE messages SET deleted_at = NULL WHERE id = {deleted}",
        {"history.state", "mail.extra", "mail.thread_totals"},
    ),
    "a label is lost": (
        "UPDATE messages SET labels = labels[2:] WHERE id = {ada}",
        {"history.state", "mail.labels", "mail.thread_totals"},
    ),
    "a message is in another folder": (
        """
        UPDATE messages SET folder_id = (SELECT min(id) FROM folders WHERE mailbox_id =
        messages.mailbox_id AND id <> folder_id) WHERE id = {ben}
        """,
        {"history.state", "mail.folder"},
    ),
    "a message is not read": (
        "UPDATE messages SET is_read = NOT is_read WHERE id = {ben}",
        {"history.state", "mail.flags"},
    ),
    "a category is lost": (
        """
        UPDATE messages SET categories = '{{}}' WHERE categories <> '{{}}' AND mailbox_id =
        '{ben_mailbox}'
        """,
        {"history.state", "mail.categories"},
    ),
    "an importance is lost": (
        "UPDATE messages SET importance = 'low' WHERE id = {ben}",
        {"history.state", "mail.importance"},
    ),
    "a message is in another thread": (
        """
        UPDATE messages SET thread_id = (SELECT min(id) FROM threads WHERE mailbox_id =
        messages.mailbox_id AND id <> thread_id) WHERE id = {ada}
        """,
        {"mail.thread", "mail.thread_totals"},
    ),
    "a subject is another": (
        "UPDATE messages SET subject = 'x' WHERE id = {ada}",
        {"mail.subject"},
    ),
    "a sender is another": (
        "UPDATE messages SET from_address = 'x@example.org' WHERE id = {ben}",
        {"mail.sender"},
    ),
    "a date is another": (
        """
        UPDATE messages SET received_at = received_at - interval '3 hours' WHERE id = {ben}
        """,
        {"mail.received", "mail.thread_totals"},
    ),
    "the bytes are others": (
        "UPDATE messages SET raw_sha256 = sha256('x') WHERE id = {ada}",
        {"mail.bytes"},
    ),
    "a text is cut": (
        """
        UPDATE message_contents SET body_plain = left(body_plain, 5) WHERE body_html IS NULL
        """,
        {"mail.text"},
    ),
    "a content is lost": (
        "DELETE FROM message_contents WHERE message_id = {ada}",
        {"mail.content"},
    ),
    "an attachment is lost": (
        "DELETE FROM attachments WHERE message_id = {attached}",
        {"mail.attachments"},
    ),
    "an attachment has other bytes": (
        """
        UPDATE attachments SET sha256 = (SELECT sha256 FROM blobs WHERE blobs.sha256 <>
        attachments.sha256 ORDER BY 1 LIMIT 1) WHERE message_id = {attached}
        """,
        {"history.ledger", "mail.attachments"},
    ),
    "an attachment has no bytes": (
        "UPDATE attachments SET sha256 = NULL WHERE message_id = {attached}",
        {"mail.attachments"},
    ),
    "a body in spite of the policy": (
        "UPDATE message_contents SET body_plain = 'x' WHERE message_id = {dora}",
        {"mail.policy"},
    ),
    "a snippet in spite of the policy": (
        "UPDATE messages SET snippet = 'x' WHERE id = {dora}",
        {"mail.policy"},
    ),
    "an attachment in spite of the policy": (
        """
        INSERT INTO attachments (organization_id, message_id, part, media_type, size) SELECT
        organization_id, id, '9', 'text/plain', 1 FROM messages WHERE id = {dora}
        """,
        {"mail.policy"},
    ),
    "a folder has another name": (
        """
        UPDATE folders SET name = 'x' WHERE name LIKE 'Projects%' AND mailbox_id = '{ben_mailbox}'
        """,
        {"mail.folders"},
    ),
    "a folder is missing": (
        """
        UPDATE folders SET deleted_at = postroom_now() WHERE name LIKE 'Projects%' AND mailbox_id =
        '{ada_mailbox}'
        """,
        {"mail.folders"},
    ),
    "a thread counts wrong": (
        """
        UPDATE threads SET message_count = message_count + 1 WHERE mailbox_id = '{ada_mailbox}'
        """,
        {"mail.thread_totals"},
    ),
    "a message still fails": (
        """
        INSERT INTO failures (organization_id, mailbox_id, kind, subject, last_error) SELECT
        organization_id, id, 'message', 'x', 'unreadable' FROM mailboxes WHERE id = '{ada_mailbox}'
        """,
        {"mail.failures"},
    ),
    "a listing is not over": (
        """
        INSERT INTO cursors (organization_id, mailbox_id, kind, scope) SELECT organization_id, id,
        'resync', 'x' FROM mailboxes WHERE id = '{ada_mailbox}'
        """,
        {"mail.listing"},
    ),
    "an event is repeated": (
        """
        INSERT INTO mail_events (organization_id, mailbox_id, message_id, kind, version, from_folder_id,
        to_folder_id, labels_added, labels_removed, changed, revision) SELECT organization_id,
        mailbox_id, message_id, kind, version || ' again', from_folder_id, to_folder_id, labels_added,
        labels_removed, changed, revision + 1 FROM mail_events WHERE message_id = {ada}
        AND revision = (SELECT revision FROM messages WHERE id = {ada});
        UPDATE messages SET revision = revision + 1 WHERE id = {ada}
        """,
        {"history.event", "history.feed"},
    ),
    "two events have one number": (
        """
        INSERT INTO mail_events (organization_id, mailbox_id, message_id, kind, version, from_folder_id,
        to_folder_id, labels_added, labels_removed, changed, revision) SELECT organization_id,
        mailbox_id, message_id, kind, version || ' again', from_folder_id, to_folder_id, labels_added,
        labels_removed, changed, 1 FROM mail_events WHERE message_id = {ada} AND revision = 1
        """,
        {"history.feed", "history.numbers"},
    ),
    "an event is missing": (
        """
        DELETE FROM mail_events WHERE revision = (SELECT max(revision) FROM mail_events)
        """,
        {"history.feed", "history.numbers"},
    ),
    "an event says something else": (
        """
        UPDATE mail_events SET changed = changed || '{{"is_flagged": true}}' WHERE message_id = {ada}
        AND kind = 'created'
        """,
        {"history.state"},
    ),
    "a message is in the ledger twice": (
        """
        INSERT INTO ledger (organization_id, event_type, entity_type, entity_id, actor_id, payload,
        personal_sha256, sha256, mac, occurred_at) SELECT organization_id, event_type, entity_type,
        entity_id, actor_id, payload, personal_sha256, sha256, mac, occurred_at FROM ledger WHERE event_type
        = 'MESSAGE_INGESTED' AND entity_id = '{ada}'
        """,
        {"history.ledger", "ledger.purge", "ledger.unsealed"},
    ),
    "a ledger entry was changed": (
        """
        ALTER TABLE ledger DISABLE TRIGGER USER;
        UPDATE ledger SET actor_id = 'x' WHERE position = 3
        """,
        {"ledger.entry"},
    ),
    "a personal value was changed": (
        """
        ALTER TABLE ledger_personal DISABLE TRIGGER USER;
        UPDATE ledger_personal SET personal = '{{}}' WHERE entry_id = (SELECT min(entry_id) FROM
        ledger_personal)
        """,
        {"ledger.personal"},
    ),
    "personal values of a ledger entry were deleted without a purge": (
        """
        ALTER TABLE ledger_personal DISABLE TRIGGER USER;
        DELETE FROM ledger_personal WHERE entry_id = (SELECT min(entry_id) FROM ledger_personal)
        """,
        {"ledger.purge"},
    ),
    "a ledger entry is missing": (
        """
        ALTER TABLE ledger DISABLE TRIGGER USER;
        DELETE FROM ledger WHERE event_type = 'SYNC_STARTED' AND position = (SELECT min(position) FROM
        ledger WHERE event_type = 'SYNC_STARTED')
        """,
        {"ledger.positions", "ledger.seal"},
    ),
    "the last seal is missing": (
        """
        ALTER TABLE seals DISABLE TRIGGER USER;
        DELETE FROM seals WHERE number = (SELECT max(number) FROM seals)
        """,
        {"ledger.truncated"},
    ),
    "a signature is wrong": (
        """
        ALTER TABLE seals DISABLE TRIGGER USER;
        UPDATE seals SET signature = set_byte(signature, 3, 255 - get_byte(signature, 3))
        """,
        {"ledger.signature"},
    ),
    "a seal is not chained": (
        """
        ALTER TABLE seals DISABLE TRIGGER USER;
        UPDATE seals SET previous_sha256 = sha256('x') WHERE number = 2
        """,
        {"ledger.chain", "ledger.seal"},
    ),
    "the feed has a gap": (
        """
        DELETE FROM events WHERE position = (SELECT max(position) FROM events WHERE kind LIKE
        'mailbox.%')
        """,
        {"feed.gap", "webhooks.unknown"},
    ),
    "an event has no position": (
        """
        UPDATE events SET position = NULL WHERE position = (SELECT max(position) FROM events)
        """,
        {"feed.gap", "feed.unnumbered", "webhooks.unknown"},
    ),
    "an event of the feed was changed": (
        """
        UPDATE events SET data = '{{"state": "x"}}' WHERE position = (SELECT max(position) FROM events)
        """,
        {"feed.different", "webhooks.body"},
    ),
    "a document is never processed": (
        "UPDATE documents SET state = 'processing' WHERE id = '{document}'",
        {"documents.state"},
    ),
    "a document has no record": (
        "UPDATE documents SET record_id = NULL WHERE id = '{document}'",
        {"documents.record"},
    ),
    "a document is not archived": (
        """
        UPDATE documents SET archive_path = NULL, archived_at = NULL WHERE id = '{document}'
        """,
        {"documents.archive", "documents.archive_extra", "documents.ledger"},
    ),
    "two documents share a path": (
        """
        UPDATE documents SET archive_path = (SELECT archive_path FROM documents WHERE id = '{document}')
        WHERE id = (SELECT max(id::text) FROM documents WHERE archive_path IS NOT NULL)::uuid
        """,
        {"documents.archive", "documents.archive_bytes", "documents.archive_extra"},
    ),
    "a document is missing": (
        """
        DELETE FROM transcripts;
        DELETE FROM documents WHERE id = '{document}'
        """,
        {"documents.archive_extra", "documents.missing"},
    ),
    "a content has two documents": (
        """
        DROP INDEX documents_content;
        UPDATE documents SET sha256 = (SELECT sha256 FROM documents WHERE id = '{document}')
        WHERE id = (SELECT max(id::text) FROM documents WHERE archive_path IS NOT NULL)::uuid
        """,
        {"documents.archive_bytes", "documents.missing", "documents.twice"},
    ),
    "a document is announced twice": (
        """
        UPDATE events SET kind = 'document.created' WHERE position = (SELECT max(position) FROM events
        WHERE entity_type = 'document' AND entity_id = '{document}')
        """,
        {"documents.feed", "feed.different", "webhooks.body"},
    ),
    "an arrival is missing": (
        "DELETE FROM arrivals WHERE document_id = '{document}'",
        {"documents.arrivals"},
    ),
    "a mailbox has another policy": (
        """
        UPDATE mailboxes SET content_policy = 'documents' WHERE address = 'ada@example.com'
        """,
        {"mailboxes.policy"},
    ),
    "a mailbox is ill": (
        """
        UPDATE mailboxes SET health = 'provider_error' WHERE address = 'ada@example.com'
        """,
        {"mailboxes.health"},
    ),
    "a mailbox is disconnected": (
        """
        UPDATE mailboxes SET disconnected_at = postroom_now() WHERE address = 'ada@example.com'
        """,
        {"mailboxes.state"},
    ),
    "a mailbox has no subscription": (
        "UPDATE subscriptions SET status = 'expired' WHERE mailbox_id = '{ada_mailbox}'",
        {"mailboxes.subscription"},
    ),
    "a subscription is not the provider's": (
        """
        UPDATE subscriptions SET provider_subscription_id = 'x' WHERE mailbox_id = '{ben_mailbox}'
        """,
        {"mailboxes.subscription_at_provider"},
    ),
    "a webhook was disabled": (
        "UPDATE webhooks SET disabled_at = postroom_now(), disabled_because = 'x'",
        {"webhooks.state"},
    ),
    "a delivery waits": (
        """
        INSERT INTO deliveries (organization_id, webhook_id, event_id, position, entity_type, entity_id,
        body) SELECT organization_id, id, 1, 1, 'message', '1', '' FROM webhooks
        """,
        {"webhooks.waiting"},
    ),
    "work is parked": (
        """
        UPDATE work SET state = 'parked', due_at = NULL WHERE id = (SELECT min(id) FROM work)
        """,
        {"leftovers.work"},
    ),
    "a lease outlived its worker": (
        """
        UPDATE work SET state = 'leased', lease_token = gen_random_uuid(), leased_until = postroom_now()
        - interval '1 hour' WHERE id = (SELECT min(id) FROM work)
        """,
        {"leftovers.lease"},
    ),
    "the lease of a token outlived its worker": (
        """
        UPDATE credentials SET lease_token = gen_random_uuid(), leased_until = postroom_now()
        - interval '1 hour' WHERE mailbox_id = '{ada_mailbox}'
        """,
        {"leftovers.lease"},
    ),
}
