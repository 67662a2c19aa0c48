-- How much of its provider's quota a mailbox used, at most, in each minute in which it used some; for a day.
CREATE TABLE quota_uses (
    organization_id uuid             NOT NULL,
    mailbox_id      uuid             NOT NULL,
    minute          timestamptz      NOT NULL,
    share           double precision NOT NULL,    -- of what the provider allows in its window; 1 is all of it
    PRIMARY KEY (organization_id, mailbox_id, minute),
    FOREIGN KEY (organization_id, mailbox_id) REFERENCES mailboxes ON DELETE CASCADE
);
CALL belongs_to_organization('quota_uses');

-- As metrics(): the mailbox that is nearest to its limit, and how long new mail took to be here, by provider.
CREATE FUNCTION pace_metrics() RETURNS TABLE (name text, label text, also text, value double precision)
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT 'quota_used', provider, '', coalesce(max(share), 0)
        FROM mailboxes
        LEFT JOIN quota_uses ON quota_uses.organization_id = mailboxes.organization_id
            AND mailbox_id = mailboxes.id AND minute > postroom_now() - interval '3 minutes'
        WHERE disconnected_at IS NULL GROUP BY provider
        UNION ALL
        SELECT 'latency', provider, '', percentile_cont(0.5) WITHIN GROUP (
            ORDER BY extract(epoch FROM recent.created_at - received_at)::double precision)
        FROM organizations CROSS JOIN LATERAL (
            SELECT mailbox_id, created_at, received_at FROM messages
            WHERE organization_id = organizations.id ORDER BY id DESC LIMIT 200
        ) AS recent
        JOIN mailboxes ON mailboxes.organization_id = organizations.id AND mailboxes.id = mailbox_id
        WHERE recent.created_at > postroom_now() - interval '5 minutes' AND received_at > connected_at
        GROUP BY provider;
    END;
REVOKE ALL ON FUNCTION pace_metrics() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pace_metrics() TO postroom_engine;
