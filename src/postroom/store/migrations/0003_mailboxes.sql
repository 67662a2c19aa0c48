-- Mailboxes and what keeps them connected: credentials, logins under way, subscriptions, folders, cursors, failures.
--
-- Keys begin with the organization, so that a foreign key cannot cross organizations and every policy has its index.
-- Ids that appear in URLs or at a provider are random uuids; rows that come by the million are numbered.

CREATE TABLE mailboxes (
    organization_id  uuid        NOT NULL REFERENCES organizations,
    id               uuid        NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    provider         text        NOT NULL CHECK (provider IN ('gmail', 'outlook')),
    account_id       text        NOT NULL,   -- the provider's identity of the account: Google sub, Microsoft tid and oid
    provider_user_id text        NOT NULL,   -- the immutable id that background calls name, never `me`
    address          text        NOT NULL CHECK (address = lower(address COLLATE "C")),
    folder           text,                   -- only this folder; all of them when empty
    content_policy   text        NOT NULL CHECK (content_policy IN ('metadata', 'documents', 'full')),
    health           text        NOT NULL DEFAULT 'active'
        CHECK (health IN ('active', 'token_refresh_failed', 'subscription_expired', 'provider_error')),
    health_since     timestamptz NOT NULL DEFAULT postroom_now(),
    last_error       text,                   -- in words, for a person
    last_synced_at   timestamptz,
    last_notified_at timestamptz,
    connected_at     timestamptz NOT NULL DEFAULT postroom_now(),
    paused_at        timestamptz,
    disconnected_at  timestamptz,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, provider, account_id)
);
-- A push names an address or an account, and reaches every organization that connected it.
CREATE INDEX mailboxes_by_account ON mailboxes (provider, account_id);
CREATE INDEX mailboxes_by_address ON mailboxes (provider, address);
CALL belongs_to_organization('mailboxes');
CREATE POLICY engine ON mailboxes FOR SELECT TO postroom_engine USING (true);
GRANT SELECT (id, organization_id, provider, account_id, address, disconnected_at) ON mailboxes TO postroom_engine;

-- What opens the mailbox: the grant, sealed in this row or kept in a parameter of AWS SSM that the row names, and the
-- access token of the hour, always sealed in this row. Each has its own key: a refresh may replace one and not the other.
-- The lease lets one process of all refresh the token, without a transaction held open during the call.
CREATE TABLE credentials (
    organization_id   uuid        NOT NULL,
    mailbox_id        uuid        NOT NULL,
    kind              text        NOT NULL CHECK (kind IN ('delegated', 'app_secret', 'app_certificate')),
    tenant_id         text,
    client_id         text,
    scopes            text[]      NOT NULL DEFAULT '{}',
    grant_key_id      text,                  -- the vault's key that sealed it
    sealed_grant      bytea,                 -- refresh token, client secret or certificate
    ssm_parameter     text,
    access_key_id     text,
    sealed_access     bytea,                 -- access token
    access_expires_at timestamptz,
    lease_token       uuid,
    leased_until      timestamptz,
    updated_at        timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, mailbox_id),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE,
    CHECK ((sealed_grant IS NULL) <> (ssm_parameter IS NULL)),
    CHECK ((sealed_grant IS NULL) = (grant_key_id IS NULL)),
    CHECK ((sealed_access IS NULL) = (access_key_id IS NULL)),
    CHECK ((lease_token IS NULL) = (leased_until IS NULL))
);
CALL belongs_to_organization('credentials');

-- A login under way. Single use: the callback deletes the row and goes on only if it was there.
CREATE TABLE oauth_states (
    organization_id uuid        NOT NULL REFERENCES organizations,
    state_sha256    bytea       NOT NULL UNIQUE CHECK (octet_length(state_sha256) = 32),
    browser_sha256  bytea       NOT NULL CHECK (octet_length(browser_sha256) = 32),   -- of the cookie it is bound to
    provider        text        NOT NULL CHECK (provider IN ('gmail', 'outlook')),
    content_policy  text        NOT NULL CHECK (content_policy IN ('metadata', 'documents', 'full')),
    key_id          text        NOT NULL,
    sealed_verifier bytea       NOT NULL,    -- the secret half of PKCE
    actor_id        text,
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    expires_at      timestamptz NOT NULL,
    PRIMARY KEY (organization_id, state_sha256)
);
CALL belongs_to_organization('oauth_states');
CREATE POLICY engine ON oauth_states FOR SELECT TO postroom_engine USING (true);
GRANT SELECT (state_sha256, organization_id, expires_at) ON oauth_states TO postroom_engine;

-- The push channel. The row is committed before the provider is asked, so that a notification which overtakes the
-- provider's answer finds it; until the answer `confirmed_at` is empty. Of the secret only the digest is kept.
CREATE TABLE subscriptions (
    organization_id          uuid        NOT NULL,
    id                       uuid        NOT NULL UNIQUE DEFAULT gen_random_uuid(),   -- stands in the notification URL
    mailbox_id               uuid        NOT NULL,
    status                   text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'expired', 'removed')),
    provider_subscription_id text,
    resource                 text        NOT NULL,
    notification_url         text        NOT NULL,
    client_state_sha256      bytea       CHECK (octet_length(client_state_sha256) = 32),
    created_at               timestamptz NOT NULL DEFAULT postroom_now(),
    confirmed_at             timestamptz,
    expires_at               timestamptz,
    last_renewed_at          timestamptz,
    last_reauthorized_at     timestamptz,
    last_notified_at         timestamptz,
    replaced_at              timestamptz,    -- its secret stays valid for 7 days from here
    PRIMARY KEY (organization_id, id),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE
);
CREATE INDEX subscriptions_by_mailbox ON subscriptions (mailbox_id);
CREATE INDEX subscriptions_by_provider_id ON subscriptions (provider_subscription_id);
CALL belongs_to_organization('subscriptions');
CREATE POLICY engine ON subscriptions FOR SELECT TO postroom_engine USING (true);
GRANT SELECT (id, organization_id, mailbox_id, provider_subscription_id, client_state_sha256, status, replaced_at)
    ON subscriptions TO postroom_engine;

-- Graph's folders and Gmail's labels. `role` says what the folder is for, in whatever language it is named.
CREATE TABLE folders (
    organization_id    uuid        NOT NULL,
    id                 bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    mailbox_id         uuid        NOT NULL,
    provider_folder_id text        NOT NULL,
    parent_provider_id text,
    name               text        NOT NULL,
    role               text        CHECK (role IN ('inbox', 'archive', 'sent', 'drafts', 'spam', 'trash')),
    deleted_at         timestamptz,
    PRIMARY KEY (organization_id, id),
    UNIQUE (mailbox_id, provider_folder_id),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE
);
CALL belongs_to_organization('folders');

-- Where a sync left off. Opaque: only the adapter that made a value reads it. Live changes have a cursor of their own;
-- a listing (the first sync, or a full one after an expired cursor) has another, with its progress.
CREATE TABLE cursors (
    organization_id uuid        NOT NULL,
    mailbox_id      uuid        NOT NULL,
    kind            text        NOT NULL CHECK (kind IN ('live', 'backfill', 'resync')),
    scope           text        NOT NULL DEFAULT '',   -- the folder, where the provider keeps a cursor for each
    value           text,
    since           timestamptz,                       -- how far back the listing goes
    listed          bigint      NOT NULL DEFAULT 0,
    expected        bigint,
    started_at      timestamptz NOT NULL DEFAULT postroom_now(),
    updated_at      timestamptz NOT NULL DEFAULT postroom_now(),
    completed_at    timestamptz,
    PRIMARY KEY (organization_id, mailbox_id, kind, scope),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE
);
CALL belongs_to_organization('cursors');

-- One thing of a mailbox that failed alone, written in the transaction whose cursor passes over it.
CREATE TABLE failures (
    organization_id uuid        NOT NULL,
    id              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    mailbox_id      uuid        NOT NULL,
    kind            text        NOT NULL CHECK (kind IN ('folder', 'thread', 'message', 'attachment')),
    subject         text        NOT NULL,    -- the provider's id of it
    attempts        integer     NOT NULL DEFAULT 1,
    last_error      text        NOT NULL,
    first_failed_at timestamptz NOT NULL DEFAULT postroom_now(),
    last_failed_at  timestamptz NOT NULL DEFAULT postroom_now(),
    due_at          timestamptz,             -- empty: tried often enough, it waits for a person
    resolved_at     timestamptz,
    PRIMARY KEY (organization_id, id),
    UNIQUE (mailbox_id, kind, subject),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE
);
CREATE INDEX failures_open ON failures (mailbox_id, due_at) WHERE resolved_at IS NULL;
CALL belongs_to_organization('failures');
