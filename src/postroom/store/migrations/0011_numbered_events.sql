-- Events get their positions after they were committed: by the sealer, or by whoever wants to read them first.
-- The organization's row in `feeds` lets one number at a time; a position that is seen has all those below it.
CREATE FUNCTION number_events(batch integer) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    last     bigint;
    numbered bigint;
BEGIN
    -- Nothing without a position is nothing to do: whatever was committed has one, and that is committed too.
    IF NOT EXISTS (SELECT FROM postroom.events
                   WHERE organization_id = postroom.current_organization() AND position IS NULL) THEN
        RETURN 0;
    END IF;
    INSERT INTO postroom.feeds (organization_id) VALUES (postroom.current_organization()) ON CONFLICT DO NOTHING;
    SELECT last_position INTO last FROM postroom.feeds
    WHERE organization_id = postroom.current_organization() FOR UPDATE;
    -- A statement of its own, so that it sees what was committed while the row was waited for.
    UPDATE postroom.events SET position = last + waiting.place
    FROM (
        SELECT id, row_number() OVER (ORDER BY id) AS place FROM (
            SELECT id FROM postroom.events
            WHERE organization_id = postroom.current_organization() AND position IS NULL
            ORDER BY id LIMIT batch
        ) AS oldest
    ) AS waiting
    WHERE events.organization_id = postroom.current_organization() AND events.id = waiting.id;
    GET DIAGNOSTICS numbered = ROW_COUNT;
    UPDATE postroom.feeds SET last_position = last + numbered
    WHERE organization_id = postroom.current_organization();
    RETURN numbered;
END $$;
REVOKE ALL ON FUNCTION number_events(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION number_events(integer) TO postroom_application;

-- As before, and now for both: the sealer's work is due where entries or events wait.
CREATE OR REPLACE FUNCTION organizations_to_seal() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT organization_id FROM ledger WHERE position IS NULL
        UNION
        SELECT organization_id FROM events WHERE position IS NULL;
    END;
