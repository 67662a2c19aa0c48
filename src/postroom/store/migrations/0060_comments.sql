-- People discuss documents and share the reviews among themselves.
CREATE TABLE comments (
    organization_id uuid        NOT NULL,
    id              bigint      GENERATED ALWAYS AS IDENTITY,
    document_id     uuid        NOT NULL,
    actor_id        text        NOT NULL,
    text            text        NOT NULL CHECK (text <> ''),
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    FOREIGN KEY (organization_id, document_id) REFERENCES documents ON DELETE CASCADE
);
CREATE INDEX comments_by_document ON comments (organization_id, document_id, id);
CALL belongs_to_organization('comments', 'SELECT, INSERT');
COMMENT ON TABLE comments IS 'What people wrote about a document. Rows are never changed.';

ALTER TABLE documents ADD COLUMN assignee_id uuid;
ALTER TABLE documents ADD FOREIGN KEY (organization_id, assignee_id) REFERENCES members ON DELETE SET NULL (assignee_id);
CREATE INDEX documents_by_assignee ON documents (organization_id, assignee_id) WHERE assignee_id IS NOT NULL;
COMMENT ON COLUMN documents.assignee_id IS 'The member who is to review it. The queues of the others leave it out.';

-- What a person decided lately: the progress on the page, and what can be undone.
CREATE INDEX reviews_by_actor ON reviews (organization_id, actor_id, decided_at) WHERE decision IS NOT NULL;
