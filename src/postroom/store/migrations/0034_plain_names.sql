-- Plain names for tables, columns, indexes and functions, and a comment on every table. All rows are kept.
--
-- Functions, policies, grants, foreign keys and index expressions refer to objects by id, so they follow a rename.

-- Messages that a running listing has shown. It was called `listed`.
ALTER TABLE listed RENAME TO listed_messages;

-- Blobs marked for removal. It was called `doomed_blobs`.
ALTER TABLE doomed_blobs RENAME TO blob_removals;
ALTER TABLE blob_removals RENAME COLUMN doomed_at TO marked_at;

-- The blob store of this installation. It was called `blob_place`.
ALTER TABLE blob_place RENAME TO blob_location;
ALTER TABLE blob_location RENAME COLUMN place TO location;
ALTER TABLE blob_location RENAME COLUMN known_from TO set_at;

ALTER TABLE quota_uses RENAME TO quota_usage;

-- People whose mail was purged. It was called `forgotten_people`.
ALTER TABLE forgotten_people RENAME TO purged_people;
ALTER TABLE purged_people RENAME COLUMN forgotten_at TO purged_at;

-- Digests that identify a record. It was called `record_marks`.
ALTER TABLE record_marks RENAME TO record_identifiers;
ALTER TABLE record_identifiers RENAME COLUMN mark TO identifier_sha256;
ALTER INDEX record_marks_by_record RENAME TO record_identifiers_by_record;

-- Message ids as a foreign scheduler knows them. It was called `shared_ids`.
ALTER TABLE shared_ids RENAME TO foreign_message_ids;
ALTER INDEX shared_ids_by_message RENAME TO foreign_message_ids_by_message;

ALTER TABLE subscriptions RENAME COLUMN reauthorization_told_at TO reauthorization_requested_at;
ALTER TABLE subscriptions RENAME COLUMN removal_told_at TO removal_reported_at;

ALTER TABLE watched_files RENAME COLUMN taken_at TO imported_at;
ALTER TABLE watched_files RENAME COLUMN refused TO rejection;

ALTER TABLE work RENAME COLUMN woken_at TO enqueued_at;
ALTER TABLE work RENAME COLUMN lost TO lost_leases;
ALTER TABLE work RENAME COLUMN carried_until TO dispatched_until;

-- Work kinds name what the work does.
CREATE TEMPORARY TABLE renamed_kinds (old text PRIMARY KEY, new text NOT NULL) ON COMMIT DROP;
INSERT INTO renamed_kinds VALUES
    ('collect', 'collect_garbage'),
    ('lower', 'apply_policy'),
    ('retain', 'apply_retention'),
    ('document', 'process_document'),
    ('share', 'share_state'),
    ('watch', 'watch_folder');
UPDATE work SET kind = renamed_kinds.new FROM renamed_kinds WHERE work.kind = renamed_kinds.old;
UPDATE backlogs SET kind = renamed_kinds.new FROM renamed_kinds WHERE backlogs.kind = renamed_kinds.old;
DROP INDEX work_to_carry;
CREATE INDEX work_to_dispatch ON work (coalesce(dispatched_until, '-infinity'))
    WHERE kind = 'process_document' AND due_at IS NOT NULL;

ALTER FUNCTION pace_metrics() RENAME TO quota_and_latency_metrics;
ALTER FUNCTION allow_only_a_position() RENAME TO allow_position_only;
ALTER TRIGGER keep ON ledger RENAME TO refuse_delete;
ALTER TRIGGER keep_all ON ledger RENAME TO refuse_truncate;
ALTER TRIGGER keep_all ON ledger_personal RENAME TO refuse_truncate;
ALTER TRIGGER keep_all ON seals RENAME TO refuse_truncate;
ALTER POLICY engine_notes ON mailboxes RENAME TO engine_update;
ALTER POLICY engine_notes ON subscriptions RENAME TO engine_update;

-- Constraints keep the name of their table, so that an error message names the table it is about.
DO $$
DECLARE
    renamed text[] := ARRAY[
        'listed', 'listed_messages', 'doomed_blobs', 'blob_removals', 'blob_place', 'blob_location',
        'quota_uses', 'quota_usage', 'forgotten_people', 'purged_people', 'record_marks', 'record_identifiers',
        'shared_ids', 'foreign_message_ids'];
    constraint_name name;
BEGIN
    FOR i IN 1 .. array_length(renamed, 1) BY 2 LOOP
        FOR constraint_name IN
            SELECT conname FROM pg_constraint
            WHERE conrelid = ('postroom.' || renamed[i + 1])::regclass AND starts_with(conname, renamed[i] || '_')
        LOOP
            EXECUTE format('ALTER TABLE %I RENAME CONSTRAINT %I TO %I', renamed[i + 1], constraint_name,
                renamed[i + 1] || substr(constraint_name, length(renamed[i]) + 1));
        END LOOP;
    END LOOP;
END $$;

COMMENT ON TABLE api_keys IS 'API keys of programs. Only a digest of each key is stored.';
COMMENT ON TABLE arrivals IS 'Each occurrence of a document''s content, with its source.';
COMMENT ON TABLE attachments IS 'Attachments, identified by their position in the message, because Gmail''s attachment ids change with every call.';
COMMENT ON TABLE audits IS 'Results of comparing a mailbox at its provider with the store.';
COMMENT ON TABLE backlogs IS 'Highest number of due, unclaimed work items per minute and kind, kept for a day.';
COMMENT ON TABLE blob_location IS 'Where the blobs of this installation are stored. A process configured with another location refuses to start.';
COMMENT ON TABLE blob_removals IS 'Blobs whose objects are being removed or were removed recently. A writer that reused such an object must store it again.';
COMMENT ON TABLE blobs IS 'Stored bytes, once per content and organization. A row is written after its bytes are stored.';
COMMENT ON TABLE clock_offset IS 'Offset of postroom_now() from the server''s clock. Only tests change it.';
COMMENT ON TABLE corrections IS 'Field values that a person corrected. Later documents of the same party or layout reuse them.';
COMMENT ON TABLE credentials IS 'Grant and access token of each mailbox, encrypted by the vault or stored in AWS SSM, and the lease for refreshing them.';
COMMENT ON TABLE cursors IS 'Where each sync and listing left off. Only the provider''s adapter reads the value.';
COMMENT ON TABLE deliveries IS 'Events that a webhook has not accepted yet, with the body to send, because the feed may be pruned meanwhile.';
COMMENT ON TABLE documents IS 'One content that a pipeline took in, however often it arrives.';
COMMENT ON TABLE events IS 'The feed that pages, webhooks and API clients follow. Holds ids and states, never personal data.';
COMMENT ON TABLE extractions IS 'Fields read from a document, with confidence and position. The newest row of a document applies.';
COMMENT ON TABLE failures IS 'Messages and attachments that failed while the rest of the sync continued. They are retried.';
COMMENT ON TABLE feeds IS 'Last assigned and last pruned position of each organization''s feed.';
COMMENT ON TABLE folders IS 'Folders of Microsoft 365 and labels of Gmail.';
COMMENT ON TABLE foreign_message_ids IS 'The id by which the scheduler that shares a pipeline''s state knows a message. Asked once, because that id changes when the message moves.';
COMMENT ON TABLE idempotency_keys IS 'Responses to API writes that carried an Idempotency-Key, kept for a day.';
COMMENT ON TABLE ledger IS 'The append-only audit trail. A trigger refuses changes even by the owner; only an empty position may be set.';
COMMENT ON TABLE ledger_personal IS 'Personal values of ledger entries. A purge deletes the row and its salt; the entry keeps only a digest.';
COMMENT ON TABLE listed_messages IS 'Messages that a running listing has shown. Stored messages that a complete listing did not show have left the mailbox.';
COMMENT ON TABLE mail_events IS 'Observed changes of messages, one row per change.';
COMMENT ON TABLE mailboxes IS 'Accounts at a provider, connected by an organization.';
COMMENT ON TABLE members IS 'People in an organization and their roles.';
COMMENT ON TABLE message_contents IS 'Headers, bodies and search index of messages, apart from messages so that a label change does not rewrite them.';
COMMENT ON TABLE messages IS 'Messages, each stored once. A deleted message keeps its row until it is purged.';
COMMENT ON TABLE notifications IS 'Hints from pushes that no sync has used yet, one row per mailbox.';
COMMENT ON TABLE oauth_states IS 'Pending OAuth logins. The callback deletes the row, so each is used once.';
COMMENT ON TABLE orders IS 'Purchases and trades for which a document is expected.';
COMMENT ON TABLE organizations IS 'The tenants. Every row of the other tables belongs to exactly one.';
COMMENT ON TABLE purged_people IS 'Salted digests of purged addresses. Mail they sent before the purge is not stored again.';
COMMENT ON TABLE quota_usage IS 'Highest share of the provider''s quota that a mailbox used, per minute, kept for a day.';
COMMENT ON TABLE record_identifiers IS 'Digests by which a record is recognized, such as supplier and invoice number. Several records may share one.';
COMMENT ON TABLE records IS 'Confirmed invoices and trades.';
COMMENT ON TABLE reviews IS 'Questions to a person about a document. At most one per document is open.';
COMMENT ON TABLE schema_migrations IS 'Applied migrations and the checksums of their files.';
COMMENT ON TABLE seals IS 'Signatures over batches of ledger entries, each chained to the previous seal.';
COMMENT ON TABLE sessions IS 'Sessions of members and one-time sign-in links. Only digests of the tokens are stored.';
COMMENT ON TABLE subscriptions IS 'Graph subscriptions and Gmail watches. A row is committed before the provider is asked, so that an early push finds it.';
COMMENT ON TABLE threads IS 'Messages that belong together, with totals over their messages.';
COMMENT ON TABLE transcripts IS 'Text of a document and the position of each word.';
COMMENT ON TABLE verdicts IS 'Why a pipeline accepted or ignored a message (empty part) or an attachment.';
COMMENT ON TABLE watched_files IS 'Files of watched folders and buckets. Each version is imported once.';
COMMENT ON TABLE webhooks IS 'URLs of other applications that receive events, and the feed position up to which they did.';
COMMENT ON TABLE work IS 'Everything that is due, one row per kind and subject. The holder of the lease runs it.';

COMMENT ON COLUMN blob_removals.removed_at IS 'Empty while the object may still exist.';
COMMENT ON COLUMN subscriptions.reauthorization_requested_at IS 'Last reauthorizationRequired notification. Pending while later than last_renewed_at.';
COMMENT ON COLUMN subscriptions.removal_reported_at IS 'Last subscriptionRemoved notification. Pending while later than last_renewed_at.';
COMMENT ON COLUMN watched_files.imported_at IS 'Empty while the file may still be growing.';
COMMENT ON COLUMN watched_files.rejection IS 'Why this version was not imported.';
COMMENT ON COLUMN work.attempts IS 'Failed attempts and the current one.';
COMMENT ON COLUMN work.dispatched_until IS 'Until then a message on the SQS queue announces the row. Empty: none does.';
COMMENT ON COLUMN work.enqueued_at IS 'When the work was last requested.';
COMMENT ON COLUMN work.generation IS 'Raised by every request. A finish that sees it raised leaves the row due.';
COMMENT ON COLUMN work.lost_leases IS 'Consecutive claims whose lease expired without a result, perhaps because the work killed its worker.';
COMMENT ON COLUMN work.trace IS 'W3C traceparent of the request, continued by the work.';
