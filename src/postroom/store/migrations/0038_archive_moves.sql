-- A purge takes names out of the archive: the work `archive` moves the copy to a path without them.
ALTER TABLE documents ADD COLUMN archive_outdated_at timestamptz;
COMMENT ON COLUMN documents.archive_outdated_at IS 'When a purge removed a name that is part of the archive path. Empty once the copy has moved.';
