"""Exit codes: one table from error class to code."""

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


# The most specific class decides; one that is not named here ends as its family does.
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
  1    a check failed, or something you must act on; the message says what
  2    wrong usage or settings
  3    the database cannot be reached or used
  4    the schema does not fit this Postroom
  5    failed for now; the same command may succeed later
  70   a mistake in Postroom
  130  interrupted by Ctrl-C"""


def exit_code_for(error: PostroomError) -> ExitCode:
    return next(EXIT_CODES[each] for each in type(error).__mro__ if each in EXIT_CODES)
