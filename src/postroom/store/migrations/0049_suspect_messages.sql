-- Messages that may end the worker that handles them. A message that two lost leases name is an open failure.
CREATE TABLE suspect_messages (
    organization_id     uuid    NOT NULL,
    mailbox_id          uuid    NOT NULL,
    provider_message_id text    NOT NULL,
    lost_leases         integer NOT NULL DEFAULT 0,
    work_lost_leases    integer,
    PRIMARY KEY (organization_id, mailbox_id, provider_message_id),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE
);
COMMENT ON TABLE suspect_messages IS 'Messages that a sync handles alone, because a worker may have crashed or stalled over them.';
COMMENT ON COLUMN suspect_messages.lost_leases IS 'How many leases of the sync were lost while this message was handled alone.';
COMMENT ON COLUMN suspect_messages.work_lost_leases IS 'While it is handled: lost_leases of the sync''s work when that began. Otherwise null.';
CALL belongs_to_organization('suspect_messages');
