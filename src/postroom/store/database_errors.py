"""Translation of psycopg errors to Postroom's errors, by SQLSTATE. The only place that does this.

Unforeseen errors (a violated constraint, a mistake in our SQL) are bugs and pass unchanged.
"""

from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from postroom.errors import (
    DatabaseUnavailable,
    DatabaseUnreachable,
    PostroomError,
    SchemaError,
    TransientError,
)

_CHECK_SERVER = "Start the database, or correct POSTROOM_DATABASE_URL."
_MIGRATE = "Run `postroom db migrate`."
_COMPARE = "Run `postroom db migrate`, or upgrade this process if the schema is newer."

# The longest matching prefix of the SQLSTATE applies.
_BY_STATE: dict[str, tuple[type[PostroomError], str, str]] = {
    "08": (DatabaseUnreachable, "The connection to the database was lost", _CHECK_SERVER),
    "25006": (
        DatabaseUnavailable,
        "The database is read-only",
        "Point POSTROOM_DATABASE_URL to the primary, or end its read-only mode.",
    ),
    "25P03": (TransientError, "A database transaction was idle for too long", "Postroom retries it."),
    "25P04": (TransientError, "A database transaction took too long", "Postroom retries it."),
    "3F": (SchemaError, "The database has no Postroom schema", _MIGRATE),
    "40": (TransientError, "The database aborted a conflicting transaction", "Postroom retries it."),
    "42703": (SchemaError, "The schema lacks a column that this Postroom needs", _COMPARE),
    "42883": (SchemaError, "The schema lacks a function that this Postroom needs", _COMPARE),
    "42P01": (SchemaError, "The schema lacks a table that this Postroom needs", _COMPARE),
    "53": (
        DatabaseUnavailable,
        "The database is out of resources",
        "Give it more memory, or use fewer connections.",
    ),
    "53100": (DatabaseUnavailable, "The database's disk is full", "Free space on it; nothing was damaged."),
    "53300": (
        DatabaseUnavailable,
        "The database accepts no more connections",
        "Raise its max_connections, or use fewer processes or smaller pools.",
    ),
    "55P03": (TransientError, "Timed out waiting for a database lock", "Another process holds it: retry."),
    "57014": (
        TransientError,
        "The database cancelled a statement that took too long",
        "Postroom retries it.",
    ),
    "57P": (DatabaseUnreachable, "The database is stopping or starting", _CHECK_SERVER),
    "58": (DatabaseUnavailable, "The database reported a system error", "See the database's log."),
}


_VALUE_ERROR_CLASSES = {"22", "23", "54"}  # invalid value, violated constraint, exceeded limit
# numeric, datetime or interval out of range; character not in the encoding
_OUT_OF_RANGE_STATES = {"22003", "22008", "22015", "22021"}


@contextmanager
def translate_errors() -> Generator[None]:
    """Raise Postroom's error instead of the driver's, where there is one."""
    try:
        yield
    except psycopg.Error as error:
        ours = to_postroom_error(error)
        if ours is None:
            raise
        raise ours from error


def to_postroom_error(error: psycopg.Error) -> PostroomError | None:
    """Postroom's error for a driver error, or None for a bug, which passes unchanged."""
    state = error.sqlstate
    if state is None:
        return _connection_error(error) if isinstance(error, psycopg.OperationalError) else None
    for length in (5, 3, 2):
        translation = _BY_STATE.get(state[:length])
        if translation is not None:
            kind, cause, remedy = translation
            return kind(f"{cause} ({first_line(error)}). {remedy}")
    return None


def is_unstorable_value(error: Exception) -> bool:
    """Whether the database or the driver rejected a value that can never be stored."""
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return error.sqlstate[:2] in _VALUE_ERROR_CLASSES
    return isinstance(error, psycopg.DataError | UnicodeError)


def is_out_of_range_value(error: Exception) -> bool:
    """Whether a given value fits no column: a NUL in text, a number or time out of range."""
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return error.sqlstate in _OUT_OF_RANGE_STATES
    return isinstance(error, psycopg.DataError)


def is_unreadable_row(error: Exception) -> bool:
    """Whether a row holds what Postroom never writes, and Python cannot read or use.

    Such as a time after the year 9999, a number with too many digits, or NULL in a column that forbade it.
    """
    if isinstance(error, psycopg.Error):
        return isinstance(error, psycopg.DataError)
    return isinstance(error, ValueError | TypeError | AttributeError)


def _connection_error(error: psycopg.OperationalError) -> PostroomError:
    """A failed or broken connection has no SQLSTATE."""
    return DatabaseUnreachable(f"The database cannot be reached ({first_line(error)}). {_CHECK_SERVER}")


def first_line(error: psycopg.Error) -> str:
    primary = error.diag.message_primary
    lines = (primary or str(error)).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
