-- Sweeps of a mailbox are rarer while its pushes are proven to arrive.
ALTER TABLE subscriptions ADD proven_since timestamptz;
COMMENT ON COLUMN subscriptions.proven_since IS 'Since when each change that a sweep finds was announced by a push. NULL: not proven.';
