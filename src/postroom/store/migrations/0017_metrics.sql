-- What metrics read: counts over all organizations, and nothing of what is in them.
CREATE FUNCTION metrics() RETURNS TABLE (name text, label text, also text, value double precision)
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT 'mailboxes', provider,
            CASE WHEN disconnected_at IS NOT NULL THEN 'disconnected' WHEN paused_at IS NOT NULL THEN 'paused'
                ELSE health END,
            count(*)::double precision
        FROM mailboxes GROUP BY 2, 3
        UNION ALL
        SELECT 'sync_age', provider, '', max(extract(epoch FROM postroom_now() - last_synced_at))::double precision
        FROM mailboxes WHERE disconnected_at IS NULL AND paused_at IS NULL AND last_synced_at IS NOT NULL
        GROUP BY provider
        UNION ALL
        -- Changes were found that no push told of: the newest is half an hour younger than the last push and listing.
        SELECT 'changed_without_push', provider, '', count(*)::double precision
        FROM mailboxes CROSS JOIN LATERAL (
            SELECT observed_at FROM mail_events WHERE mailbox_id = mailboxes.id ORDER BY id DESC LIMIT 1
        ) AS newest
        WHERE disconnected_at IS NULL AND paused_at IS NULL
            AND observed_at > coalesce(last_notified_at, connected_at) + interval '30 minutes'
            AND NOT EXISTS (
                SELECT FROM cursors WHERE cursors.mailbox_id = mailboxes.id AND kind IN ('backfill', 'resync')
                    AND (completed_at IS NULL OR completed_at > observed_at - interval '30 minutes')
            )
        GROUP BY provider
        UNION ALL
        -- What the last audit of each mailbox found missing.
        SELECT 'audit_missing', provider, '', coalesce(sum(missing), 0)::double precision
        FROM mailboxes CROSS JOIN LATERAL (
            SELECT (payload ->> 'missing')::double precision AS missing FROM ledger
            WHERE ledger.organization_id = mailboxes.organization_id AND entity_type = 'mailbox'
                AND entity_id = mailboxes.id::text AND event_type = 'AUDIT_COMPLETED'
            ORDER BY ledger.id DESC LIMIT 1
        ) AS audit
        GROUP BY provider
        UNION ALL
        SELECT 'subscriptions', status, CASE WHEN confirmed_at IS NULL THEN 'asked' ELSE 'confirmed' END,
            count(*)::double precision
        FROM subscriptions WHERE replaced_at IS NULL GROUP BY 2, 3
        UNION ALL
        SELECT 'documents', state, '', count(*)::double precision FROM documents GROUP BY state
        UNION ALL
        SELECT 'reviews_open', '', '', count(*)::double precision FROM reviews WHERE decision IS NULL
        UNION ALL
        SELECT 'review_age', '', '',
            coalesce(max(extract(epoch FROM postroom_now() - created_at)), 0)::double precision
        FROM reviews WHERE decision IS NULL
        UNION ALL
        SELECT 'failures_open', kind, CASE WHEN due_at IS NULL THEN 'waits_for_a_person' ELSE 'retried' END,
            count(*)::double precision
        FROM failures WHERE resolved_at IS NULL GROUP BY 2, 3
        UNION ALL
        SELECT 'webhooks', CASE WHEN disabled_at IS NOT NULL THEN 'disabled' WHEN failing_since IS NOT NULL
            THEN 'failing' ELSE 'good' END, '', count(*)::double precision
        FROM webhooks GROUP BY 2
        UNION ALL
        SELECT 'deliveries_waiting', '', '', count(*)::double precision FROM deliveries WHERE due_at IS NOT NULL
        UNION ALL
        SELECT 'events', '', '', coalesce(sum(last_position), 0)::double precision FROM feeds
        UNION ALL
        SELECT 'stored', relname, '', greatest(reltuples, 0)::double precision
        FROM pg_catalog.pg_class
        WHERE oid IN ('postroom.messages'::regclass, 'postroom.threads'::regclass,
            'postroom.attachments'::regclass, 'postroom.mail_events'::regclass, 'postroom.records'::regclass);
    END;
REVOKE ALL ON FUNCTION metrics() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION metrics() TO postroom_engine;
