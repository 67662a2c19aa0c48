-- The ground: one clock, the organizations, and the rule that nothing crosses them.
--
-- Migrations run as the owner with the search path `postroom`. The schema, schema_migrations and the two group
-- roles are there already. Names inside functions are bound when the function is created (RETURN, BEGIN ATOMIC)
-- and inside policies likewise, so no search path of a caller, a dump or a restore can bend them.

GRANT USAGE ON SCHEMA postroom TO postroom_application, postroom_engine;

-- The clock of every due time and lease. Only tests move it, as the owner, together with the simulator's.
CREATE TABLE clock_offset (
    only_row boolean  PRIMARY KEY DEFAULT true CHECK (only_row),
    ahead    interval NOT NULL DEFAULT interval '0'
);
INSERT INTO clock_offset DEFAULT VALUES;
GRANT SELECT ON clock_offset TO postroom_application, postroom_engine;

-- STABLE although clock_timestamp() is not: the planner may then compare an index with it. It costs about 2 us a call;
-- where a statement would ask once for each of many rows, `(SELECT postroom_now())` asks once.
CREATE FUNCTION postroom_now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN clock_timestamp() + (SELECT ahead FROM clock_offset);
REVOKE ALL ON FUNCTION postroom_now() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION postroom_now() TO postroom_application, postroom_engine;

-- The organization this transaction works for; NULL, which equals nothing, when none is set.
-- It is inlined into every policy, so the planner sees an ordinary key and uses the index that begins with it.
CREATE FUNCTION current_organization() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('postroom.organization', true), '')::uuid;
REVOKE ALL ON FUNCTION current_organization() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION current_organization() TO postroom_application, postroom_engine;

-- Every table of an organization is put under its guard by one line in its migration.
-- Not forced on the owner: a data migration would change 0 rows in silence, and a backup would fail.
CREATE PROCEDURE belongs_to_organization(
    relation regclass, privileges text DEFAULT 'SELECT, INSERT, UPDATE, DELETE'
) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', relation);
    EXECUTE format(
        'CREATE POLICY organization ON %s TO postroom_application
         USING (organization_id = postroom.current_organization())
         WITH CHECK (organization_id = postroom.current_organization())', relation);
    EXECUTE format('GRANT %s ON %s TO postroom_application', privileges, relation);
END $$;
REVOKE ALL ON PROCEDURE belongs_to_organization(regclass, text) FROM PUBLIC;

-- An organization is created by working for it: set a new id, then insert the row.
CREATE TABLE organizations (
    id         uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    name       text        NOT NULL UNIQUE CHECK (name <> ''),
    created_at timestamptz NOT NULL DEFAULT postroom_now()
);
ALTER TABLE organizations ENABLE ROW LEVEL SECURITY;
CREATE POLICY organization ON organizations TO postroom_application
    USING (id = current_organization()) WITH CHECK (id = current_organization());
GRANT SELECT, INSERT, UPDATE ON organizations TO postroom_application;
-- An operator names an organization; its id is found across all of them.
CREATE POLICY engine ON organizations FOR SELECT TO postroom_engine USING (true);
GRANT SELECT (id, name) ON organizations TO postroom_engine;
