-- What the charts of the overview show. An interval that has ended is measured once and kept, so that the
-- past does not change, and costs nothing to read.
CREATE TABLE figures (
    organization_id uuid        NOT NULL REFERENCES organizations ON DELETE CASCADE,
    step            interval    NOT NULL,
    start           timestamptz NOT NULL,
    messages        integer     NOT NULL,
    latency_median  double precision,
    latency_p99     double precision,
    quota           double precision NOT NULL,
    reviews         integer     NOT NULL,
    unprocessed     integer     NOT NULL,
    due             integer     NOT NULL,
    PRIMARY KEY (organization_id, step, start)
);
CREATE INDEX figures_by_start ON figures (step, start);
CALL belongs_to_organization('figures', 'SELECT');
COMMENT ON TABLE figures IS 'Figures of the overview for each interval of a minute, 15 minutes, an hour or six hours. Intervals without any are not stored.';
COMMENT ON COLUMN figures.messages IS 'Messages stored in the interval.';
COMMENT ON COLUMN figures.latency_median IS 'Seconds from the receipt at the provider to the store. NULL without new mail.';
COMMENT ON COLUMN figures.quota IS 'Highest share of its provider''s quota that a mailbox used; 1 is all.';
COMMENT ON COLUMN figures.reviews IS 'Open reviews at the end of the interval.';
COMMENT ON COLUMN figures.unprocessed IS 'Documents waiting for processing at the end of the interval.';
COMMENT ON COLUMN figures.due IS 'Highest number of work items that were due and not claimed.';

CREATE TABLE figure_steps (
    step           interval    PRIMARY KEY,
    kept           interval    NOT NULL,
    recorded_until timestamptz NOT NULL
);
INSERT INTO figure_steps
SELECT step, kept, date_bin(step, postroom_now() - kept, '2001-01-01Z')
FROM (VALUES
    (interval '1 minute', interval '2 hours'), (interval '15 minutes', interval '25 hours'),
    (interval '1 hour', interval '8 days'), (interval '6 hours', interval '31 days')
) AS steps (step, kept);
GRANT SELECT ON figure_steps TO postroom_application;
COMMENT ON TABLE figure_steps IS 'Lengths of the intervals in figures, how long these are kept, and until when they are recorded.';

-- Messages of one transaction have the same time, so the index is small.
CREATE INDEX messages_by_creation ON messages (organization_id, created_at);
CREATE INDEX reviews_by_decision ON reviews (organization_id, decided_at);

-- Measure the intervals from `first` to `stop`. The last one may still be running.
CREATE FUNCTION measure_figures(owner uuid, first timestamptz, stop timestamptz, step interval)
    RETURNS TABLE (
        start timestamptz, messages integer, latency_median double precision, latency_p99 double precision,
        quota double precision, reviews integer, unprocessed integer, due integer
    )
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT bin.start, mail.messages, mail.latency_median, mail.latency_p99, used.quota,
            opened.reviews, waited.unprocessed, backlog.due
        FROM (
            SELECT start, start + step AS stop
            FROM generate_series(first, stop - interval '1 microsecond', step) AS start
        ) AS bin
        CROSS JOIN LATERAL (
            SELECT count(*)::integer AS messages,
                percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS latency_median,
                percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) AS latency_p99
            FROM (
                SELECT CASE WHEN received_at > connected_at THEN
                    extract(epoch FROM messages.created_at - received_at)::double precision END AS seconds
                FROM messages JOIN mailboxes
                    ON mailboxes.organization_id = owner AND mailboxes.id = messages.mailbox_id
                WHERE messages.organization_id = owner
                    AND messages.created_at >= bin.start AND messages.created_at < bin.stop
            ) AS stored
        ) AS mail
        CROSS JOIN LATERAL (
            SELECT coalesce(max(share), 0) AS quota FROM quota_usage
            WHERE organization_id = owner AND minute >= bin.start AND minute < bin.stop
        ) AS used
        CROSS JOIN LATERAL (
            SELECT count(*)::integer AS reviews FROM reviews
            WHERE organization_id = owner AND created_at < bin.stop
                AND (decided_at IS NULL OR decided_at >= bin.stop)
        ) AS opened
        CROSS JOIN LATERAL (
            SELECT count(*)::integer AS unprocessed FROM documents
            WHERE organization_id = owner AND created_at < bin.stop AND (
                state IN ('queued', 'processing')
                OR (state IN ('completed', 'skipped', 'needs_review', 'failed')  -- bounded by an index
                    AND created_at > bin.stop - interval '1 day' AND state_since >= bin.stop
                    AND NOT EXISTS (
                        SELECT FROM reviews WHERE document_id = documents.id AND reviews.created_at < bin.stop
                    ))
            )
        ) AS waited
        CROSS JOIN LATERAL (
            SELECT coalesce(max(items), 0)::integer AS due FROM (
                SELECT sum(backlogs.due) AS items FROM backlogs
                WHERE organization_id = owner AND minute >= bin.start AND minute < bin.stop GROUP BY minute
            ) AS by_minute
        ) AS backlog;
    END;
REVOKE ALL ON FUNCTION measure_figures(uuid, timestamptz, timestamptz, interval) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION measure_figures(uuid, timestamptz, timestamptz, interval) TO postroom_application;

-- Record intervals of all organizations that have ended, at most 60 of each length; return whether there are
-- more. Transactions that store messages may last a minute, so an interval is recorded two minutes after
-- its end.
CREATE FUNCTION record_figures() RETURNS boolean LANGUAGE sql SECURITY DEFINER
    BEGIN ATOMIC
        WITH ended AS (
            SELECT step, kept, recorded_until AS first,
                date_bin(step, postroom_now() - interval '2 minutes', '2001-01-01Z') AS stop
            FROM figure_steps
            WHERE recorded_until < date_bin(step, postroom_now() - interval '2 minutes', '2001-01-01Z')
            FOR UPDATE SKIP LOCKED
        ), due AS (
            SELECT step, kept, first, least(stop, first + 60 * step) AS stop, stop > first + 60 * step AS has_more
            FROM ended
        ), expired AS (
            DELETE FROM figures USING due WHERE figures.step = due.step AND start < stop - kept
        ), recorded AS (
            INSERT INTO figures
            SELECT organizations.id, due.step, measured.*
            FROM due CROSS JOIN organizations
            CROSS JOIN LATERAL measure_figures(organizations.id, first, stop, due.step) AS measured
            WHERE messages > 0 OR quota > 0 OR reviews > 0 OR unprocessed > 0 OR measured.due > 0
        ), moved AS (
            UPDATE figure_steps SET recorded_until = due.stop FROM due
            WHERE figure_steps.step = due.step RETURNING has_more
        )
        SELECT coalesce(bool_or(has_more), false) FROM moved;
    END;
REVOKE ALL ON FUNCTION record_figures() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION record_figures() TO postroom_engine;
