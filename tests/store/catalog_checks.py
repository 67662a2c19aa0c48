"""Catalog queries that find tables, keys and grants through which organizations could see each other."""

from postroom.store.connection import Connection
from store.table_filler import SHARED


async def list_unguarded_tables(connection: Connection) -> list[str]:
    """The tables of the schema through which one organization could reach another, and why."""
    cursor = await connection.execute(
        """
        SELECT relname, relrowsecurity, relforcerowsecurity, (
            SELECT count(*) FROM pg_policy
            WHERE polrelid = pg_class.oid AND polcmd = '*'
              AND polroles = ARRAY['postroom_application'::regrole::oid]
              AND pg_get_expr(polqual, polrelid) LIKE '%% = current_organization())'
              AND pg_get_expr(polwithcheck, polrelid) LIKE '%% = current_organization())'
        ), (
            SELECT count(*) FROM pg_policy WHERE polrelid = pg_class.oid AND polpermissive
              AND (polroles @> ARRAY['postroom_application'::regrole::oid] OR polroles @> ARRAY[0::oid])
        )
        FROM pg_class
        WHERE relnamespace = 'postroom'::regnamespace AND relkind NOT IN ('i', 'I', 'S', 't', 'c')
          AND relname <> ALL (%s)
        ORDER BY relname
        """,
        [list(SHARED)],
    )
    found: list[str] = []
    for name, enabled, forced, guarding, permitting in await cursor.fetchall():
        if not enabled:
            found.append(f"{name}: row-level security is off")
        elif guarding != 1 or permitting != 1:
            found.append(f"{name}: not exactly the one policy that compares the organization")
        elif forced:
            found.append(f"{name}: forced on the owner, who could then neither migrate data nor back up")
    return found


async def list_crossing_foreign_keys(connection: Connection) -> list[str]:
    """Foreign keys to an organization's table that do not compare the organization as well."""
    cursor = await connection.execute(
        """
        SELECT conrelid::regclass || '.' || conname FROM pg_constraint
        WHERE contype = 'f' AND connamespace = 'postroom'::regnamespace
          AND confrelid <> 'organizations'::regclass
          AND NOT EXISTS (
            SELECT FROM unnest(conkey, confkey) AS key (mine, theirs)
            JOIN pg_attribute AS a ON a.attrelid = conrelid AND a.attnum = mine
            JOIN pg_attribute AS b ON b.attrelid = confrelid AND b.attnum = theirs
            WHERE a.attname = 'organization_id' AND b.attname = 'organization_id')
        """
    )
    return [row[0] for row in await cursor.fetchall()]


async def list_public_grants(connection: Connection) -> list[str]:
    """Objects of the schema that PUBLIC has a right to; functions that were never revoked count."""
    cursor = await connection.execute(
        """
        WITH objects AS (
            SELECT nspname::text AS name, coalesce(nspacl, acldefault('n', nspowner)) AS acl
            FROM pg_namespace WHERE nspname = 'postroom'
            UNION ALL
            SELECT relname::text, coalesce(relacl, acldefault('r', relowner))
            FROM pg_class WHERE relnamespace = 'postroom'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
            UNION ALL
            SELECT proname::text, coalesce(proacl, acldefault('f', proowner))
            FROM pg_proc WHERE pronamespace = 'postroom'::regnamespace
        )
        SELECT DISTINCT name FROM objects, aclexplode(acl) AS entry WHERE entry.grantee = 0
        """
    )
    return [row[0] for row in await cursor.fetchall()]
