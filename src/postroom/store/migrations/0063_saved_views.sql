-- Filters and sorting of a list that a member keeps under a name.
CREATE TABLE saved_views (
    organization_id uuid        NOT NULL,
    id              uuid        NOT NULL DEFAULT gen_random_uuid(),
    member_id       uuid        NOT NULL,
    list            text        NOT NULL,
    name            text        NOT NULL CHECK (name <> ''),
    query           text        NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, member_id, list, name),
    FOREIGN KEY (organization_id, member_id) REFERENCES members ON DELETE CASCADE
);
CALL belongs_to_organization('saved_views');
COMMENT ON TABLE saved_views IS 'Filters and sorting of a list, as the query of its URL, that a member keeps under a name.';
