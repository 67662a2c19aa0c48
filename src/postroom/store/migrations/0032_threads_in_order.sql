-- The messages of a thread, the newest first: which is the newest is known at once, however many there are.
CREATE INDEX messages_by_thread_newest_first ON messages (thread_id, received_at DESC, id DESC);
DROP INDEX messages_by_thread;
