ALTER TABLE audits ADD COLUMN repair_started_at timestamptz;

COMMENT ON COLUMN audits.repair_started_at IS 'When the next sync was given the differences to repair; null if it was not.';
