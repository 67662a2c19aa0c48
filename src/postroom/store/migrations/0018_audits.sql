-- What comparisons of a mailbox at its provider with the store found.
CREATE TABLE audits (
    organization_id uuid        NOT NULL,
    id              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    mailbox_id      uuid        NOT NULL,
    started_at      timestamptz NOT NULL,
    completed_at    timestamptz NOT NULL DEFAULT postroom_now(),
    listed          bigint      NOT NULL,
    missing         bigint      NOT NULL,
    extra           bigint      NOT NULL,
    different       bigint      NOT NULL,
    missing_ids     text[]      NOT NULL,    -- of the provider; the first of them, where there are many
    extra_ids       text[]      NOT NULL,
    different_ids   text[]      NOT NULL,
    PRIMARY KEY (organization_id, id),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE
);
CREATE INDEX audits_by_mailbox ON audits (mailbox_id, id);
CALL belongs_to_organization('audits');
