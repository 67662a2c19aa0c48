-- The history of a message is complete: its events are numbered without gaps, and applying them gives its state.

ALTER TABLE messages ADD COLUMN revision integer NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN content_revision integer NOT NULL DEFAULT 1;
ALTER TABLE mail_events ADD COLUMN revision integer;

COMMENT ON TABLE mail_events IS 'Observed changes of messages, one row per change. Applied in order, they give the message''s state.';
COMMENT ON COLUMN messages.revision IS 'The revision of the message''s last event. 0: its events are older than this column.';
COMMENT ON COLUMN messages.content_revision IS 'Raised when a draft is edited, or a message is restored with other content.';
COMMENT ON COLUMN mail_events.revision IS 'Counts the events of a message from 1. Empty in events that are older than this column.';
COMMENT ON COLUMN mail_events.version IS 'The provider''s version of the change and the revision, which makes it distinct.';
COMMENT ON COLUMN mail_events.changed IS 'New values of is_read, is_flagged, is_draft, importance, categories and content_revision; in `created`, all of them.';
