-- What happened, for the auditor (ledger) and for whoever follows along (events).
--
-- Ids come from a sequence and commit out of order. A reader goes by `position`, which the sealer of the organization
-- gives to committed rows, so that positions appear in order and without gaps.

-- Append-only: nobody has the right to change a row, and a trigger refuses even the owner. The one exception is that
-- an entry without a position gets one. Personal values stand in ledger_personal; here is only their salted digest.
CREATE TABLE ledger (
    organization_id uuid        NOT NULL REFERENCES organizations,
    id              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    position        bigint,
    event_type      text        NOT NULL CHECK (event_type <> ''),
    entity_type     text        NOT NULL,
    entity_id       text        NOT NULL,
    actor_id        text,
    payload         jsonb       NOT NULL DEFAULT '{}',
    personal_sha256 bytea       CHECK (octet_length(personal_sha256) = 32),
    sha256          bytea       NOT NULL CHECK (octet_length(sha256) = 32),   -- of all of the above but the position
    occurred_at     timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, position)
);
CREATE INDEX ledger_unsealed ON ledger (organization_id, id) WHERE position IS NULL;
CREATE INDEX ledger_by_entity ON ledger (organization_id, entity_type, entity_id);
CALL belongs_to_organization('ledger', 'SELECT');
GRANT INSERT (organization_id, event_type, entity_type, entity_id, actor_id, payload, personal_sha256, sha256, occurred_at)
    ON ledger TO postroom_application;

-- A purge deletes the row, salt included, and then no guess at an address can be checked against the digest.
CREATE TABLE ledger_personal (
    organization_id uuid   NOT NULL,
    entry_id        bigint NOT NULL,
    salt            bytea  NOT NULL CHECK (octet_length(salt) = 32),
    personal        jsonb  NOT NULL,
    PRIMARY KEY (organization_id, entry_id),
    FOREIGN KEY (organization_id, entry_id) REFERENCES ledger
);
CALL belongs_to_organization('ledger_personal', 'SELECT, INSERT, DELETE');

-- A seal chains the entries of a batch to the seal before it, signed with a key that is not in the database.
CREATE TABLE seals (
    organization_id uuid        NOT NULL REFERENCES organizations,
    number          bigint      NOT NULL,
    first_position  bigint      NOT NULL,
    last_position   bigint      NOT NULL,
    previous_sha256 bytea       CHECK (octet_length(previous_sha256) = 32),   -- empty in the first seal
    sha256          bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    signature       bytea       NOT NULL,
    key_id          text        NOT NULL,
    sealed_at       timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, number),
    UNIQUE (organization_id, first_position),
    CHECK (first_position <= last_position)
);
CALL belongs_to_organization('seals', 'SELECT, INSERT');

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
REVOKE ALL ON FUNCTION refuse_change() FROM PUBLIC;

CREATE FUNCTION allow_only_a_position() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    as_it_was record := NEW;
BEGIN
    as_it_was.position := OLD.position;
    IF OLD.position IS NULL AND NEW.position IS NOT NULL AND as_it_was IS NOT DISTINCT FROM OLD THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
REVOKE ALL ON FUNCTION allow_only_a_position() FROM PUBLIC;

CREATE TRIGGER append_only BEFORE UPDATE ON ledger
    FOR EACH ROW EXECUTE FUNCTION allow_only_a_position();
CREATE TRIGGER keep BEFORE DELETE ON ledger FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER keep_all BEFORE TRUNCATE ON ledger EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE ON ledger_personal FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER keep_all BEFORE TRUNCATE ON ledger_personal EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON seals FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER keep_all BEFORE TRUNCATE ON seals EXECUTE FUNCTION refuse_change();

-- The sealer's only way to the ledger: the next positions for committed entries that have none, oldest id first.
-- Of two sealers of one organization at once, the second finds the entries numbered, or fails at the unique key.
CREATE FUNCTION number_ledger(batch integer) RETURNS TABLE (entry_id bigint, entry_position bigint, entry_sha256 bytea)
    LANGUAGE sql VOLATILE SECURITY DEFINER
    BEGIN ATOMIC
        WITH last AS (
            SELECT coalesce(max(ledger.position), 0) AS position FROM ledger WHERE organization_id = current_organization()
        ), next AS (
            SELECT unsealed.id, row_number() OVER (ORDER BY unsealed.id) AS place FROM (
                SELECT ledger.id FROM ledger
                WHERE organization_id = current_organization() AND ledger.position IS NULL
                ORDER BY ledger.id LIMIT batch
            ) AS unsealed
        ), numbered AS (
            UPDATE ledger SET position = last.position + next.place FROM last, next
            WHERE ledger.organization_id = current_organization() AND ledger.id = next.id
              AND ledger.position IS NULL
            RETURNING ledger.id, ledger.position, ledger.sha256
        )
        SELECT numbered.id, numbered.position, numbered.sha256 FROM numbered ORDER BY numbered.position;
    END;
REVOKE ALL ON FUNCTION number_ledger(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION number_ledger(integer) TO postroom_application;

-- The feed behind server-sent events, outgoing webhooks and the API's change feed. Ids and states only.
CREATE TABLE events (
    organization_id uuid        NOT NULL REFERENCES organizations,
    id              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    position        bigint,
    kind            text        NOT NULL CHECK (kind <> ''),
    entity_type     text        NOT NULL,
    entity_id       text        NOT NULL,
    data            jsonb       NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, position)
);
CREATE INDEX events_unnumbered ON events (organization_id, id) WHERE position IS NULL;
CALL belongs_to_organization('events');

-- How far the feed has been numbered, and up to where retention has removed it: a reader from before is told `reset`.
CREATE TABLE feeds (
    organization_id uuid   NOT NULL PRIMARY KEY REFERENCES organizations,
    last_position   bigint NOT NULL DEFAULT 0,
    pruned_position bigint NOT NULL DEFAULT 0
);
CALL belongs_to_organization('feeds');
