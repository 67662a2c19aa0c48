-- Outgoing webhooks (W5): who wants to be told, up to where they were, and what is still to be told.

CREATE TABLE webhooks (
    organization_id   uuid        NOT NULL REFERENCES organizations,
    id                uuid        NOT NULL DEFAULT gen_random_uuid(),
    url               text        NOT NULL,
    kinds             text[]      NOT NULL DEFAULT '{}',   -- of events: `document.changed`, `document.*`; empty: all
    key_id            text        NOT NULL,
    sealed_secret     bytea       NOT NULL,                -- with which deliveries are signed
    position          bigint      NOT NULL,    -- in the feed: what is below was delivered, or stands in `deliveries`
    failing_since     timestamptz,             -- nothing was accepted since
    last_error        text,
    last_delivered_at timestamptz,
    disabled_at       timestamptz,
    disabled_because  text,
    created_at        timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id)
);
CALL belongs_to_organization('webhooks');

-- What was not accepted at once while other things were, and waits for its next attempt with all that comes after it
-- about the same thing. What the event said is kept here: the feed may be pruned meanwhile.
CREATE TABLE deliveries (
    organization_id uuid        NOT NULL,
    id              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    webhook_id      uuid        NOT NULL,
    event_id        bigint      NOT NULL,
    position        bigint      NOT NULL,
    entity_type     text        NOT NULL,
    entity_id       text        NOT NULL,
    body            text        NOT NULL,
    attempts        integer     NOT NULL DEFAULT 0,
    last_error      text,
    due_at          timestamptz,             -- empty: given up after three days, it waits for a person
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    UNIQUE (webhook_id, event_id),
    FOREIGN KEY (organization_id, webhook_id) REFERENCES webhooks ON DELETE CASCADE
);
CREATE INDEX deliveries_waiting ON deliveries (webhook_id, position) WHERE due_at IS NOT NULL;
CALL belongs_to_organization('deliveries');
