-- Programs that act for a person, such as assistants, get keys whose calls are all in the ledger.
ALTER TABLE api_keys ADD COLUMN records_calls boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN api_keys.records_calls IS 'The ledger records every call with this key.';
GRANT SELECT (records_calls) ON api_keys TO postroom_engine;
