"""The one place where errors of the driver become errors of ours, by SQLSTATE.

What is not foreseeable (a violated constraint, a mistake in our SQL) is a defect and passes unchanged.
"""

from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from postroom.errors import DatabaseUnavailable, PostroomError, SchemaError, TransientError

_CHECK_SERVER = "Start the database, or correct POSTROOM_DATABASE_URL."
_MIGRATE = "Run `postroom db migrate`."

# The longest prefix of the SQLSTATE that stands here decides.
_BY_STATE: dict[str, tuple[type[PostroomError], str, str]] = {
    "08": (DatabaseUnavailable, "The connection to the database was lost", _CHECK_SERVER),
    "25006": (
        DatabaseUnavailable,
        "The database is read-only",
        "Point POSTROOM_DATABASE_URL to the primary, or end its read-only mode.",
    ),
    "25P03": (TransientError, "A transaction in the database waited too long", "It is tried again."),
    "25P04": (TransientError, "A transaction in the database took too long", "It is tried again."),
    "3F": (SchemaError, "The database has no Postroom schema", _MIGRATE),
    "40": (TransientError, "The database chose this transaction to give way", "It is tried again."),
    "42703": (SchemaError, "The schema lacks a column that this Postroom needs", _MIGRATE),
    "42883": (SchemaError, "The schema lacks a function that this Postroom needs", _MIGRATE),
    "42P01": (SchemaError, "The schema lacks a table that this Postroom needs", _MIGRATE),
    "53": (
        DatabaseUnavailable,
        "The database is short of resources",
        "Give it more, or use fewer connections.",
    ),
    "53100": (DatabaseUnavailable, "The database's disk is full", "Free space on it; nothing was damaged."),
    "53300": (
        DatabaseUnavailable,
        "The database accepts no further connections",
        "Raise its max_connections, or use fewer processes or smaller pools.",
    ),
    "55P03": (TransientError, "A lock in the database was not free in time", "It is tried again."),
    "57014": (TransientError, "The database ended a statement that took too long", "It is tried again."),
    "57P": (DatabaseUnavailable, "The database is stopping or starting", _CHECK_SERVER),
    "58": (DatabaseUnavailable, "The database's machine has a fault", "See the database's own log."),
}


_VALUE_ERROR_CLASSES = {"22", "23", "54"}  # no value of that type, against a constraint, beyond a limit
# numeric value, datetime and interval out of range; no character of the encoding
_OUT_OF_RANGE_STATES = {"22003", "22008", "22015", "22021"}


@contextmanager
def translate_errors() -> Generator[None]:
    """Raise our error in place of the driver's, where we have one for it."""
    try:
        yield
    except psycopg.Error as error:
        ours = to_postroom_error(error)
        if ours is None:
            raise
        raise ours from error


def to_postroom_error(error: psycopg.Error) -> PostroomError | None:
    """Our error for the driver's, or None where it is a defect and should be seen as it is."""
    state = error.sqlstate
    if state is None:
        return _connection_error(error) if isinstance(error, psycopg.OperationalError) else None
    for length in (5, 3, 2):
        found = _BY_STATE.get(state[:length])
        if found is not None:
            kind, cause, remedy = found
            return kind(f"{cause} ({_first_line(error)}). {remedy}")
    return None


def is_unstorable_value(error: Exception) -> bool:
    """Whether values were refused, by the database or by the driver: they can never be written."""
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return error.sqlstate[:2] in _VALUE_ERROR_CLASSES
    return isinstance(error, psycopg.DataError | UnicodeError)


def is_out_of_range_value(error: Exception) -> bool:
    """Whether a value that somebody gave fits no column: a NUL in words, a number or moment out of range."""
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return error.sqlstate in _OUT_OF_RANGE_STATES
    return isinstance(error, psycopg.DataError)


def _connection_error(error: psycopg.OperationalError) -> PostroomError:
    """A connection that never came about, or broke, has no SQLSTATE. FATAL: a server refused us."""
    cause = _first_line(error)
    if "FATAL:" in cause:
        return DatabaseUnavailable(
            f"The database refused the connection ({cause})."
            " Correct the role, password or database name in POSTROOM_DATABASE_URL, or see the server's log."
        )
    return DatabaseUnavailable(f"The database cannot be reached ({cause}). {_CHECK_SERVER}")


def _first_line(error: psycopg.Error) -> str:
    primary = error.diag.message_primary
    lines = (primary or str(error)).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
