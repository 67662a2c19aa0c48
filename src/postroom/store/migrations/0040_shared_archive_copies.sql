-- Documents of several organizations or pipelines may share one archived copy: same sender, day, name and bytes.
-- A purge may remove the copy only if no other document needs it, or is about to.
CREATE FUNCTION needs_archived_copy(wanted_sha256 bytea, wanted_path text, except_document uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT EXISTS (
            SELECT FROM organizations JOIN documents ON documents.organization_id = organizations.id
            WHERE documents.sha256 = wanted_sha256 AND documents.id <> except_document
                AND (archive_path = wanted_path OR (state = 'completed' AND archived_at IS NULL))
        );
    END;
REVOKE ALL ON FUNCTION needs_archived_copy(bytea, text, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION needs_archived_copy(bytea, text, uuid) TO postroom_engine;
