-- How much work was due and not begun, at most, in each minute in which some was; by kind, for a day.
CREATE TABLE backlogs (
    organization_id uuid        NOT NULL REFERENCES organizations ON DELETE CASCADE,
    minute          timestamptz NOT NULL,
    kind            text        NOT NULL,
    due             integer     NOT NULL,
    PRIMARY KEY (organization_id, minute, kind)
);
CREATE INDEX backlogs_by_minute ON backlogs (minute);
CALL belongs_to_organization('backlogs');

-- Noted for all organizations at once, as work is found for all.
CREATE POLICY engine ON backlogs TO postroom_engine USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON backlogs TO postroom_engine;
