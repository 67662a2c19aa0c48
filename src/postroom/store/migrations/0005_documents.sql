-- From an attachment to a checked record.

-- Why a message (its part is empty) or an attachment was taken or left by a pipeline.
CREATE TABLE verdicts (
    organization_id uuid        NOT NULL,
    message_id      bigint      NOT NULL,
    part            text        NOT NULL DEFAULT '',
    pipeline        text        NOT NULL,
    accepted        boolean     NOT NULL,
    reason          text        NOT NULL,
    decided_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, message_id, part, pipeline),
    FOREIGN KEY (organization_id, message_id) REFERENCES messages ON DELETE CASCADE
);
CALL belongs_to_organization('verdicts');

-- What somebody ordered and expects a document for. `fields` are those of the kind.
CREATE TABLE orders (
    organization_id uuid        NOT NULL REFERENCES organizations,
    id              uuid        NOT NULL DEFAULT gen_random_uuid(),
    kind            text        NOT NULL,
    reference       text        NOT NULL,
    username        text,
    fields          jsonb       NOT NULL,
    state           text        NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'matched', 'closed')),
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, kind, reference)
);
CALL belongs_to_organization('orders');

-- The confirmed business record. The fingerprint finds the same invoice or trade in other bytes.
CREATE TABLE records (
    organization_id uuid        NOT NULL REFERENCES organizations,
    id              uuid        NOT NULL DEFAULT gen_random_uuid(),
    kind            text        NOT NULL,
    pipeline        text        NOT NULL,
    fingerprint     bytea       NOT NULL CHECK (octet_length(fingerprint) = 32),
    key             text        NOT NULL,    -- the trade's or the invoice's, as it stands in archive paths
    fields          jsonb       NOT NULL,
    order_id        uuid,
    confirmed_by    text        NOT NULL,
    confirmed_at    timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, pipeline, fingerprint),
    FOREIGN KEY (organization_id, order_id) REFERENCES orders
);
CREATE INDEX records_by_order ON records (order_id) WHERE order_id IS NOT NULL;
CALL belongs_to_organization('records');

-- One content taken in by one pipeline, however often it arrives.
CREATE TABLE documents (
    organization_id uuid        NOT NULL,
    id              uuid        NOT NULL DEFAULT gen_random_uuid(),
    pipeline        text        NOT NULL,
    sha256          bytea       NOT NULL,
    media_type      text        NOT NULL,
    kind            text,                    -- invoice, contract note, …, once classified
    state           text        NOT NULL DEFAULT 'queued'
        CHECK (state IN ('queued', 'processing', 'completed', 'skipped', 'needs_review', 'failed')),
    state_since     timestamptz NOT NULL DEFAULT postroom_now(),
    skip_reason     text,
    last_error      text,
    record_id       uuid,
    archive_path    text,
    archived_at     timestamptz,
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, pipeline, sha256),
    FOREIGN KEY (organization_id, sha256) REFERENCES blobs,
    FOREIGN KEY (organization_id, record_id) REFERENCES records
);
CREATE INDEX documents_by_content ON documents (organization_id, sha256);
CREATE INDEX documents_by_state ON documents (organization_id, state, created_at DESC);
CREATE INDEX documents_by_record ON documents (record_id) WHERE record_id IS NOT NULL;
CALL belongs_to_organization('documents');

-- Every time the content came, and from where. A repeated page notes the same arrival once.
CREATE TABLE arrivals (
    organization_id     uuid        NOT NULL,
    id                  bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    document_id         uuid        NOT NULL,
    source              text        NOT NULL CHECK (source IN ('graph_webhook', 'gmail_push', 'manual_upload', 'poller')),
    message_id          bigint,
    part                text,
    provider            text,
    provider_message_id text,
    bucket_generation   text,
    sender              text,
    subject             text,
    file_name           text,
    received_at         timestamptz,
    arrived_at          timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    UNIQUE (document_id, message_id, part),
    FOREIGN KEY (organization_id, document_id) REFERENCES documents ON DELETE CASCADE,
    FOREIGN KEY (organization_id, message_id) REFERENCES messages ON DELETE SET NULL (message_id)
);
CREATE INDEX arrivals_by_message ON arrivals (message_id) WHERE message_id IS NOT NULL;
CALL belongs_to_organization('arrivals');

-- The text of a document and the places of its words on the pages.
CREATE TABLE transcripts (
    organization_id uuid        NOT NULL,
    document_id     uuid        NOT NULL,
    method          text        NOT NULL CHECK (method IN ('text_layer', 'ocr', 'plain')),
    pages           integer     NOT NULL,
    text            text        NOT NULL,
    words           jsonb       NOT NULL,
    search          tsvector    NOT NULL GENERATED ALWAYS AS (to_tsvector('simple', left(text, 100000))) STORED,
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, document_id),
    FOREIGN KEY (organization_id, document_id) REFERENCES documents ON DELETE CASCADE
);
CREATE INDEX transcripts_search ON transcripts USING gin (search);
CALL belongs_to_organization('transcripts');

-- As matching_messages, and for the same reason.
CREATE FUNCTION matching_documents(query tsquery) RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT document_id FROM transcripts
        WHERE search @@ query AND organization_id = current_organization();
    END;
REVOKE ALL ON FUNCTION matching_documents(tsquery) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION matching_documents(tsquery) TO postroom_application;

-- What a reader read: each field with its value, confidence and place. The newest one of a document counts.
CREATE TABLE extractions (
    organization_id uuid        NOT NULL,
    id              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    document_id     uuid        NOT NULL,
    kind            text        NOT NULL,
    reader          text        NOT NULL,    -- `offline`, or the model's name
    fields          jsonb       NOT NULL,
    checks          jsonb       NOT NULL DEFAULT '[]',
    input_tokens    bigint      NOT NULL DEFAULT 0,
    output_tokens   bigint      NOT NULL DEFAULT 0,
    cost            numeric     NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    FOREIGN KEY (organization_id, document_id) REFERENCES documents ON DELETE CASCADE
);
CREATE INDEX extractions_by_document ON extractions (document_id, id);
CALL belongs_to_organization('extractions');

-- A question to a person: why it was asked, and how it was answered. One open question per document.
CREATE TABLE reviews (
    organization_id uuid        NOT NULL,
    id              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    document_id     uuid        NOT NULL,
    reason          text        NOT NULL,
    decision        text        CHECK (decision IN ('confirmed', 'corrected', 'rejected')),
    actor_id        text,
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    decided_at      timestamptz,
    PRIMARY KEY (organization_id, id),
    FOREIGN KEY (organization_id, document_id) REFERENCES documents ON DELETE CASCADE,
    CHECK ((decision IS NULL) = (decided_at IS NULL))
);
CREATE INDEX reviews_by_document ON reviews (document_id);
CREATE UNIQUE INDEX reviews_open ON reviews (document_id) WHERE decision IS NULL;
CALL belongs_to_organization('reviews');

-- A field that a person corrected. The next document of that sender or layout learns from it.
CREATE TABLE corrections (
    organization_id uuid        NOT NULL,
    id              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    review_id       bigint      NOT NULL,
    field           text        NOT NULL,
    read_value      jsonb,
    right_value     jsonb,
    sender          text,
    layout          text,
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    FOREIGN KEY (organization_id, review_id) REFERENCES reviews ON DELETE CASCADE
);
CREATE INDEX corrections_by_review ON corrections (review_id);
CREATE INDEX corrections_by_sender ON corrections (organization_id, sender);
CREATE INDEX corrections_by_layout ON corrections (organization_id, layout);
CALL belongs_to_organization('corrections');
