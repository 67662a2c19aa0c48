-- After a failover to a standby that lacks the last commits, or in a restored backup, sequences and feed positions
-- would issue numbers again that other programs have already seen. This row names the server that issued the last
-- ones. On any other server, all numbers move ahead before a process writes there.
CREATE TABLE number_source (
    only_row boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    server   text        NOT NULL,
    since    timestamptz NOT NULL DEFAULT postroom_now()
);
COMMENT ON TABLE number_source IS 'The server whose sequences and feed positions are known to be unused elsewhere.';
COMMENT ON COLUMN number_source.server IS 'System identifier and timeline of the server.';

ALTER TABLE feeds ADD COLUMN reset_position bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN feeds.reset_position IS 'Readers outside this database start over if they are below this position: they may have seen events that a failover lost.';

CREATE FUNCTION current_server() RETURNS text LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT (SELECT system_identifier FROM pg_control_system()) || '/'
            || ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer;
    END;
REVOKE ALL ON FUNCTION current_server() FROM PUBLIC;

-- Returns whether numbers moved. A billion is more than any lost period issued, and leaves room for nine million
-- failovers below 2^53, from which on JavaScript rounds numbers.
CREATE FUNCTION move_numbers_ahead(forced boolean) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = postroom, pg_temp AS $$
DECLARE
    distance CONSTANT bigint := 1000000000;
    here     CONSTANT text := current_server();
    known    text;
    counter  record;
BEGIN
    SELECT server INTO known FROM number_source;
    IF known = here AND NOT forced THEN
        RETURN false;
    END IF;
    INSERT INTO number_source (server) VALUES (here) ON CONFLICT DO NOTHING;
    IF FOUND AND NOT forced THEN
        RETURN false;
    END IF;
    -- Of many processes that reconnect at once, the first moves the numbers, and the others wait for it here.
    SELECT server INTO known FROM number_source FOR UPDATE;
    IF known = here AND NOT forced THEN
        RETURN false;
    END IF;
    FOR counter IN SELECT format('%I.%I', schemaname, sequencename)::regclass AS id, coalesce(last_value, 0) AS last
                   FROM pg_sequences WHERE schemaname = 'postroom' LOOP
        PERFORM setval(counter.id, counter.last + distance);
    END LOOP;
    UPDATE feeds SET last_position = last_position + distance, reset_position = last_position + distance;
    INSERT INTO work (organization_id, kind, subject, due_at)
    SELECT id, 'recover', id::text, postroom_now() FROM organizations
    ON CONFLICT (kind, subject) DO UPDATE SET generation = work.generation + 1;
    UPDATE number_source SET server = here, since = postroom_now();
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION move_numbers_ahead(boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION move_numbers_ahead(boolean) TO postroom_engine;
