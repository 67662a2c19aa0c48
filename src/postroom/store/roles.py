"""The database roles: their names, their creation, and how a connection assumes one.

The owner (the role of the URL) migrates and backs up. The application role sees the rows of one organization
at a time. The engine role sees `work` and lookup columns of all organizations. The last two cannot log in.
What they may do is granted by the migrations.
"""

from psycopg import AsyncConnection, errors, sql
from psycopg.rows import TupleRow

from postroom.errors import SchemaError

SCHEMA = "postroom"
# The schema of the table shared with another scheduler. The scheduler chose it.
SHARED_SCHEMA = "bo_airflow"
# Only our schema, and temporary objects last, so that no other table can shadow one of ours.
SEARCH_PATH = "postroom, pg_temp"
APPLICATION = "postroom_application"
ENGINE = "postroom_engine"

Connection = AsyncConnection[TupleRow]


async def assume(connection: Connection, role: str | None = None) -> None:
    """Switch this connection to the role (default: the owner) and to our search path."""
    try:
        await connection.execute(
            "SELECT set_config('search_path', %s, false), set_config('role', %s, false)",
            [SEARCH_PATH, role or "none"],
        )
    except (errors.InsufficientPrivilege, errors.InvalidParameterValue) as error:
        raise SchemaError(_setup_instructions(connection.info.user)) from error


def setup_statements(owner: str) -> list[str]:
    """Statements for a DBA if the owner may not create roles or schemas. Safe to repeat."""
    name = sql.Identifier(owner).as_string(None)
    create = "DO $$ BEGIN CREATE ROLE {0} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
    return [
        create.format(APPLICATION),
        create.format(ENGINE),
        f"GRANT {APPLICATION}, {ENGINE} TO {name};",
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA} AUTHORIZATION {name};",
        f"CREATE SCHEMA IF NOT EXISTS {SHARED_SCHEMA} AUTHORIZATION {name};",
    ]


async def list_missing(connection: Connection) -> list[str]:
    """The group roles that this connection cannot assume."""
    cursor = await connection.execute(
        """
        SELECT wanted FROM unnest(%s::text[]) AS wanted
        WHERE NOT coalesce((
            SELECT pg_has_role(oid, CASE WHEN current_setting('server_version_num')::int >= 160000
                                         THEN 'SET' ELSE 'MEMBER' END)
            FROM pg_roles WHERE rolname = wanted), false)
        """,
        [[APPLICATION, ENGINE]],
    )
    return [row[0] for row in await cursor.fetchall()]


async def ensure(connection: Connection) -> None:
    """Create missing group roles and schemas. Raises SchemaError with the statements for a DBA."""
    try:
        for role in await list_missing(connection):
            await _create(connection, role)
        await connection.execute(
            """
            DO $$ BEGIN
                IF to_regnamespace('postroom') IS NULL THEN CREATE SCHEMA postroom; END IF;
                IF to_regnamespace('bo_airflow') IS NULL THEN CREATE SCHEMA bo_airflow; END IF;
            END $$
            """
        )
    except errors.InsufficientPrivilege as error:
        raise SchemaError(_setup_instructions(connection.info.user)) from error


async def _create(connection: Connection, role: str) -> None:
    """Create a role. It belongs to the whole server, so another database may create it concurrently."""
    name = sql.Identifier(role)
    try:
        async with connection.transaction():
            await connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(name))
    except (errors.DuplicateObject, errors.UniqueViolation):
        pass
    try:
        async with connection.transaction():
            await connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(name))
    except errors.UniqueViolation:
        pass


def _setup_instructions(owner: str) -> str:
    cause = f"The database role {owner} may not create or use the roles and schemas that Postroom needs."
    return "\n".join([f"{cause} Ask a database administrator to run:", *setup_statements(owner)])
