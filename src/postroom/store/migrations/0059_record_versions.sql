-- A record can be reopened, corrected, voided, merged and split. Each change is a version of it.
ALTER TABLE records
    ADD COLUMN state text NOT NULL DEFAULT 'confirmed'
        CHECK (state IN ('confirmed', 'reopened', 'voided', 'merged')),
    ADD COLUMN version integer NOT NULL DEFAULT 1,
    ADD COLUMN merged_into uuid,
    ADD FOREIGN KEY (organization_id, merged_into) REFERENCES records,
    ADD CHECK ((state = 'merged') = (merged_into IS NOT NULL));
COMMENT ON COLUMN records.version IS 'Raised by every change. Version 1 has no row in record_versions until there is a second.';
COMMENT ON COLUMN records.merged_into IS 'The record that has the documents of a merged one.';

-- A voided or merged record does not prevent another one of the same invoice or trade.
ALTER TABLE records DROP CONSTRAINT records_organization_id_pipeline_fingerprint_key;
CREATE UNIQUE INDEX records_by_fingerprint ON records (organization_id, pipeline, fingerprint)
    WHERE state IN ('confirmed', 'reopened');
CREATE INDEX records_without_order ON records (organization_id, kind) WHERE order_id IS NULL AND state = 'confirmed';

CREATE TABLE record_versions (
    organization_id uuid        NOT NULL,
    record_id       uuid        NOT NULL,
    version         integer     NOT NULL,
    change          text        NOT NULL CHECK (change IN
        ('confirmed', 'reopened', 'corrected', 'voided', 'merged', 'split', 'linked')),
    state           text        NOT NULL CHECK (state IN ('confirmed', 'reopened', 'voided', 'merged')),
    key             text        NOT NULL,
    fields          jsonb       NOT NULL,
    order_id        uuid,
    reason          text        NOT NULL,
    actor_id        text        NOT NULL,
    other_record_id uuid,
    document_ids    uuid[]      NOT NULL DEFAULT '{}',
    changed_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, record_id, version),
    FOREIGN KEY (organization_id, record_id) REFERENCES records ON DELETE CASCADE
);
CALL belongs_to_organization('record_versions', 'SELECT, INSERT');
COMMENT ON TABLE record_versions IS 'What each change of a record led to, by whom and why. Rows are never changed.';
COMMENT ON COLUMN record_versions.document_ids IS 'The documents that a merge or a split moved.';

-- A corrected record may have another key, and its documents another archive path. The earlier copies stay.
CREATE TABLE archive_copies (
    organization_id uuid        NOT NULL,
    document_id     uuid        NOT NULL,
    path            text        NOT NULL,
    replaced_at     timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, document_id, path),
    FOREIGN KEY (organization_id, document_id) REFERENCES documents ON DELETE CASCADE
);
CALL belongs_to_organization('archive_copies');
COMMENT ON TABLE archive_copies IS 'Earlier archived copies of a document. The current one is documents.archive_path.';

CREATE OR REPLACE FUNCTION needs_archived_copy(wanted_sha256 bytea, wanted_path text, except_document uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT EXISTS (
            SELECT FROM organizations JOIN documents ON documents.organization_id = organizations.id
            WHERE documents.sha256 = wanted_sha256 AND documents.id <> except_document
                AND (archive_path = wanted_path OR (state = 'completed' AND archived_at IS NULL)
                    OR EXISTS (SELECT FROM archive_copies
                        WHERE archive_copies.organization_id = documents.organization_id
                            AND document_id = documents.id AND path = wanted_path))
        );
    END;
