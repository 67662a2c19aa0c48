-- When somebody last woke the work: a provider that drops pushes which follow each other too closely is looked at once
-- more, a moment after its last push.
ALTER TABLE work ADD COLUMN woken_at timestamptz;
