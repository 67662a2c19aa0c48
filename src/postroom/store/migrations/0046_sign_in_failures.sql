-- Wrong passwords are counted per member and source, so that a stranger cannot lock a member out.
CREATE TABLE sign_in_failures (
    organization_id uuid        NOT NULL,
    member_id       uuid        NOT NULL,
    source          text        NOT NULL,
    failures        integer     NOT NULL,
    failed_at       timestamptz NOT NULL DEFAULT postroom_now(),
    locked_until    timestamptz,
    PRIMARY KEY (organization_id, member_id, source),
    FOREIGN KEY (organization_id, member_id) REFERENCES members ON DELETE CASCADE
);
COMMENT ON TABLE sign_in_failures IS
    'Wrong passwords in a row, per member and source: an IPv4 address or a /64 network of IPv6. Kept for a day.';
CREATE INDEX sign_in_failures_by_time ON sign_in_failures (organization_id, failed_at);
CALL belongs_to_organization('sign_in_failures');

ALTER TABLE members DROP COLUMN failed_sign_ins, DROP COLUMN locked_until;
