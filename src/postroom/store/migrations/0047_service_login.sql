-- Processes log in as a role that owns nothing. As the engine, they read at start which migrations were applied.
GRANT SELECT ON schema_migrations TO postroom_engine;
