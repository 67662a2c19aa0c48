-- Documents that are due may be told to a queue outside (D4). A message there tells of the row until `carried_until`: then,
-- and whenever the row is claimable and nobody carries it, it is told again. The row stays the truth.
ALTER TABLE work ADD carried_until timestamptz;
CREATE INDEX work_to_carry ON work (coalesce(carried_until, '-infinity')) WHERE kind = 'document' AND due_at IS NOT NULL;
