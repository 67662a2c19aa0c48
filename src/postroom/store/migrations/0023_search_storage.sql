-- What a tsvector holds is too short to be compressed; trying costs time with every message.
ALTER TABLE message_contents ALTER COLUMN search SET STORAGE EXTERNAL;
ALTER TABLE transcripts ALTER COLUMN search SET STORAGE EXTERNAL;
