"""Errors of the simulation itself, such as an unknown mailbox or an invalid fault.

The control API, the web page and the command line report them as they are. The Gmail and Graph packages
translate them to the provider's own errors, which are defined there.

SimulatorError
├── InvalidRequest   a value is missing, malformed or out of range (400)
├── NotFound         the named object does not exist (404)
└── AlreadyExists    an object with that name exists already (409)
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

UNSIMULATED = re.compile(r"mailsim does not simulate (.{1,400}?)\. The provider has it\.")


def explain_unsimulated(endpoint: str) -> str:
    """Return the message of a 501: the provider has this endpoint, mailsim does not."""
    return f"mailsim does not simulate {endpoint}. The provider has it."


class SimulatorError(Exception):
    status = 400


class InvalidRequest(SimulatorError):
    status = 400


class NotFound(SimulatorError):
    status = 404


class AlreadyExists(SimulatorError):
    status = 409


def check_name(what: str, name: str, known: Iterable[str], *, pattern: bool = False) -> None:
    """Raise InvalidRequest unless `name` is a known name or, as a pattern, matches one."""
    names = list(known)
    if not (any(fnmatchcase(one, name) for one in names) if pattern else name in names):
        raise InvalidRequest(f"unknown {what} {name!r}{suggest(name, names)}")


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about a wrong name: the nearest known name, or all of them."""
    names = [one for one in known if one]
    nearest = get_close_matches(name, names, 1, 0.5)
    if nearest:
        return f"; did you mean {nearest[0]!r}?"
    return f"; use one of {', '.join(names)}" if names else ""
