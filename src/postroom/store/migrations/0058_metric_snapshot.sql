-- Metrics of all organizations are costly to measure: one process a minute measures them for all.
CREATE TABLE metric_snapshot (
    only_row    boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    measured_at timestamptz NOT NULL,
    samples     jsonb       NOT NULL
);
GRANT SELECT, INSERT, UPDATE ON metric_snapshot TO postroom_engine;
COMMENT ON TABLE metric_snapshot IS 'The samples of metrics() and its siblings, as last measured: counts by kind and state of all organizations.';
COMMENT ON COLUMN metric_snapshot.samples IS 'A list of name, two labels and value.';
