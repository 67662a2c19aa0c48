-- A replay that is ordered while deliveries are under way counts: what was under way moves the position no more.
ALTER TABLE webhooks ADD COLUMN replays integer NOT NULL DEFAULT 0;   -- how many were ordered
