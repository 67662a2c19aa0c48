-- By which id the foreign scheduler of a pipeline with shared state (K6) knows a message. Asked of the provider once: an
-- id that changes with every move would lead to another row each time.
CREATE TABLE shared_ids (
    organization_id uuid   NOT NULL,
    pipeline        text   NOT NULL,
    message_id      bigint NOT NULL,
    foreign_id      text   NOT NULL,
    PRIMARY KEY (organization_id, pipeline, message_id),
    FOREIGN KEY (organization_id, message_id) REFERENCES messages ON DELETE CASCADE
);
CREATE INDEX shared_ids_by_message ON shared_ids (message_id);
CALL belongs_to_organization('shared_ids');
