-- Where the blobs of this installation lie. A process that is told another place would neither find nor share them.
CREATE TABLE blob_place (
    only_row   boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    place      text        NOT NULL CHECK (place <> ''),   -- a directory's own mark, or a bucket
    known_from timestamptz NOT NULL DEFAULT postroom_now()
);
GRANT SELECT, INSERT, UPDATE ON blob_place TO postroom_engine;

-- Contents whose objects are being removed, or were a while ago. Whoever put such a content without writing it anew
-- may have seen the object just before it went, and must put it again.
CREATE TABLE doomed_blobs (
    organization_id uuid        NOT NULL REFERENCES organizations,
    sha256          bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    doomed_at       timestamptz NOT NULL DEFAULT postroom_now(),
    removed_at      timestamptz,             -- empty while the object may still be there
    PRIMARY KEY (organization_id, sha256)
);
CALL belongs_to_organization('doomed_blobs');
