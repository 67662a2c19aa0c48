"""The type of connections, and `connect`, which opens one in the URL's role after checks.

For migrations, backup and health checks; everything else uses the pools of `database`. Checked are the URL
and the version of the server.
"""

from psycopg import AsyncConnection, ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

from postroom.errors import DatabaseTooOld, SettingsError
from postroom.model import has_ambiguous_credentials
from postroom.store.database_errors import translate_errors

Connection = AsyncConnection[TupleRow]

OLDEST_SERVER_VERSION = 15


async def connect(url: str, *, name: str = "postroom") -> Connection:
    """Connect in autocommit mode. Raises DatabaseTooOld for an old server."""
    check_url(url)
    with translate_errors():
        connection = await AsyncConnection.connect(
            url, autocommit=True, connect_timeout=10, application_name=name
        )
    version = connection.info.server_version
    if version < OLDEST_SERVER_VERSION * 10_000:
        await connection.close()
        raise DatabaseTooOld(
            f"The database is PostgreSQL {version // 10_000};"
            f" Postroom needs {OLDEST_SERVER_VERSION} or newer."
            " Upgrade the server, or point POSTROOM_DATABASE_URL to another one."
        )
    return connection


def check_url(url: str) -> None:
    if has_ambiguous_credentials(url):
        # The driver's error would show part of the password as the host it cannot find.
        raise SettingsError(
            "POSTROOM_DATABASE_URL has an @ or a / in its user or password."
            " Write them percent-encoded: @ as %40, / as %2F."
        )
    try:
        conninfo_to_dict(url)
    except ProgrammingError:
        # Raised without the driver's message and cause: both repeat the URL with its password.
        raise SettingsError(
            "POSTROOM_DATABASE_URL is not a PostgreSQL URL."
            " Write it as postgresql://ROLE:PASSWORD@HOST:PORT/DATABASE, special characters percent-encoded."
        ) from None
