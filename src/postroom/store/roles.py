"""The database roles: their names, their creation, and how a single connection assumes one.

The owner migrates and backs up. The application role sees the rows of one organization at a time. The engine
role sees `work` and lookup columns of all organizations. The last two cannot log in. What they may do is
granted by the migrations. Pools log in as a role that owns and inherits nothing; each transaction assumes the
application or the engine role.
"""

from typing import LiteralString

from psycopg import AsyncConnection, errors, sql
from psycopg.rows import TupleRow

from postroom.errors import SchemaError

SCHEMA = "postroom"
# The schema of the table shared with another scheduler. The scheduler chose it.
SHARED_SCHEMA = "bo_airflow"
# Only our schema, and temporary objects last, so that no other table can shadow one of ours.
SEARCH_PATH = "postroom, pg_temp"
APPLICATION: LiteralString = "postroom_application"
ENGINE: LiteralString = "postroom_engine"

Connection = AsyncConnection[TupleRow]


async def assume(connection: Connection, role: LiteralString | None = None, *, local: bool = False) -> None:
    """Switch to the role (default: the one that logged in) and to our search path.

    For the session; with `local`, for the transaction. Behind a connection pooler, only the latter is safe.
    """
    try:
        await connection.execute(
            "SELECT set_config('search_path', %(path)s, %(local)s), set_config('role', %(role)s, %(local)s)",
            {"path": SEARCH_PATH, "role": role or "none", "local": local},
        )
    except (errors.InsufficientPrivilege, errors.InvalidParameterValue) as error:
        raise build_refusal(connection, role or "none") from error


def build_refusal(connection: Connection, role: str) -> SchemaError:
    """The error for a login that cannot assume the role."""
    user = connection.info.user
    return SchemaError(
        f"The database role {user} cannot assume the role {role}. If that role does not exist, run"
        " `postroom db migrate`. Otherwise ask a database administrator to run:\n" + _grant_statement(user)
    )


def setup_statements(owner: str) -> list[str]:
    """Statements for a DBA if the owner may not create roles or schemas. Safe to repeat."""
    name = sql.Identifier(owner).as_string(None)
    create = "DO $$ BEGIN CREATE ROLE {0} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
    return [
        create.format(APPLICATION),
        create.format(ENGINE),
        _grant_statement(owner),
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA} AUTHORIZATION {name};",
        f"CREATE SCHEMA IF NOT EXISTS {SHARED_SCHEMA} AUTHORIZATION {name};",
    ]


def _grant_statement(login: str) -> str:
    return f"GRANT {APPLICATION}, {ENGINE} TO {sql.Identifier(login).as_string(None)};"


async def list_missing(connection: Connection) -> list[str]:
    """The group roles that the role that logged in cannot assume."""
    cursor = await connection.execute(
        """
        SELECT wanted FROM unnest(%s::text[]) AS wanted
        WHERE NOT coalesce((
            SELECT pg_has_role(session_user, oid,
                CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)
            FROM pg_roles WHERE rolname = wanted), false)
        """,
        [[APPLICATION, ENGINE]],
    )
    return [row[0] for row in await cursor.fetchall()]


async def find_foreign_owner(connection: Connection) -> str | None:
    """The owner of our tables, if the role that logged in does not have its rights."""
    cursor = await connection.execute(
        """
        SELECT pg_get_userbyid(relowner) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = %s AND relname = 'schema_migrations'
            AND NOT pg_has_role(session_user, relowner, 'USAGE')
        """,
        [SCHEMA],
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def require_owner(connection: Connection) -> None:
    """Raise SchemaError if our tables belong to another role than the one that logged in."""
    owner = await find_foreign_owner(connection)
    if owner is not None:
        raise SchemaError(
            f"The schema belongs to the database role {owner}, and {connection.info.user} may not change it."
            f" Set POSTROOM_DATABASE_OWNER_URL to the URL of {owner}."
        )


async def find_login_risk(connection: Connection) -> str | None:
    """What lets the role that logged in see the rows of every organization, if it leaves its assumed role."""
    cursor = await connection.execute(
        """
        SELECT CASE
            WHEN rolsuper THEN 'is a superuser'
            WHEN rolbypassrls THEN 'bypasses row-level security'
            WHEN pg_has_role(session_user, relowner, 'MEMBER') THEN 'owns the tables'
            WHEN rolcreaterole AND current_setting('server_version_num')::int < 160000
                THEN 'can create roles and with them become the owner'
            WHEN pg_has_role(session_user, %s, 'USAGE') OR pg_has_role(session_user, %s, 'USAGE')
                THEN 'inherits the rights of the roles that it assumes'
        END
        FROM pg_roles, pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE rolname = session_user AND nspname = %s AND relname = 'schema_migrations'
        """,
        [APPLICATION, ENGINE, SCHEMA],
    )
    row = await cursor.fetchone()
    return row[0] if row else None


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
