-- Who may come in: people, their sessions, and programs. Of every secret only a digest is kept.

CREATE TABLE members (
    organization_id uuid        NOT NULL REFERENCES organizations,
    id              uuid        NOT NULL DEFAULT gen_random_uuid(),
    address         text        NOT NULL CHECK (address = lower(address COLLATE "C")),
    name            text        NOT NULL,
    role            text        NOT NULL CHECK (role IN ('admin', 'reviewer', 'reader')),
    password_hash   text,
    oidc_issuer     text,
    oidc_subject    text,
    failed_sign_ins integer     NOT NULL DEFAULT 0,
    locked_until    timestamptz,
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, address)
);
CREATE INDEX members_by_address ON members (address);
CREATE INDEX members_by_oidc ON members (oidc_issuer, oidc_subject);
CALL belongs_to_organization('members');
CREATE POLICY engine ON members FOR SELECT TO postroom_engine USING (true);
GRANT SELECT (id, organization_id, address, oidc_issuer, oidc_subject) ON members TO postroom_engine;

-- A session, or a one-time link that becomes one.
CREATE TABLE sessions (
    organization_id uuid        NOT NULL,
    token_sha256    bytea       NOT NULL UNIQUE CHECK (octet_length(token_sha256) = 32),
    kind            text        NOT NULL CHECK (kind IN ('session', 'link')),
    member_id       uuid        NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    last_seen_at    timestamptz,
    expires_at      timestamptz NOT NULL,
    PRIMARY KEY (organization_id, token_sha256),
    FOREIGN KEY (organization_id, member_id) REFERENCES members ON DELETE CASCADE
);
CREATE INDEX sessions_by_member ON sessions (member_id);
CALL belongs_to_organization('sessions');
CREATE POLICY engine ON sessions FOR SELECT TO postroom_engine USING (true);
GRANT SELECT (token_sha256, organization_id, expires_at) ON sessions TO postroom_engine;

CREATE TABLE api_keys (
    organization_id uuid        NOT NULL REFERENCES organizations,
    id              uuid        NOT NULL DEFAULT gen_random_uuid(),
    name            text        NOT NULL,
    prefix          text        NOT NULL,    -- its first characters, by which a person recognises it
    key_sha256      bytea       NOT NULL UNIQUE CHECK (octet_length(key_sha256) = 32),
    scopes          text[]      NOT NULL,
    created_by      text,
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    expires_at      timestamptz,
    last_used_at    timestamptz,
    revoked_at      timestamptz,
    PRIMARY KEY (organization_id, id)
);
CALL belongs_to_organization('api_keys');
CREATE POLICY engine ON api_keys FOR SELECT TO postroom_engine USING (true);
GRANT SELECT (id, organization_id, key_sha256, expires_at, revoked_at) ON api_keys TO postroom_engine;
