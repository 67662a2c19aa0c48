"""Who may do what in the database, and how a connection takes one of the parts.

The owner (the role of the URL) migrates and backs up. The application reaches the rows of one organization
at a time; the engine reaches `work` and lookup columns of all of them. Nobody logs in as these two.
"""

from psycopg import AsyncConnection, errors, sql
from psycopg.rows import TupleRow

from postroom.errors import SchemaError

SCHEMA = "postroom"
# The table that a foreign scheduler shares with us lies where the scheduler looks for it.
SHARED_SCHEMA = "bo_airflow"
# Nothing but our schema, and temporary objects last, so that nobody's table can stand in for one of ours.
SEARCH_PATH = "postroom, pg_temp"
APPLICATION = "postroom_application"
ENGINE = "postroom_engine"

Connection = AsyncConnection[TupleRow]


async def assume(connection: Connection, role: str | None = None) -> None:
    """Make this connection act as the role from now on (as the owner where none is named), in our schema."""
    try:
        await connection.execute(
            "SELECT set_config('search_path', %s, false), set_config('role', %s, false)",
            [SEARCH_PATH, role or "none"],
        )
    except (errors.InsufficientPrivilege, errors.InvalidParameterValue) as error:
        raise SchemaError(_setup_instructions(connection.info.user)) from error


def setup_statements(owner: str) -> list[str]:
    """What a DBA runs where the owner may not create roles or schemas. Parts may exist already."""
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
    """The group roles that this connection cannot take."""
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
    """Create the group roles and the schemas where they are missing, or say what a DBA must run."""
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
    """Roles belong to the whole server, our lock to one database: somebody may be creating it too."""
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
    cause = f"The database role {owner} may not create or use what Postroom needs."
    return "\n".join([f"{cause} Let an administrator of the database run:", *setup_statements(owner)])
