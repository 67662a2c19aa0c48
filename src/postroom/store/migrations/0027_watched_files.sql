-- Files of watched folders and buckets (D3): each version of a file is taken in once. A row is written with the documents
-- that came of it; one without `taken_at` was seen and may still be growing. What is no longer there is forgotten.
CREATE TABLE watched_files (
    organization_id uuid        NOT NULL REFERENCES organizations,
    pipeline        text        NOT NULL,
    name            text        NOT NULL,
    version         text        NOT NULL,
    seen_at         timestamptz NOT NULL DEFAULT postroom_now(),
    taken_at        timestamptz,
    refused         text,                    -- why it was not taken in
    PRIMARY KEY (organization_id, pipeline, name)
);
CALL belongs_to_organization('watched_files');
