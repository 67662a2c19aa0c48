-- What programs need: keys found by one look, and writes that may be sent twice.

-- The scopes of a key are found with it.
GRANT SELECT (scopes) ON api_keys TO postroom_engine;

-- A write that came with an idempotency key: its answer is given again, whoever asks for it again.
CREATE TABLE idempotency_keys (
    organization_id uuid        NOT NULL REFERENCES organizations,
    actor_id        text        NOT NULL,
    key             text        NOT NULL,
    request_sha256  bytea       NOT NULL CHECK (octet_length(request_sha256) = 32),
    status          integer,                 -- empty while the first request is under way
    body            bytea,
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, actor_id, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (organization_id, created_at);
CALL belongs_to_organization('idempotency_keys');
