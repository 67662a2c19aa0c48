-- Which scope (a folder at Microsoft 365, the whole mailbox at Gmail) names the message of a failure, and since when.
-- A message that its scope names and that cannot be read is not gone: only its scope can say so.
ALTER TABLE failures ADD COLUMN scope text, ADD COLUMN listed_at timestamptz;

COMMENT ON COLUMN failures.scope IS 'The scope whose change feed or listing names the message; null if none does.';
COMMENT ON COLUMN failures.listed_at IS 'When that scope named the message last.';
