"""The exit codes of commands, their help text, and the table from error class to exit code."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from postroom.errors import (
    DatabaseTooOld,
    DatabaseUnavailable,
    PostroomError,
    SchemaError,
    SettingsError,
    TransientError,
)


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    DATABASE = 3
    SCHEMA = 4
    TRY_AGAIN = 5
    BUG = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141


# The most specific class decides. A class that is not listed has the exit code of its base class.
EXIT_CODES: Final[Mapping[type[PostroomError], ExitCode]] = {
    PostroomError: ExitCode.FAILED,
    SettingsError: ExitCode.USAGE,
    DatabaseUnavailable: ExitCode.DATABASE,
    DatabaseTooOld: ExitCode.DATABASE,
    SchemaError: ExitCode.SCHEMA,
    TransientError: ExitCode.TRY_AGAIN,
}

HELP: Final = """\b
Exit codes:
  0    done
  1    a check failed, or you must act; the message says what to do
  2    invalid usage or settings
  3    the database is unavailable
  4    the schema does not match this version of Postroom
  5    temporary failure; try again later
  70   a bug in Postroom
  130  interrupted by Ctrl-C"""


def exit_code_for(error: PostroomError) -> ExitCode:
    return next(EXIT_CODES[base] for base in type(error).__mro__ if base in EXIT_CODES)
