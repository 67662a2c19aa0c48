-- What was paid for reading today is asked before each reading that costs.
CREATE INDEX extractions_paid ON extractions (organization_id, created_at) WHERE cost > 0;
