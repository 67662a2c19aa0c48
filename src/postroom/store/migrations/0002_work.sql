-- Everything that is due stands in one table: a mailbox to sync, a subscription to renew, a document to read.
--
-- A row is   waiting   due_at in the future, no lease
--            due       due_at has come, or the lease of a worker that died has ended
--            leased    leased_until in the future; only the holder of lease_token may commit
--            parked    due_at empty: it failed too often and waits for a person
-- and is gone when nothing more is to be done about its subject.
CREATE TABLE work (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
    kind            text NOT NULL CHECK (kind <> ''),
    subject         text NOT NULL CHECK (subject <> ''),
    due_at          timestamptz,
    lease_token     uuid,
    leased_until    timestamptz,
    attempts        integer NOT NULL DEFAULT 0,   -- counted at the claim, so that a worker killed by its work counts too
    last_error      text,
    generation      bigint NOT NULL DEFAULT 0,    -- raised by every wake-up; a finish that sees it raised leaves the row due
    UNIQUE (kind, subject),
    CHECK ((lease_token IS NULL) = (leased_until IS NULL))
);

-- The claim reads these and nothing else: who is claimable at all, who is claimable in one lane, who is under way.
-- A lane is one kind of work of one organization; lanes take turns, so that no backlog hides another's single row.
CREATE INDEX work_claimable ON work (coalesce(leased_until, due_at));
CREATE INDEX work_claimable_by_lane ON work (organization_id, kind, coalesce(leased_until, due_at));

CREATE INDEX work_leased ON work (organization_id, leased_until) WHERE lease_token IS NOT NULL;

CALL belongs_to_organization('work');
-- Work is found across organizations; what is done about it then happens within one.
CREATE POLICY engine ON work TO postroom_engine USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON work TO postroom_engine;
