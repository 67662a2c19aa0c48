-- Running processes read the version of the schema, and stop when a newer Postroom has migrated it.
GRANT SELECT (version) ON schema_migrations TO postroom_engine;
