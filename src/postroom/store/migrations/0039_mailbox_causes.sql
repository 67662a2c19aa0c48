-- Why a mailbox is not healthy and since when attempts fail; messages that no push announced.
ALTER TABLE mailboxes
    ADD COLUMN health_cause  text,
    ADD COLUMN failing_since timestamptz,
    DROP CONSTRAINT mailboxes_health_check;
UPDATE mailboxes SET health_cause = CASE health
    WHEN 'token_refresh_failed' THEN 'consent_lost'
    WHEN 'subscription_expired' THEN 'no_subscription'
    ELSE 'access_denied' END
WHERE health <> 'active';
ALTER TABLE mailboxes
    ADD CONSTRAINT mailboxes_health_check CHECK (health IN (
        'active', 'token_refresh_failed', 'subscription_expired', 'provider_error', 'operator_error'));
COMMENT ON COLUMN mailboxes.health_cause IS 'Why the mailbox is not healthy. Empty while it is active.';
COMMENT ON COLUMN mailboxes.failing_since IS 'The first failed attempt to read the mailbox since the last completed sync.';

ALTER TABLE subscriptions
    ADD COLUMN replacement_requested_at timestamptz,
    ADD COLUMN is_silent                boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN subscriptions.replacement_requested_at IS 'When new mail had arrived without pushes. The next run of its work replaces the subscription.';
COMMENT ON COLUMN subscriptions.is_silent IS 'Whether it was replaced because new mail arrived without pushes.';

CREATE TABLE unannounced_messages (
    organization_id     uuid        NOT NULL,
    mailbox_id          uuid        NOT NULL,
    provider_message_id text        NOT NULL,
    received_at         timestamptz NOT NULL,
    found_at            timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, mailbox_id, provider_message_id),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE
);
CALL belongs_to_organization('unannounced_messages');
COMMENT ON TABLE unannounced_messages IS 'New messages that a sync found without a push, since the last push that came in time. Kept for a day.';

CREATE FUNCTION health_metrics() RETURNS TABLE (name text, label text, also text, value double precision)
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT 'mailbox_problems', provider, health_cause, count(*)::double precision
        FROM mailboxes WHERE health_cause IS NOT NULL AND disconnected_at IS NULL GROUP BY 2, 3
        UNION ALL
        SELECT 'silent_subscriptions', provider, '', count(*)::double precision
        FROM subscriptions JOIN mailboxes ON mailboxes.id = mailbox_id
        WHERE is_silent AND replaced_at > postroom_now() - interval '1 day' GROUP BY provider;
    END;
REVOKE ALL ON FUNCTION health_metrics() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION health_metrics() TO postroom_engine;
