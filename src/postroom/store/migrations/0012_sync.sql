-- What syncing needs beside the mail itself.

-- The feed in which changes of a folder's mail are told; empty where it has none of its own (a label).
ALTER TABLE folders ADD COLUMN scope text;

-- A refill goes through the mail that is stored, after the content policy was raised; `folders` says when the tree was
-- last read.
ALTER TABLE cursors DROP CONSTRAINT cursors_kind_check;
ALTER TABLE cursors ADD CONSTRAINT cursors_kind_check
    CHECK (kind IN ('live', 'backfill', 'resync', 'refill', 'folders'));

-- What a listing under way has shown so far. What is stored and was not shown by a complete one has left the mailbox.
CREATE TABLE listed (
    organization_id     uuid NOT NULL,
    mailbox_id          uuid NOT NULL,
    kind                text NOT NULL CHECK (kind IN ('resync', 'audit')),
    scope               text NOT NULL DEFAULT '',
    provider_message_id text NOT NULL,
    PRIMARY KEY (organization_id, mailbox_id, kind, scope, provider_message_id),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE
);
CALL belongs_to_organization('listed');
