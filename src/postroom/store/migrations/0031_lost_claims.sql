-- Claims in a row that ended without a word: their worker was killed, perhaps by the work itself. They are no
-- failed attempts, so an error that passes waits no longer because of them; too many of them end the work.
ALTER TABLE work ADD lost integer NOT NULL DEFAULT 0;
