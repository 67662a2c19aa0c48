-- A document is compared with earlier records of its issuer, which are found by digests in record_identifiers.
-- The next lookup adds those of existing records, and the identifiers that 0042 left to it.
ALTER TABLE records ADD COLUMN issuer_pending boolean NOT NULL DEFAULT true;
CREATE INDEX records_with_issuer_pending ON records (organization_id, pipeline) WHERE issuer_pending;
COMMENT ON COLUMN records.issuer_pending IS 'Digests of the issuer are not stored yet. The next lookup adds them.';
DROP INDEX records_with_identifiers_pending;
ALTER TABLE records DROP COLUMN identifiers_pending;
