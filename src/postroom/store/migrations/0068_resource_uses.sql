-- What the work of each organization used: claims prefer the organization that used the least, and an operator sees who uses what.
CREATE TABLE resource_uses (
    organization_id uuid             NOT NULL REFERENCES organizations ON DELETE CASCADE,
    period          timestamptz      NOT NULL,
    steps           bigint           NOT NULL,
    queue_seconds   double precision NOT NULL,
    run_seconds     double precision NOT NULL,
    cpu_seconds     double precision NOT NULL,
    PRIMARY KEY (organization_id, period)
) WITH (fillfactor = 50);
CREATE INDEX resource_uses_by_period ON resource_uses (period);
CALL belongs_to_organization('resource_uses', 'SELECT');
-- Recorded for all organizations at once, as work is found for all.
CREATE POLICY engine ON resource_uses TO postroom_engine USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON resource_uses TO postroom_engine;

COMMENT ON TABLE resource_uses IS 'What the steps of an organization''s work used in five minutes; kept for 30 days.';
COMMENT ON COLUMN resource_uses.period IS 'The beginning of the five minutes in which the steps ended.';
COMMENT ON COLUMN resource_uses.queue_seconds IS 'Sum of the seconds from due to claimed.';
COMMENT ON COLUMN resource_uses.run_seconds IS 'Sum of the seconds from claimed to ended.';
COMMENT ON COLUMN resource_uses.cpu_seconds IS 'CPU seconds of the processes that read documents.';

-- Another expression for the same time, so that no plan uses the index by time in place of this one.
DROP INDEX work_claimable_by_lane;
CREATE INDEX work_claimable_by_lane ON work
    (organization_id, kind, (CASE WHEN leased_until IS NULL THEN due_at ELSE leased_until END));
