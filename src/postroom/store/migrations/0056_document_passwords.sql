-- An encrypted PDF waits for its password. The password itself is never stored: the file is decrypted once.
ALTER TABLE documents ADD COLUMN needs_password boolean NOT NULL DEFAULT false;
ALTER TABLE documents ADD COLUMN unlocked_sha256 bytea;
ALTER TABLE documents ADD FOREIGN KEY (organization_id, unlocked_sha256) REFERENCES blobs;
CREATE INDEX documents_by_unlocked_content ON documents (organization_id, unlocked_sha256)
    WHERE unlocked_sha256 IS NOT NULL;
COMMENT ON COLUMN documents.needs_password IS 'Its file is encrypted, and no password has opened it yet.';
COMMENT ON COLUMN documents.unlocked_sha256 IS 'The decrypted copy that is read and shown. The archive gets the original.';
