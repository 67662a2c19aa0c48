-- Ledger entries get a MAC made with a key outside the database. See docs/decisions/0015-authentic-ledger.md.
ALTER TABLE ledger ADD COLUMN mac bytea;
COMMENT ON COLUMN ledger.mac IS 'Key id (8 bytes) and HMAC-SHA256 over organization, id and sha256; null in entries of earlier versions.';
GRANT INSERT (id, mac) ON ledger TO postroom_application;
GRANT USAGE ON SEQUENCE ledger_id_seq TO postroom_application;

-- The last id that an earlier version may have written. Organizations without a row have no entries without a MAC.
CREATE TABLE ledger_boundaries (
    organization_id uuid   NOT NULL PRIMARY KEY REFERENCES organizations,
    last_entry_id   bigint NOT NULL
);
COMMENT ON TABLE ledger_boundaries IS 'Up to which id entries of earlier versions may lack a MAC.';
CALL belongs_to_organization('ledger_boundaries', 'SELECT');
-- The lock of the ALTER TABLE above waits for every writer of an earlier version; the check stops those that come later.
DO $$
DECLARE
    boundary bigint := (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ledger_id_seq);
BEGIN
    INSERT INTO ledger_boundaries SELECT id, boundary FROM organizations
    WHERE EXISTS (SELECT FROM ledger WHERE organization_id = organizations.id);
    EXECUTE format(
        'ALTER TABLE ledger ADD CONSTRAINT ledger_mac_check
         CHECK (CASE WHEN mac IS NULL THEN id <= %s ELSE octet_length(mac) = 40 END) NOT VALID', boundary);
END $$;

ALTER TABLE seals ADD COLUMN version smallint NOT NULL DEFAULT 1;
COMMENT ON COLUMN seals.version IS '1: covers the digests of entries without MACs; 2: covers digests and MACs.';

-- That personal values were deleted by Postroom, and not by another user of the database.
CREATE TABLE ledger_purges (
    organization_id uuid   NOT NULL,
    entry_id        bigint NOT NULL,
    purge_entry_id  bigint NOT NULL,
    mac             bytea  NOT NULL CHECK (octet_length(mac) = 40),
    PRIMARY KEY (organization_id, entry_id),
    FOREIGN KEY (organization_id, entry_id) REFERENCES ledger,
    FOREIGN KEY (organization_id, purge_entry_id) REFERENCES ledger
);
COMMENT ON TABLE ledger_purges IS 'Entries whose personal values were purged, each tied by a MAC to the entry that records the purge.';
CREATE INDEX ledger_purges_by_purge ON ledger_purges (organization_id, purge_entry_id);
CALL belongs_to_organization('ledger_purges', 'SELECT, INSERT');
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger_purges FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON ledger_purges EXECUTE FUNCTION refuse_change();

-- The only way to purge: it returns what the purge must be recorded for.
REVOKE DELETE ON ledger_personal FROM postroom_application;
CREATE FUNCTION delete_ledger_personal(entries bigint[]) RETURNS TABLE (id bigint, sha256 bytea)
    LANGUAGE sql VOLATILE SECURITY DEFINER
    BEGIN ATOMIC
        WITH deleted AS (
            DELETE FROM ledger_personal
            WHERE organization_id = current_organization() AND entry_id = ANY(entries)
            RETURNING entry_id
        )
        SELECT ledger.id, ledger.sha256 FROM deleted JOIN ledger
            ON ledger.organization_id = current_organization() AND ledger.id = deleted.entry_id
        ORDER BY ledger.id;
    END;
REVOKE ALL ON FUNCTION delete_ledger_personal(bigint[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION delete_ledger_personal(bigint[]) TO postroom_application;

-- The sealer chooses the entries, because only it can check their MACs. Positions continue after the last seal.
DROP FUNCTION number_ledger(integer);
CREATE FUNCTION number_ledger(entries bigint[]) RETURNS TABLE (entry_id bigint, entry_position bigint)
    LANGUAGE sql VOLATILE SECURITY DEFINER
    BEGIN ATOMIC
        WITH last AS (
            SELECT coalesce(max(last_position), 0) AS position FROM seals
            WHERE organization_id = current_organization()
        ), numbered AS (
            -- Without statistics, a join with the array compares every unsealed entry with every element. The range
            -- keeps an index scan from reading all unsealed entries.
            UPDATE ledger SET position = last.position + array_position(entries, ledger.id) FROM last
            WHERE ledger.organization_id = current_organization() AND ledger.position IS NULL
              AND ledger.id BETWEEN (SELECT min(id) FROM unnest(entries) AS id) AND (SELECT max(id) FROM unnest(entries) AS id)
              AND ledger.id = ANY(entries)
            RETURNING ledger.id, ledger.position
        )
        SELECT numbered.id, numbered.position FROM numbered ORDER BY numbered.position;
    END;
REVOKE ALL ON FUNCTION number_ledger(bigint[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION number_ledger(bigint[]) TO postroom_application;

-- A ledger that an earlier version began is sealed once more, even if nothing is added: the first seal of version 2 ends the time
-- in which entries without a MAC are accepted.
CREATE OR REPLACE FUNCTION organizations_to_seal() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT organization_id FROM ledger WHERE position IS NULL
        UNION
        SELECT organization_id FROM events WHERE position IS NULL
        UNION
        SELECT organization_id FROM ledger_boundaries WHERE 1 = coalesce(
            (SELECT version FROM seals WHERE seals.organization_id = ledger_boundaries.organization_id
             ORDER BY number DESC LIMIT 1), 1);
    END;
