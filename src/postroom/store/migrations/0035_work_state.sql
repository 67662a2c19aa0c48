-- The state of a work item, which was inferred from other columns before:
--
--     waiting                due_at says when it may be claimed
--     leased                 leased_until says until when; an expired lease may be claimed again
--     waiting_for_operator   its last error needs an operator; retried at due_at, or when the operator acted
--     parked                 it failed too often; an operator decides
ALTER TABLE work ADD COLUMN state text NOT NULL DEFAULT 'waiting'
    CHECK (state IN ('waiting', 'leased', 'waiting_for_operator', 'parked'));
UPDATE work SET state = CASE
    WHEN lease_token IS NOT NULL THEN 'leased'
    WHEN due_at IS NULL THEN 'parked'
    ELSE 'waiting_for_operator' END
WHERE lease_token IS NOT NULL OR due_at IS NULL OR (last_error IS NOT NULL AND attempts = 0);
ALTER TABLE work ADD CONSTRAINT work_state_lease_check CHECK ((state = 'leased') = (lease_token IS NOT NULL));

COMMENT ON COLUMN work.state IS 'waiting, leased (possibly expired), waiting_for_operator or parked.';
