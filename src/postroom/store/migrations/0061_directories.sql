-- A directory: the users of a Google Workspace or a Microsoft 365 tenant that an organization connects together.
CREATE TABLE directories (
    organization_id     uuid        NOT NULL REFERENCES organizations,
    id                  uuid        NOT NULL UNIQUE,
    name                text        NOT NULL,
    provider            text        NOT NULL CHECK (provider IN ('gmail', 'outlook')),
    kind                text        NOT NULL CHECK (kind IN ('app_secret', 'app_certificate')),
    tenant_id           text,
    client_id           text        NOT NULL,
    admin_address       text,
    groups              text[]      NOT NULL DEFAULT '{}',
    domains             text[]      NOT NULL DEFAULT '{}',
    patterns            text[]      NOT NULL DEFAULT '{}',
    excluded_patterns   text[]      NOT NULL DEFAULT '{}',
    content_policy      text        NOT NULL CHECK (content_policy IN ('metadata', 'documents', 'full')),
    folder              text,
    leaver_action       text        NOT NULL CHECK (leaver_action IN ('keep', 'pause', 'disconnect')),
    max_leaver_percent  integer     NOT NULL CHECK (max_leaver_percent BETWEEN 0 AND 100),
    grant_key_id        text,
    sealed_grant        bytea,
    ssm_parameter       text,
    added_at            timestamptz NOT NULL DEFAULT postroom_now(),
    listed_at           timestamptz,
    stop_reason         text,
    stopped_at          timestamptz,
    confirmed_leavers   integer,
    last_error          text,
    removed_at          timestamptz,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, name),
    CHECK (num_nonnulls(sealed_grant, ssm_parameter) <= 1),
    CHECK ((sealed_grant IS NULL) = (grant_key_id IS NULL)),
    CHECK ((stopped_at IS NULL) = (stop_reason IS NULL))
);
CALL belongs_to_organization('directories');
COMMENT ON TABLE directories IS 'Workspaces and tenants whose users are connected together, what selects the users, and the credential that all of them share.';
COMMENT ON COLUMN directories.admin_address IS 'Google: the administrator whom the service account impersonates to read the directory.';
COMMENT ON COLUMN directories.stopped_at IS 'When a sync refused to apply what the directory returned. A person decides.';
COMMENT ON COLUMN directories.confirmed_leavers IS 'How many leavers a person allowed the next sync to apply.';

CREATE TABLE directory_users (
    organization_id  uuid        NOT NULL,
    directory_id     uuid        NOT NULL,
    id               uuid        NOT NULL UNIQUE,
    account_id       text        NOT NULL,
    provider_user_id text        NOT NULL,
    address          text        NOT NULL,
    state            text        NOT NULL CHECK (state IN
        ('joining', 'connected', 'leaving', 'paused', 'disconnected', 'kept', 'skipped')),
    reason           text        NOT NULL,
    mailbox_id       uuid,
    changed_at       timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, directory_id, account_id),
    FOREIGN KEY (organization_id, directory_id) REFERENCES directories ON DELETE CASCADE,
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE SET NULL (mailbox_id)
);
CALL belongs_to_organization('directory_users');
CREATE INDEX directory_users_by_mailbox ON directory_users (organization_id, mailbox_id);
COMMENT ON TABLE directory_users IS 'The users that a directory selected at some time, and how far each is connected or has left.';
COMMENT ON COLUMN directory_users.id IS 'The subject of the work sync_directory_user. Derived from directory and account.';

-- The mailboxes of a directory share its credential, which is stored once.
ALTER TABLE credentials
    ADD COLUMN directory_id uuid,
    ADD FOREIGN KEY (organization_id, directory_id) REFERENCES directories,
    DROP CONSTRAINT credentials_check,
    ADD CONSTRAINT credentials_check CHECK (num_nonnulls(sealed_grant, ssm_parameter, directory_id) = 1);
CREATE INDEX credentials_by_directory ON credentials (organization_id, directory_id) WHERE directory_id IS NOT NULL;
COMMENT ON COLUMN credentials.directory_id IS 'The directory whose grant opens the mailbox, instead of a grant of its own.';
