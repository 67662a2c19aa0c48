-- The mirrored mail. Deleting is a mark; purging is a separate act that removes rows.

-- Stored bytes, once per content and organization. A row is written after its bytes are safe.
CREATE TABLE blobs (
    organization_id uuid        NOT NULL REFERENCES organizations,
    sha256          bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    size            bigint      NOT NULL,
    place           text        NOT NULL DEFAULT 'store' CHECK (place IN ('store', 'spool')),
    stored_at       timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, sha256)
);
CALL belongs_to_organization('blobs');

CREATE TABLE threads (
    organization_id    uuid        NOT NULL,
    id                 bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    mailbox_id         uuid        NOT NULL,
    provider_thread_id text        NOT NULL,
    subject            text,
    snippet            text,                 -- counts as body: empty under the policy `metadata`
    participants       text[]      NOT NULL DEFAULT '{}',
    message_count      integer     NOT NULL DEFAULT 0,
    has_attachments    boolean     NOT NULL DEFAULT false,
    labels             text[]      NOT NULL DEFAULT '{}',
    first_message_at   timestamptz,
    last_message_at    timestamptz,
    updated_at         timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    UNIQUE (mailbox_id, provider_thread_id),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE
);
CREATE INDEX threads_newest_first ON threads (mailbox_id, last_message_at DESC, id DESC);
CALL belongs_to_organization('threads');

CREATE TABLE messages (
    organization_id     uuid        NOT NULL,
    id                  bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    mailbox_id          uuid        NOT NULL,
    thread_id           bigint      NOT NULL,
    provider_message_id text        NOT NULL,
    version             text,                -- of the last change seen: Graph changeKey, Gmail historyId
    internet_message_id text,
    folder_id           bigint,              -- the one folder, where the provider has folders
    labels              text[]      NOT NULL DEFAULT '{}',
    categories          text[]      NOT NULL DEFAULT '{}',
    from_name           text,
    from_address        text,
    from_domain         text        GENERATED ALWAYS AS (substring(from_address FROM '@([^@]*)$')) STORED,
    to_recipients       jsonb       NOT NULL DEFAULT '[]',   -- [{"name": …, "address": …}]
    cc_recipients       jsonb       NOT NULL DEFAULT '[]',
    bcc_recipients      jsonb       NOT NULL DEFAULT '[]',
    subject             text,
    snippet             text,                -- counts as body: empty under the policy `metadata`
    sent_at             timestamptz,
    received_at         timestamptz,
    size                bigint,
    importance          text        NOT NULL DEFAULT 'normal' CHECK (importance IN ('low', 'normal', 'high')),
    is_read             boolean     NOT NULL DEFAULT false,
    is_flagged          boolean     NOT NULL DEFAULT false,
    is_draft            boolean     NOT NULL DEFAULT false,
    is_newsletter       boolean     NOT NULL DEFAULT false,
    is_automated        boolean     NOT NULL DEFAULT false,
    has_attachments     boolean     NOT NULL DEFAULT false,
    raw_sha256          bytea       CHECK (octet_length(raw_sha256) = 32),   -- of the raw message, where it was seen
    created_at          timestamptz NOT NULL DEFAULT postroom_now(),
    updated_at          timestamptz NOT NULL DEFAULT postroom_now(),
    deleted_at          timestamptz,
    PRIMARY KEY (organization_id, id),
    UNIQUE (mailbox_id, provider_message_id),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE,
    FOREIGN KEY (organization_id, thread_id) REFERENCES threads ON DELETE CASCADE,
    FOREIGN KEY (organization_id, folder_id) REFERENCES folders ON DELETE SET NULL (folder_id)
);
CREATE INDEX messages_newest_first ON messages (mailbox_id, received_at DESC, id DESC);
CREATE INDEX messages_by_thread ON messages (thread_id);
CREATE INDEX messages_by_folder ON messages (folder_id, received_at DESC) WHERE folder_id IS NOT NULL;
CALL belongs_to_organization('messages');

-- Apart from the message, so that a change of labels or flags rewrites neither the body nor the search index.
-- Under the policy `metadata` only the words of subject and sender are here.
CREATE TABLE message_contents (
    organization_id uuid     NOT NULL,
    message_id      bigint   NOT NULL,
    headers         jsonb,                   -- [[name, value], …] in the order they came, repeated names repeated
    body_plain      text,
    body_html       text,
    search          tsvector NOT NULL,
    PRIMARY KEY (organization_id, message_id),
    FOREIGN KEY (organization_id, message_id) REFERENCES messages ON DELETE CASCADE
);
CREATE INDEX message_contents_search ON message_contents USING gin (search);
CALL belongs_to_organization('message_contents');

-- Mail is in any language, so words are kept as they stand. Only the beginning of a long body is indexed,
-- since a tsvector over 1 MB is an error, and no message may fail for being long.
CREATE FUNCTION message_search(subject text, people text, body text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN setweight(to_tsvector('simple', left(coalesce(subject, ''), 2000)), 'A')
        || setweight(to_tsvector('simple', left(coalesce(people, ''), 10000)), 'B')
        || to_tsvector('simple', left(coalesce(body, ''), 100000));
REVOKE ALL ON FUNCTION message_search(text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION message_search(text, text, text) TO postroom_application;

-- Row-level security runs before any operator that might leak, and the match of a tsvector counts as such: asked
-- directly, PostgreSQL reads every row of the organization. Asked through the owner, it uses the index.
CREATE FUNCTION matching_messages(query tsquery) RETURNS SETOF bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT message_id FROM message_contents
        WHERE search @@ query AND organization_id = current_organization();
    END;
REVOKE ALL ON FUNCTION matching_messages(tsquery) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION matching_messages(tsquery) TO postroom_application;

-- By the part's place in the message: Gmail's attachment ids change from call to call.
CREATE TABLE attachments (
    organization_id        uuid        NOT NULL,
    message_id             bigint      NOT NULL,
    part                   text        NOT NULL,
    kind                   text        NOT NULL DEFAULT 'file' CHECK (kind IN ('file', 'item', 'reference')),
    provider_attachment_id text,             -- where it is stable (Graph)
    file_name              text,
    media_type             text        NOT NULL,
    size                   bigint      NOT NULL,
    is_inline              boolean     NOT NULL DEFAULT false,
    content_id             text,
    sha256                 bytea,            -- empty while, or because, its bytes are not kept
    created_at             timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, message_id, part),
    FOREIGN KEY (organization_id, message_id) REFERENCES messages ON DELETE CASCADE,
    FOREIGN KEY (organization_id, sha256) REFERENCES blobs
);
CREATE INDEX attachments_by_content ON attachments (organization_id, sha256) WHERE sha256 IS NOT NULL;
CALL belongs_to_organization('attachments');

-- One observed change of one message. Who sent it and what it is about stands in the message.
CREATE TABLE mail_events (
    organization_id uuid        NOT NULL,
    id              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    mailbox_id      uuid        NOT NULL,
    message_id      bigint      NOT NULL,
    kind            text        NOT NULL CHECK (kind IN ('created', 'updated', 'moved', 'deleted', 'labels_changed')),
    version         text        NOT NULL,    -- of the change, as the provider tells it, so that a repeat is no second event
    from_folder_id  bigint,
    to_folder_id    bigint,
    labels_added    text[]      NOT NULL DEFAULT '{}',
    labels_removed  text[]      NOT NULL DEFAULT '{}',
    changed         jsonb       NOT NULL DEFAULT '{}',   -- read, flag, importance, categories: the new values
    observed_at     timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    UNIQUE (message_id, kind, version),      -- and with the message, the mailbox
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE,
    FOREIGN KEY (organization_id, message_id) REFERENCES messages ON DELETE CASCADE
);
CREATE INDEX mail_events_by_mailbox ON mail_events (mailbox_id, id);
CALL belongs_to_organization('mail_events');
