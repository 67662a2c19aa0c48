-- Records that were confirmed before record_identifiers existed have none, so a second copy of their invoice or trade
-- would become a second record. The next lookup in their pipeline adds the missing identifiers.
ALTER TABLE records ADD COLUMN identifiers_pending boolean NOT NULL DEFAULT false;
UPDATE records SET identifiers_pending = true
WHERE NOT EXISTS (SELECT FROM record_identifiers WHERE record_id = records.id);
CREATE INDEX records_with_identifiers_pending ON records (organization_id, pipeline) WHERE identifiers_pending;

COMMENT ON COLUMN records.identifiers_pending IS 'Confirmed before identifiers were stored. The next lookup adds them.';
