"""The table `number_source`: the server that issued the last ids and feed positions.

On another server, such as a promoted standby that lacks the last commits, they would be issued again. So all
numbers move ahead there before the first write. What follows is the work `recover`.
"""

from typing import Final

from psycopg import errors

from postroom.store.connection import Connection

# At the end of a restore. Backups of earlier versions lack the table.
MARK_RESTORED: Final = """
DO $$ BEGIN
    IF to_regclass('postroom.number_source') IS NOT NULL THEN
        UPDATE postroom.number_source SET server = 'a restored backup';
    END IF;
END $$;
"""
# No schema yet, a role that is missing, or a standby: the first transaction reports it. A function that the
# provider of the database withholds: `postroom doctor` reports it.
_REPORTED_LATER = (
    errors.InsufficientPrivilege,
    errors.InvalidParameterValue,
    errors.ObjectNotInPrerequisiteState,
    errors.UndefinedFunction,
)


async def move_ahead_on_new_server(connection: Connection, begin: bytes) -> None:
    """Move the numbers ahead if this server is not the one that issued the last ones.

    `begin` starts a transaction of the engine role. Everything takes one round trip.
    """
    try:
        await connection.execute(begin + b"; SELECT move_numbers_ahead(false); COMMIT", prepare=False)
    except _REPORTED_LATER:
        await connection.rollback()


async def move_ahead(engine: Connection) -> None:
    """Move the numbers ahead. For a database that lost commits on the same server."""
    await engine.execute("SELECT move_numbers_ahead(true)")


async def can_identify_server(engine: Connection) -> bool:
    """Whether the owner of the schema may call the functions that identify server and timeline."""
    cursor = await engine.execute("""
        SELECT bool_and(has_function_privilege(proowner, needed, 'EXECUTE'))
        FROM pg_proc, unnest(ARRAY[
            'pg_control_system()', 'pg_current_wal_insert_lsn()', 'pg_walfile_name(pg_lsn)'
        ]) AS needed
        WHERE pg_proc.oid = 'current_server()'::regprocedure
    """)
    row = await cursor.fetchone()
    return row is not None and bool(row[0])
