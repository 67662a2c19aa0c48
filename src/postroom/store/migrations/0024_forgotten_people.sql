-- Who was purged, and when: mail of theirs from before is not stored again, wherever it still is. Not who they are: a digest
-- of their address, with a salt of its own for each.
CREATE TABLE forgotten_people (
    organization_id uuid        NOT NULL REFERENCES organizations,
    address_sha256  bytea       NOT NULL CHECK (octet_length(address_sha256) = 32),
    salt            bytea       NOT NULL,
    forgotten_at    timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, address_sha256)
);
CALL belongs_to_organization('forgotten_people');
