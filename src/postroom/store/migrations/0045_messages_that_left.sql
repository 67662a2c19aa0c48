-- A message that is no longer in a mirrored folder left the scope. It was not deleted, and stays stored as last seen.
ALTER TABLE messages ADD COLUMN left_at timestamptz;
COMMENT ON COLUMN messages.left_at IS 'When the message was found in a folder that is not mirrored; null if it is mirrored or deleted.';

-- Every stored kind is among the new ones, so the rows need not be checked under the lock.
ALTER TABLE mail_events DROP CONSTRAINT mail_events_kind_check;
ALTER TABLE mail_events ADD CONSTRAINT mail_events_kind_check
    CHECK (kind IN ('created', 'updated', 'moved', 'left', 'deleted', 'labels_changed')) NOT VALID;
