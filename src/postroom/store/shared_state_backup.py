"""Options and filters to back up and restore the table that another scheduler shares with us.

The table, `bo_airflow.email_ingestion_state`, is included only if the role of the URL owns it. A table that
another role owns, and everything else in its schema, is left alone.
"""

import re

from postroom.store.connection import Connection
from postroom.store.schema_migrations import list_shipped

_VERSION = 8
_IF_APPLIED = """
SELECT EXISTS (SELECT FROM postroom.schema_migrations WHERE version = 8) AS applied \\gset
\\if :applied
SET LOCAL search_path = postroom, pg_temp;
"""
_ENTRY = re.compile(r"\d+; \d+ \d+ (?P<kind>[A-Z ]+) (?P<schema>-|[a-z_]+) (?P<name>.+)")
_PARTS = {
    "TABLE",
    "TABLE DATA",
    "SEQUENCE",
    "SEQUENCE OWNED BY",
    "SEQUENCE SET",
    "DEFAULT",
    "CONSTRAINT",
    "INDEX",
    "POLICY",
    "ROW SECURITY",
}
DROP_TABLE = "DROP TABLE bo_airflow.email_ingestion_state;\n"


async def get_ownership(connection: Connection) -> tuple[bool, bool]:
    """Whether we own the table, and whether another role does. Reads only the public catalog."""
    cursor = await connection.execute(
        """
        SELECT relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = 'bo_airflow' AND relname = 'email_ingestion_state'
        """
    )
    owned = await cursor.fetchone()
    return owned == (True,), owned == (False,)


async def has_rows(connection: Connection) -> bool:
    cursor = await connection.execute("SELECT EXISTS (SELECT FROM bo_airflow.email_ingestion_state)")
    return await cursor.fetchone() == (True,)


async def list_dump_options(connection: Connection) -> list[str]:
    """Options that make pg_dump (15 or newer) include the table but no other table of its schema."""
    ours, _ = await get_ownership(connection)
    if not ours:
        return []
    cursor = await connection.execute(
        """
        SELECT format('--exclude-table=%I.%I', nspname, relname)
        FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
        WHERE nspname = 'bo_airflow' AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        AND relname <> 'email_ingestion_state'
        AND NOT EXISTS (
            SELECT FROM pg_depend
            WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype IN ('a', 'i')
            AND refobjid = (SELECT oid FROM pg_class WHERE relnamespace = n.oid
                            AND relname = 'email_ingestion_state'))
        """
    )
    return ["--schema=bo_airflow", *[option for [option] in await cursor.fetchall()]]


def filter_restore_list(listing: str, *, wanted: bool) -> str:
    """Filter a backup's list: drop other objects of the schema, and the table unless `wanted`."""
    return "".join(f"{line}\n" for line in listing.splitlines() if _is_restored(line, wanted=wanted))


def _is_restored(line: str, *, wanted: bool) -> bool:
    entry = _ENTRY.match(line)
    if entry is None:
        return True
    kind, schema, name = entry["kind"], entry["schema"], entry["name"]
    if schema == "bo_airflow":
        is_acl = kind in {"ACL", "COMMENT"} and name.startswith(("TABLE ", "SEQUENCE ", "COLUMN "))
        return wanted and (kind in _PARTS or is_acl)
    if schema == "-" and name.startswith("SCHEMA bo_airflow "):
        return wanted and kind == "ACL"
    return not (kind == "SCHEMA" and name.startswith("bo_airflow "))


def create_missing_table_script() -> str:
    """A psql script that recreates the table by its migration if the backup did not contain it."""
    [migration] = [migration for migration in list_shipped() if migration.version == _VERSION]
    return f"{_IF_APPLIED}{migration.statements.decode()}\n\\endif\n"
