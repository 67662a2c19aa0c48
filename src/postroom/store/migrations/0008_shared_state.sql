-- The table that a foreign scheduler shares with us (K6). Its columns, key and words are theirs to the letter, which is
-- why it has no organization. Its schema is there already. Where the other side has made the table too, it stays as it
-- is, and its owner grants postroom_application the rights listed below.
DO $$ BEGIN
    -- Asked of the catalogue, since to_regclass fails in a schema that this role may not use.
    IF EXISTS (SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
               WHERE nspname = 'bo_airflow' AND relname = 'email_ingestion_state') THEN
        RETURN;
    END IF;
    CREATE TABLE bo_airflow.email_ingestion_state (
        id                    bigserial    PRIMARY KEY,
        app_name              varchar(100) NOT NULL,
        message_id            varchar(255) NOT NULL,
        mailbox_email         varchar(255) NOT NULL,
        sender_email          varchar(255),
        received_at           timestamptz,
        subject               text,
        status                varchar(20)  NOT NULL DEFAULT 'processing',
        error_message         text,
        attachments_processed integer      NOT NULL DEFAULT 0,
        trades_extracted      integer      NOT NULL DEFAULT 0,
        archive_gcs_paths     jsonb,
        worker_id             varchar(255),
        created_at            timestamptz  NOT NULL DEFAULT now(),
        updated_at            timestamptz  NOT NULL DEFAULT now(),
        CONSTRAINT unique_app_message UNIQUE (app_name, message_id)
    );
    GRANT USAGE ON SCHEMA bo_airflow TO postroom_application;
    GRANT SELECT, INSERT, UPDATE ON bo_airflow.email_ingestion_state TO postroom_application;
    GRANT USAGE ON SEQUENCE bo_airflow.email_ingestion_state_id_seq TO postroom_application;

    -- Whoever else was granted the table sees all of it. We see the rows of the mailboxes of our organization.
    ALTER TABLE bo_airflow.email_ingestion_state ENABLE ROW LEVEL SECURITY;
    CREATE POLICY everybody ON bo_airflow.email_ingestion_state USING (true) WITH CHECK (true);
    CREATE POLICY organization ON bo_airflow.email_ingestion_state AS RESTRICTIVE TO postroom_application
        USING (EXISTS (SELECT FROM mailboxes WHERE address = lower(mailbox_email COLLATE "C")))
        WITH CHECK (EXISTS (SELECT FROM mailboxes WHERE address = lower(mailbox_email COLLATE "C")));
END $$;
