-- The engine learns where entries wait for a seal, and nothing else about them.
CREATE FUNCTION organizations_to_seal() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT DISTINCT organization_id FROM ledger WHERE position IS NULL;
    END;
REVOKE ALL ON FUNCTION organizations_to_seal() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION organizations_to_seal() TO postroom_engine;
