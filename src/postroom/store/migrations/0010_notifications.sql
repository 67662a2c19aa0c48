-- What pushes told of a mailbox and no sync has used yet: one row, into which its notifications coalesce.
-- Hints only: truth is what the cursor finds. So few message ids are kept; a full list says to look everywhere.
CREATE TABLE notifications (
    organization_id uuid        NOT NULL,
    mailbox_id      uuid        NOT NULL,
    message_ids     text[]      NOT NULL DEFAULT '{}',
    missed_from     timestamptz,             -- the provider lost notifications of this time (S3)
    missed_until    timestamptz,
    PRIMARY KEY (organization_id, mailbox_id),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE,
    CHECK ((missed_from IS NULL) = (missed_until IS NULL))
) WITH (fillfactor = 50);
CALL belongs_to_organization('notifications');
CREATE POLICY engine ON notifications TO postroom_engine USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON notifications TO postroom_engine;

-- What the provider said of a subscription itself. Told later than `last_renewed_at`, it is still to be acted on.
ALTER TABLE subscriptions
    ADD COLUMN reauthorization_told_at timestamptz,
    ADD COLUMN removal_told_at         timestamptz;

-- Whoever takes pushes in notes when, and that alone.
GRANT SELECT (connected_at, last_synced_at, last_notified_at), UPDATE (last_notified_at) ON mailboxes TO postroom_engine;
GRANT SELECT (last_notified_at, reauthorization_told_at, removal_told_at),
    UPDATE (last_notified_at, reauthorization_told_at, removal_told_at) ON subscriptions TO postroom_engine;
CREATE POLICY engine_notes ON mailboxes FOR UPDATE TO postroom_engine USING (true) WITH CHECK (true);
CREATE POLICY engine_notes ON subscriptions FOR UPDATE TO postroom_engine USING (true) WITH CHECK (true);
